"""Room for the slots of a gang: all in one step or none, or one by one, in the domains that its topology requires."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from schedulerd.core.language.commands import Expression, NewAsk, Operator
from schedulerd.core.language.facts.reservations import ReservationEnd
from schedulerd.core.language.lifecycles import GangState
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.actions import allocating, reservations, retries
from schedulerd.core.state.constraints.node_selector import NODE_SELECTOR_TAG, selector
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.nodes.packing import Bin, fits, rank
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.asks import requeue, update_pending_classes
from schedulerd.core.state.pending.request_class import RequestClass
from schedulerd.core.state.quotas.rules import highest_blocked
from schedulerd.core.state.step_context import StepContext

DOMAINS_TRIED_MAX = 4
"""Domains of a topology that are tried for a task group in one step."""
SLACK_PARTS = 1_000_000
"""Of the largest node, in which the free room of domains is compared."""


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
    for name in dict.fromkeys(group.task_group for group in _waiting(application)):
        groups = _groups_of(partition, application, name)
        group = gang.declared[name]
        is_required = bool(group.required_topology)
        attribute = partition.spec.topology_attribute(group.level) if group.level else None
        if name in gang.domains or (attribute is None and not is_required):
            is_held = _hold(context, partition, application, groups, held)
        elif attribute is None:  # a new queue file has the level no longer
            is_held = False
        else:
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
    names = dict.fromkeys(name for request_class, _ in wanted for name, _ in request_class.items)
    bins: dict[str, list[Bin]] = {}
    slack: dict[str, int] = {}
    largest = partition.largest()
    for node in partition.node_order:
        value = node.attributes.get(attribute)
        if value is not None:
            free = room(node)
            bins.setdefault(value, []).append(Bin(free, 1, node))
            share = sum(free[name] * SLACK_PARTS // max(1, largest[name]) for name in names)
            slack[value] = slack.get(value, 0) + share
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
            requeue(partition, application, ask, request_class(partition, application, ask.spec), name)
        else:  # so it is there too if it is pending again
            ask.request_class = request_class(partition, application, ask.spec)


def stay_with(partition: Partition, member: Allocation) -> None:
    """The task group of this member is in the domain of its node, if it has to be in one and has none yet."""
    gang, name = member.application.gang, member.spec.task_group
    assert gang is not None
    level = gang.declared[name].required_topology
    attribute = partition.spec.topology_attribute(level) if level and name not in gang.domains else None
    value = member.node.attributes.get(attribute) if attribute is not None else None
    if attribute is not None and value is not None:
        gang.domains[name] = selector([Expression(attribute, Operator.IN, (value,))])
        _keep_in_domain(partition, member.application, name)


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
        if group.required_topology and name not in gang.domains:
            attribute = partition.spec.topology_attribute(group.required_topology)
            groups = _groups_of(partition, application, name)
            found = _domains(partition, groups, attribute, _room_without_others) if attribute is not None else iter(())
            value = next(found, None)
            if attribute is None or value is None:
                return False
            chosen[name] = selector([Expression(attribute, Operator.IN, (value,))])
    for name, domain in chosen.items():
        gang.domains[name] = domain
        _keep_in_domain(partition, application, name)
    if chosen:
        gang.bound_ns = context.now_ns
        partition.bound_gangs[application] = None
    gather_singly(partition, application)
    return True


def gather_singly(partition: Partition, application: Application) -> None:
    """The slots are held one by one from now on, on any node that takes them."""
    assert application.gang is not None
    application.gang.all_or_none = ()
    update_pending_classes(partition, application)
    partition.touch(application.queue)


def hold_together(context: StepContext, partition: Partition, application: Application) -> bool:
    """A reservation for a slot was in vain: the gang is tried as a whole again, in any domain, if it holds nothing and
    nothing is being preempted for it."""
    gang = application.gang
    assert gang is not None
    if application.placeholders or any(one.is_entitled for one in application.reservations):
        return False
    for reservation in list(application.reservations):
        reservations.end(context, reservation, ReservationEnd.NOT_NEEDED)
    gang.forget_domains()
    asks = [ask for ask in application.asks.values() if ask.spec.slot]
    gang.all_or_none = tuple((partition.request_class_of(ask.spec), ask.pending) for ask in asks)
    for ask in asks:
        ask.no_reservation_before_ns = 0
    for name in gang.declared:
        _keep_in_domain(partition, application, name)
    update_pending_classes(partition, application)
    partition.touch(application.queue)
    return True


def free_from_domains(context: StepContext, partition: Partition) -> None:
    """A gang that holds nothing may look in any domain again: when it has just lost what it held, when nodes came or
    went, and when room was freed, but then no more often than room is reserved for others."""
    is_other = partition.capacity_changes != partition.domains_looked_at
    partition.domains_looked_at = partition.capacity_changes
    for application in partition.gangs_touched:
        gang = application.gang
        if gang is None or not gang.domains or not gang.all_or_none or gang.state is not GangState.GATHERING:
            continue
        if gang.may_change_domain:
            hold_together(context, partition, application)
    if not is_other and not partition.freed_nodes:
        return
    for application in list(partition.bound_gangs):
        gang = application.gang
        if gang is None or gang.state is not GangState.GATHERING or not gang.may_change_domain:
            del partition.bound_gangs[application]
        elif is_other or context.now_ns >= gang.bound_ns + context.cluster.timeouts.reservation_delay_ns:
            hold_together(context, partition, application)
