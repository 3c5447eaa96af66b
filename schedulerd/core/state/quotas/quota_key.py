"""What matters to quotas and limits about pending asks, beside their amounts."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from schedulerd.core.language.resources import Items
from schedulerd.core.state.quotas.limit_subject import LimitSubject


class QuotaKey(NamedTuple):
    """Asks of one request class with different quota keys are blocked and let in separately."""

    limit_subject: LimitSubject | None = None
    """The account of the application; None if no limit on its path applies to it."""
    starts_application: bool = False
    """Whether the application would start to run with the ask, where the number of running applications is limited."""
    gang_gate: Items = ()
    """What quotas and limits must have room for before the first placeholder is allocated: what the whole gang still
    lacks (SEMANTICS G2). Empty without a gate."""
    together: tuple[tuple[Hashable, int], ...] = ()
    """The request classes and numbers of the slots of a gang that are allocated together or not at all; empty for what
    is allocated one by one. Such a class is unschedulable if there is no room for all of them."""


PLAIN = QuotaKey()
"""The key of asks for which only the quotas of the queues, for the amounts alone, decide."""
