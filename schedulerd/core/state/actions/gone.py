"""Allocations and nodes are gone. Asks that awaited the allocations as placeholders get their room."""

from __future__ import annotations

from collections.abc import Iterable

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts.fact import Allocated, Fact, NodeChanged
from schedulerd.core.language.facts.unclaimed import UnclaimedEnd
from schedulerd.core.language.fsm import move
from schedulerd.core.language.lifecycles import NODE, GangState, GangTrigger, NodeTrigger
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.actions import application_states, gang_states, releases, swaps, unclaimed
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.application import SCHEDULABLE_STATES, Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import StepContext


def finish(
    context: StepContext,
    application: Application,
    allocations: Iterable[Allocation],
    termination: TerminationType,
    *,
    confirm: bool,
    message: str,
    anew: bool = False,
    node_removed: bool = False,
) -> None:
    """Frees allocations of one application; asks that await them as placeholders get their room.

    The fact about a change of the application's state comes before those about the allocations. `anew`: the node is
    removed or the RM is not Running, so asks that await placeholders are pending again. The RM is not told again about
    allocations that it was asked to release before their node was removed (SEMANTICS I10).
    """
    gone = list(allocations)
    if not gone:
        return
    swapped: list[Fact] = []
    partition = context.partition_of(application)
    for allocation in gone:
        if (
            _is_given_back(context, application, allocation, termination)
            and application.state in SCHEDULABLE_STATES
            and commit.make_pending_again(partition, allocation)
        ):
            swapped.append(releases.pending_again(application, allocation.ask, awaited_placeholder=False))
        releases.free(context, partition, allocation)
    for allocation in gone:  # after all of their room is free
        ask = commit.end_placeholder_wait(allocation)
        if ask is not None:
            swapped.append(swaps.complete_swap(context, partition, allocation, ask, anew=anew))
    if any(isinstance(fact, Allocated) for fact in swapped):
        application_states.on_swapped(context, application)
    if all(allocation.placeholder for allocation in gone):
        application_states.on_fewer_asks(context, application)
    else:
        application_states.on_less(context, application)
    for allocation in gone:
        is_told = confirm and not (node_removed and allocation.releasing is not None)
        context.emit(
            releases.released(allocation, termination, confirm=is_told, message=message, node_removed=node_removed)
        )
    context.facts.extend(swapped)


def _is_given_back(
    context: StepContext, application: Application, allocation: Allocation, termination: TerminationType
) -> bool:
    """Whether the allocation is pending again: a placeholder that was released for another gang, or preempted before
    its own gang ran; and a slot also if it is lost, until the first member is allocated. A complete gang gathers again
    then."""
    is_as_asked = termination is allocation.releasing
    if not allocation.spec.slot:
        return allocation.ask_again_when_gone and is_as_asked
    is_taken = allocation.ask_again_when_gone or termination is TerminationType.PREEMPTED_BY_SCHEDULER
    if allocation.releasing is not None and not (is_as_asked and is_taken):
        return False
    gang = application.gang
    assert gang is not None
    if gang.state is GangState.COMPLETE and not gang.has_started:
        gang_states.enter(context, application, GangTrigger.LOSE)
        context.partition_of(application).gangs_to_review[application] = None  # others may have gone before
    return gang.state is GangState.GATHERING


def drop_node(context: StepContext, partition: Partition, node: Node, message: str) -> None:
    """Forgets a node without allocations of applications and without reservations."""
    for one in list(node.unclaimed.values()):
        unclaimed.end(context, partition, one, UnclaimedEnd.NODE_REMOVED, message=message, confirm=True)
    old, node.state = node.state, move(NODE, node.state, NodeTrigger.DECOMMISSION)
    del partition.nodes[node.node_id]
    partition.refused_asks.nodes_to_retry.pop(node, None)
    commit.report_use(partition, node, None)
    partition.constraints.forget(node)
    partition.capacity_changed()
    context.emit(
        NodeChanged(
            rm_id=partition.rm_id,
            partition=partition.name,
            node_id=node.node_id,
            old_state=old,
            state=node.state,
            capacity=Resources(),
            occupied=Resources(),
            cause=message,
        )
    )
