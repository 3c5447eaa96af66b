"""What a simulation has to have seen of kept room and of those who end for others."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.language.commands import TerminationType, UpdateAllocations
from schedulerd.core.language.facts.fact import Fact, NodeChanged, ReleaseCause, Released, ReleaseIgnored
from schedulerd.core.language.facts.preemption import (
    Preempted,
    PreemptionRefusal,
    PreemptionRefused,
    QuotaPreempted,
    RoomMade,
)
from schedulerd.core.language.facts.reservations import ReservationEnd, ReservationEnded, Reserved
from schedulerd.core.language.lifecycles import NodeState
from tests.reference.entitlement import OPTED_OUT, ORIGINATOR
from tests.sim.booked_entitlement import kinds
from tests.sim.moment import Moment
from tests.sim.room_books import Place

EXPECTED: tuple[str, ...] = (
    *(f"reservation ended: {end.value}" for end in ReservationEnd),
    *(f"preemption refused: {refusal.value}" for refusal in PreemptionRefusal),
    "asker gone before its room was made",
    "preempted above a lowered max",
    "preempted elsewhere, as a quota was short",
    "preempted for a required node",
    "preempted for another queue",
    "preempted: a placeholder",
    "preempted: an originator",
    "preempted: one that opted out",
    "preemption without victims",
    "node changed under a reservation",
    "node lost under a victim",
    "preemption confirmed when it is over",
    "room reserved after a wait",
    "room reserved at once",
    "room made",
    "several preempted for one ask",
    "several required-node asks on a node",
    "victim confirmed as another type",
    "victim finished by itself",
    "placed after 1 preempted for it",
    "placed after 2 preempted for it",
)
"""How many ended for one and in vain is counted by `storms`."""


def seen(moment: Moment, fact: Fact) -> Iterator[str]:
    match fact:
        case Preempted():
            yield from _ended_for(moment, fact)
        case PreemptionRefused():
            yield f"preemption refused: {fact.refusal.value}"
        case QuotaPreempted(victims=count) if count:
            yield "preempted above a lowered max"
        case Reserved():
            yield "room reserved at once" if fact.entitled else "room reserved after a wait"
            others = [place for place in moment.book.reservations if place.node_id == fact.node_id]
            if _is_daemon(moment, Place.of(fact)) and any(_is_daemon(moment, place) for place in others):
                yield "several required-node asks on a node"
        case ReservationEnded():
            yield f"reservation ended: {fact.end.value}"
            kept = moment.book.reservations.get(Place.of(fact))
            if kept is not None and kept.victims and fact.end is ReservationEnd.NOT_NEEDED:
                yield "asker gone before its room was made"
        case RoomMade():
            yield "room made"
        case Released():
            yield from _released(moment, fact)
        case ReleaseIgnored():
            yield from _ignored(moment, fact)
        case NodeChanged(old_state=old_state) if old_state is not None:
            if any(place.node_id == fact.node_id for place in moment.book.reservations):
                yield "node changed under a reservation"


def _ended_for(moment: Moment, fact: Preempted) -> Iterator[str]:
    if not fact.victims:
        yield "preemption without victims"
        return
    is_daemon = _is_daemon(moment, Place.of(fact))
    yield "preempted for a required node" if is_daemon else "preempted for another queue"
    if len(fact.victims) > 1:
        yield "several preempted for one ask"
    for victim in (moment.book.allocations[uuid] for _, uuid in fact.victims):
        if victim.node_id != fact.node_id:
            yield "preempted elsewhere, as a quota was short"
        if victim.placeholder:
            yield "preempted: a placeholder"
        if kinds(moment.books, victim) == {ORIGINATOR}:
            yield "preempted: an originator"
        if kinds(moment.books, victim) == {OPTED_OUT}:
            yield "preempted: one that opted out"


def _released(moment: Moment, fact: Released) -> Iterator[str]:
    request = moment.book.leaving.get(fact.uuid)
    if request is None or request.cause is not ReleaseCause.PREEMPTED:
        return
    if any(isinstance(one, NodeChanged) and one.state is NodeState.REMOVED for one in moment.later):
        yield "node lost under a victim"
    elif isinstance(moment.command, UpdateAllocations):
        if fact.termination is TerminationType.STOPPED_BY_RM:
            yield "victim finished by itself"
        elif fact.termination is not request.termination:
            yield "victim confirmed as another type"


def _ignored(moment: Moment, fact: ReleaseIgnored) -> Iterator[str]:
    preempted = TerminationType.PREEMPTED_BY_SCHEDULER
    releases = moment.command.releases if isinstance(moment.command, UpdateAllocations) and fact.uuid else []
    if any((one.uuid, one.termination) == (fact.uuid, preempted) for one in releases):
        yield "preemption confirmed when it is over"


def _is_daemon(moment: Moment, place: Place) -> bool:
    """Whether it may run on one node only."""
    ask = moment.ask(place.application_id, place.allocation_key)
    return ask is not None and bool(ask.required_node)
