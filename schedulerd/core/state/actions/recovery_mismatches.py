"""Mismatches: what an RM reports about an existing allocation, but the scheduler knows otherwise.

The allocation runs, so it is taken over all the same: rejecting its node because of a name would lose running pods. The
difference is reported as an ignored item.
"""

from __future__ import annotations

from schedulerd.core.language.checks import shown
from schedulerd.core.language.commands import ExistingAllocation
from schedulerd.core.language.facts.fact import ItemIgnored, RejectCode
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.step_context import StepContext

_ROOT = "root."


def tell(context: StepContext, application: Application, field: str, existing: ExistingAllocation) -> None:
    """Reports the mismatches of an existing allocation. `field` is its position in the message."""
    queue = application.queue
    if existing.queue and existing.queue.lower().removeprefix(_ROOT) != queue.path.removeprefix(_ROOT):
        _ignored(
            context,
            application,
            existing,
            f"{field}.queueName is {shown(existing.queue)}, but application {application.application_id} is in "
            f"{queue.written}, which is where the allocation counts",
        )
    if existing.unreadable:
        _ignored(context, application, existing, f"{field}.{existing.unreadable}; its priority counts as 0")


def _ignored(context: StepContext, application: Application, existing: ExistingAllocation, reason: str) -> None:
    partition = context.partition_of(application)
    context.emit(ItemIgnored(partition.rm_id, partition.name, existing.uuid, RejectCode.INVALID_FIELD, reason))
