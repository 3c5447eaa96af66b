"""Existing allocations: all allocations of a node are checked before the first is taken over (SEMANTICS D, G7, I2).

So a node with an invalid allocation is rejected without any effect, and taking over cannot fail.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from schedulerd.core.language import checks
from schedulerd.core.language.checks import Mistake, shown
from schedulerd.core.language.commands import ExistingAllocation, NodeAction, NodeUpdate
from schedulerd.core.language.facts.fact import RejectCode
from schedulerd.core.language.facts.unclaimed import UnclaimedEnd
from schedulerd.core.state.actions import (
    application_states,
    changes,
    recovery_mismatches,
    taking_over,
    unclaimed,
)
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import ResourceManager, StepContext


def mistake(rm: ResourceManager, partition: Partition, item: NodeUpdate) -> Mistake | None:
    """The first mistake in the existing allocations of the node, with index and key; None if there is none."""
    places: dict[str, int] = {}
    is_update, uuids = item.action is NodeAction.UPDATE, _uuids(item.existing)
    for at, existing in enumerate(item.existing):
        found = _field_mistake(existing) or _contradiction(rm, partition, item.node_id, existing, is_update=is_update)
        if found is None and is_update:
            found = _change_mistake(partition, existing, uuids)
        if found is None and existing.uuid in places:
            reason = f"UUID {shown(existing.uuid)} is that of existingAllocations[{places[existing.uuid]}] too"
            found = Mistake(RejectCode.DUPLICATE_ID, reason)
        if found is not None:
            where = f"existingAllocations[{at}] (allocationKey {shown(existing.allocation_key)})"
            return Mistake(found.code, f"{where}: {found.reason}")
        places[existing.uuid] = at
    return None


def take_over(
    context: StepContext,
    partition: Partition,
    node: Node,
    allocations: Sequence[ExistingAllocation],
    *,
    is_update: bool = False,
) -> None:
    """Books what the node comes with, which has no mistake; without its application it is unclaimed. In an update of
    the node, what is known already moves there."""
    uuids = _uuids(allocations)
    for at, existing in enumerate(allocations):
        held = unclaimed.known(partition, existing, uuids) if is_update and partition.unclaimed else None
        application = partition.applications.get(existing.application_id)
        if application is None:
            if held is None:
                unclaimed.hold(context, partition, node, existing)
            else:
                unclaimed.report_anew(context, partition, held, node, existing)
            continue
        if held is not None:
            unclaimed.end(context, partition, held, UnclaimedEnd.JOINED)
        known = _known(application, existing, uuids) if is_update else None
        if known is None:
            taking_over.take_over_one(context, application, node, existing)
        else:
            changes.move(context, known, node, existing.uuid)
            changes.resize(context, known, existing.resources)
            application_states.on_resized(context, application, known)
        recovery_mismatches.tell(context, application, f"existingAllocations[{at}]", existing)


def _uuids(allocations: Sequence[ExistingAllocation]) -> Collection[str]:
    return {one.uuid for one in allocations}


def _known(application: Application, existing: ExistingAllocation, uuids: Collection[str]) -> Allocation | None:
    """The allocation that is reported: the one with its UUID, else the one of its key, if only one is wanted of that
    and it is not reported beside it (`uuids`)."""
    ask = application.asks.get(existing.allocation_key)
    if ask is None or not ask.allocations:
        return None
    if existing.uuid in ask.allocations or ask.spec.max_allocations > 1 or len(ask.allocations) > 1:
        return ask.allocations.get(existing.uuid)
    one = next(iter(ask.allocations.values()))
    return None if one.uuid in uuids else one


def _change_mistake(partition: Partition, existing: ExistingAllocation, uuids: Collection[str]) -> Mistake | None:
    """A known allocation stays what it is, and one that was told to go is told so by the UUID that it had then."""
    application = partition.applications.get(existing.application_id)
    known = _known(application, existing, uuids) if application is not None else None
    if known is None:
        return None
    mistake = taking_over.kind_mistake(known, existing)
    if mistake is not None:
        return mistake
    if known.releasing is not None and known.uuid != existing.uuid:
        return Mistake(
            RejectCode.INVALID_STATE,
            f"UUID is {shown(existing.uuid)}, and allocation {known.uuid} with this key on node {known.node.node_id} "
            "is being released; its release must be confirmed first, or it must be reported with that UUID",
        )
    return None


def _field_mistake(existing: ExistingAllocation) -> Mistake | None:
    return (
        checks.identifier("allocationKey", existing.allocation_key)
        or checks.identifier("UUID", existing.uuid)
        or checks.identifier("applicationID", existing.application_id)
        or checks.request("resourcePerAlloc", existing.resources)
        or checks.tags("allocationTags", existing.tags)
        or checks.text("taskGroupName", existing.task_group)
    )


def _contradiction(
    rm: ResourceManager, partition: Partition, node_id: str, existing: ExistingAllocation, *, is_update: bool
) -> Mistake | None:
    """The mistake if the allocation belongs to another node or partition, or its UUID exists already; None
    otherwise."""
    if existing.node_id not in ("", node_id):
        return Mistake(
            RejectCode.INVALID_FIELD,
            f"nodeID is {shown(existing.node_id)}; it must be empty or the node's own id {node_id!r}",
        )
    if existing.partition and rm.partition(existing.partition) is not partition:
        return Mistake(
            RejectCode.INVALID_FIELD,
            f"partitionName is {shown(existing.partition)}; it must be empty or the node's own partition "
            f"{partition.name!r}",
        )
    known = partition.allocations.get(existing.uuid)
    held = partition.unclaimed.by_uuid.get(existing.uuid) if known is None else None
    if known is not None:
        application_id, key, node = known.application.application_id, known.key, known.node
    elif held is not None:
        application_id, key, node = held.application_id, held.key, held.node
    else:
        return None
    if is_update and (application_id, key) == (existing.application_id, existing.allocation_key):
        return None
    return Mistake(
        RejectCode.DUPLICATE_ID,
        f"UUID {shown(existing.uuid)} is an allocation already, of application {application_id} on node {node.node_id}",
    )
