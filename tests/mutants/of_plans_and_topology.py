"""Mutants of plans for all slots of a gang, of the domains that they are made in, and of plans that are committed."""

from __future__ import annotations

from typing import Any

from schedulerd.core.state.actions import gang_domains, single_slots, slot_room
from schedulerd.core.state.model.gang import Gang
from schedulerd.core.state.nodes.gang_plan import Planner
from schedulerd.core.state.nodes.placing import PlannedPlacing
from schedulerd.core.state.nodes.room_index import RoomIndex
from schedulerd.core.state.plans import assuming, committing, rules
from schedulerd.core.state.quotas.rules import blocked_together
from tests.mutants.changes import By, Compares, Constant, Replaced, Within, gives, nothing
from tests.mutants.finders import Seeds, TestsOf, UnitTested
from tests.mutants.mutant import Mutant
from tests.mutants.rules import Rule
from tests.property import test_declared_gangs as any_gangs
from tests.property import test_gang_rooms
from tests.unit.core.gangs import test_declared_gangs, test_gang_preemption, test_gang_work, test_topology
from tests.unit.core.state.plans import test_plans


def anywhere(_: By, planner: Any, name: str, where: Any) -> Any:
    return planner._fill(planner._groups[name], where)


def each_for_itself(_: By, planner: Any, names: Any, first: Any) -> bool:
    return all(planner._place(name, ()) for name in names)


def the_emptiest_first(original: By, *arguments: Any) -> Any:
    return original(*arguments)[::-1]


def as_often_as_asked(_: By, placing: Any, node: Any, request_class: Any, count: int = 1) -> bool:
    return True


def once(original: By, index: Any, node: Any) -> None:
    if node not in index._value_of:
        original(index, node)


