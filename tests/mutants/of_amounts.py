"""Mutants of ledgers, quotas, the queue file and limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from schedulerd.core.configuration.rules import reload
from schedulerd.core.language.commands import PredicateResult
from schedulerd.core.language.resources import Items, Limits, Resources
from schedulerd.core.language.specs import QueueSpec
from schedulerd.core.predicates.handlers import predicate_results
from schedulerd.core.state.ledger import commit, commit_room
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.predicate_check import PredicateCheck
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending import end_of_step
from schedulerd.core.state.quotas import rules
from schedulerd.core.state.quotas.limit_subject import group_of
from schedulerd.core.state.quotas.quota_key import QuotaKey
from schedulerd.core.state.quotas.rules import Blocked
from tests.mutants.changes import By, Compares, Replaced, gives, left_out, nothing, while_
from tests.mutants.finders import Property, Simulated, Told, UnitTested
from tests.mutants.mutant import Mutant
from tests.mutants.proofs import ANY_WORLD, CONTESTED, GANGS, ORDER, QUOTAS, RELOADS, USAGE
from tests.mutants.rules import Rule
from tests.property.story import plans, several_trees
from tests.property.test_reloads import check_same_file
from tests.sim.stopping_world import StoppingWorld
from tests.sim.test_start_invariants_find import Watched
from tests.unit.core.builders import an_ask
from tests.unit.core.configuration import test_stops
from tests.unit.core.preemption import test_quota_reservations


def booked_once(original: By, items: Items, count: int, grows: Any, shrinks: Any) -> None:
    original(items, 1, grows, shrinks)


def one_more(items: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    return [(name, amount + 1) for name, amount in items if amount]


def looser(original: By, limits: Limits, used: Mapping[str, int], items: Any) -> Any:
    return original(Limits({name: most + 1 for name, most in limits.items()}), used, items)


def free_but(*ledgers: str) -> By:
    """What is freed is still counted here: in the ledger of the user, the node, the gang or the root."""

    def broken(original: By, partition: Partition, allocation: Allocation) -> None:
        application, items = allocation.application, allocation.request_class.items
        user, node, gang = application.usage_ledgers[-1], allocation.node, application.gang
        original(partition, allocation)
        if "user" in ledgers:
            user.usage.add(items)
        if "node" in ledgers:
            node.allocated.add(items)
        if "gang" in ledgers and gang is not None and allocation.spec.task_group:
            gang.held.add(items)
        if "root" in ledgers:
            partition.root.allocated.add(items)

    return broken


def still_runs_for_its_user(original: By, partition: Partition, application: Application) -> None:
    ledgers = list(application.usage_ledgers)
    original(partition, application)
    for ledger in ledgers:
        ledger.applications[application.application_id] = None


def still_runs_in_its_queues(original: By, partition: Partition, application: Application) -> None:
    had = bool(application.usage_ledgers)
    original(partition, application)
    for queue in application.queue.path_to_root if had and not application.usage_ledgers else ():
        queue.running += 1


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


STOPPED_QUEUES = Simulated((StoppingWorld,), steps=300, seeds=40)


def started(original: By, queue: Queue, spec: QueueSpec) -> None:
    original(queue, spec)
    queue.stopped = False


def drops_what_is_stopped(original: By, queue: Queue) -> list[Queue]:
    for one in queue.subtree():
        one.stopped = False
    dropped: list[Queue] = original(queue)
    return dropped


def counted_twice(original: By, allocation: Allocation, times: int) -> None:
    original(allocation, 2 * times)


def makes_room_for_ever(original: By, partition: Partition, reservation: Any) -> None:
    victims = list(reservation.victims)
    original(partition, reservation)
    for victim in victims:
        victim.makes_room = reservation


def claimed_for_ever(original: By, partition: Partition, reservation: Any) -> None:
    original(partition, reservation)
    for queue in reservation.application.queue.path_to_root if reservation.is_entitled else ():
        queue.quota_reserved.add(reservation.items)


def asked_before(original: By, reservation: Any, victim: Allocation, now_ns: int) -> None:
    original(reservation, victim, reservation.made_at_ns - 1)


def promised_for_ever(original: By, partition: Partition, application: Application) -> None:
    gang = application.gang
    promised = gang.promised.items() if gang is not None else ()
    original(partition, application)
    for queue in application.queue.path_to_root:
        queue.gang_quota_promised.add(promised)


def awaits_for_ever(original: By, placeholder: Allocation) -> Ask | None:
    ask: Ask | None = original(placeholder)
    placeholder.application.awaiting_placeholder += ask is not None
    return ask


def holds_for_ever(original: By, partition: Partition, check: PredicateCheck) -> None:
    original(partition, check)
    assert check.ask.predicate_history is not None
    check.ask.predicate_history.predicate_reserved += check.uses_allocation


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
    # Ledgers
    Mutant("several are booked as one", Rule.LEDGERS, Replaced(commit.book, booked_once), (ANY_WORLD,)),
    Mutant(
        "what a user frees is still used", Rule.LEDGERS, Replaced(commit.free, free_but("user")), (ANY_WORLD, USAGE)
    ),
    Mutant("a release is forgotten on its node", Rule.LEDGERS, Replaced(commit.free, free_but("node")), (ANY_WORLD,)),
    Mutant("a gang still holds what went", Rule.LEDGERS, Replaced(commit.free, free_but("gang")), (ANY_WORLD,)),
    Mutant("the root still uses what went", Rule.LEDGERS, Replaced(commit.free, free_but("root")), (ANY_WORLD, USAGE)),
    Mutant(
        "an application that ended still runs for its user",
        Rule.LEDGERS,
        Replaced(commit.retire, still_runs_for_its_user),
        (ANY_WORLD,),
    ),
    Mutant(
        "an application that ended still runs in its queues",
        Rule.LEDGERS,
        Replaced(commit.retire, still_runs_in_its_queues),
        (ANY_WORLD,),
    ),
    Mutant("usage outlives its application", Rule.LEDGERS, Replaced(commit.retire, nothing), (ANY_WORLD, USAGE)),
    Mutant("finished asks are kept", Rule.LEDGERS, Replaced(commit.forget_if_done, nothing), (ANY_WORLD,)),
    Mutant("groups are not counted", Rule.LEDGERS, Replaced(group_of, gives("")), (USAGE,)),
    Mutant("what leaves is not counted", Rule.LEDGERS, Replaced(commit_room.count_leaving, nothing), (ANY_WORLD,)),
    Mutant(
        "what leaves is counted twice", Rule.LEDGERS, Replaced(commit_room.count_leaving, counted_twice), (ANY_WORLD,)
    ),
    Mutant(
        "the quota of a reservation stays reserved when it ends",
        Rule.LEDGERS,
        Replaced(commit_room.end_reservation, claimed_for_ever),
        (ANY_WORLD,),
    ),
    Mutant(
        "what waits for a placeholder waits on",
        Rule.LEDGERS,
        Replaced(commit.end_placeholder_wait, awaits_for_ever),
        (ANY_WORLD,),
    ),
    Mutant(
        "an ask stays awaiting when its placeholder goes",
        Rule.LEDGERS,
        Replaced(commit.end_placeholder_wait, lambda _, placeholder: placeholder.swap),
        (ANY_WORLD,),
    ),
    Mutant(
        "a promise stays when the gang is over",
        Rule.LEDGERS,
        Replaced(commit.end_promise, promised_for_ever),
        (ANY_WORLD,),
    ),
    Mutant(
        "a result is waited for for ever",
        Rule.LEDGERS,
        Replaced(commit_room.end_predicate_check, holds_for_ever),
        (ANY_WORLD.from_seed(7),),
    ),
    Mutant(
        "a victim never stops making room",
        Rule.RESERVATION_FACTS,
        Replaced(commit_room.end_reservation, makes_room_for_ever),
        (CONTESTED.from_seed(8),),
    ),
    Mutant(
        "the wait for room starts with the reservation",
        Rule.RESERVATION_FACTS,
        Replaced(commit_room.make_room, asked_before),
        (CONTESTED.from_seed(8),),
    ),
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
        Replaced(end_of_step.unblock_where_quota_allows, gives([])),
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
    Mutant(
        "a stopped queue takes applications",
        Rule.STOPPED_QUEUES,
        Replaced(Queue.stopped_by, nothing),
        (STOPPED_QUEUES,),
    ),
    Mutant(
        "a new file starts stopped queues", Rule.STOPPED_QUEUES, Replaced(Queue.configure, started), (STOPPED_QUEUES,)
    ),
    Mutant(
        "a dynamic queue that is stopped goes when it is empty",
        Rule.STOPPED_QUEUES,
        Replaced(Queue.drop_unneeded, drops_what_is_stopped),
        (UnitTested(test_stops.test_a_stopped_dynamic_queue_stays_until_it_is_started),),
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
        Compares(rules._blocked_by_user_limit, ("running", "max_applications"), ">"),
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
