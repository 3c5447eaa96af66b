"""Slots of a gang that declares its task groups (tag `schedulerd.io/task-groups`) and brings no placeholders.

A slot is a placeholder that the scheduler itself asks for: it holds room for one member, as a placeholder of the gang
design does, but no RM knows of it, so it is gone as soon as it is not needed. A task group with `resources` has as many
slots as it needs members, whether these are asked for or not; one without gets them once so many members are asked for,
each as large as its member. Which these are is in `wanted_slots`, and where they get room in `slot_room`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

from schedulerd.core.language.commands import NewAsk, TerminationType
from schedulerd.core.language.facts.fact import ReleaseCause, WithdrawCause
from schedulerd.core.language.facts.predicates import SlotHeld
from schedulerd.core.language.lifecycles import GangState, GangTrigger
from schedulerd.core.language.specs import MINUTE_NS
from schedulerd.core.language.task_groups import DeclaredGroup
from schedulerd.core.state.actions import (
    application_states,
    gang_domains,
    gang_states,
    gang_time,
    gone,
    releases,
    single_slots,
    wanted_slots,
)
from schedulerd.core.state.alarm_events import GangRequeued
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import SCHEDULABLE_STATES, Application
from schedulerd.core.state.model.gang import UNBEGUN, Gang
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import dequeue, enqueue, update_groups, update_pending_classes
from schedulerd.core.state.step_context import StepContext

REQUEUE_FIRST_NS, REQUEUE_MOST_NS = MINUTE_NS, 30 * MINUTE_NS


def declare(
    context: StepContext, partition: Partition, application: Application, groups: Sequence[DeclaredGroup]
) -> None:
    """The application is accepted, and declares these task groups."""
    application.gang = gang = Gang()
    gang.declared = {one.name: one for one in groups}
    gang.first_asked_ns = context.now_ns
    gang_states.declare(context, application)
    if any(one.begun for one in groups):
        gang.has_started = True
        gang_states.enter(context, application, GangTrigger.RECOVER)
    else:
        review(context, partition, application)


def change(
    context: StepContext, partition: Partition, application: Application, groups: Sequence[DeclaredGroup]
) -> None:
    """The RM declares the same task groups with another min or max (SEMANTICS I26)."""
    gang = application.gang
    if gang is None or not gang.declared:  # its RM asks for placeholders
        return
    gang.declared, gang.above_min = {one.name: one for one in groups}, None
    partition.note_members(application)
    partition.gangs_changed = True
    if gang.state is GangState.COMPLETE:
        _give_up_needless(context, partition, application, gang)
    update_groups(partition, application, placeholders=False)


def review(context: StepContext, partition: Partition, application: Application) -> None:
    """Members of the gang were asked for or withdrawn, are there or gone: its slots are those of the members that come
    first, beside those that are there."""
    gang = application.gang
    if gang is None or gang.times.requeue_alarm is not None:
        return
    may_lose = gang.state is GangState.COMPLETE and not gang.has_started and application.state in SCHEDULABLE_STATES
    if may_lose and any(gang.lacking(one) > 0 for one in gang.declared.values() if one.resources is not None):
        gang_states.enter(context, application, GangTrigger.LOSE)
    if gang.state not in UNBEGUN:
        return
    is_formed = all(
        group.resources is not None or wanted_slots.asked(application, name) >= gang.missing(group)
        for name, group in gang.declared.items()
    )
    if gang.state is GangState.FORMING:
        if not is_formed:
            return
        gang_time.end(context, application)  # it begins again with the first slot that is held
        gang_states.enter(context, application, GangTrigger.FORM)
    elif not is_formed:
        _unform(context, partition, application)
        return
    wanted = wanted_slots.wanted(partition, application)
    keys = {slot.allocation_key for slot in wanted}
    for ask in [one for one in application.asks.values() if one.spec.slot and one.key not in keys]:
        _end(context, partition, application, ask)
    total = gang.held.minus(application.placeholder_allocated)  # members that are there
    for slot in wanted:
        total.add(slot.resources.items(), slot.max_allocations)
    application.gang_total = total
    if not any(one.spec.slot and one.allocations for one in application.asks.values()):
        single_slots.void_checks(context, application)
        gang.gathering.all_or_none = tuple((partition.request_class_of(slot), slot.max_allocations) for slot in wanted)
        gang.gathering.found_room = 0
        update_pending_classes(partition, application)
        partition.touch(application.queue)
    for slot in wanted:
        _ask(context, partition, application, slot)
    if not wanted:
        update_groups(partition, application, placeholders=False)  # they were not admitted while the gang was forming
    if application.gang_alarm is not None:  # what was promised was for the slots of before
        commit.end_promise(partition, application)
        commit.promise(partition, application)


def _unform(context: StepContext, partition: Partition, application: Application) -> None:
    """Fewer members are asked for than the gang needs: it holds nothing until there are enough."""
    gang_states.enter(context, application, GangTrigger.UNFORM)
    gang_time.begin_without_members(context, application)
    gang_domains.unbind(partition, application)
    for ask in [one for one in application.asks.values() if one.spec.slot]:
        _end(context, partition, application, ask)
    application_states.on_fewer_asks(context, application)


def ask_each(context: StepContext, partition: Partition, application: Application) -> None:
    """Each member gets a slot of its own, because room is to be held for them: a slot counts with the tags of its
    member. Nothing is held yet."""
    gang = application.gang
    assert gang is not None
    if gang.gathering.each_has_slot:
        return
    gang.gathering.each_has_slot = True
    before = [one for one in application.asks.values() if one.spec.slot]
    since_ns = min((one.asked_at_ns for one in before), default=context.now_ns)
    wanted = wanted_slots.wanted(partition, application)
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
    gang_states.enter(context, application, GangTrigger.REQUEUE)
    gang_domains.unbind(partition, application)
    delay_ns = min(REQUEUE_FIRST_NS << min(gang.requeued, 10), REQUEUE_MOST_NS)
    gang.requeued, gang.gave_back = gang.requeued + 1, 0
    gang.gathering.each_has_slot = False
    gang.times.requeue_alarm = context.cluster.alarms.set(context.now_ns + delay_ns, GangRequeued(application))
    _end_all(context, partition, application)


def on_requeued(context: StepContext, application: Application) -> None:
    """The gang has waited long enough; its members may have been withdrawn meanwhile."""
    assert application.gang is not None
    application.gang.times.requeue_alarm = None
    review(context, context.partition_of(application), application)
    application_states.on_fewer_asks(context, application)


def on_member_there(context: StepContext, partition: Partition, member: Allocation) -> None:
    """The RM reports an allocation of a task group: its domain is that of the group, and it needs no slot."""
    application, gang = member.application, member.application.gang
    if gang is not None and member.spec.task_group in gang.declared:
        gang_domains.stay(partition, application, member)
        if gang.state is GangState.COMPLETE:
            _give_up_needless(context, partition, application, gang)


def _give_up_needless(context: StepContext, partition: Partition, application: Application, gang: Gang) -> None:
    """Slots that a complete gang does not need any longer are given back."""
    for group in gang.declared.values():
        task_group = gang.task_group(group.name)
        for slot in task_group.oldest(max(0, -gang.lacking(group))):
            releases.request_release(
                context, partition, slot, ReleaseCause.UNUSED, f"{slot.key} is not needed any longer"
            )


def drop_declaration(context: StepContext, partition: Partition, application: Application) -> None:
    """The RM asks for a placeholder or reports one: the gang is one of placeholders, and its declaration counts no
    longer."""
    gang = application.gang
    if gang is not None and gang.declared:
        gang_states.forget(context, application, "its resource manager asks for placeholders")
        gang_time.end(context, application)
        gang.declared, gang.state, gang.gathering.all_or_none = {}, None, ()
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
    for application in partition.gangs_touched:  # before members that have just taken their slots are counted as there
        gang_time.note_complete(context, application)
    _review_noted(context, partition)
    while partition.slots_leaving:
        _end_leaving(context, partition)
    _review_noted(context, partition, GangState.GATHERING)
    single_slots.free_from_domains(context, partition)


def _review_noted(context: StepContext, partition: Partition, state: GangState | None = None) -> None:
    """`state`: of gangs in this state; the others are for the next step, where members that have just taken their slots
    count as there."""
    noted = partition.gangs_to_review
    to_review = [one for one in noted if state is None or (one.gang is not None and one.gang.state is state)]
    for application in to_review:
        del noted[application]
    for application in to_review:
        if partition.applications.get(application.application_id) is application:
            review(context, partition, application)
            gang_time.note_complete(context, application)


def _end_leaving(context: StepContext, partition: Partition) -> None:
    leaving, partition.slots_leaving = partition.slots_leaving, {}
    batches: dict[tuple[Application, TerminationType, str], list[Allocation]] = {}
    for slot, (termination, message) in leaving.items():
        if slot.uuid in partition.allocations:
            batches.setdefault((slot.application, termination, message), []).append(slot)
    for (application, termination, message), slots in batches.items():
        gone.finish(context, application, slots, termination, confirm=False, message=message)


def _ask(
    context: StepContext, partition: Partition, application: Application, spec: NewAsk, since_ns: int | None = None
) -> None:
    """`since_ns`: since when the slot was asked for as one of others, which is its age."""
    known = application.asks.get(spec.allocation_key)
    if known is not None:
        may_preempt = spec.allow_preempt_other
        if replace(known.spec, max_allocations=spec.max_allocations, allow_preempt_other=may_preempt) == spec:
            if known.pending and known.spec.allow_preempt_other is not may_preempt:
                pending = known.pending
                dequeue(partition, application, known, pending)
                known.spec = replace(known.spec, allow_preempt_other=may_preempt)
                enqueue(partition, application, known, pending)
            _change_count(context, partition, application, known, spec)
            return
        _end(context, partition, application, known)
    asked_at_ns = context.now_ns if since_ns is None else since_ns
    ask = Ask(spec, gang_domains.request_class(partition, application, spec), partition.next_serial(), asked_at_ns)
    application.asks[spec.allocation_key] = ask
    application_states.on_ask(context, application, placeholder=True)
    commit.demand(partition, application, ask, spec.max_allocations)
    context.emit(releases.ask_added(application, ask, spec.max_allocations))


def _change_count(context: StepContext, partition: Partition, application: Application, ask: Ask, spec: NewAsk) -> None:
    """More or fewer of equal slots are needed. What is held stays, as far as it is needed."""
    held = [one for one in ask.allocations.values() if not _goes_for_good(one)]
    change, ask.spec = spec.max_allocations - ask.pending - len(held), spec
    ask.placed = len(held)  # those that are gone were not needed
    if change > 0:
        commit.demand(partition, application, ask, change)
        context.emit(releases.ask_added(application, ask, change))
    elif change < 0:
        message, withdrawn = f"{-change} of {ask.key} are not needed any longer", min(ask.pending, -change)
        if withdrawn:
            cause = WithdrawCause.UPDATED
            releases.withdraw_ask(context, partition, application, ask, cause, None, message, count=withdrawn)
        newest = list(islice(reversed(held), -change - withdrawn))
        _give_back(context, partition, application, newest, message)
        ask.placed -= len(newest)  # so that those which are left are asked for again when they are lost


def _goes_for_good(slot: Allocation) -> bool:
    """Whether it was found to be needless or too small in this step, and is gone at its end."""
    return slot.releasing is TerminationType.TIMEOUT and not slot.ask_again_when_gone


def _end(context: StepContext, partition: Partition, application: Application, ask: Ask) -> None:
    """The slots of this ask are not needed any longer; what they hold is given back at once."""
    message = f"{ask.key} is not needed any longer"
    releases.withdraw_ask(context, partition, application, ask, WithdrawCause.UPDATED, None, message)
    _give_back(context, partition, application, list(ask.allocations.values()), message)
    application.asks.pop(ask.key, None)


def _give_back(
    context: StepContext, partition: Partition, application: Application, held: Iterable[Allocation], message: str
) -> None:
    for allocation in held:
        releases.request_release(context, partition, allocation, ReleaseCause.UNUSED, message)
        del partition.slots_leaving[allocation]
        allocation.ask_again_when_gone = False
        timeout = TerminationType.TIMEOUT
        gone.finish(context, application, [allocation], timeout, confirm=False, message=message)