def whatever_its_state(_: By, index: Any, node: Any) -> Any:
    return min(node.free[name] // amount for name, amount in index._items)


def whatever_it_demands(original: By, index: Any, node: Any) -> Any:
    demanded, index._expressions = index._expressions, ()
    try:
        return original(index, node)
    finally:
        index._expressions = demanded


def all_at_once(original: By, index: Any, nodes_max: int) -> Any:
    return original(index, len(index.changed))


def loosely(_: By, planner: Any, groups: Any, where: Any) -> Any:
    return planner._fill_by(groups, where, is_tight=False)


MUTANTS = (
    Mutant(
        "a task group is anywhere, whatever level it requires",
        Rule.TOPOLOGY,
        Replaced(Planner._place, anywhere),
        (TestsOf(test_topology), Seeds(any_gangs.play)),
    ),
    Mutant(
        "task groups that have to be in one block together are so each for itself",
        Rule.TOPOLOGY,
        Replaced(Planner._place_whole, each_for_itself),
        (TestsOf(test_topology), TestsOf(test_gang_rooms)),
    ),
    Mutant(
        "the domain with most left is taken first",
        Rule.TOPOLOGY,
        Replaced(Planner._with_room, the_emptiest_first),
        (UnitTested(test_declared_gangs.test_a_required_topology_takes_the_domain_that_has_least_left),),
    ),
    Mutant(
        "a level that is preferred counts only if one domain has room for all",
        Rule.TOPOLOGY,
        Replaced(Planner._spread, lambda _, planner, groups, attribute, where: planner._fill(groups, where)),
        (UnitTested(test_topology.test_a_preferred_level_means_as_few_domains_as_possible),),
    ),
    Mutant(
        "a level that is preferred is required",
        Rule.TOPOLOGY,
        Replaced(Planner._spread, gives(False)),
        (UnitTested(test_declared_gangs.test_a_preferred_topology_does_without),),
    ),
    Mutant(
        "what was chosen in a domain without room for all stays chosen",
        Rule.TOPOLOGY,
        Replaced(PlannedPlacing.back_to, nothing),
        (TestsOf(test_topology),),
    ),
    Mutant(
        "sizes are not packed tightly, where only that would do",
        Rule.TOPOLOGY,
        Replaced(Planner._fill, loosely),
        (TestsOf(test_topology),),
    ),
    Mutant(
        "slots take the same room twice",
        Rule.ROOM,
        Replaced(PlannedPlacing._choose, as_often_as_asked),
        (TestsOf(test_declared_gangs),),
    ),
    Mutant(
        "a node that has become fuller has room as before",
        Rule.TOPOLOGY,
        Replaced(RoomIndex._count, once),
        (TestsOf(test_topology), Seeds(any_gangs.play)),
    ),
    Mutant(
        "a node that drains is room of its domain",
        Rule.TOPOLOGY,
        Replaced(RoomIndex.room_on, whatever_its_state),
        (UnitTested(test_topology.test_a_node_that_is_drained_or_changes_its_rack_counts_no_longer),),
    ),
    Mutant(
        "nodes that members may not use are room of their domain",
        Rule.TOPOLOGY,
        Replaced(RoomIndex.room_on, whatever_it_demands),
        (TestsOf(test_topology),),
    ),
    Mutant(
        "all nodes are counted in one step",
        Rule.TOPOLOGY,
        Replaced(RoomIndex.refresh, all_at_once),
        (TestsOf(test_gang_work),),
    ),
    Mutant(
        "a large gang is planned and allocated in one step",
        Rule.DECLARED_GANGS,
        Constant(slot_room, "PLANNED_AND_MADE_MAX", 1 << 30),
        (TestsOf(test_gang_work),),
    ),
    Mutant(
        "a plan of the step before is carried out, whatever has changed",
        Rule.DECLARED_GANGS,
        Replaced(slot_room._still_holds, gives(True)),
        (TestsOf(test_gang_work),),
    ),
    Mutant(
        "slots are held one by one outside the domain that is required",
        Rule.TOPOLOGY,
        Replaced(Planner.domains_if_empty, gives({})),
        (TestsOf(test_topology), Seeds(any_gangs.play)),
    ),
    Mutant(
        "members above min, and those that replace lost ones, are outside the domain",
        Rule.TOPOLOGY,
        Replaced(gang_domains.bind, nothing),
        (
            UnitTested(test_topology.test_members_above_min_grow_in_the_domain),
            UnitTested(test_topology.test_the_member_that_replaces_a_lost_one_stays_in_the_domain),
        ),
    ),
    Mutant(
        "after a registration members are outside the domain of those that run",
        Rule.TOPOLOGY,
        Replaced(gang_domains.stay, nothing),
        (TestsOf(test_topology),),
    ),
    Mutant(
        "a gang that holds nothing any longer is bound to its domain all the same",
        Rule.TOPOLOGY,
        Replaced(gang_domains.unbind, nothing),
        (UnitTested(test_topology.test_a_gang_that_is_formed_again_looks_in_all_domains),),
    ),
    Mutant(
        "a gang waits for its domain, though another one has room",
        Rule.TOPOLOGY,
        Replaced(single_slots.free_from_domains, nothing),
        (
            UnitTested(
                test_declared_gangs.test_a_gang_that_was_bound_to_a_full_domain_takes_another_one_that_becomes_free
            ),
        ),
    ),
    Mutant(
        "a task group may have any number of members",
        Rule.DECLARED_GANGS,
        Replaced(Gang.is_full, gives(False)),
        (UnitTested(test_declared_gangs.test_members_above_the_max_of_their_task_group_wait),),
    ),
    Mutant(
        "a plan is committed, whatever is against it",
        Rule.PLANS,
        Within(committing.commit_plan, rules.objection, gives(None)),
        (TestsOf(test_plans),),
    ),
    Mutant(
        "each allocation of a plan has room alone, and not all of them together",
        Rule.PLANS,
        Replaced(rules._against_room, gives(None)),
        (UnitTested(test_plans.test_allocations_that_fit_one_by_one_and_not_together_are_not_made),),
    ),
    Mutant(
        "quotas and limits let in each allocation of a plan, and not all of them",
        Rule.PLANS,
        Within(rules._against_quotas, blocked_together, gives(None)),
        (TestsOf(test_plans),),
    ),
    Mutant(
        "the last allocation that an ask waits for cannot be planned",
        Rule.PLANS,
        Compares(rules._against_asks, ("count", "ask"), ">="),
        (TestsOf(test_plans),),
    ),
    Mutant(
        "victims that were only assumed are leaving after that",
        Rule.PLANS,
        Replaced(assuming.stay, nothing),
        (TestsOf(test_gang_preemption),),
    ),
)
