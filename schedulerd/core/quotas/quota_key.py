"""What matters to quotas and limits about pending asks, beside their amounts."""

from __future__ import annotations

from typing import NamedTuple

from schedulerd.core.quotas.limit_subject import LimitSubject
from schedulerd.core.resources import Items


class QuotaKey(NamedTuple):
    """Asks of one request class that differ in this are blocked and let in separately."""

    limit_subject: LimitSubject | None = None
    """The user and the group on whose account the ask is; None if no limit is for them where it runs."""
    starts_application: bool = False
    """Whether its application would start to run with it, where the number of running applications is limited."""
    gang_gate: Items = ()
    """What the quotas must have room for before the first of it is allocated: the whole gang (SEMANTICS G2)."""


PLAIN = QuotaKey()
"""Only the quotas of the queues, for the amounts alone, decide."""
