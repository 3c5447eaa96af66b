"""Existing allocations: all allocations of a node are checked before the first is taken over (SEMANTICS D, G7, I2).

So a node with an invalid allocation is rejected without any effect, and taking over cannot fail.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from schedulerd.core.language import checks
from schedulerd.core.language.checks import Mistake, shown
from schedulerd.core.language.commands import ExistingAllocation, NewAsk, NodeAction, NodeUpdate
from schedulerd.core.language.facts.fact import RejectCode, WithdrawCause
from schedulerd.core.language.facts.unclaimed import UnclaimedEnd
from schedulerd.core.state.actions import (
    application_states,
    changes,
    recovery_mismatches,
    releases,
    relief_time,
    unclaimed,
)
from schedulerd.core.state.actions.allocating import allocated
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import ResourceManager, StepContext

ALLOW_PREEMPTION_TAG = "yunikorn.apache.org/allow-preemption"
"""Tag of an existing allocation. With the value `false` it means what `allowPreemptSelf: false` means for an ask,
because SI's Allocation has no preemption policy (SEMANTICS I1)."""


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
            take_over_one(context, application, node, existing)
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
    mistake = kind_mistake(known, existing)
    if mistake is not None:
        return mistake
    if known.releasing is not None and known.uuid != existing.uuid:
        return Mistake(
            RejectCode.INVALID_STATE,
            f"UUID is {shown(existing.uuid)}, and allocation {known.uuid} with this key on node {known.node.node_id} "
            "is being released; its release must be confirmed first, or it must be reported with that UUID",
        )
    return None


def kind_mistake(known: Allocation, existing: ExistingAllocation) -> Mistake | None:
    """A placeholder stays a placeholder, and a real allocation a real one."""
    if known.placeholder is (existing.placeholder and bool(existing.task_group)):
        return None
    kinds = ("a placeholder", "a real allocation")
    here, said = kinds if known.placeholder else kinds[::-1]
    return Mistake(
        RejectCode.INVALID_STATE,
        f"allocation {known.uuid} with this key on node {known.node.node_id} is {here}, and is reported as {said}; "
        "release it first",
    )


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


def take_over_one(context: StepContext, application: Application, node: Node, existing: ExistingAllocation) -> None:
    """Books an existing allocation, and makes up its ask from it if the ask is unknown (gang design, Application
    recovery)."""
    partition = context.partition_of(application)
    spec = NewAsk(
        application_id=existing.application_id,
        allocation_key=existing.allocation_key,
        resources=existing.resources,
        partition=existing.partition,
        priority=existing.priority,
        tags=existing.tags,
        task_group=existing.task_group,
        placeholder=existing.placeholder,
        allow_preempt_self=existing.tags.get(ALLOW_PREEMPTION_TAG, "").lower() != "false",
    )
    request_class = partition.request_class_of(spec)
    ask = application.asks.get(existing.allocation_key)
    if ask is None:
        ask = application.asks[existing.allocation_key] = Ask(
            spec, request_class, partition.next_serial(), context.now_ns
        )
    if ask.placed + ask.pending + ask.awaiting_placeholder >= ask.spec.max_allocations:
        if not ask.pending and ask.swaps:
            releases.end_placeholder_wait(context, next(iter(ask.swaps)))
        if ask.pending:
            releases.withdraw_ask(
                context,
                partition,
                application,
                ask,
                WithdrawCause.RECOVERED,
                None,
                "it exists on a node already",
                count=1,
            )
        else:  # so a placeholder that is released in a gang deadlock becomes pending again
            ask.spec = replace(ask.spec, max_allocations=ask.placed + 1)
    is_placeholder = existing.placeholder and bool(existing.task_group)
    application_states.on_ask(context, application, placeholder=is_placeholder, recovered=True)
    allocation = commit.take_over(
        partition, application, Allocation(existing.uuid, application, ask, node, spec, request_class)
    )
    for queue in application.queue.path_to_root:
        relief_time.watch(context, partition, queue)
    application_states.on_placed(context, application, allocation)
    context.emit(allocated(allocation, context.now_ns, recovered=True))
    application_states.on_taken_over(context, allocation)
