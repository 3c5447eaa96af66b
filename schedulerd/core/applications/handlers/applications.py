"""Adds applications, and removes them with all they have (SI `ApplicationRequest`; SEMANTICS E4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from schedulerd.amounts import amount, amount_text
from schedulerd.core.applications.handlers import asks, joining, queues, rm_releases
from schedulerd.core.applications.rules import namespace_tags
from schedulerd.core.applications.rules.namespace_tags import UnreadableTag
from schedulerd.core.applications.rules.queue_placement import Placement, is_forced, place_application
from schedulerd.core.language import checks, task_groups
from schedulerd.core.language.ask_tags import ASKED_AT_TAG
from schedulerd.core.language.checks import Mistake, shown
from schedulerd.core.language.commands import (
    AllocationRelease,
    ApplicationRemoval,
    NewApplication,
    NewAsk,
    TerminationType,
)
from schedulerd.core.language.facts.fact import (
    ApplicationAccepted,
    ApplicationChanged,
    ApplicationRejected,
    ItemIgnored,
    RejectCode,
    WithdrawCause,
)
from schedulerd.core.language.facts.queues import QueueNameUnused, TagIgnored
from schedulerd.core.language.fsm import is_legal
from schedulerd.core.language.lifecycles import APPLICATION, ApplicationState, ApplicationTrigger
from schedulerd.core.language.reading import Unreadable
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.task_groups import (
    TASK_GROUPS_TAG,
    TOPOLOGY_PREFERRED_TAG,
    TOPOLOGY_REQUIRED_TAG,
    DeclaredGroup,
)
from schedulerd.core.state.actions import (
    application_states,
    gang_time,
    queue_changes,
    releases,
    slots,
    unclaimed,
    wanted_slots,
)
from schedulerd.core.state.actions import early_items as early
from schedulerd.core.state.constraints.node_selector import NODE_SELECTOR_TAG, SelectorMistake, node_expressions
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.early import Backlog, EarlyItem
from schedulerd.core.state.model.node import Unclaimed
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.sort_keys import APPLICATION_ORDERS
from schedulerd.core.state.quotas.limit_subject import LimitSubject, group_of
from schedulerd.core.state.step_context import Change, ResourceManager, StepContext, take
from schedulerd.core.state.unknown_application import unknown_application


def check(context: StepContext, rm: ResourceManager, spec: NewApplication) -> Change:
    """Accepts the application into its queue and then handles the items that waited for it; or rejects it with the
    reason."""
    partition = rm.partition(spec.partition)
    mistake = _mistake(spec)
    if mistake is None and partition is None:
        mistake = checks.unknown_partition(spec.partition, rm.partitions)
    if mistake is not None or partition is None:
        return partial(reject, context, rm, spec, mistake)
    known = partition.applications.get(spec.application_id)
    if known is not None and _is_report(known, spec):
        return _check_report(context, rm, partition, known, spec)
    if known is not None:
        state = known.state
        reason = (
            f"applicationID {shown(spec.application_id)} is in use by an application in state {state}; "
            "an id is free again once its application is removed, completed, failed or rejected"
        )
        return partial(reject, context, rm, spec, Mistake(RejectCode.DUPLICATE_ID, reason))
    ignored = namespace_tags.unreadable(spec.tags)
    if spec.unreadable:
        ignored.append(UnreadableTag(ASKED_AT_TAG, Mistake(RejectCode.INVALID_FIELD, spec.unreadable)))
    if ignored:
        if not is_forced(spec):
            return partial(_refuse, context, rm, partition, spec, ignored[0].mistake)
        names = {one.name for one in ignored}
        spec = replace(spec, tags={name: text for name, text in spec.tags.items() if name not in names})
    try:
        groups = task_groups.declared(spec.tags) if spec.placeholder_ask.is_zero() else ()
    except Unreadable as error:
        reason = f"tags[{TASK_GROUPS_TAG}] is {shown(spec.tags[TASK_GROUPS_TAG])}: {error}"
        return partial(_refuse, context, rm, partition, spec, Mistake(RejectCode.INVALID_FIELD, reason))
    try:
        for one in groups:
            node_expressions(one.tags)
    except SelectorMistake as error:
        reason = f"tags[{TASK_GROUPS_TAG}], {NODE_SELECTOR_TAG}: {error}"
        return partial(_refuse, context, rm, partition, spec, Mistake(RejectCode.INVALID_FIELD, reason))
    unknown = _unknown_level(partition, groups)
    if unknown is not None:
        return partial(_refuse, context, rm, partition, spec, unknown)
    placement = place_application(partition.root, partition.spec.rules, spec, context.cluster.matches)
    if isinstance(placement, Mistake):
        return partial(_refuse, context, rm, partition, spec, placement)
    mistake = _gang_mistake(placement, spec, groups)
    if mistake is not None:
        return partial(_refuse, context, rm, partition, spec, mistake, queues.planned_path(placement))
    return partial(_take, context, rm, partition, spec, placement, ignored, groups)


def _unknown_level(partition: Partition, groups: Sequence[DeclaredGroup]) -> Mistake | None:
    """The first level that a gang names and the partition does not have."""
    named = [(TASK_GROUPS_TAG, one.level) for one in groups]
    named += [(TOPOLOGY_REQUIRED_TAG, one.whole_required) for one in groups[:1]]
    named += [(TOPOLOGY_PREFERRED_TAG, one.whole_preferred) for one in groups[:1]]
    for tag, level in named:
        if level and partition.spec.topology_attribute(level) is None:
            known = [*(name for name, _ in partition.spec.topology), *partition.spec.topology_keys]
            there = checks.some(known) or "none"
            reason = f"tags[{tag}] names the topology level {shown(level)}; levels of the partition: {there}"
            return Mistake(RejectCode.INVALID_FIELD, reason)
    return None


def _is_report(application: Application, spec: NewApplication) -> bool:
    """Whether the application is submitted again for nothing but the tags of its namespace, or min and max of its task
    groups, and that is news (SEMANTICS I26)."""
    old = application.spec
    if _without_reported(spec) != _without_reported(old):
        return False
    before, now = _task_groups(old), _task_groups(spec)
    if before is None or now is None or not task_groups.differ_in_counts_only(before, now):
        return False
    return (
        now != before
        or _namespace(spec) != _namespace(old)
        or (not namespace_tags.unreadable(spec.tags) and queues.is_news(application.queue, old.tags, spec.tags))
    )


def _without_reported(spec: NewApplication) -> NewApplication:
    """Without the tags that may change; with a `placeholderAsk` those of task groups may not."""
    is_gang = spec.placeholder_ask.is_zero()
    tags = {
        name: text
        for name, text in spec.tags.items()
        if not namespace_tags.is_of_namespace(name) and not (is_gang and name == TASK_GROUPS_TAG)
    }
    return replace(spec, partition="", tags=tags, asked_at_ns=None)  # the tag says it exactly


def _task_groups(spec: NewApplication) -> tuple[DeclaredGroup, ...] | None:
    """The task groups that the application declares; None if they cannot be read."""
    try:
        return task_groups.declared(spec.tags) if spec.placeholder_ask.is_zero() else ()
    except Unreadable:
        return None


def _namespace(spec: NewApplication) -> dict[str, str]:
    return {name.lower(): text for name, text in spec.tags.items() if namespace_tags.is_of_namespace(name)}


def _check_report(
    context: StepContext, rm: ResourceManager, partition: Partition, application: Application, spec: NewApplication
) -> Change:
    """The queue of the namespace changes with its tags, and the gang with its task groups (SEMANTICS I26). Tags that
    cannot be read, and a gang that could never be complete, are rejected, or ignored, as with a new application; the
    application goes on in either case."""
    ignored = namespace_tags.unreadable(spec.tags)
    if ignored and not is_forced(spec):
        return partial(reject, context, rm, spec, ignored[0].mistake)
    least = wanted_slots.least(_task_groups(spec) or ())
    if least != wanted_slots.least(_task_groups(application.spec) or ()) and not is_forced(spec):
        mistake = _gang_mistake_in(application.queue, spec, least, f"tags[{TASK_GROUPS_TAG}]")
        if mistake is not None:
            return partial(reject, context, rm, spec, mistake)
    names = {one.name for one in ignored}
    tags = {name: text for name, text in spec.tags.items() if name not in names}
    return partial(_report, context, rm, partition, application, tags, ignored)


def _report(
    context: StepContext,
    rm: ResourceManager,
    partition: Partition,
    application: Application,
    tags: Mapping[str, str],
    ignored: Sequence[UnreadableTag],
) -> None:
    queue, id_, old = application.queue, application.application_id, application.spec.tags
    groups = _task_groups(application.spec)
    application.spec = replace(application.spec, tags=tags)
    queues.report(context, partition, queue, old, tags)
    if (changed := _task_groups(application.spec)) and changed != groups:
        slots.change(context, partition, application, changed)
    context.emit(ApplicationAccepted(rm.rm_id, partition.name, queue.path, id_))
    for one in ignored:
        reason = f"{one.mistake.reason}; the queue is as if the tag were not there"
        context.emit(TagIgnored(rm.rm_id, partition.name, queue.path, id_, one.name, reason))


def _refuse(
    context: StepContext,
    rm: ResourceManager,
    partition: Partition,
    spec: NewApplication,
    mistake: Mistake,
    queue: str = "",
) -> None:
    """Rejects the application, remembers it as rejected, and rejects the items that waited for it. `queue` is the path
    of the queue that it would have had, if one was found."""
    application_states.reject(context, partition, spec, mistake.reason, queue)
    reject(context, rm, spec, mistake)
    _take_early(context, rm, partition, spec.application_id, rm.early.last_serial)


def _take(
    context: StepContext,
    rm: ResourceManager,
    partition: Partition,
    spec: NewApplication,
    placement: Placement,
    ignored: Sequence[UnreadableTag],
    groups: Sequence[DeclaredGroup],
) -> None:
    leaf = queues.leaf_for(context, partition, placement, spec.tags)
    _accept(context, partition, leaf, spec)
    if groups:
        slots.declare(context, partition, partition.applications[spec.application_id], groups)
    if placement.unused:
        context.emit(QueueNameUnused(rm.rm_id, partition.name, leaf.path, spec.application_id, placement.unused))
    for one in ignored:
        reason = f"{one.mistake.reason}; the application is accepted without this tag, because it runs already"
        context.emit(TagIgnored(rm.rm_id, partition.name, leaf.path, spec.application_id, one.name, reason))
    _take_early(context, rm, partition, spec.application_id, None)


def check_removal(context: StepContext, rm: ResourceManager, item: ApplicationRemoval) -> Change:
    """Removes the application: releases its asks and allocations, unclaimed ones too, and confirms each of them."""
    partition = rm.partition(item.partition)
    application = partition.applications.get(item.application_id) if partition is not None else None
    held = partition.unclaimed.of_application(item.application_id) if partition is not None else []
    if partition is None or (application is None and not held):
        mistake = (
            checks.unknown_partition(item.partition, rm.partitions)
            if partition is None
            else unknown_application(partition, item.application_id)
        )
        return partial(ignore, context, rm, item, mistake)
    message = f"application {item.application_id} was removed by the resource manager"
    return partial(_remove, context, partition, application, held, message)


def ignore(context: StepContext, rm: ResourceManager, item: ApplicationRemoval, mistake: Mistake) -> None:
    partition = rm.known_partition_name(item.partition)
    context.emit(ItemIgnored(rm.rm_id, partition, item.application_id, mistake.code, mistake.reason))


def _take_early(
    context: StepContext, rm: ResourceManager, partition: Partition, application_id: str, refused_serial: int | None
) -> None:
    """Handles what waited for the application, as much as one step may: its unclaimed allocations join it, then its
    early items are taken. If the application was rejected, the items up to `refused_serial` are rejected."""
    early.forget_backlog(context, rm, partition.name, application_id)
    left = early.TAKEN_MAX
    if refused_serial is None:
        left -= joining.join(context, partition, partition.applications[application_id], left)
    for held in early.take(context, rm, partition, application_id, refused_serial, left):
        replay(context, rm, held, may_wait=refused_serial is None)
    early.keep_backlog(context, rm, partition, application_id, refused_serial)


def on_early_item_timeout(context: StepContext, held: EarlyItem) -> None:
    """The application did not arrive in time: handles the item as it is, which rejects it."""
    rm = context.cluster.resource_managers[held.rm_id]
    early.release(context, rm, held)
    replay(context, rm, held, may_wait=False)


def on_backlog(context: StepContext, backlog: Backlog) -> None:
    """Handles the next slice of a backlog, unless the application was removed meanwhile."""
    rm = context.cluster.resource_managers[backlog.rm_id]
    partition = rm.partitions.get(backlog.partition)
    is_there = partition is not None and backlog.application_id in partition.applications
    if partition is None or (backlog.refused_serial is None and not is_there):
        early.forget_backlog(context, rm, backlog.partition, backlog.application_id)
    else:
        _take_early(context, rm, partition, backlog.application_id, backlog.refused_serial)


def replay(context: StepContext, rm: ResourceManager, held: EarlyItem, *, may_wait: bool) -> None:
    """Handles an early item as if it had arrived now; `may_wait`: whether it may wait again, for something else."""
    match held.item:
        case NewAsk():
            take(context, rm, [held.item], partial(asks.check, may_wait=may_wait), asks.reject)
        case AllocationRelease():
            take(context, rm, [held.item], partial(rm_releases.check, may_wait=may_wait), rm_releases.ignore)


def _mistake(spec: NewApplication) -> Mistake | None:
    return (
        checks.identifier("applicationID", spec.application_id)
        or checks.text("queueName", spec.queue)
        or checks.user(spec.user, spec.groups)
        or checks.tags("tags", spec.tags)
        or checks.text("gangSchedulingStyle", spec.gang_style)
        or checks.not_negative("placeholderAsk", spec.placeholder_ask)
    )


def _gang_mistake(placement: Placement, spec: NewApplication, groups: Sequence[DeclaredGroup]) -> Mistake | None:
    """Why the gang can never be complete in this leaf (SEMANTICS G1, I13). None if it can, runs already, or is no
    gang."""
    ask, field = spec.placeholder_ask, "placeholderAsk"
    if groups:
        ask, field = wanted_slots.least(groups), f"tags[{TASK_GROUPS_TAG}]"
    if ask.is_zero() or is_forced(spec):
        return None
    with queues.planned_leaf(placement) as leaf:
        return _gang_mistake_in(leaf, spec, ask, field)


def _gang_mistake_in(leaf: Queue, spec: NewApplication, ask: Resources, field: str) -> Mistake | None:
    order = leaf.properties.application_order
    if not APPLICATION_ORDERS[order].admits_gangs:
        return Mistake(
            RejectCode.QUEUE_NOT_FIFO,
            f"{field} is set, and queue {leaf.written} has application.sort.policy {order.value}, under which "
            "several gangs would get a part each; it must be fifo or stateaware",
        )
    for queue in leaf.path_to_root:
        most = queues.max_with(leaf, spec.tags) if queue is leaf else queue.max
        name = most.exceeded_by({}, ask.items())
        if name is not None:
            return Mistake(
                RejectCode.OVER_QUOTA,
                f"{field} wants {amount(name, ask[name])}, but max of queue {queue.written} is "
                f"{amount_text(name, most[name])}: the gang could never be placed",
            )
    limit_subject = LimitSubject(spec.user, group_of([one.limits for one in leaf.path_to_root], spec.groups))
    for queue in leaf.path_to_root:
        for limit, account, is_group in limit_subject.limits_among(queue.limits):
            name = limit.max.exceeded_by({}, ask.items()) if limit.max is not None else None
            if limit.max is not None and name is not None:
                who = f"{'group' if is_group else 'user'} {shown(account)}"
                return Mistake(
                    RejectCode.OVER_QUOTA,
                    f"{field} wants {amount(name, ask[name])}, but maxresources of {who} in queue "
                    f"{queue.written} is {amount_text(name, limit.max[name])}: the gang could never be placed",
                )
    return None


def _accept(context: StepContext, partition: Partition, queue: Queue, spec: NewApplication) -> None:
    application = Application(spec, partition.rm_id, partition.name, queue, partition.next_serial(), context.now_ns)
    application.update_limits()
    partition.applications[spec.application_id] = application
    partition.unclaimed.application_comes(spec.application_id)
    queue.applications[spec.application_id] = application
    context.emit(ApplicationAccepted(partition.rm_id, partition.name, queue.path, spec.application_id))
    context.emit(
        ApplicationChanged(
            rm_id=partition.rm_id,
            partition=partition.name,
            queue=queue.path,
            application_id=spec.application_id,
            old_state=None,
            state=ApplicationState.NEW,
            cause="submitted",
            at_ns=context.now_ns,
        )
    )


def _remove(
    context: StepContext, partition: Partition, application: Application | None, held: Sequence[Unclaimed], message: str
) -> None:
    """Releases everything that the application has at once and forgets it. Without allocations it completes."""
    stopped = TerminationType.STOPPED_BY_RM
    unclaimed.release(context, partition, held, stopped, message, confirm=True)
    if application is None:
        return
    releases.withdraw_all(context, application, WithdrawCause.APPLICATION_REMOVED, stopped, message)
    _complete(context, application)
    if not application.allocations:
        _complete(context, application)
    if application.is_terminal:
        application_states.forget(context, application)
        return
    for allocation in list(application.allocations.values()):
        releases.free(context, partition, allocation)
        context.emit(releases.released(allocation, stopped, confirm=True, message=message))
    gang_time.forget(context, application)
    commit.retire(partition, application)
    queue_changes.leave(context, application)
    application_states.forget(context, application)


def _complete(context: StepContext, application: Application) -> None:
    """Moves the application one state towards its end, if its state allows that."""
    completing = application.state is ApplicationState.COMPLETING
    if is_legal(APPLICATION, application.state, ApplicationTrigger.COMPLETE) and not (
        completing and application.allocations
    ):
        application_states.fire(context, application, ApplicationTrigger.COMPLETE)


def reject(context: StepContext, rm: ResourceManager, spec: NewApplication, mistake: Mistake | None) -> None:
    assert mistake is not None
    partition = rm.known_partition_name(spec.partition)
    context.emit(ApplicationRejected(rm.rm_id, partition, spec.application_id, mistake.code, mistake.reason))
