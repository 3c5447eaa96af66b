"""Mutants of preemption and reservations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from schedulerd.core.language.facts.preemption import PreemptionRefusal
from schedulerd.core.language.facts.reservations import ReservationEnd
from schedulerd.core.language.resources import Items, Resources
from schedulerd.core.language.specs import PreemptionPolicy
from schedulerd.core.preemption.handlers import preemption
from schedulerd.core.preemption.rules import preemption_context, search, victims
from schedulerd.core.preemption.rules.budget import Budget
from schedulerd.core.preemption.rules.preemption_context import PreemptionContext, VictimQueue, in_use
from schedulerd.core.preemption.rules.search import Search
from schedulerd.core.preemption.rules.victims import Candidate, VictimSet
from schedulerd.core.reservations.handlers import new_reservations, reserved_room
from schedulerd.core.state.actions import reservations
from schedulerd.core.state.ledger import commit_room
from schedulerd.core.state.model import allocation
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending import asks as pending_asks
from schedulerd.core.state.pending.request_class import RequestClass
from schedulerd.core.state.pending.retry_timers import Refused
from tests.mutants.changes import By, Compares, Constant, Replaced, Within, getter, gives, left_out, nothing, while_
from tests.mutants.finders import UnitTested
from tests.mutants.mutant import Mutant
from tests.mutants.proofs import ANY_WORLD, CONTESTED, PREEMPTION, VICTIM_SETS, contested
from tests.mutants.rules import Rule
from tests.unit.core.preemption import test_preemption


def policies(**ignored: None) -> SimpleNamespace:
    """The policies of queues, but for those that nobody takes notice of."""
    return SimpleNamespace(**{"FENCE": PreemptionPolicy.FENCE, "DISABLED": PreemptionPolicy.DISABLED, **ignored})


# Entitlement


def entitled_however_much_is_used(_: By, context: PreemptionContext, level: int) -> frozenset[str]:
    way = context.queue.path_to_root[:level]
    return frozenset(name for name, _ in context.ask.request_class.items if any(one.guaranteed[name] for one in way))


def entitled_by_any_guarantee(_: By, context: PreemptionContext, level: int) -> frozenset[str]:
    """As if it were enough that one of the queues stays within its own."""
    way, items = context.queue.path_to_root[:level], context.ask.request_class.items
    return frozenset(name for name, n in items for q in way if in_use(q)[name] + n <= q.guaranteed[name])


def guarantee_of_the_leaf(original: By, context: PreemptionContext, leaf: Any) -> VictimQueue | None:
    found: VictimQueue | None = original(context, leaf)
    of_leaf = context._budgets.get(leaf)
    return found and replace(found, budgets=tuple(budget for budget in found.budgets if budget is of_leaf))


# Victims


def leaving_too(original: By, spec: Any, allocation: Allocation) -> Any:
    with while_(allocation, releasing=None):
        return original(spec, allocation)


def originators_like_others(original: By, allocation: Allocation) -> tuple[int, int]:
    kind, priority = original(allocation)
    return 0 if kind == 2 else kind, priority


def the_oldest(original: By, candidates: Iterable[Candidate], *others: Any) -> Any:
    return original(list(candidates)[::-1], *others)


def one_more(original: By, candidates: Iterable[Candidate], *others: Any) -> VictimSet | None:
    """Somebody is preempted needlessly."""
    everybody = list(candidates)
    found: VictimSet | None = original(everybody, *others)
    if found is None or not found.victims:
        return found
    spare = [one.allocation for one in everybody if one.allocation not in found.victims]
    return VictimSet((*found.victims, *spare[:1]), found.cost)


def any_set(
    original: By, candidates: Iterable[Candidate], need: Mapping[str, int], unit: Mapping[str, int], *others: Any
) -> Any:
    """The cost does not matter: ranks are forgotten, and the largest go first."""
    return original([one._replace(rank=(0, 0)) for one in candidates], need, dict.fromkeys(unit, 1), *others)


def whatever_comes_after_the_first(_: By, search: victims._Search, at: int, *others: Any) -> bool:
    return search.best is not None or at == len(search.kinds)


def without_what_leaves(_: By, node: Node, items: Items, kept: Resources) -> Resources:
    room = node.available.minus(kept)
    return Resources({name: amount - room[name] for name, amount in items if amount > room[name]})


def leaving_twice(original: By, node: Node, items: Items, kept: Resources) -> Any:
    with while_(node, leaving=node.leaving.plus(node.leaving)):
        return original(node, items, kept)


def once_on_a_node(original: By, search: Search, node: Node) -> bool:
    return original(search, node) and not any(one.ask is search.ask and one.is_entitled for one in node.reservations)


def at_once(priority: int, moves: int, _: int, reason: str) -> Refused:
    return Refused(priority, moves, 0, reason)


# Reservations


def any_room_will_do(_: By, partition: Partition, request_class: RequestClass) -> Node | None:
    """What is reserved for others is given away."""
    fits = (one for one in partition.node_order if one.available.lacks(request_class.items) is None)
    return next((one for one in fits if request_class.required_node in ("", one.node_id)), None)


def for_another_reason(original: By, context: Any, reservation: Any, why: ReservationEnd) -> None:
    original(context, reservation, ReservationEnd.QUOTA if why is ReservationEnd.NODE else why)


def does_not_rest(original: By, context: Any, reservation: Any) -> None:
    original(context, reservation)
    if not reservation.victims:
        reservation.ask.no_reservation_before_ns = context.now_ns


def one_needed_more(original: By, ask: Ask) -> int:
    count: int = original(ask)
    return count + 1


MUTANTS = (
    # Entitlement
    Mutant(
        "fences are open",
        Rule.ENTITLEMENT,
        Constant(preemption_context, "PreemptionPolicy", policies(FENCE=None)),
        (PREEMPTION, contested("nothing is guaranteed to it")),
    ),
    Mutant(
        "what is reserved does not count against a guarantee",
        Rule.ENTITLEMENT,
        Replaced(in_use, lambda _, queue: queue.allocated.minus(queue.leaving)),
        (PREEMPTION,),
    ),
    Mutant(
        "what leaves counts against a guarantee",
        Rule.ENTITLEMENT,
        Replaced(in_use, lambda _, queue: queue.allocated.plus(queue.quota_reserved)),
        (PREEMPTION,),
    ),
    Mutant(
        "a guarantee has no end",
        Rule.ENTITLEMENT,
        Replaced(PreemptionContext._rights, entitled_however_much_is_used),
        (PREEMPTION,),
    ),
    Mutant(
        "one guarantee is as good as all",
        Rule.ENTITLEMENT,
        Replaced(PreemptionContext._rights, entitled_by_any_guarantee),
        (PREEMPTION,),
    ),
    Mutant(
        "a guarantee is one less",
        Rule.ENTITLEMENT,
        Compares(PreemptionContext._rights, ("in_use", "amount", "guaranteed"), ">="),
        (PREEMPTION,),
    ),
    Mutant(
        "a max is no reason",
        Rule.ENTITLEMENT,
        Replaced(PreemptionContext._short_of_quota, gives((Resources(), None))),
        (PREEMPTION,),
    ),
    Mutant(
        "no ask is entitled to anything",
        Rule.ENTITLEMENT,
        Replaced(PreemptionContext.refusal, gives(PreemptionRefusal.QUOTA)),
        (contested("no quota or limit is against"),),
    ),
    # Victims
    Mutant(
        "guarantees protect nobody",
        Rule.GUARANTEES,
        Replaced(Budget.times, nothing),
        (PREEMPTION, VICTIM_SETS, contested("which is guaranteed")),
    ),
    Mutant(
        "what could be asked back is taken",
        Rule.GUARANTEES,
        Replaced(Budget._times_until_asked_back, nothing),
        (VICTIM_SETS, PREEMPTION),
    ),
    Mutant("guarantees are not used up", Rule.GUARANTEES, Replaced(Budget.take, nothing), (VICTIM_SETS,)),
    Mutant(
        "guarantees of parents protect nobody",
        Rule.GUARANTEES,
        Replaced(PreemptionContext._new_victim_queue, guarantee_of_the_leaf),
        (PREEMPTION,),
    ),
    Mutant(
        "priorities do not matter",
        Rule.PRIORITIES,
        Replaced(VictimQueue.admits, gives(True)),
        (PREEMPTION, contested("its priority is")),
    ),
    Mutant(
        "every leaf preempts within",
        Rule.PRIORITIES,
        Replaced(preemption_context._preempts_within, gives(True)),
        (PREEMPTION, contested("runs in the same leaf")),
    ),
    Mutant(
        "offsets of victims do not matter",
        Rule.PRIORITIES,
        Replaced(VictimQueue.admits, lambda _, queue, priority: priority <= queue.priority),
        (PREEMPTION,),
    ),
    Mutant(
        "offsets of asks do not matter",
        Rule.PRIORITIES,
        Replaced(PreemptionContext._priorities_at_levels, lambda _, context: [context.ask.spec.priority] * 9),
        (PREEMPTION,),
    ),
    Mutant(
        "what is in an exempt queue is preempted",
        Rule.PROTECTION,
        Constant(preemption_context, "PreemptionPolicy", policies(DISABLED=None)),
        (PREEMPTION, contested("may not be ended")),
    ),
    Mutant(
        "what is in an exempt queue is preempted for a required node",
        Rule.PROTECTION,
        Constant(search, "PreemptionPolicy", policies(DISABLED=None)),
        (PREEMPTION,),
    ),
    Mutant(
        "what leaves is preempted again",
        Rule.PROTECTION,
        Replaced(allocation.may_be_preempted, leaving_too),
        (PREEMPTION, CONTESTED.from_seed(13)),
    ),
    Mutant(
        "nobody is protected more than others", Rule.LEAST_COST, Replaced(victims.rank_of, gives((0, 0))), (PREEMPTION,)
    ),
    Mutant(
        "originators go like others", Rule.LEAST_COST, Replaced(victims.rank_of, originators_like_others), (PREEMPTION,)
    ),
    Mutant(
        "sizes do not matter",
        Rule.LEAST_COST,
        Replaced(victims.unit_weights, lambda _, total: dict.fromkeys(total, 0)),
        (PREEMPTION,),
    ),
    Mutant(
        "the first node will do",
        Rule.LEAST_COST,
        Replaced(Search._beats, lambda _, search, *others: search._found is not None),
        (PREEMPTION,),
    ),
    Mutant("the oldest go", Rule.LEAST_COST, Replaced(victims.smallest_set, the_oldest), (PREEMPTION,)),
    Mutant(
        "the first set will do",
        Rule.LEAST_COST,
        Replaced(victims._Search._is_hopeless, whatever_comes_after_the_first),
        (VICTIM_SETS,),
    ),
    Mutant("one of a kind is enough", Rule.LEAST_COST, Replaced(victims._Kind.most, gives(1)), (VICTIM_SETS,)),
    Mutant(
        "cost does not add up",
        Rule.LEAST_COST,
        Replaced(victims._more, lambda _, cost, rank, weight: (*cost[:-1], (rank, weight))),
        (VICTIM_SETS,),
    ),
    Mutant(
        "one victim too many",
        Rule.LEAST_COST,
        Replaced(victims.smallest_set, one_more),
        (contested("is not needed for"),),
    ),
    Mutant(
        "any victims will do",
        Rule.LEAST_COST,
        Replaced(victims.smallest_set, any_set),
        (contested("would have been enough").from_seed(5),),
    ),
    Mutant("what leaves makes no room", Rule.LEAST_COST, Replaced(Node.shortage, without_what_leaves), (PREEMPTION,)),
    Mutant("what leaves makes room twice", Rule.LEAST_COST, Replaced(Node.shortage, leaving_twice), (PREEMPTION,)),
    Mutant(
        "what is reserved for others is free",
        Rule.RESERVED_ROOM,
        Replaced(Node.shortage, lambda original, node, items, kept: original(node, items, Resources())),
        (PREEMPTION,),
    ),
    # When
    Mutant(
        "asks do not wait for long",
        Rule.PREEMPTED,
        Replaced(pending_asks.preemption_from_ns, gives(0)),
        (contested("it has waited for"),),
    ),
    Mutant(
        "nobody is preempted for anybody",
        Rule.PREEMPTED,
        Replaced(pending_asks.schedule_preemption, nothing),
        (contested("room that others would make"),),
    ),
    Mutant(
        "nobody is preempted for a required node",
        Rule.PREEMPTED,
        Replaced(preemption.for_required_node, gives(False)),
        (PREEMPTION,),
    ),
    Mutant(
        "no victim is found",
        Rule.PREEMPTED,
        Replaced(PreemptionContext.may_be_preempted, gives(())),
        (contested("would have been enough"),),
    ),
    Mutant(
        "an ask for several gets room once on a node",
        Rule.PREEMPTED,
        Replaced(Search._may_take, once_on_a_node),
        (PREEMPTION, UnitTested(test_preemption.test_an_ask_for_several_has_a_reservation_for_each)),
    ),
    Mutant("nobody rests after a refusal", Rule.RETRIES, Constant(preemption, "Refused", at_once), (PREEMPTION,)),
    # Reservations
    Mutant(
        "reserved room is given away",
        Rule.RESERVED_ROOM,
        Replaced(Partition.first_fit, any_room_will_do),
        (contested("that is kept for others"),),
    ),
    Mutant(
        "aging reservations are served first",
        Rule.RESERVED_ROOM,
        Replaced(reserved_room._in_order, lambda original, node: original(node)[::-1]),
        (CONTESTED,),
    ),
    Mutant(
        "what is given back wakes nobody",
        Rule.RESERVED_ROOM,
        left_out(commit_room.end_reservation, Partition.note_less_reserved),
        (CONTESTED,),
    ),
    Mutant(
        "room is reserved for what has no quota",
        Rule.RESERVED_ROOM,
        Replaced(new_reservations._is_within_quotas, gives(True)),
        (contested("the quota of"),),
    ),
    Mutant(
        "room is reserved for ever",
        Rule.RESERVATION_ENDS,
        Replaced(reservations.on_expired, nothing),
        (contested("room is kept for"),),
    ),
    Mutant(
        "room that expired is reserved again at once",
        Rule.RESERVATION_ENDS,
        Replaced(reservations.on_expired, does_not_rest),
        (CONTESTED.from_seed(15),),
    ),
    Mutant(
        "what was reserved in vain is reserved again",
        Rule.RESERVATION_ENDS,
        Replaced(reservations.due_ns, gives(0)),
        (contested("rests until").from_seed(4),),
    ),
    Mutant(
        "room is reserved for asks that are gone",
        Rule.RESERVATION_ENDS,
        Replaced(reservations.trim, nothing),
        (contested("pending").from_seed(7),),
    ),
    Mutant(
        "more room is reserved than is needed",
        Rule.RESERVATION_ENDS,
        Within(reservations.trim, getter(Ask, "unreserved"), one_needed_more),
        (ANY_WORLD,),
    ),
    Mutant(
        "room stays reserved on a node that is gone",
        Rule.RESERVATION_ENDS,
        Replaced(reservations.end_all, nothing),
        (contested("reservations"), ANY_WORLD),
    ),
    Mutant(
        "void room stays reserved",
        Rule.RESERVATION_ENDS,
        Replaced(reserved_room._reason_to_end, nothing),
        (contested("takes nothing new").from_seed(8),),
    ),
    Mutant(
        "a reservation ends for another reason",
        Rule.RESERVATION_FACTS,
        Replaced(reservations.end, for_another_reason),
        (contested("the quota is short, though").from_seed(2),),
    ),
    Mutant(
        "nobody says that room is made",
        Rule.RESERVATION_FACTS,
        Replaced(reservations.room_made, nothing),
        (contested("and nobody says so").from_seed(2),),
    ),
)
