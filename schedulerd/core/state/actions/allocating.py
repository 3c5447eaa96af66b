"""Allocates one pending allocation of an ask on the chosen node, and says so."""

from __future__ import annotations

from schedulerd.core.language.facts.fact import Allocated
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.specs import MILLISECOND_NS
from schedulerd.core.state.actions import application_states, gang_domains, predicate_checks, reservations
from schedulerd.core.state.alarm_events import AllocationExecutionTimeout
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.gang import UNBEGUN
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import StepContext


def allocate(context: StepContext, partition: Partition, application: Application, ask: Ask, node: Node) -> None:
    """Allocates. The fact about a change of the application's state precedes the `Allocated` fact."""
    uuid = context.cluster.new_uuid()
    tell(context, partition, commit.allocate(partition, application, ask, node, uuid))


def tell(context: StepContext, partition: Partition, allocation: Allocation) -> None:
    """What follows from an allocation that was made of a pending ask."""
    application, ask = allocation.application, allocation.ask
    if ask.reservations:
        reservations.trim(context, ask)
    if ask.predicate_history is not None:
        predicate_checks.review(context, application, ask)
    if application.state is not ApplicationState.RUNNING or allocation.placeholder:
        application_states.on_placed(context, application, allocation)
    if ask.spec.execution_timeout_ms > 0:
        begin_execution_time(context, allocation)
    gang = application.gang
    if gang is not None and gang.declared and gang.state not in UNBEGUN and not allocation.placeholder:
        gang_domains.stay(partition, application, allocation)
    context.emit(allocated(allocation, ask.asked_at_ns))


def allocated(
    allocation: Allocation,
    asked_at_ns: int,
    *,
    recovered: bool = False,
    replaces: str = "",
    replaces_slot: bool = False,
) -> Allocated:
    """The fact that an allocation is there: placed, taken over with its node, or in the room of a placeholder."""
    application, spec = allocation.application, allocation.spec
    return Allocated(
        application.rm_id,
        application.partition_name,
        application.queue.path,
        application.application_id,
        spec.allocation_key,
        allocation.uuid,
        allocation.node.node_id,
        allocation.request_class.resources,
        spec.priority,
        spec.tags,
        spec.task_group,
        allocation.placeholder,
        recovered,
        asked_at_ns,
        replaces,
        spec.slot,
        replaces_slot,
    )


def begin_execution_time(context: StepContext, allocation: Allocation) -> None:
    """Starts the execution timeout of a new allocation."""
    deadline_ns = context.now_ns + allocation.spec.execution_timeout_ms * MILLISECOND_NS
    allocation.alarm = context.cluster.alarms.set(deadline_ns, AllocationExecutionTimeout(allocation))
