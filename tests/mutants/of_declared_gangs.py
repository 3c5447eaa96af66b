"""Mutants of gangs that declare their task groups, and of what preemption does for them and to them."""

from __future__ import annotations

from typing import Any

from schedulerd.core.gangs.handlers import gangs
from schedulerd.core.preemption.handlers import gang_preemption
from schedulerd.core.preemption.rules import whole_gang
from schedulerd.core.state.actions import gang_time, slot_room
from schedulerd.core.state.model import application
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.gang import Gang
from schedulerd.core.state.nodes import own_room
from schedulerd.core.state.pending import asks, gang_order
from tests.mutants.changes import By, Replaced, getter, gives, left_out, nothing
from tests.mutants.finders import Simulated, TestsOf, UnitTested
from tests.mutants.mutant import Mutant
from tests.mutants.rules import Rule
from tests.sim.simulation import DECLARED_WORLDS
from tests.unit.core.gangs import (
    test_changing_gangs,
    test_declared_deadlock,
    test_forming_again,
    test_gang_preemption,
    test_growing_gangs,
    test_short_gangs,
)
from tests.unit.core.preemption import test_disrupted_gangs
from tests.unit.core.state.actions import test_slot_room


def the_oldest_first(_: By, one: Application, other: Application) -> bool:
    return one.age < other.age


def first_slot_alone(_: By, search: Any, found: Any) -> Any:
    return found


MUTANTS = (
    Mutant(
        "a member that is there needs a slot all the same",
        Rule.DECLARED_GANGS,
        Replaced(Gang.missing, lambda _, gang, group: group.min),
        (UnitTested(test_changing_gangs.test_a_member_that_is_there_needs_no_slot_and_gathering_goes_on),),
    ),
    Mutant(
        "a gang that is short is so for ever",
        Rule.DECLARED_GANGS,
        Replaced(gang_time._watch_short, nothing),
        (TestsOf(test_short_gangs),),
    ),
    Mutant(
        "a gang that lost members waits for others without a time",
        Rule.DECLARED_GANGS,
        Replaced(gang_time.begin_without_members, lambda _, context, application: gang_time.end(context, application)),
        (
            TestsOf(test_forming_again),
            Simulated(DECLARED_WORLDS, "waits for members without a time").from_seed(31),
        ),
    ),
    Mutant(
        "members of a gang that is given up while it forms wait all the same",
        Rule.DECLARED_GANGS,
        left_out(gangs.on_timeout, asks.update_groups),
        (TestsOf(test_forming_again),),
    ),
    Mutant(
        "declared gangs go on by age alone",
        Rule.GANG_DEADLOCK,
        Replaced(gang_order.is_ahead, the_oldest_first),
        (TestsOf(test_declared_deadlock),),
    ),
    Mutant(
        "no gang deadlock is certain",
        Rule.GANG_DEADLOCK,
        Replaced(own_room.exceed_all_nodes, gives(False)),
        (TestsOf(test_declared_deadlock),),
    ),
    Mutant(
        "victims are chosen for the first slot of a gang",
        Rule.WHOLE_GANGS,
        Replaced(gang_preemption.go_on, first_slot_alone),
        (UnitTested(test_gang_preemption.test_nothing_is_preempted_if_there_is_not_room_for_all),),
    ),
    Mutant(
        "a victim that a later one makes needless is preempted",
        Rule.WHOLE_GANGS,
        Replaced(whole_gang.without_needless, lambda _, partition, planned: tuple(planned)),
        (UnitTested(test_gang_preemption.test_a_victim_that_a_later_one_makes_needless_is_left_out),),
    ),
    Mutant(
        "a gang grows into the room that another one gathers",
        Rule.DECLARED_GANGS,
        Replaced(gang_order.before_growth, gives(None)),
        (UnitTested(test_growing_gangs.test_growth_takes_no_room_from_a_gang_that_gathers_ahead_of_it),),
    ),
    Mutant(
        "what slots on trial had closed has opened when they are taken back",
        Rule.DECLARED_GANGS,
        Replaced(slot_room._copy, lambda _, changed: changed),
        (UnitTested(test_slot_room.test_members_that_exclude_each_other_get_nodes_together_or_none),),
    ),
    Mutant(
        "members above the min of their gang go like others",
        Rule.LEAST_COST,
        Replaced(application.is_above_min, gives(False)),
        (UnitTested(test_gang_preemption.test_members_above_min_are_preempted_first_and_the_newest_of_them_first),),
    ),
    Mutant(
        "single members of a gang are preempted that is disrupted as a whole",
        Rule.WHOLE_GANGS,
        Replaced(getter(Application, "is_disrupted_as_one"), gives(False)),
        (UnitTested(test_disrupted_gangs.test_all_of_the_gang_or_none_of_it),),
    ),
)
