"""Slots of a gang that declares its task groups (tag `schedulerd.io/task-groups`) and brings no placeholders.

A slot is a placeholder that the scheduler itself asks for: it holds room for one member, as a placeholder of the gang
design does, but no RM knows of it, so it is gone as soon as it is not needed. A task group with `resources` has as many
slots as it needs members, whether these are asked for or not; one without gets them once so many members are asked for,
each as large as its member. Where they get room is in `slot_room`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from schedulerd.core.language.ask_tags import NO_PREDICATES, PREDICATES_TAG
from schedulerd.core.language.commands import NewAsk, TerminationType
from schedulerd.core.language.facts.fact import ReleaseCause, WithdrawCause
from schedulerd.core.language.facts.predicates import SlotHeld
from schedulerd.core.language.lifecycles import GangState, GangTrigger
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import MINUTE_NS
from schedulerd.core.language.task_groups import GROUP_SLOT, MEMBER_SLOT, DeclaredGroup
from schedulerd.core.state.actions import application_states, gang_domains, gone, releases, slot_room
from schedulerd.core.state.alarm_events import GangRequeued
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.gang import Gang
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import update_groups, update_pending_classes
from schedulerd.core.state.step_context import StepContext

REQUEUE_FIRST_NS, REQUEUE_MOST_NS = MINUTE_NS, 30 * MINUTE_NS

_UNBEGUN = (GangState.FORMING, GangState.GATHERING)
_WITHOUT_PREDICATES = {PREDICATES_TAG: NO_PREDICATES}
"""The RM is not told of holds: it is asked about the member, when it takes the room of the slot."""


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
        gang_domains.unbind(partition, application)
    wanted = _wanted(partition, application) if is_formed else []
    keys = {slot.allocation_key for slot in wanted}
    for ask in [one for one in application.asks.values() if one.spec.slot and one.key not in keys]:
        _end(context, partition, application, ask)
    if is_formed:
        total = Resources()
        for slot in wanted:
            total.add(slot.resources.items(), slot.max_allocations)
        application.gang_total = total
        if not any(one.spec.slot and one.allocations for one in application.asks.values()):
            gang.all_or_none = tuple((partition.request_class_of(slot), slot.max_allocations) for slot in wanted)
            update_pending_classes(partition, application)
            partition.touch(application.queue)
    for slot in wanted:
        _ask(context, partition, application, slot)
    if application.gang_alarm is not None:  # what was promised was for the slots of before
        commit.end_promise(partition, application)
        commit.promise(partition, application)


def ask_each(context: StepContext, partition: Partition, application: Application) -> None:
    """Each member gets a slot of its own, because room is to be held for them: a slot counts with the tags of its
    member. Nothing is held yet."""
    gang = application.gang
    assert gang is not None
    if gang.each_has_slot:
        return
    gang.each_has_slot = True
    before = [one for one in application.asks.values() if one.spec.slot]
    since_ns = min((one.asked_at_ns for one in before), default=context.now_ns)
    wanted = _wanted(partition, application)
    for slot in wanted:
        _ask(context, partition, application, slot, since_ns)
    keys = {slot.allocation_key for slot in wanted}
    for ask in before:  # later, so that the gang does not seem to be complete meanwhile
        if ask.key not in keys:
            _end(context, partition, application, ask)


def requeue(context: StepContext, partition: Partition, application: Application) -> None:
    """The time of the gang is over: it holds nothing for a while, the longer the more often that happens."""
    gang = application.gang
    assert gang is not None
    gang.enter(GangTrigger.REQUEUE)
    gang_domains.unbind(partition, application)
    delay_ns = min(REQUEUE_FIRST_NS << min(gang.requeued, 10), REQUEUE_MOST_NS)
    gang.requeued += 1
    gang.each_has_slot = False
    gang.requeue_alarm = context.cluster.alarms.set(context.now_ns + delay_ns, GangRequeued(application))
    _end_all(context, partition, application)


def on_requeued(context: StepContext, application: Application) -> None:
    """The gang has waited long enough."""
    assert application.gang is not None
    application.gang.requeue_alarm = None
    review(context, context.partition_of(application), application)


def on_member_there(context: StepContext, partition: Partition, application: Application) -> None:
    """The RM reports an allocation of a task group: the gang has begun already."""
    gang = application.gang
    if gang is not None and gang.state in _UNBEGUN:
        gang.enter(GangTrigger.RECOVER)
        _end_all(context, partition, application)


def drop_declaration(context: StepContext, partition: Partition, application: Application) -> None:
    """The RM asks for a placeholder or reports one: the gang is one of placeholders, and its declaration counts no
    longer."""
    gang = application.gang
    if gang is not None and gang.declared:
        gang.declared, gang.state, gang.all_or_none = {}, None, ()
        gang.domains.clear()
        application.gang_total = application.spec.placeholder_ask
        _end_all(context, partition, application)


def _end_all(context: StepContext, partition: Partition, application: Application) -> None:
    for ask in [one for one in application.asks.values() if one.spec.slot]:
        _end(context, partition, application, ask)
    update_pending_classes(partition, application)
    update_groups(partition, application, placeholders=False)  # they were not admitted while the gang was forming
    partition.touch(application.queue)


def tell_held(context: StepContext, partition: Partition) -> None:
    """The RM is told of holds from now on: of those that are there."""
    for application in partition.applications.values():
        for ask in application.asks.values():
            if ask.spec.slot:
                for slot in ask.allocations.values():
                    context.emit(_held(application, slot))


def _held(application: Application, slot: Allocation) -> SlotHeld:
    return SlotHeld(
        application.rm_id,
        application.partition_name,
        application.application_id,
        slot.key,
        slot.uuid,
        slot.node.node_id,
        slot.spec.task_group,
    )


def review_all(partition: Partition) -> None:
    """The RM is told of holds from now on, or no longer: whether it is asked about slots changes."""
    for application in partition.applications.values():
        if application.gang is not None and application.gang.declared:
            partition.gangs_to_review[application] = None


def finish(context: StepContext, partition: Partition) -> None:
    """At the end of a step: slots follow the members that are asked for; those that were to be released are gone, and
    their members are allocated; and gangs that hold nothing may look in other domains."""
    if partition.gangs_to_review:
        to_review, partition.gangs_to_review = partition.gangs_to_review, {}
        for application in to_review:
            if partition.applications.get(application.application_id) is application:
                review(context, partition, application)
    while partition.slots_leaving:
        leaving, partition.slots_leaving = partition.slots_leaving, {}
        batches: dict[tuple[Application, TerminationType, str], list[Allocation]] = {}
        for slot, (termination, message) in leaving.items():
            if slot.uuid in partition.allocations:
                batches.setdefault((slot.application, termination, message), []).append(slot)
        for (application, termination, message), slots in batches.items():
            gone.finish(context, application, slots, termination, confirm=False, message=message)
    slot_room.free_from_domains(context, partition)


def _asked(application: Application, name: str) -> int:
    """How many members of the task group are asked for."""
    groups = application.groups.values()
    return sum(group.pending for group in groups if group.task_group == name and not group.placeholder)


def _wanted(partition: Partition, application: Application) -> list[NewAsk]:
    """The slots of all task groups, as asks."""
    gang = application.gang
    assert gang is not None
    return [
        slot
        for name, group in gang.declared.items()
        for slot in (
            _slots(partition, application, name, group)
            if gang.each_has_slot or group.resources is not None
            else _slots_by_class(partition, application, name, group)
        )
    ]


def _slots_by_class(
    partition: Partition, application: Application, name: str, group: DeclaredGroup
) -> Iterator[NewAsk]:
    """One ask for all members of a request class, with the tags of the first: while nothing is held, and for a gang
    that is large. It keeps its key while there are members of the class."""
    groups = [one for one in application.groups.values() if one.task_group == name and not one.placeholder]
    if sum(one.pending for one in groups) == group.min:
        counts = {one: one.pending for one in groups}
    elif len(groups) == 1:
        counts = {groups[0]: group.min}
    else:
        counts = {}
        left = group.min
        for ask in sorted((ask for one in groups for ask in one), key=_order):
            if left and ask.group is not None:
                counts[ask.group] = counts.get(ask.group, 0) + min(left, ask.pending)
                left -= min(left, ask.pending)
    known = {one.request_class: one for one in application.asks.values() if one.spec.slot and one.task_group == name}
    for one, count in counts.items():
        spec = _slot_of(partition, next(iter(one)), count)
        same = known.get(gang_domains.request_class(partition, application, spec))
        key = f"{GROUP_SLOT}{name} as {spec.allocation_key}"
        while same is None and key in application.asks:
            key += "'"
        yield replace(spec, allocation_key=key) if same is None else replace(same.spec, max_allocations=count)


def _slot_of(partition: Partition, ask: Ask, count: int) -> NewAsk:
    """A slot for so many members like this one, with its key."""
    return replace(
        ask.spec,
        max_allocations=count,
        execution_timeout_ms=0,
        tags={**ask.spec.tags, **_predicate_tags(partition)},
        placeholder=True,
        slot=True,
    )


def _predicate_tags(partition: Partition) -> Mapping[str, str]:
    return {} if partition.callbacks.holds else _WITHOUT_PREDICATES


def _slots(partition: Partition, application: Application, name: str, group: DeclaredGroup) -> Iterator[NewAsk]:
    """The slots of a task group, as asks: one for each member, or for all if members have a known size."""
    if group.resources is not None:
        yield NewAsk(
            application.application_id,
            GROUP_SLOT + name,
            group.resources,
            application.partition_name,
            group.min,
            tags={**group.tags, **_predicate_tags(partition)},
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
            yield replace(_slot_of(partition, ask, count), allocation_key=MEMBER_SLOT + ask.key)
        left -= count


def _order(ask: Ask) -> tuple[int, int, int]:
    return -ask.spec.priority, ask.asked_at_ns, ask.serial


def _ask(
    context: StepContext, partition: Partition, application: Application, spec: NewAsk, since_ns: int | None = None
) -> None:
    """`since_ns`: since when the slot was asked for as one of others, which is its age."""
    known = application.asks.get(spec.allocation_key)
    if known is not None:
        if known.spec == spec:
            return
        if known.spec == replace(spec, max_allocations=known.spec.max_allocations):
            _resize(context, partition, application, known, spec)
            return
        _end(context, partition, application, known)
    asked_at_ns = context.now_ns if since_ns is None else since_ns
    ask = Ask(spec, gang_domains.request_class(partition, application, spec), partition.next_serial(), asked_at_ns)
    application.asks[spec.allocation_key] = ask
    application_states.on_ask(context, application, placeholder=True)
    commit.demand(partition, application, ask, spec.max_allocations)
    context.emit(releases.ask_added(application, ask, spec.max_allocations))


def _resize(context: StepContext, partition: Partition, application: Application, ask: Ask, spec: NewAsk) -> None:
    """More slots of this ask are needed, or fewer: those go first that hold nothing, then the latest."""
    more, ask.spec = spec.max_allocations - ask.spec.max_allocations, spec
    if more > 0:
        commit.demand(partition, application, ask, more)
        context.emit(releases.ask_added(application, ask, more))
        return
    message = f"{-more} of {ask.key} are not needed any longer"
    fewer = min(-more, ask.pending)
    releases.withdraw_ask(context, partition, application, ask, WithdrawCause.UPDATED, None, message, count=fewer)
    _give_back(
        context, partition, application, list(ask.allocations.values())[len(ask.allocations) + more + fewer :], message
    )


def _end(context: StepContext, partition: Partition, application: Application, ask: Ask) -> None:
    """The slots of this ask are not needed any longer; what they hold is given back at once."""
    message = f"{ask.key} is not needed any longer"
    releases.withdraw_ask(context, partition, application, ask, WithdrawCause.UPDATED, None, message)
    _give_back(context, partition, application, list(ask.allocations.values()), message)
    application.asks.pop(ask.key, None)


def _give_back(
    context: StepContext, partition: Partition, application: Application, held: Sequence[Allocation], message: str
) -> None:
    for allocation in held:
        releases.request_release(context, partition, allocation, ReleaseCause.UNUSED, message)
        termination, _ = partition.slots_leaving.pop(allocation)
        gone.finish(context, application, [allocation], termination, confirm=False, message=message)
