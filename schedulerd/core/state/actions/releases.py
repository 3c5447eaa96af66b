"""Asks and allocations leave through this module, which also makes the facts about them.

Every handler that ends an ask or allocation goes through here, so the facts and the state cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schedulerd.core.language.ask_tags import ask_name
from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts.fact import (
    AskAdded,
    AskWithdrawn,
    ReleaseCause,
    Released,
    ReleaseRequested,
    WithdrawCause,
)
from schedulerd.core.language.facts.preemption import Preempted
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.state.actions import predicate_checks, reservations
from schedulerd.core.state.ledger import commit, commit_room
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import StepContext
from schedulerd.sentences import preemption

_TERMINATIONS = {
    ReleaseCause.REPLACED: TerminationType.PLACEHOLDER_REPLACED,
    ReleaseCause.PREEMPTED: TerminationType.PREEMPTED_BY_SCHEDULER,
}
"""The termination types that the RM is told, where not TIMEOUT (SEMANTICS F)."""


def withdraw_ask(
    context: StepContext,
    partition: Partition,
    application: Application,
    ask: Ask,
    cause: WithdrawCause,
    termination: TerminationType | None,
    message: str,
    count: int | None = None,
) -> None:
    """Withdraws `count` (None: all) pending allocations of the ask.

    With a `termination` the RM is told that the ask is gone, even if nothing of it was pending.
    """
    count = commit.withdraw(partition, application, ask, count)
    if ask.reservations:
        reservations.trim(context, ask)
    if ask.predicate_history is not None:
        predicate_checks.review(context, application, ask)
    if ask.placeholder and cause is WithdrawCause.TIMEOUT:
        assert application.gang is not None
        application.gang.task_group(ask.spec.task_group).count_timed_out(count)
    if not count and termination is None:
        return
    context.emit(
        AskWithdrawn(
            rm_id=application.rm_id,
            partition=application.partition_name,
            queue=application.queue.path,
            application_id=application.application_id,
            allocation_key=ask.key,
            resources=ask.request_class.resources,
            count=count,
            placeholder=ask.placeholder,
            cause=cause,
            termination=termination,
            message=message,
            slot=ask.spec.slot,
        )
    )


def withdraw_all(
    context: StepContext, application: Application, cause: WithdrawCause, termination: TerminationType, message: str
) -> None:
    """The application is ending: withdraws all of its pending asks, in order of arrival, including what awaits
    placeholders."""
    partition = context.partition_of(application)
    for allocation in application.allocations.values():
        end_placeholder_wait(context, allocation)
    for ask in sorted(application.asks.values(), key=lambda ask: ask.serial):
        if ask.pending:
            withdraw_ask(context, partition, application, ask, cause, termination, message)
            commit.forget_if_done(application, ask)


def end_placeholder_wait(context: StepContext, placeholder: Allocation) -> None:
    """The ask that awaits this placeholder, if any, is pending again."""
    application = placeholder.application
    ask = commit.end_placeholder_wait(placeholder)
    if ask is not None:
        commit.demand(context.partition_of(application), application, ask, 1)
        context.emit(pending_again(application, ask, awaited_placeholder=True))


def pending_again(application: Application, ask: Ask, *, awaited_placeholder: bool) -> AskAdded:
    """The fact that one allocation of an ask is pending again, after it awaited a placeholder or was given back."""
    return ask_added(application, ask, 1, awaited_placeholder=awaited_placeholder)


def ask_added(application: Application, ask: Ask, count: int, *, awaited_placeholder: bool = False) -> AskAdded:
    """The fact that `count` more allocations of an ask are pending."""
    return AskAdded(
        application.rm_id,
        application.partition_name,
        application.queue.path,
        application.application_id,
        ask.key,
        ask.request_class.resources,
        count,
        ask.placeholder,
        awaited_placeholder,
        ask.spec.slot,
    )


def request_release(
    context: StepContext, partition: Partition, allocation: Allocation, cause: ReleaseCause, message: str
) -> None:
    """Asks the RM to release an allocation, which uses its resources until the RM confirms (SEMANTICS F).

    Does nothing if the allocation is being released already. A slot, of which no RM knows, is gone at the end of the
    step (`slots.finish`).
    """
    if allocation.releasing is not None:
        return
    termination = _TERMINATIONS.get(cause, TerminationType.TIMEOUT)
    commit_room.begin_release(allocation, termination)
    application = allocation.application
    partition.moves += 1
    if cause is ReleaseCause.PREEMPTED:
        allocation.ask_again_when_gone = allocation.placeholder and application.state is ApplicationState.ACCEPTED
    if allocation.placeholder and application.gang is not None:
        partition.gangs_touched[application] = None
        task_group = application.gang.task_groups[allocation.spec.task_group]
        task_group.drop_idle(allocation)
        task_group.count_release(cause)
    if allocation.spec.slot:  # nobody has to confirm it
        partition.slots_leaving[allocation] = termination, message
        return
    context.emit(
        ReleaseRequested(
            rm_id=application.rm_id,
            partition=application.partition_name,
            queue=application.queue.path,
            application_id=application.application_id,
            allocation_key=allocation.key,
            uuid=allocation.uuid,
            node_id=allocation.node.node_id,
            placeholder=allocation.placeholder,
            termination=termination,
            cause=cause,
            message=message,
        )
    )


def free(context: StepContext, partition: Partition, allocation: Allocation) -> None:
    """Frees what the allocation used. The caller says `released` when the order of facts requires it."""
    context.cluster.alarms.cancel(allocation.alarm)
    made = reservations.room_made(allocation, context.now_ns)
    commit.free(partition, allocation)
    if made is not None:
        context.emit(made)


def released(
    allocation: Allocation, termination: TerminationType, *, confirm: bool, message: str, node_removed: bool = False
) -> Released:
    """The fact that an allocation is gone; `confirm` if the RM is to be told."""
    application = allocation.application
    return Released(
        rm_id=application.rm_id,
        partition=application.partition_name,
        queue=application.queue.path,
        application_id=application.application_id,
        allocation_key=allocation.key,
        uuid=allocation.uuid,
        node_id=allocation.node.node_id,
        resources=allocation.request_class.resources,
        placeholder=allocation.placeholder,
        termination=termination,
        confirm=confirm and not allocation.spec.slot,
        message=message,
        node_removed=node_removed,
        slot=allocation.spec.slot,
    )


def forget_swaps(context: StepContext, ask: Ask, keep: int = 0) -> None:
    """Ends all swaps of the ask but the first `keep`, because that part of the ask is about to be withdrawn. The RM
    releases their placeholders all the same (SEMANTICS I4)."""
    for placeholder in list(ask.swaps)[keep:]:
        end_placeholder_wait(context, placeholder)


def cancel_yield(allocations: Iterable[Allocation]) -> None:
    """Placeholders that are released in a gang deadlock do not become pending again."""
    for allocation in allocations:
        allocation.ask_again_when_gone = False


def release_victims(context: StepContext, reservation: Reservation, victims: Sequence[Allocation], why: str) -> None:
    """Sends the `Preempted` fact and requests the release of each victim. No room is freed before the RM confirms."""
    application, ask = reservation.application, reservation.ask
    context.emit(
        Preempted(
            rm_id=application.rm_id,
            partition=application.partition_name,
            queue=application.queue.path,
            application_id=application.application_id,
            allocation_key=ask.key,
            node_id=reservation.node.node_id,
            victims=tuple((one.application.queue.path, one.uuid) for one in victims),
            why=why,
            number=reservation.number,
        )
    )
    message = preemption.victim(ask_name(application.application_id, ask.key, ask.spec.tags), why)
    partition = context.partition_of(application)
    for victim in victims:
        commit_room.make_room(reservation, victim, context.now_ns)
        request_release(context, partition, victim, ReleaseCause.PREEMPTED, message)
