"""How asks and allocations leave, and the facts that say that an allocation or an ask is there.

Every handler that ends something goes through here, so that nothing can leave without being said, or be said without
having left.
"""

from __future__ import annotations

from schedulerd.core import commit, commit_room
from schedulerd.core.commands import TerminationType
from schedulerd.core.facts import (
    Allocated,
    AskAdded,
    AskWithdrawn,
    ReleaseCause,
    Released,
    ReleaseRequested,
    WithdrawCause,
)
from schedulerd.core.handlers import predicate_checks, reservations
from schedulerd.core.lifecycles import ApplicationState
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.step_context import StepContext

_TERMINATIONS = {
    ReleaseCause.REPLACED: TerminationType.PLACEHOLDER_REPLACED,
    ReleaseCause.PREEMPTED: TerminationType.PREEMPTED_BY_SCHEDULER,
}
"""What the RM is told where it is not TIMEOUT (SEMANTICS F)."""


def withdraw_ask(
    context: StepContext,
    application: Application,
    ask: Ask,
    cause: WithdrawCause,
    termination: TerminationType | None,
    message: str,
    count: int | None = None,
) -> None:
    """`count` of what is pending (None: all) is pending no longer.

    With a `termination` the RM is told that the ask is gone, even if nothing of it was pending.
    """
    count = commit.withdraw(application, ask, count)
    if ask.reservations:
        reservations.trim(context, ask)
    if ask.predicate_history is not None:
        predicate_checks.review(context, application, ask)
    if ask.placeholder and cause is WithdrawCause.TIMEOUT:
        assert application.gang is not None
        application.gang.task_group(ask.spec.task_group).count_timed_out(count)
    if not count and termination is None:
        return
    context.say(
        AskWithdrawn(
            rm_id=application.partition.rm_id,
            partition=application.partition.name,
            queue=application.queue.path,
            application_id=application.application_id,
            allocation_key=ask.key,
            resources=ask.request_class.resources,
            count=count,
            placeholder=ask.placeholder,
            cause=cause,
            termination=termination,
            message=message,
        )
    )


def withdraw_all(
    context: StepContext, application: Application, cause: WithdrawCause, termination: TerminationType, message: str
) -> None:
    """Nothing of the application is pending or awaiting its placeholder any longer, as it is ending; in the order of
    arrival."""
    for allocation in application.allocations.values():
        end_placeholder_wait(context, allocation)
    for ask in sorted(application.asks.values(), key=lambda ask: ask.serial):
        if ask.pending:
            withdraw_ask(context, application, ask, cause, termination, message)
            commit.forget_if_done(application, ask)


def end_placeholder_wait(context: StepContext, placeholder: Allocation) -> None:
    """The ask that waits for this placeholder to go, if any, is pending again."""
    application = placeholder.application
    ask = commit.end_placeholder_wait(placeholder)
    if ask is not None:
        commit.demand(application, ask, 1)
        context.say(asked_again(application, ask, awaited_placeholder=True))


def allocated(allocation: Allocation, asked_at_ns: int, *, recovered: bool = False, replaces: str = "") -> Allocated:
    """The fact that an allocation is there: placed, taken over with its node, or in the room of a placeholder."""
    application, spec = allocation.application, allocation.spec
    partition = application.partition
    return Allocated(
        partition.rm_id,
        partition.name,
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
    )


def asked_again(application: Application, ask: Ask, *, awaited_placeholder: bool) -> AskAdded:
    """The fact that one allocation of an ask, which was awaiting its placeholder or given back, is pending."""
    partition = application.partition
    return AskAdded(
        partition.rm_id,
        partition.name,
        application.queue.path,
        application.application_id,
        ask.key,
        ask.request_class.resources,
        1,
        ask.placeholder,
        awaited_placeholder,
    )


def request_release(context: StepContext, allocation: Allocation, cause: ReleaseCause, message: str) -> None:
    """Asks the RM to end an allocation; it uses its resources until the RM confirms (SEMANTICS F).

    One that is on its way out already is not asked for again.
    """
    if allocation.releasing is not None:
        return
    termination = _TERMINATIONS.get(cause, TerminationType.TIMEOUT)
    commit_room.leave(allocation, termination)
    application = allocation.application
    application.partition.moves += 1
    if cause is ReleaseCause.PREEMPTED:
        allocation.yields_to_gang = allocation.placeholder and application.state is ApplicationState.ACCEPTED
    if allocation.placeholder and application.gang is not None:
        application.partition.gangs_touched[application] = None
        task_group = application.gang.task_group(allocation.spec.task_group)
        task_group.drop_idle(allocation)
        task_group.count_release(cause)
    context.say(
        ReleaseRequested(
            rm_id=application.partition.rm_id,
            partition=application.partition.name,
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


def free(context: StepContext, allocation: Allocation) -> None:
    """The allocation is gone, and what it used is free; `released` is what to say of it, when its turn comes."""
    context.cluster.alarms.cancel(allocation.alarm)
    made = reservations.room_made(allocation, context.now_ns)
    commit.free(allocation)
    if made is not None:
        context.say(made)


def released(
    allocation: Allocation, termination: TerminationType, *, confirm: bool, message: str, node_removed: bool = False
) -> Released:
    """The fact that an allocation is gone; `confirm` if the RM is to be told."""
    application = allocation.application
    return Released(
        rm_id=application.partition.rm_id,
        partition=application.partition.name,
        queue=application.queue.path,
        application_id=application.application_id,
        allocation_key=allocation.key,
        uuid=allocation.uuid,
        node_id=allocation.node.node_id,
        resources=allocation.request_class.resources,
        placeholder=allocation.placeholder,
        termination=termination,
        confirm=confirm,
        message=message,
        node_removed=node_removed,
    )
