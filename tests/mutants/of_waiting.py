"""Mutants of what waits, in which order, and when it is tried again; of nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from schedulerd.core.applications.handlers import start_times
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import PartitionSpec
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.nodes import node_order
from schedulerd.core.state.nodes.node_order import NodeOrder
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending import asks as pending_asks
from schedulerd.core.state.pending import end_of_step, rebuild, sort_keys, start_order
from schedulerd.core.state.pending.capacity import SchedulableCapacity
from schedulerd.core.state.pending.capacity_renewal import CapacityRenewal
from schedulerd.core.state.pending.parent_entity import Block, BlockReason, ParentEntity
from schedulerd.core.state.pending.pending_index import PendingIndex
from schedulerd.core.state.pending.request_class import PendingClass
from tests.mutants.changes import By, Compares, Replaced, Within, gives, left_out, nothing, while_
from tests.mutants.finders import Property, UnitTested
from tests.mutants.mutant import Mutant
from tests.mutants.proofs import ANY_WORLD, ORDER
from tests.mutants.rules import Rule
from tests.property.story import plans, several_trees
from tests.property.test_reloads import check_lining_up_anew
from tests.unit.core.applications import test_stateaware

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
    nearest_max: Any,
    capacity: Any,
    pending: Any,
    name: str,
) -> Any:
    return original(properties, priority, pending, guaranteed, nearest_max, capacity, pending, name)


def without_those_above(_: By, queue: Queue) -> None:
    queue.nearest_max = queue.max


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
    application.age = -application.age[0], application.age[1]
    original(partition, application)


def the_second(original: By, queue: Queue) -> list[Application]:
    """The second of those that want to start, if there is one."""
    first: list[Application] = original(queue)
    if not first:
        return []
    others = {name: one for name, one in queue.applications.items() if one not in first}
    with while_(queue, applications=others):
        return original(queue) or first


def with_a_new_time(original: By, context: Any, application: Application) -> None:
    if not start_order.is_blocked(application):
        application.blocked_since_ns = None
    original(context, application)


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


MUTANTS = (
    # The pending index
    Mutant(
        "unschedulable classes are never tried again",
        Rule.RETRIES,
        Replaced(end_of_step._retry_unschedulable, nothing),
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
        "states are not reconsidered",
        Rule.PENDING_INDEX,
        Replaced(pending_asks.on_state_changed, nothing),
        (ANY_WORLD,),
    ),
    Mutant(
        "class orders do not enter the front",
        Rule.PENDING_INDEX,
        Replaced(PendingIndex._update_front, nothing),
        (ANY_WORLD,),
    ),
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
        Replaced(end_of_step.end_of_step, keep_their_places),
        (ANY_WORLD,),
    ),
    Mutant(
        "queues and applications keep their position",
        Rule.QUEUE_ORDER,
        Replaced(ParentEntity.rekey, nothing),
        (ANY_WORLD, ORDER),
    ),
    Mutant("priorities are not shown", Rule.QUEUE_ORDER, Replaced(ParentEntity.set_priority, nothing), (ORDER,)),
    Mutant("priority is not passed on", Rule.QUEUE_ORDER, Replaced(ParentEntity.set_priority, not_passed_on), (ORDER,)),
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
        "what is used is no share",
        Rule.QUEUE_ORDER,
        Compares(sort_keys.fair_share, ("share", "largest"), "<"),
        (ORDER,),
    ),
    Mutant(
        "shares are measured against no max of the queues above",
        Rule.QUEUE_ORDER,
        Replaced(Queue.update_nearest_max, without_those_above),
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
        Replaced(pending_asks.enqueue_all, backwards),
        (Property(check_lining_up_anew, (several_trees, plans)),),
    ),
    Mutant(
        "any application may start in a state-aware leaf",
        Rule.STATE_AWARE,
        Replaced(start_order.admit_next, nothing),
        (ORDER,),
    ),
    Mutant(
        "the second application may start in a state-aware leaf",
        Rule.STATE_AWARE,
        Replaced(start_order.next_to_start, the_second),
        (ORDER,),
    ),
    Mutant(
        "an application that looks as if it could start, though nobody tried, has not been blocked until then",
        Rule.STATE_AWARE,
        Replaced(start_times.on_timeout, with_a_new_time),
        (UnitTested(test_stateaware.test_a_reload_does_not_end_the_time_for_which_it_is_blocked),),
    ),
    Mutant(
        "an application that was let in starts before the older one if its priority is higher",
        Rule.STATE_AWARE,
        Replaced(start_order._keep_in_order, nothing),
        (UnitTested(test_stateaware.test_it_starts_before_those_that_it_let_start_whatever_their_priority),),
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
)
