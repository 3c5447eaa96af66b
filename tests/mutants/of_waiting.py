"""Mutants of what waits, in which order, and when it is tried again; of nodes, constraints and predicates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schedulerd.core.commands import Expression, Operator
from schedulerd.core.constraints import expressions
from schedulerd.core.constraints.affinity import Affinity
from schedulerd.core.constraints.constraints import Constraints, May
from schedulerd.core.constraints.node_pool import NodePool
from schedulerd.core.model.allocation import Allocation
from schedulerd.core.model.application import Application
from schedulerd.core.model.node import Node
from schedulerd.core.model.predicate_check import PredicateCheck
from schedulerd.core.model.queue import Queue
from schedulerd.core.nodes import node_order
from schedulerd.core.nodes.node_order import NodeOrder
from schedulerd.core.partition import Partition
from schedulerd.core.pending import enqueueing, rebuild, requeue, sort_keys
from schedulerd.core.pending.capacity import SchedulableCapacity
from schedulerd.core.pending.capacity_renewal import CapacityRenewal
from schedulerd.core.pending.enqueueing import admits_group
from schedulerd.core.pending.parent_entity import Block, BlockReason, ParentEntity
from schedulerd.core.pending.pending_index import PendingIndex
from schedulerd.core.pending.request_class import PendingClass, RequestClass
from schedulerd.core.predicates.handlers import predicate_results
from schedulerd.core.quotas.rules import highest_blocked
from schedulerd.core.resources import Resources
from schedulerd.core.specs import NodeOrder as NodeOrderPolicy
from schedulerd.core.specs import PartitionSpec
from tests.mutants.changes import By, Compares, Replaced, Within, gives, left_out, nothing, while_
from tests.mutants.finders import Property, Simulated, UnitTested
from tests.mutants.mutant import Mutant
from tests.mutants.proofs import ANY_WORLD, CONSTRAINED, CONSTRAINTS, NODE_ORDERS, ORDER
from tests.mutants.rules import Rule
from tests.property.constrained import Move
from tests.property.constrained import plans as constrained_plans
from tests.property.story import plans, several_trees
from tests.property.test_constraints import check_constraints, search_only
from tests.property.test_reloads import check_lining_up_anew
from tests.sim.constrained_judging_world import WORLDS as CONSTRAINED_JUDGING_WORLDS
from tests.unit.core.predicates import test_called_back

# Positions


def without_guarantee(
    original: By, properties: Any, priority: Any, allocated: Any, guaranteed: Any, *others: Any
) -> Any:
    return original(properties, priority, allocated, Resources(), *others)


def pending_as_used(
    original: By,
    properties: Any,
    priority: Any,
    allocated: Any,
    guaranteed: Any,
    capacity: Any,
    pending: Any,
    name: str,
) -> Any:
    return original(properties, priority, pending, guaranteed, capacity, pending, name)


def nodes_only_ever_come(original: By, capacity: Any, node_id: str, offered: Resources | None) -> None:
    if offered is not None:
        original(capacity, node_id, offered)


def of_queues_only(original: By, entity: ParentEntity) -> None:
    if not isinstance(entity, Application):
        original(entity)


def renewed_without_a_walk(_: By, renewal: Any, root: Queue) -> None:
    root.capacity.is_due = root.capacity.has_changed = False


def without_priority(original: By, properties: Any, priority: Any, *others: Any) -> Any:
    return original(properties, None, *others)


def not_passed_on(original: By, parent: ParentEntity, entity: Any, priority: int | None) -> None:
    with while_(parent, parent_entity=None):
        original(parent, entity, priority)


def backwards(original: By, partition: Partition, application: Application) -> None:
    application.serial = -application.serial
    original(partition, application)


def the_second(original: By, queue: Queue) -> Application | None:
    """The second of those that want to start, if there is one."""
    first: Application | None = original(queue)
    if first is None:
        return None
    others = {name: one for name, one in queue.applications.items() if one is not first}
    with while_(queue, applications=others):
        return original(queue) or first


def blocked_here_only(_: By, parent: ParentEntity, pending_class: PendingClass, reason: BlockReason) -> None:
    parent.pending_index.block(pending_class, Block(parent, reason))


def propagated_and_forgotten(_: By, parent: ParentEntity, pending_class: PendingClass, block: Block) -> None:
    parent.pending_index.block(pending_class, block)


def keep_their_places(_: By, partition: Partition) -> None:
    partition.touched.clear()


def in_the_old_order(original: By, partition: Partition, spec: PartitionSpec) -> None:
    original(partition, replace(spec, node_order=partition.spec.node_order))
    partition.spec = spec


def remembers_misfits(original: By, block: Any, free: Resources) -> None:
    misfits = set(block.misfits)
    original(block, free)
    block.misfits |= misfits


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
    # The pending index
    Mutant(
        "unschedulable classes are never tried again",
        Rule.RETRIES,
        Replaced(requeue._retry_unschedulable, nothing),
        (ANY_WORLD,),
    ),
    Mutant("blocks are never lifted", Rule.BLOCKS, Replaced(ParentEntity.unblock, nothing), (ANY_WORLD,)),
    Mutant(
        "propagated blocks are not remembered",
        Rule.BLOCKS,
        Replaced(ParentEntity.propagate, propagated_and_forgotten),
        (ANY_WORLD,),
    ),
    Mutant(
        "what is blocked is still needed above",
        Rule.BLOCKS,
        Replaced(ParentEntity.block, blocked_here_only),
        (ANY_WORLD,),
    ),
    Mutant(
        "states are not reconsidered", Rule.PENDING_INDEX, Replaced(enqueueing.on_state_changed, nothing), (ANY_WORLD,)
    ),
    Mutant("class orders are not shown", Rule.PENDING_INDEX, Replaced(PendingIndex._show, nothing), (ANY_WORLD,)),
    Mutant(
        "a class stays known when its order is empty",
        Rule.PENDING_INDEX,
        Replaced(PendingIndex._drop_class, nothing),
        (ANY_WORLD,),
    ),
    # Order
    Mutant(
        "queues whose pending changed keep their position",
        Rule.QUEUE_ORDER,
        Replaced(requeue.end_of_step, keep_their_places),
        (ANY_WORLD,),
    ),
    Mutant(
        "queues and applications keep their position",
        Rule.QUEUE_ORDER,
        Replaced(ParentEntity.rekey, nothing),
        (ANY_WORLD, ORDER),
    ),
    Mutant("priorities are not shown", Rule.QUEUE_ORDER, Replaced(ParentEntity.show_priority, nothing), (ORDER,)),
    Mutant(
        "priority is not passed on", Rule.QUEUE_ORDER, Replaced(ParentEntity.show_priority, not_passed_on), (ORDER,)
    ),
    Mutant(
        "queues are ordered by usage alone",
        Rule.QUEUE_ORDER,
        Replaced(sort_keys.queue_key, without_guarantee),
        (ORDER,),
    ),
    Mutant(
        "what is pending counts as used in the order of queues",
        Rule.QUEUE_ORDER,
        Replaced(sort_keys.queue_key, pending_as_used),
        (ORDER,),
    ),
    Mutant(
        "applications are not ordered by priority",
        Rule.QUEUE_ORDER,
        Replaced(sort_keys.application_key, without_priority),
        (ORDER,),
    ),
    Mutant(
        "the smallest share counts most",
        Rule.QUEUE_ORDER,
        Replaced(
            sort_keys.shares, lambda original, used, guaranteed, capacity: original(used, guaranteed, capacity)[::-1]
        ),
        (ORDER,),
    ),
    Mutant(
        "any share of the cluster counts, and not the largest",
        Rule.QUEUE_ORDER,
        Replaced(sort_keys.dominant_share, gives(0)),
        (ORDER,),
    ),
    Mutant(
        "nodes that drain or go count in the capacity",
        Rule.QUEUE_ORDER,
        Replaced(SchedulableCapacity.note_node, nodes_only_ever_come),
        (ANY_WORLD,),
    ),
    Mutant(
        "only keys of queues are renewed when the capacity changes",
        Rule.QUEUE_ORDER,
        Within(CapacityRenewal.advance, ParentEntity.rekey, of_queues_only),
        (ANY_WORLD,),
    ),
    Mutant(
        "no key is renewed when the capacity changes",
        Rule.QUEUE_ORDER,
        Replaced(CapacityRenewal.advance, renewed_without_a_walk),
        (ANY_WORLD,),
    ),
    Mutant(
        "lining up anew turns the order round",
        Rule.QUEUE_ORDER,
        Replaced(enqueueing.enqueue_all, backwards),
        (Property(check_lining_up_anew, (several_trees, plans)),),
    ),
    Mutant(
        "any application may start in a state-aware leaf",
        Rule.STATE_AWARE,
        Replaced(enqueueing.admit_next, nothing),
        (ORDER,),
    ),
    Mutant(
        "the second application may start in a state-aware leaf",
        Rule.STATE_AWARE,
        Replaced(enqueueing.next_to_start, the_second),
        (ORDER,),
    ),
    # Nodes
    Mutant("a full node stays where it was", Rule.NODE_ORDER, Replaced(NodeOrder.moved, nothing), (ANY_WORLD,)),
    Mutant(
        "nodes stay in the order of the earlier file",
        Rule.NODE_ORDER,
        Replaced(rebuild.rebuild, in_the_old_order),
        (ANY_WORLD.from_seed(3),),
    ),
    Mutant(
        "a block of nodes does not hear of more room",
        Rule.NODE_ORDER,
        left_out(NodeOrder.add, node_order._Block.raise_bound),
        (ANY_WORLD,),
    ),
    Mutant(
        "a misfit is one for ever",
        Rule.NODE_ORDER,
        Replaced(node_order._Block.raise_bound, remembers_misfits),
        (ANY_WORLD,),
    ),
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
        (ANY_WORLD.from_seed(19),),
    ),
    Mutant(
        "groups that open wake nobody",
        Rule.AFFINITY,
        Replaced(requeue._retry_affinities, requeues_nothing),
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
        Compares(requeue._call_back, ("called", "count"), ">"),
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
