"""The slots of a gang are held one by one, as nodes become free, if there was not enough room for all at once for a
while; until it is tried as a whole again, because it holds nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from schedulerd.core.language.commands import Expression
from schedulerd.core.language.facts.reservations import ReservationEnd
from schedulerd.core.language.lifecycles import GangState
from schedulerd.core.state.actions import gang_domains, predicate_checks, reservations
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.nodes.gang_plan import Planner
from schedulerd.core.state.nodes.placing import PlannedPlacing
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.asks import update_pending_classes
from schedulerd.core.state.pending.request_class import RequestClass
from schedulerd.core.state.step_context import StepContext

AskEach: TypeAlias = Callable[[StepContext, Partition, Application], None]
"""Gives each member a slot of its own (`slots.ask_each`)."""


def waiting(application: Application) -> list[AskGroup]:
    """The groups of its slots that have no room."""
    return [group for group in application.groups.values() if group.placeholder]


def hold_singly(context: StepContext, partition: Partition, application: Application, ask_each: AskEach) -> bool:
    """There was not enough room for all slots at once for a while: they are held one by one from now on, those of a
    required topology in a domain that has room for them beside the gang itself. False if there is no such domain."""
    gang = application.gang
    assert gang is not None
    planner = Planner(partition, gang, waiting(application), PlannedPlacing(partition))
    chosen = planner.domains_if_empty()
    partition.retry_timers.budget.visits += planner.visits
    if chosen is None:
        return False
    begin(context, partition, application, chosen, ask_each)
    return True


def begin(
    context: StepContext,
    partition: Partition,
    application: Application,
    domains: Mapping[str, Sequence[Expression]],
    ask_each: AskEach,
) -> None:
    """From now on the slots are held one by one, in these domains."""
    gang = application.gang
    assert gang is not None
    gang_domains.bind(partition, application, domains)
    if not gang.is_large or partition.callbacks.holds:
        ask_each(context, partition, application)
    if domains:
        gang.gathering.bound_ns = context.now_ns
        partition.bound_gangs[application] = None
    gather_singly(partition, application)


def void_checks(context: StepContext, application: Application) -> None:
    """Nothing that the RM is asked about slots counts any longer: room is looked for anew."""
    for ask in application.asks.values():
        if ask.spec.slot and ask.predicate_history is not None:
            predicate_checks.void_all(context, ask.predicate_history.predicate_checks)


def gather_singly(partition: Partition, application: Application) -> None:
    """The slots are held one by one from now on, on any node that takes them."""
    assert application.gang is not None
    application.gang.gathering.all_or_none, application.gang.gathering.found_room = (), 0
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
    gang_domains.unbind(partition, application)
    void_checks(context, application)
    counts: dict[RequestClass, int] = {}
    for ask in [one for one in application.asks.values() if one.spec.slot]:
        ask.no_reservation_before_ns = 0
        counts[ask.request_class] = counts.get(ask.request_class, 0) + ask.pending
    gang.gathering.all_or_none = tuple(counts.items())
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
        if gang is None or not gang.domains or not gang.gathering.all_or_none or gang.state is not GangState.GATHERING:
            continue
        if gang.may_change_domain:
            hold_together(context, partition, application)
    if not is_other and not partition.freed_nodes:
        return
    for application in list(partition.bound_gangs):
        gang = application.gang
        if gang is None or gang.state is not GangState.GATHERING or not gang.may_change_domain:
            del partition.bound_gangs[application]
        elif is_other or context.now_ns >= gang.gathering.bound_ns + context.cluster.timeouts.reservation_delay_ns:
            hold_together(context, partition, application)
