"""Slots of a gang that declares its task groups (tag `schedulerd.io/task-groups`) and brings no placeholders.

A slot is a placeholder that the scheduler itself asks for: it holds room for one member, as a placeholder of the gang
design does, but no RM knows of it, so it is gone as soon as it is not needed. A task group with `resources` has as many
slots as it needs members, whether these are asked for or not; one without gets them once so many members are asked for,
each as large as its member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from schedulerd.core.language.ask_tags import NO_PREDICATES, PREDICATES_TAG
from schedulerd.core.language.commands import Expression, NewAsk, Operator, TerminationType
from schedulerd.core.language.facts.fact import AskAdded, ReleaseCause, WithdrawCause
from schedulerd.core.language.facts.reservations import ReservationEnd
from schedulerd.core.language.lifecycles import GangState, GangTrigger
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import MINUTE_NS
from schedulerd.core.language.task_groups import SLOT_KEY_PREFIX, DeclaredGroup
from schedulerd.core.state.actions import allocating, application_states, gone, releases, reservations, retries
from schedulerd.core.state.alarm_events import GangRequeued
from schedulerd.core.state.constraints.node_selector import NODE_SELECTOR_TAG, selector
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.gang import Gang
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.nodes.packing import Bin, fits, rank
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.asks import requeue as requeue_ask
from schedulerd.core.state.pending.asks import update_groups, update_pending_classes
from schedulerd.core.state.pending.request_class import RequestClass
from schedulerd.core.state.quotas.rules import highest_blocked
from schedulerd.core.state.step_context import StepContext

REQUEUE_FIRST_NS, REQUEUE_MOST_NS = MINUTE_NS, 30 * MINUTE_NS

DOMAINS_TRIED_MAX = 4
"""Domains of a topology that are tried for a task group in one step."""
_UNBEGUN = (GangState.FORMING, GangState.GATHERING)
_WITHOUT_PREDICATES = {PREDICATES_TAG: NO_PREDICATES}
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
        gang.domains.clear()
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
            gang.all_or_none = tuple((partition.request_class_of(slot), slot.max_allocations) for slot in wanted)
            update_pending_classes(partition, application)
            partition.touch(application.queue)
    for slot in wanted:
        _ask(context, partition, application, slot)
    if application.gang_alarm is not None:  # what was promised was for the slots of before
        commit.end_promise(partition, application)
        commit.promise(partition, application)


def are_held_together(application: Application) -> bool:
    """Whether room is held for all slots of the gang in one step or for none."""
    return application.gang is not None and bool(application.gang.all_or_none)


def hold_all(context: StepContext, partition: Partition, application: Application) -> bool:
    """Holds room for all slots that have none; if one of them has no node then, for none.

    They are allocated one after the other, so that each is judged with those before it on their nodes, and taken back
    if it does not end well: nothing else sees them before.
    """
    gang = application.gang
    assert gang is not None
    blocked_since_ns = application.blocked_since_ns
    held: list[Allocation] = []
    chosen: dict[str, str] = {}
    by_name: dict[str, list[AskGroup]] = {}
    for group in _waiting(application):
        by_name.setdefault(group.task_group, []).append(group)
    largest = partition.largest()
    for name, groups in by_name.items():
        groups.sort(key=lambda group: rank(group.request_class, largest))
        level = gang.declared[name].level
        attribute = partition.spec.topology_attribute(level) if level and name not in gang.domains else None
        if attribute is None:
            is_held = _hold(context, partition, application, groups, held)
        else:
            is_required = bool(gang.declared[name].required_topology)
            is_held = _hold_in_domain(context, partition, application, groups, held, attribute, chosen, is_required)
        if not is_held:
            _take_back_to(partition, held, 0)
            application.blocked_since_ns = blocked_since_ns
            index = partition.root.pending_index
            for one in _waiting(application):
                if one.pending_class in index and one.pending_class not in index.blocked_by:
                    retries.mark_unschedulable(context, partition, one.pending_class, one.first())
            return False
    for allocation in held:
        allocating.tell(context, partition, allocation)
    for name, selector_text in chosen.items():
        gang.domains[name] = selector_text
        _keep_in_domain(partition, application, name)
    return True


def _hold(
    context: StepContext,
    partition: Partition,
    application: Application,
    groups: list[AskGroup],
    held: list[Allocation],
    within: Callable[[Node], bool] | None = None,
) -> bool:
    """Allocates the slots of these groups, on nodes for which `within` is true, and adds them to `held`. False if one
    of them has no node."""
    for group in groups:
        for _ in range(group.pending):
            request_class = group.request_class
            node = (
                partition.first_fit(request_class)
                if within is None
                else partition.first_fit_where(request_class, within)
            )
            partition.retry_timers.budget.visits += 1
            quota_key = group.pending_class.quota_key  # the gate was passed, for all of them
            starts = quota_key.starts_application and not application.allocations
            quota_key = quota_key._replace(gang_gate=(), starts_application=starts)
            if node is None or highest_blocked(application.queue, request_class.items, quota_key) is not None:
                return False
            uuid = context.cluster.new_uuid()
            held.append(commit.allocate(partition, application, group.first(), node, uuid))
    return True


def _hold_in_domain(
    context: StepContext,
    partition: Partition,
    application: Application,
    groups: list[AskGroup],
    held: list[Allocation],
    attribute: str,
    chosen: dict[str, str],
    is_required: bool,
) -> bool:
    """Holds the slots of a task group in the domain that has least room beside them; if none has enough, and it is not
    required, anywhere."""
    name = groups[0].task_group
    for value in islice(_domains(partition, groups, attribute, _free), DOMAINS_TRIED_MAX):
        before = len(held)
        if _hold(
            context, partition, application, _groups_of(partition, application, name), held, _is_in(attribute, value)
        ):
            if is_required:
                chosen[name] = selector([Expression(attribute, Operator.IN, (value,))])
            return True
        _take_back_to(partition, held, before)
    return not is_required and _hold(context, partition, application, _groups_of(partition, application, name), held)


def _take_back_to(partition: Partition, held: list[Allocation], count: int) -> None:
    while len(held) > count:
        commit.take_back(partition, held.pop())


def _groups_of(partition: Partition, application: Application, name: str) -> list[AskGroup]:
    """The groups of slots of a task group that have no room, in the order in which they are packed."""
    largest = partition.largest()
    groups = [group for group in _waiting(application) if group.task_group == name]
    return sorted(groups, key=lambda group: rank(group.request_class, largest))


def _is_in(attribute: str, value: str) -> Callable[[Node], bool]:
    return lambda node: node.attributes.get(attribute) == value


def _domains(
    partition: Partition, groups: Sequence[AskGroup], attribute: str, room: Callable[[Node], Resources]
) -> Iterator[str]:
    """The domains that may have room for all pending slots of the groups, with so much room on each node: those first
    that would have least left."""
    wanted = [(group.request_class, group.pending) for group in groups]
    names = {name for request_class, _ in wanted for name, _ in request_class.items}
    bins: dict[str, list[Bin]] = {}
    slack: dict[str, float] = {}
    largest = partition.largest()
    for node in partition.node_order:
        value = node.attributes.get(attribute)
        if value is not None:
            free = room(node)
            bins.setdefault(value, []).append(Bin(free, 1, node))
            slack[value] = slack.get(value, 0.0) + sum(free[name] / max(1, largest[name]) for name in names)
    partition.retry_timers.budget.visits += len(partition.nodes)
    return (
        value for value in sorted(bins, key=lambda value: (slack[value], value)) if fits(partition, wanted, bins[value])
    )


def _free(node: Node) -> Resources:
    return Resources(node.free)


def _room_without_others(node: Node) -> Resources:
    return node.capacity.minus(node.occupied)


def _keep_in_domain(partition: Partition, application: Application, name: str) -> None:
    """Slots and members that are asked for already are in the domain of their task group."""
    for ask in [one for one in application.asks.values() if one.task_group == name]:
        if ask.pending:
            requeue_ask(partition, application, ask, request_class(partition, application, ask.spec), name)
        else:  # so it is there too if it is pending again
            ask.request_class = request_class(partition, application, ask.spec)


def request_class(partition: Partition, application: Application, spec: NewAsk) -> RequestClass:
    """The request class of an ask of the application: within the domain of its task group, if that has to be in
    one."""
    gang = application.gang
    domain = gang.domains.get(spec.task_group) if gang is not None and gang.domains else None
    if domain is None:
        return partition.request_class_of(spec)
    own = spec.tags.get(NODE_SELECTOR_TAG, "")
    tags = {**spec.tags, NODE_SELECTOR_TAG: f"{own},{domain}" if own else domain}
    return partition.request_class_of(replace(spec, tags=tags))


def _waiting(application: Application) -> list[AskGroup]:
    """The groups of its slots that have no room."""
    return [group for group in application.groups.values() if group.placeholder]


def hold_singly(context: StepContext, partition: Partition, application: Application) -> bool:
    """There was not enough room for all slots at once for a while: they are held one by one from now on, those of a
    required topology in a domain that has room for them beside the gang itself. False if there is no such domain."""
    gang = application.gang
    assert gang is not None
    chosen: dict[str, str] = {}
    for name, group in gang.declared.items():
        attribute = partition.spec.topology_attribute(group.required_topology) if group.required_topology else None
        if attribute is not None and name not in gang.domains:
            groups = _groups_of(partition, application, name)
            value = next(iter(_domains(partition, groups, attribute, _room_without_others)), None)
            if value is None:
                return False
            chosen[name] = selector([Expression(attribute, Operator.IN, (value,))])
    for name, domain in chosen.items():
        gang.domains[name] = domain
        _keep_in_domain(partition, application, name)
    if chosen:
        gang.bound_ns = context.now_ns
        partition.bound_gangs[application] = None
    gang.all_or_none = ()
    update_pending_classes(partition, application)
    partition.touch(application.queue)
    return True


def hold_together(context: StepContext, partition: Partition, application: Application) -> bool:
    """A reservation for a slot was in vain: the gang is tried as a whole again, in any domain, if it holds nothing."""
    gang = application.gang
    assert gang is not None
    if application.allocations:
        return False
    for reservation in list(application.reservations):
        reservations.end(context, reservation, ReservationEnd.NOT_NEEDED)
    gang.domains.clear()
    asks = [ask for ask in application.asks.values() if ask.spec.slot]
    gang.all_or_none = tuple((partition.request_class_of(ask.spec), ask.pending) for ask in asks)
    for ask in asks:
        ask.no_reservation_before_ns = 0
    for name in gang.declared:
        _keep_in_domain(partition, application, name)
    update_pending_classes(partition, application)
    partition.touch(application.queue)
    return True


def requeue(context: StepContext, partition: Partition, application: Application) -> None:
    """The time of the gang is over: it holds nothing for a while, the longer the more often that happens."""
    gang = application.gang
    assert gang is not None
    gang.enter(GangTrigger.REQUEUE)
    gang.domains.clear()
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
    _free_from_domains(context, partition)


def _free_from_domains(context: StepContext, partition: Partition) -> None:
    """A gang that holds nothing may look in any domain again: when it has just lost what it held, when nodes came or
    went, and when room was freed, but then no more often than room is reserved for others."""
    is_other = partition.capacity_changes != partition.domains_looked_at
    partition.domains_looked_at = partition.capacity_changes
    for application in partition.gangs_touched:
        gang = application.gang
        if gang is not None and gang.domains and gang.all_or_none and gang.state is GangState.GATHERING:
            hold_together(context, partition, application)
    if not is_other and not partition.freed_nodes:
        return
    for application in list(partition.bound_gangs):
        gang = application.gang
        if gang is None or gang.state is not GangState.GATHERING or not gang.domains:
            del partition.bound_gangs[application]
        elif is_other or context.now_ns >= gang.bound_ns + context.cluster.timeouts.reservation_delay_ns:
            hold_together(context, partition, application)


def _asked(application: Application, name: str) -> int:
    """How many members of the task group are asked for."""
    groups = application.groups.values()
    return sum(group.pending for group in groups if group.task_group == name and not group.placeholder)


def _slots(application: Application, name: str, group: DeclaredGroup) -> Iterator[NewAsk]:
    """The slots of a task group, as asks."""
    if group.resources is not None:
        yield NewAsk(
            application.application_id,
            SLOT_KEY_PREFIX + name,
            group.resources,
            application.partition_name,
            group.min,
            tags=_WITHOUT_PREDICATES,
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
                allocation_key=SLOT_KEY_PREFIX + ask.key,
                max_allocations=count,
                execution_timeout_ms=0,
                tags={**ask.spec.tags, **_WITHOUT_PREDICATES},
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
    ask = Ask(spec, request_class(partition, application, spec), partition.next_serial(), context.now_ns)
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
