"""The states of resource managers, nodes and applications. A move that is not in a table is illegal.

A table maps state and trigger to the next state; `fsm.py` runs it. States and triggers of applications are those of SI
2023-06 (SEMANTICS A). The value of a trigger is the message that an RM receives with the new state.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ResourceManagerState(StrEnum):
    """SI 'Lifecycle of RM-Scheduler communication'; INIT is a registered RM whose streams are not open yet, STOPPED one
    that is not registered (any longer)."""

    INIT = "init"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


class ResourceManagerTrigger(StrEnum):
    """What moves a resource manager. Commands of one that is STOPPED are ignored, but for a registration."""

    REGISTER = "register"
    CONNECT = "connect"
    DISCONNECT = "disconnect"
    STOP = "stop"


_R = ResourceManagerState
_C = ResourceManagerTrigger

RESOURCE_MANAGER: Mapping[ResourceManagerState, Mapping[ResourceManagerTrigger, ResourceManagerState]] = {
    _R.STOPPED: {_C.REGISTER: _R.INIT},
    _R.INIT: {_C.REGISTER: _R.INIT, _C.CONNECT: _R.RUNNING, _C.STOP: _R.STOPPED},
    _R.RUNNING: {_C.REGISTER: _R.INIT, _C.CONNECT: _R.RUNNING, _C.DISCONNECT: _R.PAUSED, _C.STOP: _R.STOPPED},
    _R.PAUSED: {_C.REGISTER: _R.INIT, _C.CONNECT: _R.RUNNING, _C.STOP: _R.STOPPED},
}


class NodeState(StrEnum):
    """Whether a node accepts new allocations. REMOVED: it is not registered, not yet or not any longer."""

    SCHEDULABLE = "schedulable"
    DRAINING = "draining"
    NOT_READY = "not_ready"
    REMOVED = "removed"


class NodeTrigger(StrEnum):
    """What moves a node: the actions of SI `NodeInfo.ActionFromRM`, and whether its attributes say that it is ready."""

    CREATE = "CREATE"
    CREATE_DRAIN = "CREATE_DRAIN"
    DRAIN = "DRAIN_NODE"
    SCHEDULE = "DRAIN_TO_SCHEDULABLE"
    READY = "ready"
    NOT_READY = "not ready"
    DECOMMISSION = "DECOMISSION"


_N = NodeState
_A = NodeTrigger

NODE: Mapping[NodeState, Mapping[NodeTrigger, NodeState]] = {
    _N.REMOVED: {_A.CREATE: _N.SCHEDULABLE, _A.CREATE_DRAIN: _N.DRAINING},
    _N.SCHEDULABLE: {
        _A.READY: _N.SCHEDULABLE,
        _A.NOT_READY: _N.NOT_READY,
        _A.DRAIN: _N.DRAINING,
        _A.DECOMMISSION: _N.REMOVED,
    },
    _N.NOT_READY: {
        _A.READY: _N.SCHEDULABLE,
        _A.NOT_READY: _N.NOT_READY,
        _A.DRAIN: _N.DRAINING,
        _A.DECOMMISSION: _N.REMOVED,
    },
    _N.DRAINING: {
        _A.READY: _N.DRAINING,
        _A.NOT_READY: _N.DRAINING,
        _A.DRAIN: _N.DRAINING,
        _A.SCHEDULE: _N.SCHEDULABLE,
        _A.DECOMMISSION: _N.REMOVED,
    },
}
"""Every action is followed by READY or NOT_READY, so a node that is not ready and drains no longer is NOT_READY."""


class ApplicationState(StrEnum):
    """SI `UpdatedApplication.state`, spelled as on the wire."""

    NEW = "New"
    ACCEPTED = "Accepted"
    STARTING = "Starting"
    RUNNING = "Running"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    FAILING = "Failing"
    FAILED = "Failed"
    REJECTED = "Rejected"
    RESUMING = "Resuming"
    EXPIRED = "Expired"


class ApplicationTrigger(StrEnum):
    """What causes a change of an application's state."""

    RUN = "runApplication"
    REJECT = "rejectApplication"
    COMPLETE = "completeApplication"
    FAIL = "failApplication"
    RESUME = "resumeApplication"
    EXPIRE = "expireApplication"


