"""The stages of a gang in the shim. A move that is not in the table is illegal.

    FORMING ──▶ RESERVING ──▶ OPEN ──▶ OVER
       ▲  └────────────────────┘ │       │
       └── START_OVER ── ABANDONED ◀─────┘ from everywhere

`GANG` maps stage and trigger to the next stage; `Gang.enter` runs it, and assigns a stage nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum


class GangStage(StrEnum):
    FORMING = "forming"
    """Its pods are held, and its application is not added: there are too few of them."""
    RESERVING = "reserving"
    """Its pods are held until its placeholder pods are asked for."""
    OPEN = "open"
    """Its pods are asked for; the daemon lets them wait for their gang."""
    OVER = "over"
    """It was given up, or needs no placeholder: its pods are asked for like any others."""
    ABANDONED = "abandoned"
    """All its pods have left; a new one forms it anew."""


class GangTrigger(StrEnum):
    RESERVE = "placeholder pods are to be made"
    OPEN = "its pods are asked for"
    END = "goes on without its placeholders"
    ABANDON = "its last pod has left"
    START_OVER = "is to be formed anew"


class GangProgress(IntEnum):
    """How far a gang has come since it was formed."""

    WAITS = 0
    RUNS = 1
    """Its application runs: somebody else has bound one of its pods."""
    WAS_COMPLETE = 2
    """All its placeholders held room at once, or the daemon has placed a pod of it. Until then, a placeholder that is
    preempted or gives way is made again."""


_S = GangStage
_T = GangTrigger

GANG: Mapping[GangStage, Mapping[GangTrigger, GangStage]] = {
    _S.FORMING: {_T.RESERVE: _S.RESERVING, _T.OPEN: _S.OPEN, _T.START_OVER: _S.FORMING},
    _S.RESERVING: {_T.OPEN: _S.OPEN, _T.END: _S.OVER, _T.ABANDON: _S.ABANDONED, _T.START_OVER: _S.FORMING},
    _S.OPEN: {_T.END: _S.OVER, _T.ABANDON: _S.ABANDONED, _T.START_OVER: _S.FORMING},
    _S.OVER: {_T.START_OVER: _S.FORMING},
    _S.ABANDONED: {_T.START_OVER: _S.FORMING},
}


class IllegalMove(Exception):
    """The table does not allow this trigger in this stage: a bug of the caller."""


def move(stage: GangStage, trigger: GangTrigger) -> GangStage:
    """The stage that `trigger` leads to. Raises IllegalMove if the table has no such entry."""
    try:
        return GANG[stage][trigger]
    except KeyError:
        raise IllegalMove(f"a gang that is {stage} {trigger}; legal there: {', '.join(GANG[stage])}") from None
