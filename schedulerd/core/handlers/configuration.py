"""A new queue file for a running scheduler: all of it holds, or nothing changes.

The file is declarative. What it says holds, what it does not say is default again; a queue it does not name any longer
takes nothing new, finishes what it has, and goes. Everybody who waits is lined up anew, which wakes what a raised quota
has room for: a reload is rare, and its cost is one look at each application.
"""

from __future__ import annotations

from functools import partial

from schedulerd.core import commit
from schedulerd.core.checks import Mistake
from schedulerd.core.commands import TerminationType, UpdateConfiguration
from schedulerd.core.configuration_facts import ConfigurationAccepted, ConfigurationRejected, ConfigurationUpdated
from schedulerd.core.decide.reload import Assessment, assess, drains
from schedulerd.core.dismantling import pieces_of
from schedulerd.core.facts import WithdrawCause
from schedulerd.core.fsm import is_legal
from schedulerd.core.handlers import (
    application_states,
    gang_time,
    nodes,
    predicate_checks,
    queue_changes,
    queues,
    quota_preemption,
    releases,
)
from schedulerd.core.handlers.taking import Change
from schedulerd.core.lifecycles import APPLICATION, ApplicationTrigger
from schedulerd.core.model.cluster import ResourceManager
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.queue import Queue
from schedulerd.core.specs import PartitionSpec, QueueSpec
from schedulerd.core.step_context import StepContext


def check(context: StepContext, rm: ResourceManager, command: UpdateConfiguration) -> Change:
    """The new partitions and queues are applied, or it is said why none of it can be.

    What the file says already is left alone: the same file again changes nothing, and a partition that did not change
    is not lined up anew. A command whose `instead_of` was replaced in the meantime is void, and nothing is said.
    """
    if command.instead_of is not None and command.instead_of != rm.configuration:
        return _nothing
    assessment = assess(rm, command.partitions)
    if assessment.refusals:
        return partial(context.say, ConfigurationRejected(rm.rm_id, assessment.refusals))
    return partial(_update, context, rm, command, assessment)


def reject(context: StepContext, rm: ResourceManager, command: UpdateConfiguration, mistake: Mistake) -> None:
    context.say(ConfigurationRejected(rm.rm_id, (mistake.reason,)))


def _nothing() -> None:
    """What a command that is void changes."""


def _update(context: StepContext, rm: ResourceManager, command: UpdateConfiguration, assessment: Assessment) -> None:
    replaced = rm.configuration
    if command.configuration != replaced:
        rm.configuration, rm.configured_at_ns = command.configuration, context.now_ns
    if assessment.impact:
        context.say(ConfigurationAccepted(rm.rm_id, assessment.impact))
    if assessment.changed:
        _change(context, rm, command.partitions)
    context.say(ConfigurationUpdated(rm.rm_id, assessment.changed, rm.configuration, replaced))


def _change(context: StepContext, rm: ResourceManager, specs: tuple[PartitionSpec, ...]) -> None:
    for spec in specs:
        partition = rm.partitions.get(spec.name)
        if partition is None:
            partition = rm.partitions[spec.name] = Partition(rm.rm_id, spec, rm.callbacks)
            queue_changes.added(context, partition, partition.root.subtree())
        elif partition.spec != spec:
            # First, as it puts asks back into their lines, which are in the order of the old file until all are anew.
            mine = (
                one for one in rm.callbacks.open_predicate_checks.values() if one.application.partition is partition
            )
            predicate_checks.void_all(context, mine)
            _apply(context, partition, partition.root, spec.root)
            partition.reconfigure(spec)
            gang_time.reset_idle(context, partition)
            queues.watch(context, partition)
            quota_preemption.watch_all(context, partition)
    named = {spec.name for spec in specs}
    for name in [name for name in rm.partitions if name not in named]:
        _remove_partition(context, rm.partitions.pop(name))


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
            _set_draining(context, partition, child, drains(child, spec))


def _set_draining(context: StepContext, partition: Partition, queue: Queue, draining: bool) -> None:
    before = {one: queue_changes.rules(one) for one in queue.subtree()}
    queue.set_draining(draining)
    for one in before:
        queue_changes.changed(context, partition, one, before[one])


def _remove_partition(context: StepContext, partition: Partition) -> None:
    """Its applications fail; their asks and allocations are gone, and the RM is told of each: once, so not of those
    that it was asked to end before (SEMANTICS I10)."""
    message = f"partition {partition.name} is not in the queue file any more"
    stopped = TerminationType.STOPPED_BY_RM
    for application in list(partition.applications.values()):
        if is_legal(APPLICATION, application.state, ApplicationTrigger.FAIL):
            application_states.fire(context, application, ApplicationTrigger.FAIL, message)
        ended = WithdrawCause.APPLICATION_ENDED
        releases.withdraw_all(context, application, ended, TerminationType.TIMEOUT, message)
        for allocation in list(application.allocations.values()):
            releases.free(context, allocation)
            is_told = allocation.releasing is None
            context.say(releases.released(allocation, stopped, confirm=is_told, message=message))
        application_states.on_less(context, application)
        if not application.is_terminal:
            commit.retire(application)
            application_states.forget(context, application)
    for one in list(partition.terminated.values()):
        application_states.forget_terminated(context, one)
    context.cluster.alarms.cancel(partition.cleanup_alarm)
    context.cluster.alarms.cancel(partition.retry_timers.alarm)
    context.cluster.alarms.cancel(partition.refused_asks.alarm)
    for queue in partition.root.subtree():
        quota_preemption.forget(context, queue)
    queue_changes.removed(context, partition, reversed(partition.root.subtree()))
    for node in list(partition.nodes.values()):
        nodes.drop(context, partition, node, node.state, message)
    context.cluster.dismantling.drop(pieces_of(partition))
