"""The allocations that a node comes with: all of them are checked before the first is taken over (SEMANTICS D, G7, I2).

So a node with one that cannot be right is rejected without any effect, and taking over cannot fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from schedulerd.core import checks, commit
from schedulerd.core.checks import Mistake, shown
from schedulerd.core.commands import ExistingAllocation, NewAsk, NodeUpdate
from schedulerd.core.facts import RejectCode, WithdrawCause
from schedulerd.core.handlers import application_states, early, quota_preemption, recovery_mismatches, releases
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.cluster import ResourceManager
from schedulerd.core.model.node import Node
from schedulerd.core.model.partition import Partition
from schedulerd.core.step_context import StepContext

ALLOW_PREEMPTION_TAG = "yunikorn.apache.org/allow-preemption"
"""With the value `false` it says of an existing allocation what `allowPreemptSelf: false` says of an ask, as SI's
Allocation carries no policy (SEMANTICS I1)."""


def mistake(rm: ResourceManager, partition: Partition, item: NodeUpdate) -> Mistake | None:
    """Why the node cannot be taken with its existing allocations: the first that is wrong, by index and key."""
    places: dict[str, int] = {}
    for at, existing in enumerate(item.existing):
        found = _field_mistake(existing) or _contradiction(rm, partition, item.node_id, existing)
        if found is None and existing.uuid in places:
            reason = f"UUID {shown(existing.uuid)} is that of existingAllocations[{places[existing.uuid]}] too"
            found = Mistake(RejectCode.DUPLICATE_ID, reason)
        if found is not None:
            where = f"existingAllocations[{at}] (allocationKey {shown(existing.allocation_key)})"
            return Mistake(found.code, f"{where}: {found.reason}")
        places[existing.uuid] = at
    return None


def take_over(
    context: StepContext, partition: Partition, node: Node, allocations: Iterable[ExistingAllocation]
) -> None:
    """Books what the node comes with, which has no mistake."""
    for at, existing in enumerate(allocations):
        application = partition.applications[existing.application_id]
        _take_over(context, application, node, existing)
        recovery_mismatches.tell(context, application, f"existingAllocations[{at}]", existing)


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
    rm: ResourceManager, partition: Partition, node_id: str, existing: ExistingAllocation
) -> Mistake | None:
    """It must be of a known application, belong to the node it comes with, and must not exist yet."""
    if existing.application_id not in partition.applications:
        return early.unknown_application(partition, existing.application_id)
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
    if known is not None:
        return Mistake(
            RejectCode.DUPLICATE_ID,
            f"UUID {shown(existing.uuid)} is an allocation already, of application "
            f"{known.application.application_id} on node {known.node.node_id}",
        )
    return None


def _take_over(context: StepContext, application: Application, node: Node, existing: ExistingAllocation) -> None:
    """Books an existing allocation; the ask it once had is made up from it (gang design, Application recovery)."""
    partition = application.partition
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
                context, application, ask, WithdrawCause.RECOVERED, None, "it exists on a node already", count=1
            )
        else:  # so many are wanted: a placeholder among them that has to go is asked for again
            ask.spec = replace(ask.spec, max_allocations=ask.placed + 1)
    application_states.on_ask(context, application, placeholder=existing.placeholder and bool(existing.task_group))
    allocation = commit.take_over(application, Allocation(existing.uuid, application, ask, node, spec, request_class))
    for queue in application.queue.path_to_root:
        quota_preemption.watch(context, partition, queue)
    application_states.on_placed(context, application, allocation)
    context.say(releases.allocated(allocation, context.now_ns, recovered=True))
    application_states.on_taken_over(context, allocation)
