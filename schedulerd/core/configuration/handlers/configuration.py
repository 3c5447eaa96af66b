"""Reload: applies a new queue file to the running state, all of it or nothing.

The file is declarative: what it does not say is the default again. A queue that it no longer names drains: it takes
nothing new, finishes its work, and is removed. Every application gets a new position, which lifts all blocks, so asks
for which a raised quota has room are found. Reloads are rare, and the cost is one visit of each application.
"""

from __future__ import annotations

from functools import partial

from schedulerd.core.configuration.rules.reload import Assessment, assess, drains
from schedulerd.core.language.checks import Mistake
from schedulerd.core.language.commands import TerminationType, UpdateConfiguration
from schedulerd.core.language.facts.configuration import (
    ConfigurationAccepted,
    ConfigurationRejected,
    ConfigurationUpdated,
)
from schedulerd.core.language.facts.fact import WithdrawCause
from schedulerd.core.language.fsm import is_legal
from schedulerd.core.language.lifecycles import APPLICATION, ApplicationTrigger
from schedulerd.core.language.specs import PartitionSpec, QueueSpec
from schedulerd.core.state.actions import (
    application_states,
    gang_time,
    gone,
    predicate_checks,
    queue_changes,
    releases,
    relief_time,
)
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.dismantling import pieces_of
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.rebuild import rebuild
from schedulerd.core.state.step_context import Change, ResourceManager, StepContext


def check(context: StepContext, rm: ResourceManager, command: UpdateConfiguration) -> Change:
    """Returns the change to make: the file is applied, or rejected with the reasons.

    Partitions that the file does not change are left alone. A command whose `instead_of` is no longer in effect is
    void, and no fact is sent.
    """
    if command.instead_of is not None and command.instead_of != rm.configuration:
        return _nothing
    assessment = assess(rm, command.partitions, context.cluster.matches)
    if assessment.refusals:
        return partial(context.emit, ConfigurationRejected(rm.rm_id, assessment.refusals))
    return partial(_update, context, rm, command, assessment)


def reject(context: StepContext, rm: ResourceManager, command: UpdateConfiguration, mistake: Mistake) -> None:
    context.emit(ConfigurationRejected(rm.rm_id, (mistake.reason,)))


def _nothing() -> None:
    """The change of a void command."""


def _update(context: StepContext, rm: ResourceManager, command: UpdateConfiguration, assessment: Assessment) -> None:
    replaced = rm.configuration
    if command.configuration != replaced:
        rm.configuration, rm.configured_at_ns = command.configuration, context.now_ns
    if command.extra_config is not None:
        rm.extra_config = command.extra_config
    if assessment.impact:
        context.emit(ConfigurationAccepted(rm.rm_id, assessment.impact))
    if assessment.changed:
        _change(context, rm, command.partitions)
    context.emit(ConfigurationUpdated(rm.rm_id, assessment.changed, rm.configuration, replaced))


def _change(context: StepContext, rm: ResourceManager, specs: tuple[PartitionSpec, ...]) -> None:
    for spec in specs:
        partition = rm.partitions.get(spec.name)
        if partition is None:
            partition = rm.partitions[spec.name] = Partition(rm.rm_id, spec, context.cluster.timeouts, rm.callbacks)
            queue_changes.added(context, partition, partition.root.subtree())
        elif partition.spec != spec:
            # Before the queues change: this returns asks to the pending index, which is in the old order until the
            # rebuild.
            checks_open = rm.callbacks.open_predicate_checks.values()
            mine = (one for one in checks_open if one.application.partition_name == partition.name)
            predicate_checks.void_all(context, mine)
            _apply(context, partition, partition.root, spec.root)
            rebuild(partition, spec)
            gang_time.reset_idle(context, partition)
            queue_changes.watch_unneeded(context, partition)
            relief_time.watch_all(context, partition)
    named = {spec.name for spec in specs}
    for name in [name for name in rm.partitions if name not in named]:
        _remove_partition(context, rm.partitions[name])
        del rm.partitions[name]


def _apply(context: StepContext, partition: Partition, queue: Queue, spec: QueueSpec) -> None:
    before = queue_changes.rules(queue)
    queue.configure(spec)
    queue_changes.changed(context, partition, queue, before)
    named = {child.key for child in spec.children}
    for child_spec in spec.children:
        child = queue.children.get(child_spec.key)
        if child is None:
            child = queue.children[child_spec.key] = Queue.from_spec(child_spec, queue)
            queue_changes.added(context, partition, child.subtree())
        else:
            _apply(context, partition, child, child_spec)
    for name, child in queue.children.items():
        if name not in named:
            _apply_to_unnamed(context, partition, child, drains(child, spec))


def _apply_to_unnamed(context: StepContext, partition: Partition, queue: Queue, draining: bool) -> None:
    """The file does not name the queue, nor those below it: they may drain, and inherit what changed above them."""
    before = {one: queue_changes.rules(one) for one in queue.subtree()}
    queue.set_draining(draining)
    for one in before:
        one.inherit()
        queue_changes.changed(context, partition, one, before[one])


def _remove_partition(context: StepContext, partition: Partition) -> None:
    """Removes a partition: its applications fail, and its asks, allocations and nodes are removed. The RM is told of
    each allocation once, so not of those that it was asked to release before (SEMANTICS I10)."""
    message = f"partition {partition.name} is no longer in the queue file"
    stopped = TerminationType.STOPPED_BY_RM
    for application in list(partition.applications.values()):
        if is_legal(APPLICATION, application.state, ApplicationTrigger.FAIL):
            application_states.fire(context, application, ApplicationTrigger.FAIL, message)
        ended = WithdrawCause.APPLICATION_ENDED
        releases.withdraw_all(context, application, ended, TerminationType.TIMEOUT, message)
        for allocation in list(application.allocations.values()):
            releases.free(context, partition, allocation)
            is_told = allocation.releasing is None
            context.emit(releases.released(allocation, stopped, confirm=is_told, message=message))
        application_states.on_less(context, application)
        if not application.is_terminal:
            commit.retire(partition, application)
            application_states.forget(context, application)
    for one in list(partition.terminated.values()):
        application_states.forget_terminated(context, one)
    context.cluster.alarms.cancel(partition.cleanup_alarm)
    context.cluster.alarms.cancel(partition.retry_timers.alarm)
    context.cluster.alarms.cancel(partition.refused_asks.alarm)
    for queue in partition.root.subtree():
        relief_time.forget(context, queue)
    queue_changes.removed(context, partition, reversed(partition.root.subtree()))
    for node in list(partition.nodes.values()):
        gone.drop_node(context, partition, node, message)
    context.cluster.dismantling.drop(pieces_of(partition))
