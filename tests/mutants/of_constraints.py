"""Mutants of constraints and predicates."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.language.commands import Expression, Operator
from schedulerd.core.language.specs import NodeOrder as NodeOrderPolicy
from schedulerd.core.predicates.handlers import predicate_results
from schedulerd.core.state.constraints import expressions
from schedulerd.core.state.constraints.affinity import Affinity
from schedulerd.core.state.constraints.constraints import Constraints, May
from schedulerd.core.state.constraints.node_pool import NodePool
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.predicate_check import PredicateCheck
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending import end_of_step
from schedulerd.core.state.pending.asks import admits_group
from schedulerd.core.state.pending.request_class import RequestClass
from schedulerd.core.state.quotas.rules import highest_blocked
from tests.mutants.changes import By, Compares, Replaced, gives, nothing
from tests.mutants.finders import Property, Simulated, UnitTested
from tests.mutants.mutant import Mutant
from tests.mutants.proofs import ANY_WORLD, CONSTRAINED, CONSTRAINTS, NODE_ORDERS
from tests.mutants.rules import Rule
from tests.property.constrained import Move
from tests.property.constrained import plans as constrained_plans
from tests.property.test_constraints import check_constraints, search_only
from tests.sim.constrained_judging_world import WORLDS as CONSTRAINED_JUDGING_WORLDS
from tests.unit.core.predicates import test_called_back

# Constraints


def freed_but_counted(_: By, known: Constraints, allocation: Allocation) -> None:
    known.tagged.drop(allocation)
    known.moved(allocation.node)


def leaves_but_does_not_come(original: By, known: Constraints, node: Node, scope: Any, by: int) -> None:
    if by < 0:
        original(known, node, scope, by)


def requeues_nothing(_: By, partition: Partition) -> None:
    partition.constraints.take_changed()


def one_more(original: By, affinity: Affinity, count: int) -> bool:
    return bool(original(affinity, count) or original(affinity, count - 1))


def wants_the_key(original: By, one: Expression, value: str | None) -> bool:
    return bool(original(one, value)) and (one.operator is not Operator.NOT_IN or value is not None)


def no_preferences(
    original: By, known: Constraints, request_class: Any, rule: Any, affinity: Affinity, may: Any
) -> Any:
    return original(known, request_class, rule, affinity, may) if affinity.is_required else None


def check_by_pools(plan: list[Move], policy: NodeOrderPolicy) -> None:
    with pytest.MonkeyPatch.context() as patch:
        search_only("by pools", patch)
        check_constraints(plan, policy)


# Predicates


def by_room_alone(_: By, partition: Partition, predicate_check: PredicateCheck) -> bool:
    """What the node is like, and what runs there, was looked at when the resource manager was asked."""
    application, node, group = predicate_check.application, predicate_check.node, predicate_check.ask.group
    if (
        group is None
        or application.queue is None
        or not application.propagates_demand
        or not admits_group(partition, application, group)
    ):
        return False
    has_room = node.ordered and node.free.lacks(predicate_check.ask.request_class.items) is None
    key = group.pending_class.quota_key
    return has_room and highest_blocked(application.queue, group.pending_class.items, key) is None


def second_choice_anywhere(
    original: By, constraints: Constraints, request_class: RequestClass, may: May | None = None
) -> Node | None:
    """An ask that was refused where it wants to be is tried wherever there is room."""
    found: Node | None = (
        original(constraints, request_class)
        if may is None
        else constraints._partition.node_order.first_fit_where(request_class, may)
    )
    return found


MUTANTS = (
    # Constraints
    Mutant(
        "one less may be together", Rule.AFFINITY, Compares(Affinity.holds, ("after", "_most"), "<"), (CONSTRAINED,)
    ),
    Mutant(
        "one more may be together",
        Rule.AFFINITY,
        Replaced(Affinity.holds, one_more),
        (CONSTRAINED.from_seed(12), CONSTRAINTS),
    ),
    Mutant(
        "what is gone is counted",
        Rule.AFFINITY,
        Replaced(Constraints.freed, freed_but_counted),
        (ANY_WORLD.from_seed(9), CONSTRAINTS),
    ),
    Mutant("what is placed is not counted", Rule.AFFINITY, Replaced(Affinity.change, gives(False)), (CONSTRAINTS,)),
    Mutant(
        "what runs on a node does not move to its new group",
        Rule.AFFINITY,
        Replaced(Constraints._count_there, leaves_but_does_not_come),
        (CONSTRAINED,),
    ),
    Mutant(
        "groups that open wake nobody",
        Rule.AFFINITY,
        Replaced(end_of_step._retry_affinities, requeues_nothing),
        (CONSTRAINTS,),
    ),
    Mutant(
        "the ask itself does not count", Rule.AFFINITY, Replaced(expressions.all_hold, gives(False)), (CONSTRAINTS,)
    ),
    Mutant("attributes are what they were", Rule.ATTRIBUTES, Replaced(Constraints.regroup, nothing), (CONSTRAINTS,)),
    Mutant(
        "an attribute that is missing is in every list",
        Rule.ATTRIBUTES,
        Replaced(expressions._holds, wants_the_key),
        (CONSTRAINTS,),
    ),
    Mutant(
        "nobody has preferences",
        Rule.ATTRIBUTES,
        Replaced(Constraints._first_where_it_holds, no_preferences),
        (CONSTRAINTS,),
    ),
    Mutant(
        "a pool does not hear what is freed",
        Rule.NODE_ORDER,
        Replaced(NodePool.note, nothing),
        (Property(check_by_pools, (constrained_plans, NODE_ORDERS)),),
    ),
    # Predicates
    Mutant(
        "room that nobody took is for nobody else",
        Rule.PREDICATES,
        Compares(end_of_step._call_back, ("called", "count"), ">"),
        (UnitTested(test_called_back.test_one_that_is_withdrawn_before_it_is_asked_about_gives_its_room_to_the_next),),
    ),
    Mutant(
        "what changed meanwhile is not looked at",
        Rule.PREDICATES,
        Replaced(predicate_results._may_be_placed, by_room_alone),
        (Simulated(CONSTRAINED_JUDGING_WORLDS, "forbid", steps=400, is_faulty=False).from_seed(6),),
    ),
    Mutant(
        "constraints end with the first refusal",
        Rule.PREDICATES,
        Replaced(Constraints.first_fit, second_choice_anywhere),
        (Simulated(CONSTRAINED_JUDGING_WORLDS, "it is asked whether", steps=400, is_faulty=False).from_seed(4),),
    ),
)
