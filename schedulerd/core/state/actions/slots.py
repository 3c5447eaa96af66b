"""Slots of a gang that declares its task groups (tag `schedulerd.io/task-groups`) and brings no placeholders.

A slot is a placeholder that the scheduler itself asks for: it holds room for one member, as a placeholder of the gang
design does, but no RM knows of it, so it is gone as soon as it is not needed. A task group with `resources` has as many
slots as it needs members, whether these are asked for or not; one without gets them once so many members are asked for,
each as large as its member.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from schedulerd.core.language.ask_tags import NO_PREDICATES, PREDICATES_TAG
from schedulerd.core.language.commands import NewAsk, TerminationType
from schedulerd.core.language.facts.fact import AskAdded, ReleaseCause, WithdrawCause
from schedulerd.core.language.lifecycles import GangState, GangTrigger
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import MINUTE_NS
from schedulerd.core.language.task_groups import DeclaredGroup
from schedulerd.core.state.actions import allocating, application_states, gone, releases, retries
from schedulerd.core.state.alarm_events import GangRequeued
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.gang import Gang
from schedulerd.core.state.nodes.packing import rank
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.asks import update_groups, update_pending_classes
from schedulerd.core.state.step_context import StepContext

KEY_PREFIX = "slot of "
"""Keys of slots begin with it; what follows is the name of the task group, or the key of the member."""
REQUEUE_FIRST_NS, REQUEUE_MOST_NS = MINUTE_NS, 30 * MINUTE_NS

_UNBEGUN = (GangState.FORMING, GangState.GATHERING)
_UNASKED = {PREDICATES_TAG: NO_PREDICATES}
"""The RM is asked about the member, when it takes the room of the slot."""


def declare(
    context: StepContext, partition: Partition, application: Application, groups: Sequence[DeclaredGroup]
) -> None:
    """The application is accepted, and declares these task groups."""
    application.gang = gang = Gang()
    gang.declared = {one.name: one for one in groups}
    gang.state = GangState.FORMING
    gang.first_asked_ns = context.now_ns
    if any(one.begun for one in groups):
        gang.enter(GangTrigger.RECOVER)
    else:
        review(context, partition, application)


def least(groups: Iterable[DeclaredGroup]) -> Resources:
    """What the gang holds at least when it is whole: without groups whose members are not known."""
    total = Resources()
    for group in groups:
        if group.resources is not None:
            total.add(group.resources.items(), group.min)
    return total


def review(context: StepContext, partition: Partition, application: Application) -> None:
    """Members of the gang were asked for or withdrawn: its slots are those of the members that come first."""
    gang = application.gang
    if gang is None or gang.state not in _UNBEGUN or gang.requeue_alarm is not None:
        return
    is_formed = all(
        group.resources is not None or _asked(application, name) >= group.min for name, group in gang.declared.items()
    )
    if gang.state is GangState.FORMING:
        if not is_formed:
            return
        gang.enter(GangTrigger.FORM)
    elif not is_formed:
        gang.enter(GangTrigger.UNFORM)
    wanted = (
        [slot for name, group in gang.declared.items() for slot in _slots(application, name, group)]
        if is_formed
        else []
    )
    keys = {slot.allocation_key for slot in wanted}
    for ask in [one for one in application.asks.values() if one.spec.slot and one.key not in keys]:
        _end(context, partition, application, ask)
    if is_formed:
        total = Resources()
        for slot in wanted:
            total.add(slot.resources.items(), slot.max_allocations)
        application.gang_total = total
        if not any(one.spec.slot and one.allocations for one in application.asks.values()):
            gang.together = tuple((partition.request_class_of(slot), slot.max_allocations) for slot in wanted)
            update_pending_classes(partition, application)
            partition.touch(application.queue)
    for slot in wanted:
        _ask(context, partition, application, slot)
    if application.gang_alarm is not None:  # what was promised was for the slots of before
        commit.end_promise(partition, application)
        commit.promise(partition, application)


def are_held_together(application: Application) -> bool:
    """Whether room is held for all slots of the gang in one step or for none."""
    return application.gang is not None and bool(application.gang.together)


def hold_all(context: StepContext, partition: Partition, application: Application) -> bool:
    """Holds room for all slots that have none; if one of them has no node then, for none.

    They are allocated one after the other, so that each is judged with those before it on their nodes, and taken back
    if it does not end well: nothing else sees them before.
    """
    largest = partition.largest()
    held: list[Allocation] = []
    for group in sorted(_waiting(application), key=lambda group: rank(group.request_class, largest)):
        while group:
            node = partition.first_fit(group.request_class)
            if node is None:
                for allocation in reversed(held):
                    commit.take_back(partition, allocation)
                index = partition.root.pending_index
                for one in _waiting(application):
                    if one.pending_class in index and one.pending_class not in index.blocked_by:
                        retries.mark_unschedulable(context, partition, one.pending_class, one.first())
                partition.retry_timers.budget.visits += len(held)
                return False
            uuid = context.cluster.new_uuid()
            held.append(commit.allocate(partition, application, group.first(), node, uuid))
    for allocation in held:
        allocating.tell(context, partition, allocation)
    return True


def _waiting(application: Application) -> list[AskGroup]:
    """The groups of its slots that have no room."""
    return [group for group in application.groups.values() if group.placeholder]


def hold_singly(partition: Partition, application: Application) -> None:
    """There was not enough room for all slots at once for a while: they are held one by one from now on."""
    assert application.gang is not None
    application.gang.together = ()
    update_pending_classes(partition, application)
    partition.touch(application.queue)


def requeue(context: StepContext, partition: Partition, application: Application) -> None:
    """The time of the gang is over: it holds nothing for a while, the longer the more often that happens."""
    gang = application.gang
    assert gang is not None
    gang.enter(GangTrigger.REQUEUE)
    delay_ns = min(REQUEUE_FIRST_NS << min(gang.requeued, 10), REQUEUE_MOST_NS)
    gang.requeued += 1
    gang.requeue_alarm = context.cluster.alarms.set(context.now_ns + delay_ns, GangRequeued(application))
    for ask in [one for one in application.asks.values() if one.spec.slot]:
        _end(context, partition, application, ask)


def on_requeued(context: StepContext, application: Application) -> None:
    """The gang has waited long enough."""
    assert application.gang is not None
    application.gang.requeue_alarm = None
    review(context, context.partition_of(application), application)


def on_existing(context: StepContext, partition: Partition, application: Application, *, placeholder: bool) -> None:
    """The RM reports an allocation of a task group, or (`placeholder`) asks for a placeholder or reports one: the gang
    has begun already, or is one of placeholders after all."""
    gang = application.gang
    if gang is None or not gang.declared or (not placeholder and gang.state not in _UNBEGUN):
        return
    if placeholder:
        gang.declared, gang.state, gang.together = {}, None, ()
        application.gang_total = application.spec.placeholder_ask
    else:
        gang.enter(GangTrigger.RECOVER)
    for ask in [one for one in application.asks.values() if one.spec.slot]:
        _end(context, partition, application, ask)
    if not gang.pending:  # they were not admitted while the gang was forming
        update_groups(partition, application, placeholders=False)
        partition.touch(application.queue)


def finish(context: StepContext, partition: Partition) -> None:
    """At the end of a step: slots that were to be released in it are gone, and their members are allocated."""
    while partition.slots_leaving:
        leaving, partition.slots_leaving = partition.slots_leaving, {}
        batches: dict[tuple[Application, TerminationType, str], list[Allocation]] = {}
        for slot, (termination, message) in leaving.items():
            if slot.uuid in partition.allocations:
                batches.setdefault((slot.application, termination, message), []).append(slot)
        for (application, termination, message), slots in batches.items():
            gone.finish(context, application, slots, termination, confirm=False, message=message)


def _asked(application: Application, name: str) -> int:
    """How many members of the task group are asked for."""
    groups = application.groups.values()
    return sum(group.pending for group in groups if group.task_group == name and not group.placeholder)


def _slots(application: Application, name: str, group: DeclaredGroup) -> Iterator[NewAsk]:
    """The slots of a task group, as asks."""
    if group.resources is not None:
        yield NewAsk(
            application.application_id,
            KEY_PREFIX + name,
            group.resources,
            application.partition_name,
            group.min,
            tags=_UNASKED,
            task_group=name,
            placeholder=True,
            slot=True,
        )
        return
    left = group.min
    members = [
        ask for one in application.groups.values() if one.task_group == name and not one.placeholder for ask in one
    ]
    for ask in islice(sorted(members, key=_order), group.min):
        count = min(left, ask.pending)
        if count:
            yield replace(
                ask.spec,
                allocation_key=KEY_PREFIX + ask.key,
                max_allocations=count,
                tags={**ask.spec.tags, **_UNASKED},
                placeholder=True,
                slot=True,
            )
        left -= count


def _order(ask: Ask) -> tuple[int, int, int]:
    return -ask.spec.priority, ask.asked_at_ns, ask.serial


def _ask(context: StepContext, partition: Partition, application: Application, spec: NewAsk) -> None:
    known = application.asks.get(spec.allocation_key)
    if known is not None:
        if known.spec == spec:
            return
        _end(context, partition, application, known)
    ask = Ask(spec, partition.request_class_of(spec), partition.next_serial(), context.now_ns)
    application.asks[spec.allocation_key] = ask
    application_states.on_ask(context, application, placeholder=True)
    commit.demand(partition, application, ask, spec.max_allocations)
    context.emit(
        AskAdded(
            application.rm_id,
            application.partition_name,
            application.queue.path,
            application.application_id,
            ask.key,
            ask.request_class.resources,
            spec.max_allocations,
            placeholder=True,
            slot=True,
        )
    )


def _end(context: StepContext, partition: Partition, application: Application, ask: Ask) -> None:
    """The slots of this ask are not needed any longer; what they hold is given back at once."""
    message = f"{ask.key} is not needed any longer"
    releases.withdraw_ask(context, partition, application, ask, WithdrawCause.UPDATED, None, message)
    held = list(ask.allocations.values())
    for allocation in held:
        releases.request_release(context, partition, allocation, ReleaseCause.UNUSED, message)
        termination, _ = partition.slots_leaving.pop(allocation)
        gone.finish(context, application, [allocation], termination, confirm=False, message=message)
    application.asks.pop(ask.key, None)
