"""Preemption for a gang that gathers, as one asker: victims for all of its slots without room, or none.

A chain of searches (`rules.search`), one for each slot. What each of them finds is assumed for the next one. When the
last one has found something, all of it is judged again from the first slot on, what is not needed is left out, and the
rest is one `Plan`: an entitled reservation for each slot.
"""

from __future__ import annotations

from contextlib import ExitStack

from schedulerd.core.language.lifecycles import GangState
from schedulerd.core.preemption.rules.preemption_context import is_closed
from schedulerd.core.preemption.rules.search import Search
from schedulerd.core.preemption.rules.whole_gang import SLOTS_MAX, lacking, open_slots, without_needless
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.gang import Gang
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import preemption_from_ns
from schedulerd.core.state.plans.assuming import assumed
from schedulerd.core.state.plans.plan import Plan, PlannedPreemption


def gathers(application: Application) -> bool:
    """Whether victims are chosen for the whole gang of the application."""
    return application.gang is not None and application.gang.state is GangState.GATHERING


def may_preempt(partition: Partition, application: Application) -> bool:
    """Whether victims may be chosen for the gang now, apart from its age: each slot without room may preempt and waits
    for room, and the domains that topology requires are chosen."""
    gang, slots = application.gang, list(open_slots(partition, application))
    assert gang is not None
    if not slots or lacking(application) > SLOTS_MAX or not _has_domains(gang):
        return False
    return all(
        ask.spec.allow_preempt_other and not ask.request_class.required_node and is_closed(application, group)
        for group, ask in slots
    )


def _has_domains(gang: Gang) -> bool:
    wanted = (name for name, one in gang.declared.items() if one.required_topology or one.whole_required)
    return all(name in gang.domains for name in wanted)


def from_ns(partition: Partition, application: Application) -> int:
    """The earliest time of an attempt: when the last of its slots without room is old enough."""
    return max(preemption_from_ns(application, ask) for _, ask in open_slots(partition, application))


def first_search(partition: Partition, application: Application, attempt: int = 1) -> Search:
    """The search for the first slot without room."""
    group, ask = next(open_slots(partition, application))
    return Search(partition, application, group, ask, partition.retry_timers.budget, attempt=attempt)


def is_wanted(search: Search) -> bool:
    """Whether the gang still waits for the room that is searched for, and what was found before can be assumed."""
    partition, application = search.partition, search.application
    return (
        gathers(application)
        and may_preempt(partition, application)
        and next(open_slots(partition, application, search.planned_before), None) == (search.group, search.ask)
        and all(_stands(partition, one) for one in search.planned_before)
    )


def _stands(partition: Partition, planned: PlannedPreemption) -> bool:
    are_there = all(partition.allocations.get(one.uuid) is one and one.releasing is None for one in planned.victims)
    return are_there and partition.nodes.get(planned.node.node_id) is planned.node


def go_on(search: Search, found: Plan) -> Search | Plan | None:
    """The search for the next slot; after the last one, the plan for all of them, or None if it does not hold any
    longer."""
    partition, application = search.partition, search.application
    planned = (*search.planned_before, *found.preemptions)
    following = next(open_slots(partition, application, planned), None)
    if following is None:
        return _whole(partition, application, planned)
    group, ask = following
    with assumed(partition, planned):
        return Search(
            partition,
            application,
            group,
            ask,
            search.budget,
            attempt=search.attempt,
            planned_before=planned,
            follows=search,
        )


def _whole(partition: Partition, application: Application, found: tuple[PlannedPreemption, ...]) -> Plan | None:
    """All that was found, judged once more slot by slot, without what is not needed."""
    planned: list[PlannedPreemption] = []
    budget = partition.retry_timers.budget
    with ExitStack() as all_before:
        for one in found:
            group = application.groups[one.ask.group_key]
            search = Search(partition, application, group, one.ask, budget, planned_before=tuple(planned))
            search.is_on(one)
            plan = search.plan()
            if plan is None:
                return None
            planned += plan.preemptions
            all_before.enter_context(assumed(partition, plan.preemptions))
        return Plan(preemptions=without_needless(partition, planned))
