"""Mutants of rooms of nodes, quotas, limits and the queue file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from schedulerd.core import commit
from schedulerd.core.commands import PredicateResult
from schedulerd.core.configuration.rules import reload
from schedulerd.core.model.node import Node
from schedulerd.core.model.queue import Queue
from schedulerd.core.partition import Partition
from schedulerd.core.pending import requeue
from schedulerd.core.pending.request_class import RequestClass
from schedulerd.core.predicates.handlers import predicate_results
from schedulerd.core.quotas import rules
from schedulerd.core.quotas.quota_key import QuotaKey
from schedulerd.core.quotas.rules import Blocked
from schedulerd.core.resources import Items, Limits, Resources
from schedulerd.core.specs import QueueSpec
from tests.mutants.changes import By, Compares, Replaced, gives, left_out, nothing, while_
from tests.mutants.finders import Property, Simulated, Told, UnitTested
from tests.mutants.mutant import Mutant
from tests.mutants.proofs import ANY_WORLD, GANGS, ORDER, QUOTAS, RELOADS
from tests.mutants.rules import Rule
from tests.property.story import plans, several_trees
from tests.property.test_reloads import check_same_file
from tests.sim.crowded_world import CrowdedWorld
from tests.sim.test_start_invariants_find import Watched
from tests.unit.core.builders import an_ask
from tests.unit.core.preemption import test_quota_reservations


def one_more(items: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    return [(name, amount + 1) for name, amount in items if amount]


def looser(original: By, limits: Limits, used: Mapping[str, int], items: Any) -> Any:
    return original(Limits({name: most + 1 for name, most in limits.items()}), used, items)


def off_by_one(original: By, queue: Queue, items: Items, own: Items = ()) -> Blocked | None:
    name = Limits({name: most + 1 for name, most in queue.max.items()}).exceeded_by(queue.allocated, items)
    found: Blocked | None = original(queue, items, own) if name is not None else None
    return found


def without_promises(original: By, queue: Queue, items: Items, key: QuotaKey) -> Any:
    with while_(queue, gang_quota_promised=Resources()):
        return original(queue, items, key)


def users_as_groups(original: By, queue: Queue, items: Items, key: QuotaKey) -> Any:
    swapped = SimpleNamespace(users=queue.usages.groups, groups=queue.usages.users)
    with while_(queue, usages=swapped):
        return original(queue, items, key)


def without_what_is_reserved(original: By, leaf: Queue) -> Limits:
    left = Limits()
    for queue in leaf.path_to_root:
        left = left.tightest(queue.max.left(queue.allocated))
    return left


def configured_with(**kept: Any) -> By:
    """A part of the file is not taken at its word, but made of what it says and what was so before."""

    def broken(original: By, queue: Queue, spec: QueueSpec) -> None:
        original(queue, replace(spec, **{name: mixed(queue, spec) for name, mixed in kept.items()}))

    return broken


def takes_daemons(original: By, partition: Partition, request_class: RequestClass, node: Node) -> Any:
    return None if request_class.required_node == node.node_id else original(partition, request_class, node)


def without_others(original: By, node: Node, capacity: Resources | None, occupied: Resources | None) -> None:
    original(node, capacity, occupied)
    node.available = node.capacity.minus(node.allocated)
    node.rescore()


def changed_always(original: By, *arguments: Any, **named: Any) -> Any:
    return replace(original(*arguments, **named), changed=True)


def one_too_many_starts() -> list[str]:
    """The first runs again; the second starts after it in the same cycle."""
    talk = Watched()
    talk.let_first_complete()
    talk.asks(an_ask("k", app="second"), an_ask("again", app="first"))
    talk.cycle()
    return talk.found


def one_too_many_by_result() -> list[str]:
    """Both are asked about, and the resource manager agrees to both."""
    talk = Watched(has_a_say=True)
    talk.asks(an_ask("k", app="first"), an_ask("k", app="second"))
    talk.schedule()
    talk.give(*(PredicateResult(one.call_id) for one in talk.asked))
    return talk.found


MUTANTS = (
    # Room
    Mutant(
        "an exact fit is none",
        Rule.ROOM,
        Replaced(Resources.lacks, lambda original, room, items: original(room, one_more(items))),
        (ANY_WORLD,),
    ),
    Mutant("a placeholder of any size will do", Rule.ROOM, Replaced(Resources.lacks, nothing), (ANY_WORLD,)),
    Mutant("a node that others occupy has room", Rule.ROOM, Replaced(Node.offer, without_others), (ANY_WORLD,)),
    Mutant(
        "a node that is not ready takes daemons",
        Rule.ROOM,
        Replaced(Partition._state_refusal, takes_daemons),
        (Simulated((CrowdedWorld,), steps=300, seeds=40),),
    ),
    Mutant("a drained node stays open", Rule.ROOM, Replaced(commit.close_node, nothing), (ANY_WORLD,)),
    Mutant("a swap takes room that is not there", Rule.ROOM, Replaced(Partition.refusal, nothing), (ANY_WORLD,)),
    # Quotas
    Mutant("a quota gives one more than it has", Rule.QUOTAS, Replaced(Limits.exceeded_by, looser), (ANY_WORLD,)),
    Mutant(
        "a quota keeps one back",
        Rule.QUOTAS,
        Replaced(Limits.exceeded_by, lambda original, limits, used, items: original(limits, used, one_more(items))),
        (ANY_WORLD,),
    ),
    Mutant("quotas are off by one", Rule.QUOTAS, Replaced(rules.blocked_by_quota, off_by_one), (QUOTAS,)),
    Mutant("quotas are ignored", Rule.QUOTAS, Replaced(rules.highest_blocked, nothing), (ANY_WORLD,)),
    Mutant(
        "what is reserved does not count in a quota",
        Rule.QUOTAS,
        Replaced(rules._reserved_by_others, gives(Resources())),
        (UnitTested(test_quota_reservations.test_the_quota_that_victims_free_is_reserved_for_the_ask),),
    ),
    Mutant(
        "headroom forgets what is reserved and what is above",
        Rule.QUOTAS,
        Replaced(rules.headroom, lambda _, queue: queue.max.left(queue.allocated)),
        (QUOTAS,),
    ),
    Mutant(
        "headroom forgets what is reserved",
        Rule.QUOTAS,
        Replaced(rules.headroom, without_what_is_reserved),
        (ANY_WORLD.from_seed(7),),
    ),
    Mutant(
        "what was promised does not count at the gate",
        Rule.GANG_GATE,
        Replaced(rules.blocked_by_limits, without_promises),
        (GANGS.from_seed(4),),
    ),
    Mutant(
        "freed quota wakes nobody",
        Rule.BLOCKS,
        left_out(commit.free, Partition.note_free_quota),
        (ANY_WORLD,),
    ),
    Mutant("a freed node wakes nobody", Rule.BLOCKS, left_out(commit.free, Partition.note_free_node), (ANY_WORLD,)),
    Mutant(
        "freed quota unblocks nothing",
        Rule.BLOCKS,
        Replaced(requeue.unblock_where_quota_allows, gives([])),
        (ANY_WORLD, QUOTAS),
    ),
    # The queue file
    Mutant(
        "a raised max stays what it was",
        Rule.QUEUE_FILE,
        Replaced(Queue.configure, configured_with(max=lambda queue, spec: spec.max.tightest(queue.max))),
        (ANY_WORLD,),
    ),
    Mutant(
        "what the file has no longer still holds",
        Rule.QUEUE_FILE,
        Replaced(Queue.configure, configured_with(max=lambda queue, spec: Limits({**queue.max, **spec.max}))),
        (RELOADS,),
    ),
    Mutant(
        "limits of an earlier file hold",
        Rule.QUEUE_FILE,
        Replaced(Queue.configure, configured_with(limits=lambda queue, spec: queue.limits or spec.limits)),
        (QUOTAS,),
    ),
    Mutant(
        "queues that are gone from the file do not drain",
        Rule.QUEUE_FILE,
        Replaced(Queue.set_draining, nothing),
        (ANY_WORLD.from_seed(19), RELOADS),
    ),
    Mutant(
        "the same file is a new one",
        Rule.QUEUE_FILE,
        Replaced(reload.assess, changed_always),
        (Property(check_same_file, (several_trees, plans)),),
    ),
    # Limits and running applications
    Mutant("limits hold for nobody", Rule.LIMITS, Replaced(rules.blocked_by_user_limits, nothing), (ANY_WORLD, QUOTAS)),
    Mutant("users are groups", Rule.LIMITS, Replaced(rules.blocked_by_user_limits, users_as_groups), (ANY_WORLD,)),
    Mutant(
        "one application too many runs in a queue",
        Rule.MAX_APPLICATIONS,
        Compares(rules.blocked_by_limits, ("running", "max_applications"), ">"),
        (ORDER,),
    ),
    Mutant(
        "one application too many runs for a user",
        Rule.MAX_APPLICATIONS,
        Compares(rules.blocked_by_user_limits, ("running", "max_applications"), ">"),
        (QUOTAS,),
    ),
    Mutant(
        "any number of applications may start",
        Rule.MAX_APPLICATIONS,
        Replaced(rules.blocked_by_limits, nothing),
        (Told(one_too_many_starts, "second runs as one too many in root.a"),),
    ),
    Mutant(
        "an application starts by a predicate result though it may not any longer",
        Rule.MAX_APPLICATIONS,
        Replaced(predicate_results._may_be_placed, gives(True)),
        (Told(one_too_many_by_result, "second runs as one too many in root.a"),),
    ),
)
