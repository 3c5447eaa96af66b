"""The rules about those who end for others: who, for whom, and no more than needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schedulerd.core.language.commands import RunCycle
from schedulerd.core.language.facts.configuration import ConfigurationUpdated
from schedulerd.core.language.facts.fact import (
    Allocated,
    AllocationChanged,
    ApplicationChanged,
    AskAdded,
    AskWithdrawn,
    Fact,
    ReleaseCause,
    Released,
    ReleaseRequested,
    ResourceManagerChanged,
)
from schedulerd.core.language.facts.preemption import (
    Preempted,
    PreemptionRefusal,
    PreemptionRefused,
    QuotaPreempted,
    RoomMade,
)
from schedulerd.core.language.facts.reservations import ReservationEnd, ReservationEnded
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import OptOut
from schedulerd.core.views.values import ApplicationView, AskView, PartitionView
from tests.reference.entitlement import broken_guarantee, frees
from tests.reference.queue_paths import below, is_below
from tests.sim.booked_entitlement import BookedEntitlement, is_opted_out, kinds, occupant
from tests.sim.clusters import TIMEOUTS
from tests.sim.moment import Moment
from tests.sim.oracle import PLACEABLE_STATES, Accounts, awaits_start
from tests.sim.room_books import Kept, Place, RoomBooks, exceeded


def judged(moment: Moment, fact: Fact) -> Iterator[str]:
    """What is wrong with this fact as far as ending for others goes."""
    match fact:
        case Preempted():
            yield from _preempted(moment, fact)
        case PreemptionRefused():
            yield from _refused(moment, fact)
        case QuotaPreempted():
            yield from _above_max(moment, fact)
        case ReleaseRequested(cause=ReleaseCause.PREEMPTED):
            yield from _announced(moment, fact)
        case RoomMade():
            kept = moment.book.reservations.get(Place.of(fact))
            gone = {one.uuid for one in moment.later if isinstance(one, Released)}
            gone |= {one.old_uuid for one in moment.later if isinstance(one, AllocationChanged)}
            if kept is None or not kept.victims or not kept.victims <= gone:
                yield f"room is made, and still there for it are {kept.victims if kept else 'nobody'}"
            elif fact.waited_ns != moment.now_ns - kept.asked_ns:
                yield f"it waited for {fact.waited_ns} ns, but they were asked to go at {kept.asked_ns}"
        case Released():
            for place, kept in moment.book.reservations.items():
                if kept.victims == {fact.uuid} and not _is_room_made_said(moment, place):
                    yield f"the last to go for {place} is gone, and nobody says so"


# Who ends for whom


def _preempted(moment: Moment, fact: Preempted) -> Iterator[str]:
    place, book = Place.of(fact), moment.book
    kept, ask = book.reservations.get(place), moment.ask(*place[:2])
    if kept is None or not kept.fact.entitled or ask is None:
        yield f"no room is kept firmly for it, or nothing is pending of it: {ask}"
        return
    named = [uuid for _, uuid in fact.victims]
    requests = [one.uuid for one in moment.later[: len(named)] if isinstance(one, ReleaseRequested)]
    victims = [book.allocations[uuid] for uuid in named if uuid in book.allocations]
    if requests != named or [(one.queue, one.uuid) for one in victims] != list(fact.victims):
        yield f"{fact.victims} are asked to end, those asked are {requests}"
        return
    if not moment.after.preemption_enabled:
        yield "nobody may be ended in this partition"
    entitlement = BookedEntitlement(moment.books, book, moment.after, ask, fact.queue, place)
    if ask.required_node:
        if ask.required_node != fact.node_id or not victims:
            yield f"it may run on {ask.required_node} only, or nobody has to end for it"
        elif not entitlement.is_entitled:
            yield f"a quota does not let it in: {entitlement.lacking}"
    else:
        yield from _without_right(moment, fact, ask, kept, entitlement)
    yield from entitlement.objections(fact.node_id, victims)
    yield from _not_the_least(moment, fact, entitlement, victims)


def _without_right(
    moment: Moment, fact: Preempted, ask: AskView, kept: Kept, entitlement: BookedEntitlement
) -> Iterator[str]:
    """What is against ending anybody for the ask."""
    if kept.since_ns != moment.now_ns or kept.victims:
        yield "somebody ended for it before"
    asked = moment.books.asked(fact.rm_id, fact.application_id, fact.allocation_key, ask.resources, ask.priority)
    if not any(one.allow_preempt_other for one in asked):
        yield "it does not want others to end for it"
    delay_ns = next(one.preemption_delay_ns for one in moment.after.queues if one.path == fact.queue)
    if ask.asked_at_ns + delay_ns > moment.now_ns:
        yield f"it has waited for {moment.now_ns - ask.asked_at_ns} of {delay_ns} ns"
    if not entitlement.is_entitled:
        yield f"nothing is guaranteed to it, or its leaf is full: {entitlement.lacking}"
    application = moment.application(fact.application_id)
    if application is None or application.state not in PLACEABLE_STATES:
        yield f"its application does not wait: {application}"
    elif Accounts(moment.before).limited(application, ask.resources):
        yield "a limit does not let it in"
    elif not fact.victims and _fits_now(moment, fact, ask) and not _has_just_been_left(moment, fact.node_id):
        yield "it fits there as things are"


def _fits_now(moment: Moment, fact: Preempted, ask: AskView) -> bool:
    """Whether nobody has to go before the ask can be placed on the node."""
    book, size = moment.book, Resources(ask.resources)
    free = book.available(fact.node_id).minus(book.kept_on(fact.node_id, but=Place.of(fact)))
    return free.lacks(size.items()) is None and all(
        exceeded(queue, book.used(queue.path).plus(book.quota_reserved(queue.path, but=Place.of(fact))), size) is None
        for queue in moment.after.queues
        if is_below(fact.queue, queue.path)
    )


def _has_just_been_left(moment: Moment, node_id: str) -> bool:
    """Whether room was kept there, or counted in a quota, until a moment ago, so that asks were not tried again yet."""
    ended = (one for one in moment.earlier if isinstance(one, ReservationEnded))
    return any(one.node_id == node_id or one.entitled for one in ended)


def _not_the_least(
    moment: Moment, fact: Preempted, entitlement: BookedEntitlement, victims: Sequence[Allocated]
) -> Iterator[str]:
    """Less cost would have been enough; judged where it is certain what each of them minds."""
    if any(_is_unclear(moment, one) for one in moment.book.allocations.values()):
        return
    best = entitlement.best(moment.after.nodes)
    taken = entitlement.cost(victims), len(victims)
    if best is not None and best < taken:
        yield f"does cost {taken}, and {best} would have been enough"


def _is_unclear(moment: Moment, one: Allocated) -> bool:
    """Whether the same ask came with other wishes, so that nobody can tell what it minds."""
    certain, possible = (is_opted_out(moment.books, one, certainly=certainly) for certainly in (True, False))
    return len(kinds(moment.books, one)) > 1 or certain is not possible


def _announced(moment: Moment, fact: ReleaseRequested) -> Iterator[str]:
    """Nobody is asked to end without a word for whose sake."""
    for at, one in enumerate(reversed(moment.earlier)):
        if isinstance(one, Preempted):
            if fact.uuid not in [uuid for _, uuid in one.victims]:
                yield f"is asked to end for the sake of nobody; the last to say so was {one}"
            return
        if isinstance(one, QuotaPreempted):
            if at >= one.victims or not is_below(fact.queue, one.queue):
                yield f"is asked to end as one too many for {one}"
            return
    yield "is asked to end for the sake of nobody"


def _above_max(moment: Moment, fact: QuotaPreempted) -> Iterator[str]:
    """Only what is above the max ends, after its time, and nothing of it that is not needed for that."""
    book = moment.book
    delay_ns = book.properties[fact.queue].quota_preemption_delay_ns
    since_ns = next((one.above_max_since_ns for one in moment.before.queues if one.path == fact.queue), None)
    if since_ns is None or since_ns + delay_ns > moment.now_ns:
        yield f"is above its max since {since_ns}, and has {delay_ns} ns"
    top = next(queue for queue in moment.after.queues if queue.path == fact.queue)
    staying = book.staying(top.path)
    above = {name: staying[name] - most for name, most in top.max.items() if staying[name] > most}
    victims = [book.allocations[one.uuid] for one in moment.later[: fact.victims] if isinstance(one, ReleaseRequested)]
    if not above or len(victims) != fact.victims:
        yield f"uses {dict(staying)} of {top.max}, and asked to end are {victims}"
    queues = {queue.path: queue for queue in moment.after.queues}
    occupants = [occupant(moment.books, book, one) for one in victims]
    for one in occupants:
        if one.is_opted_out and book.spec is not None and book.spec.preemption_optout is OptOut.NEVER:
            yield f"{one.uuid} is opted out of preemption"
        if frees([other for other in occupants if other is not one], above):
            yield f"{one.uuid} is not needed for what is above: {above}"
        for path in below(one.queue, top.path):
            yield from broken_guarantee(path, queues[path].guaranteed, one, occupants, book.staying(path), above)


# Who does not


def _refused(moment: Moment, fact: PreemptionRefused) -> Iterator[str]:
    """Nobody ends for it: then there is no legal set of victims."""
    ask = moment.ask(fact.application_id, fact.allocation_key)
    application = moment.application(fact.application_id)
    if ask is None or application is None or not isinstance(moment.command, RunCycle):
        yield f"nobody asked: {ask}"
        return
    owns: Sequence[Place | None] = [None]
    if ask.required_node:
        owns = moment.book.places(fact.application_id, fact.allocation_key)
    entitlements = [BookedEntitlement(moment.books, moment.book, moment.after, ask, fact.queue, own) for own in owns]
    if not entitlements:
        yield "no room is kept for it on its node"
        return
    entitlement = entitlements[0]
    if fact.refusal is PreemptionRefusal.QUOTA and (ask.required_node or not entitlement.is_beyond_its_leaf):
        accounts = Accounts(moment.after)
        is_limited = accounts.limited(application, ask.resources) or _reserved_under_limit(moment, entitlement)
        is_short = bool(ask.required_node and entitlement.lacking)
        if not (is_short or is_limited or accounts.has_to_wait(application) or accounts.gated(application)):
            yield f"no quota or limit is against it: {entitlement.lacking}"
        return
    if moment.searched == (fact.application_id, fact.allocation_key):
        return  # a search that takes several steps says what it saw, and is made again soon if that has changed
    found = [one.best(moment.after.nodes) if one.is_entitled else None for one in entitlements]
    if all(best is not None and (best[1] or fact.refusal is PreemptionRefusal.NO_NODE) for best in found):
        yield f"is {fact.refusal}, and {found} would have been enough"


def _reserved_under_limit(moment: Moment, entitlement: BookedEntitlement) -> bool:
    """Whether what is reserved for others may count against a limit on the way."""
    limited = {queue.path for queue in moment.after.queues if queue.limits}
    return any(path in limited and moment.book.quota_reserved(path) for path in entitlement.way)


def may_preempt(books: RoomBooks, partition: PartitionView, item: ApplicationView, ask: AskView) -> bool:
    """Whether the ask is one that others end for, as far as it is certain and limits have no say."""
    waits = not item.waits_for_gang_of if ask.placeholder else not any(one.placeholder for one in item.asks)
    if not partition.preemption_enabled or item.state not in PLACEABLE_STATES or not waits:
        return False
    accounts = Accounts(partition)
    if ask.required_node:
        return not awaits_start(partition, item) and not accounts.limited(item, ask.resources)
    asked = books.asked(partition.rm_id, item.application_id, ask.allocation_key, ask.resources, ask.priority)
    return (
        bool(asked)
        and all(one.allow_preempt_other for one in asked)
        and not any(queue.limits for queue in partition.queues if is_below(item.queue, queue.path))
        and not (accounts.has_to_wait(item) or awaits_start(partition, item))
        and not (ask.placeholder and accounts.gated(item))
    )


class Attempts:
    """Nobody is looked for again at once when nobody was found, or when room was kept in vain."""

    def __init__(self) -> None:
        self._refused: dict[tuple[str, str, str, str], int] = {}
        self._in_vain: dict[tuple[str, str, str, str], int] = {}

    def judged(self, moment: Moment, fact: Fact) -> Iterator[str]:
        if isinstance(fact, PreemptionRefused):
            ask = moment.ask(fact.application_id, fact.allocation_key)
            if ask is not None and ask.required_node:  # said again as soon as the reason is another one
                return
            name = fact.rm_id, fact.partition, fact.application_id, fact.allocation_key
            last_ns = self._refused.get(name)
            if last_ns is not None and moment.now_ns < last_ns + TIMEOUTS.preemption_attempt_ns:
                yield f"was refused {moment.now_ns - last_ns} ns ago"
            self._refused[name] = moment.now_ns
        elif isinstance(fact, Preempted):
            since_ns = self._in_vain.get((fact.rm_id, fact.partition, fact.application_id, fact.allocation_key))
            kept = moment.book.reservations.get(Place.of(fact))
            ask = moment.ask(fact.application_id, fact.allocation_key)
            is_claim = kept is not None and kept.since_ns == moment.now_ns and ask is not None and not ask.required_node
            if is_claim and since_ns is not None and moment.now_ns < since_ns + TIMEOUTS.preemption_attempt_ns:
                yield f"had room kept in vain until {moment.now_ns - since_ns} ns ago"
        elif isinstance(fact, ReservationEnded) and fact.end is ReservationEnd.QUOTA:
            name = fact.rm_id, fact.partition, fact.application_id, fact.allocation_key
            self._in_vain[name] = moment.now_ns

    def hear(self, fact: Fact) -> None:
        """Whatever changes for an application, its asks may be others now."""
        if isinstance(fact, AskAdded | AskWithdrawn | ApplicationChanged | Allocated | Released):
            names = fact.rm_id, fact.partition, fact.application_id
            for noted in (self._refused, self._in_vain):
                for name in [name for name in noted if name[:3] == names]:
                    del noted[name]
        elif isinstance(fact, ConfigurationUpdated | ResourceManagerChanged):
            self._refused.clear()
        if isinstance(fact, ResourceManagerChanged):
            self._in_vain.clear()


def _is_room_made_said(moment: Moment, place: Place) -> bool:
    return any(isinstance(one, RoomMade) and Place.of(one) == place for one in moment.earlier)
