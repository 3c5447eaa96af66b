"""What is wrong with items and existing allocations of an application that is not known."""

from __future__ import annotations

from schedulerd.core.language.checks import Mistake, shown
from schedulerd.core.language.facts.fact import RejectCode
from schedulerd.core.state.partition import Partition


def unknown_application(partition: Partition, application_id: str) -> Mistake:
    """The mistake for an unknown application. It names the state in which the last application with this id ended, if
    that is remembered."""
    ended = partition.terminated_by_id.get(application_id)
    if ended is not None:
        state = f"was last an application in state {ended.state}; it must be added again before it can have asks or "
        return Mistake(RejectCode.UNKNOWN_APPLICATION, f"applicationID {shown(application_id)} {state}allocations")
    return Mistake(
        RejectCode.UNKNOWN_APPLICATION,
        f"applicationID {shown(application_id)} is not a known application; it must be added before it can have "
        "asks or allocations, and may have been rejected, removed or completed since",
    )
