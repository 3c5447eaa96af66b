"""What may happen to the resource manager and the daemon in a round, and when."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.contract.gangs.truth import Plan

THEN_BYTES_MAX = 400


class FaultKind(StrEnum):
    """What happens, and to whom."""

    RM_KILLED = "resource manager killed"
    DAEMON_KILLED = "daemon killed"
    DAEMON_TERMINATED = "daemon told to stop"
    RM_PAUSED = "resource manager stands still"
    DAEMON_PAUSED = "daemon stands still"


ENDS_RM = frozenset({FaultKind.RM_KILLED})
ENDS_DAEMON = frozenset({FaultKind.DAEMON_KILLED, FaultKind.DAEMON_TERMINATED})


@dataclass(frozen=True, slots=True)
class Fault:
    """Comes when so much has happened, and so many more bytes have passed: it may be in the middle of a message.

    If there is nothing more to be said before that many bytes, it comes then.
    """

    kind: FaultKind
    after_changes: int
    then_bytes: int


def random_faults(kinds: Sequence[FaultKind], plan: Plan, seed: int) -> list[Fault]:
    """At random moments up to the last change, in the order of the kinds."""
    choose = random.Random(seed)
    moments = sorted(choose.randint(0, plan.changes) for _ in kinds)
    return [
        Fault(kind, after_changes, choose.randint(1, THEN_BYTES_MAX))
        for kind, after_changes in zip(kinds, moments, strict=True)
    ]