_S = ApplicationState
_T = ApplicationTrigger

APPLICATION: Mapping[ApplicationState, Mapping[ApplicationTrigger, ApplicationState]] = {
    _S.NEW: {_T.RUN: _S.ACCEPTED, _T.REJECT: _S.REJECTED, _T.FAIL: _S.FAILING, _T.RESUME: _S.RESUMING},
    _S.ACCEPTED: {
        _T.RUN: _S.STARTING,
        _T.COMPLETE: _S.COMPLETING,
        _T.FAIL: _S.FAILING,
        _T.RESUME: _S.RESUMING,
    },
    _S.STARTING: {_T.RUN: _S.RUNNING, _T.COMPLETE: _S.COMPLETING, _T.FAIL: _S.FAILING, _T.RESUME: _S.RESUMING},
    _S.RUNNING: {_T.RUN: _S.RUNNING, _T.COMPLETE: _S.COMPLETING, _T.FAIL: _S.FAILING, _T.RESUME: _S.RESUMING},
    _S.COMPLETING: {_T.RUN: _S.RUNNING, _T.RESUME: _S.ACCEPTED, _T.COMPLETE: _S.COMPLETED},
    _S.COMPLETED: {_T.EXPIRE: _S.EXPIRED},
    _S.FAILING: {_T.FAIL: _S.FAILED},
    _S.FAILED: {_T.EXPIRE: _S.EXPIRED},
    _S.REJECTED: {_T.EXPIRE: _S.EXPIRED},
    _S.RESUMING: {_T.RUN: _S.ACCEPTED},
    _S.EXPIRED: {},
}

TERMINAL_STATES = frozenset({_S.COMPLETED, _S.FAILED, _S.REJECTED, _S.EXPIRED})
"""An application in such a state has left its queue, and its id can be used again (SEMANTICS G6)."""


class GangState(StrEnum):
    """The states of a gang that declares its task groups."""

    FORMING = "forming"
    """Too few members of a task group of unknown size are asked for, or it waits to be tried again: nothing is held."""
    GATHERING = "gathering"
    """Room is looked for: for all slots together, or held slot by slot. No member is allocated, but somebody else may
    have bound some, which need no slot."""
    COMPLETE = "complete"
    """Every slot has room, or had it once: members are allocated as they are asked for."""
    SHORT = "short"
    """It was complete, and members are asked for while a task group has fewer than it needs."""
    GIVEN_UP = "given up"
    """Its time was over before it was complete: its members are ordinary asks, if its application goes on."""


class GangTrigger(StrEnum):
    """What moves a gang."""

    FORM = "enough members are asked for"
    UNFORM = "members are withdrawn"
    COMPLETE = "every slot has room"
    RECOVER = "it was complete before it was declared"
    LOSE = "room is missing before a member was allocated"
    FALL_SHORT = "members are gone and asked for again"
    REPAIR = "enough members run again"
    REQUEUE = "its time is over, and it is tried again later"
    GIVE_UP = "its time is over"


_G = GangState
_E = GangTrigger

GANG: Mapping[GangState, Mapping[GangTrigger, GangState]] = {
    _G.FORMING: {_E.FORM: _G.GATHERING, _E.RECOVER: _G.COMPLETE, _E.GIVE_UP: _G.GIVEN_UP},
    _G.GATHERING: {
        _E.UNFORM: _G.FORMING,
        _E.REQUEUE: _G.FORMING,
        _E.COMPLETE: _G.COMPLETE,
        _E.GIVE_UP: _G.GIVEN_UP,
    },
    _G.COMPLETE: {_E.LOSE: _G.GATHERING, _E.FALL_SHORT: _G.SHORT},
    _G.SHORT: {_E.REPAIR: _G.COMPLETE},
    _G.GIVEN_UP: {},
}
