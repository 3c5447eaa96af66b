"""The states of a pod that this scheduler places. A move that is not in the table is illegal.

    NEW ──▶ HELD ◀──▶ ASKED ──allocated──▶ ASSUMED ──bound──▶ BOUND ◀──reported── UNREPORTED, SET_ASIDE
              └─────────┴──────deleted────────┴──▶ LEAVING        └──lost, rejected──▲

`POD` maps state and trigger to the next state; `OwnPod.enter` runs it, and assigns a state nowhere else. `IMPLIES` says
what else a pod of a state has: simulations compare every pod with it after every step.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Flag, StrEnum, auto
from typing import NamedTuple


class PodState(StrEnum):
    NEW = "new"
    """Nothing was done about it yet, or its allocation was given back in this step."""
    HELD = "held"
    """Cannot be asked for: scheduling gates, an unreadable request, an application that cannot take it."""
    ASKED = "asked"
    """The daemon looks for a node."""
    ASSUMED = "assumed"
    """The daemon has found a node, and the binding is under way, that of its volumes first."""
    BOUND = "bound"
    """Is on its node, and the daemon has its allocation, or was told of it."""
    UNREPORTED = "unreported"
    """Is on its node without an allocation: counted as occupied, or reported when the daemon has the node."""
    SET_ASIDE = "set aside"
    """As UNREPORTED, but the daemon has rejected its node because of it: it is reported again later."""
    LEAVING = "leaving"
    """Is being deleted or failed, and needs no node any longer."""


class AllocatedBy(StrEnum):
    """How the daemon came to the last allocation of a pod."""

    DAEMON = "daemon"
    NODE_REPORT = "node report"
    """It was reported with its node, or moved there."""
    NODE_UPDATE = "node update"
    """It was reported in an update of its node, which the daemon answers only if it rejects it."""


class Told(Flag):
    """What a pod was told once, by an event."""

    NOTHING = 0
    GANG = auto()
    """That its task groups are not used, or that its gang runs already."""
    DAEMON_SET = auto()
    """That the DaemonSet that it names is not known."""


class PodTrigger(StrEnum):
    """What moves a pod."""

    WAIT = "has to wait before it is asked for"
    ASK = "the daemon is asked for a node"
    ALLOCATE = "the daemon has found a node"
    GIVE_BACK = "the allocation is given back, and another node looked for"
    BIND = "is on the node of its allocation"
    FIND = "is on a node without an allocation there"
    REPORT = "the daemon is told of it as running"
    LOSE = "the allocation ends without the pod"
    REJECT = "the daemon rejects the node because of it"
    LEAVE = "needs no node any longer"


_S = PodState
_T = PodTrigger

_WITHOUT_NODE: Mapping[PodTrigger, PodState] = {
    _T.WAIT: _S.HELD,
    _T.ASK: _S.ASKED,
    _T.FIND: _S.UNREPORTED,
    _T.LEAVE: _S.LEAVING,
}

POD: Mapping[PodState, Mapping[PodTrigger, PodState]] = {
    _S.NEW: _WITHOUT_NODE,
    _S.HELD: _WITHOUT_NODE,
    _S.ASKED: {
        **_WITHOUT_NODE,
        _T.ALLOCATE: _S.ASSUMED,
        _T.GIVE_BACK: _S.NEW,
    },
    _S.ASSUMED: {
        _T.GIVE_BACK: _S.NEW,
        _T.BIND: _S.BOUND,
        _T.FIND: _S.UNREPORTED,
        _T.LOSE: _S.ASSUMED,
        _T.REJECT: _S.ASSUMED,
        _T.LEAVE: _S.LEAVING,
    },
    _S.BOUND: {
        _T.BIND: _S.BOUND,
        _T.LOSE: _S.UNREPORTED,
        _T.LEAVE: _S.LEAVING,
    },
    _S.UNREPORTED: {_T.FIND: _S.UNREPORTED, _T.REPORT: _S.BOUND, _T.REJECT: _S.SET_ASIDE},
    _S.SET_ASIDE: {_T.FIND: _S.UNREPORTED, _T.REPORT: _S.BOUND, _T.REJECT: _S.SET_ASIDE},
    _S.LEAVING: _WITHOUT_NODE,
}
"""A pod that could not be bound as it was gone is LEAVING, but the watch may be behind and tell of it once more."""

UNALLOCATED = frozenset({_S.UNREPORTED, _S.SET_ASIDE})
"""On its node, without an allocation."""
ON_NODE = UNALLOCATED | {_S.BOUND}


class Implied(NamedTuple):
    """What a pod has in a state; None: it may have it or not."""

    ask: bool | None
    node: bool | None
    allocation: bool | None
    """A UUID."""
    application: bool | None


IMPLIES: Mapping[PodState, Implied] = {
    _S.NEW: Implied(ask=False, node=False, allocation=False, application=None),
    _S.HELD: Implied(ask=False, node=False, allocation=False, application=None),
    _S.ASKED: Implied(ask=True, node=False, allocation=False, application=True),
    # Its node may be gone, and the allocation with it, before the binding ends.
    _S.ASSUMED: Implied(ask=True, node=True, allocation=None, application=True),
    _S.BOUND: Implied(ask=None, node=True, allocation=True, application=True),
    _S.UNREPORTED: Implied(ask=None, node=True, allocation=False, application=None),
    _S.SET_ASIDE: Implied(ask=None, node=True, allocation=False, application=True),
    _S.LEAVING: Implied(ask=None, node=False, allocation=False, application=None),
}


class IllegalMove(Exception):
    """The table does not allow this trigger in this state: a bug of the caller."""


def move(state: PodState, trigger: PodTrigger) -> PodState:
    """The state that `trigger` leads to. Raises IllegalMove if the table has no such entry."""
    try:
        return POD[state][trigger]
    except KeyError:
        raise IllegalMove(f"a pod that is {state} {trigger}; legal there: {', '.join(POD[state].keys())}") from None
