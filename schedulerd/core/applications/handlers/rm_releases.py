"""Releases of allocations in both directions (SI `AllocationRelease`; the table of SEMANTICS F).

STOPPED_BY_RM, or an unknown type, is a release by the RM and is confirmed with the same type. With the other types the
RM confirms a release that the scheduler asked for, and gets no answer.
"""

from __future__ import annotations

from functools import partial

from schedulerd.core.language import checks
from schedulerd.core.language.checks import Mistake
from schedulerd.core.language.commands import OF_RM, AllocationRelease, TerminationType
from schedulerd.core.language.facts.fact import RejectCode, ReleaseIgnored
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.state.actions import early_items as early
from schedulerd.core.state.actions import gone, unclaimed
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Unclaimed
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import Change, ResourceManager, StepContext
from schedulerd.core.state.unknown_application import unknown_application


def check(context: StepContext, rm: ResourceManager, item: AllocationRelease, *, may_wait: bool = True) -> Change:
    """Frees what the item names: one UUID (no application needed), all allocations of a key, or all of the application.

    Unclaimed allocations are released in the same ways, without an application that is known. A release of all
    allocations of an application or a key waits behind the application's backlog.
    """
    partition = rm.partition(item.partition)
    if partition is None:
        return partial(ignore, context, rm, item, checks.unknown_partition(item.partition, rm.partitions))
    waits_for = _early_application(rm, partition, item) if may_wait and rm.early else None
    if waits_for is not None and early.has_room(context, rm):
        return partial(early.hold, context, rm, item, partition, waits_for)
    if not item.application_id and not item.uuid:
        reason = "applicationID and UUID are both empty; one of them must be set"
        return partial(ignore, context, rm, item, Mistake(RejectCode.EMPTY_ID, reason))
    by_uuid = partition.allocations.get(item.uuid) if not item.application_id else None
    application = by_uuid.application if by_uuid is not None else partition.applications.get(item.application_id)
    held = unclaimed.named(partition, item)
    if application is None and item.application_id and not held:
        return partial(ignore, context, rm, item, unknown_application(partition, item.application_id))
    named = _named(application, item) if application is not None else []
    if not named and not held:
        reason = "no such allocation; it may have been released before"
        return partial(ignore, context, rm, item, Mistake(RejectCode.INVALID_STATE, reason))
    return partial(_release, context, rm, partition, named, held, item)


def _early_application(rm: ResourceManager, partition: Partition, item: AllocationRelease) -> str | None:
    """The application behind whose backlog this release must wait; None if it need not wait."""
    is_of_one = bool(item.uuid)
    return item.application_id if not is_of_one and rm.early.has_backlog(partition.name, item.application_id) else None


def _release(
    context: StepContext,
    rm: ResourceManager,
    partition: Partition,
    named: list[Allocation],
    held: list[Unclaimed],
    item: AllocationRelease,
) -> None:
    if item.termination is TerminationType.PLACEHOLDER_REPLACED:
        kept = [one for one in named if one.releasing is not item.termination]
        for one in kept:
            reason = f"allocation {one.uuid} is not being replaced"
            ignore(context, rm, item, Mistake(RejectCode.INVALID_STATE, reason))
        named = [one for one in named if one.releasing is item.termination]
    confirm = item.termination in OF_RM
    message = checks.message(item.message) or "released by the resource manager"
    unclaimed.release(context, partition, held, item.termination, message, confirm=confirm)
    if named:
        gone.finish(
            context,
            named[0].application,
            named,
            item.termination,
            confirm=confirm,
            message=message,
            anew=rm.state is not ResourceManagerState.RUNNING,
        )


def _named(application: Application, item: AllocationRelease) -> list[Allocation]:
    if item.uuid:
        one = application.allocations.get(item.uuid)
        return [one] if one is not None else []
    if item.allocation_key:
        ask = application.asks.get(item.allocation_key)
        return list(ask.allocations.values()) if ask is not None else []
    return list(application.allocations.values())


def ignore(context: StepContext, rm: ResourceManager, item: AllocationRelease, mistake: Mistake) -> None:
    partition = rm.known_partition_name(item.partition)
    context.emit(
        ReleaseIgnored(rm.rm_id, partition, item.application_id, item.allocation_key, item.uuid, mistake.reason)
    )
