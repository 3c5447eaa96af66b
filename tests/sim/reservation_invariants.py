"""The rules about room that is kept: for whom, where, how long, and that nobody else gets it."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.language.commands import RingAlarms, RunCycle
from schedulerd.core.language.facts.fact import (
    Allocated,
    ApplicationChanged,
    AskAdded,
    AskWithdrawn,
    Fact,
    NodeChanged,
    ResourceManagerChanged,
)
from schedulerd.core.language.facts.preemption import Preempted
from schedulerd.core.language.facts.reservations import ReservationEnd, ReservationEnded, Reserved
from schedulerd.core.language.lifecycles import ApplicationState, NodeState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import ApplicationOrder
from schedulerd.core.state.partition import REQUIRED_NODE_TAG, RESERVED_NODES_MIN, RESERVED_NODES_PERCENT
from schedulerd.core.views.values import AskView, NodeView, PartitionView
from tests.reference.queue_paths import is_below
from tests.sim import own_room_invariants
from tests.sim.clusters import TIMEOUTS
from tests.sim.moment import Moment
from tests.sim.oracle import PLACEABLE_STATES, Accounts, awaits_start
from tests.sim.room_books import Place, RoomBook, exceeded


def judged(moment: Moment, fact: Fact) -> Iterator[str]:
    """What is wrong with this fact as far as kept room goes."""
    match fact:
        case Reserved():
            yield from _reserved(moment, fact)
        case ReservationEnded():
            yield from _ended(moment, fact)
        case Allocated(recovered=False):
            yield from _room_of_others(moment, fact)


# Begin


def _reserved(moment: Moment, fact: Reserved) -> Iterator[str]:
    place, book = Place.of(fact), moment.book
    ask, node = moment.ask(*place[:2]), _node(moment.after, fact.node_id)
    if place in book.reservations:
        yield "room is kept twice there"
    if ask is None or node is None:
        yield f"of the ask is pending: {ask}, the node is {node}"
        return
    others = len(book.places(*place[:2]))
    if others >= moment.pending(*place[:2]):
        yield f"room is kept for {others} allocations already, and {moment.pending(*place[:2])} are pending"
    if fact.resources != ask.resources:
        yield f"the ask is for {ask.resources}"
    if _missing(ask, node):
        yield f"the node can never hold it: {node}"
    if not node.ready or (node.node_id != ask.required_node if ask.required_node else not node.schedulable):
        yield f"the node takes nothing of it: {node}"
    if not ask.required_node:
        item = moment.application(place.application_id)
        sizes = own_room_invariants.wanted(item, moment.earlier) if item is not None else []
        yield from own_room_invariants.against(book, item, place, fact.resources, sizes)
    if not fact.entitled:
        yield from _reserved_after_a_wait(moment, fact, ask)
    elif not ask.required_node:
        following = moment.later[0] if moment.later else None
        if not isinstance(following, Preempted) or Place.of(following) != place:
            yield "nobody ends for it, and it may run elsewhere"


def _reserved_after_a_wait(moment: Moment, fact: Reserved, ask: AskView) -> Iterator[str]:
    book = moment.book
    if ask.required_node:
        yield "it may run there only, so it has a right to it"
    if ask.asked_at_ns + TIMEOUTS.reservation_delay_ns > moment.now_ns:
        yield f"it has waited for {moment.now_ns - ask.asked_at_ns} ns only"
    if any(place.node_id == fact.node_id for place in book.reservations):
        yield "room is kept for others there"
    most = max(RESERVED_NODES_MIN, len(moment.after.nodes) * RESERVED_NODES_PERCENT // 100)
    if sum(not one.fact.entitled for one in book.reservations.values()) >= most:
        yield f"room is kept on {most} nodes already"
    yield from _beyond_a_quota(moment, fact)
    is_other_room_free = any(isinstance(one, ReservationEnded) for one in moment.earlier)
    fitting = [node.node_id for node in moment.after.nodes if _fits(book, node, fact.resources)]
    if fitting and not is_other_room_free:
        yield f"it fits {fitting}"


def _beyond_a_quota(moment: Moment, fact: Reserved) -> Iterator[str]:
    """What is used and reserved already leaves no quota for it."""
    for queue in moment.after.queues:
        if is_below(fact.queue, queue.path):
            used = moment.book.used(queue.path).plus(moment.book.kept_for(queue.path))
            name = exceeded(queue, used, fact.resources)
            if name is not None:
                yield f"the quota of {queue.path} has no {name} for it: {dict(used)} of {queue.max}"


def _fits(book: RoomBook, node: NodeView, size: Resources) -> bool:
    free = book.available(node.node_id).minus(book.kept_on(node.node_id))
    return node.schedulable and node.ready and free.lacks(size.items()) is None


# End


def _ended(moment: Moment, fact: ReservationEnded) -> Iterator[str]:
    place = Place.of(fact)
    kept = moment.book.reservations.get(place)
    if kept is None:
        yield "no room is kept for it there"
        return
    if (fact.entitled, fact.kept_ns) != (kept.fact.entitled, moment.now_ns - kept.since_ns):
        yield f"{fact} ends {kept}"
    match fact.end:
        case ReservationEnd.PLACED:
            following = next((one for one in moment.later if isinstance(one, Allocated)), None)
            if following is None or not place.is_of(following):
                yield f"is placed, but then comes {following}"
            first = moment.book.before(place)
            name = moment.book.available(fact.node_id).minus(first).lacks(kept.fact.resources.items())
            if name is not None:
                yield f"takes {name} of {dict(first)} that is kept for those who are first"
        case ReservationEnd.NOT_NEEDED:
            if _is_needed(moment, place):
                yield "is not needed, but the ask waits"
        case ReservationEnd.NODE:
            yield from _node_is_good(moment, place, kept.fact.resources)
        case ReservationEnd.GANG:
            item = moment.application(place.application_id)
            if item is None or own_room_invariants.fits_for_certain(moment.book, item):
                yield "its gang cannot be complete, though it can"
        case ReservationEnd.QUOTA:
            if kept.victims or not _is_over_quota(moment, kept.fact):
                yield f"the quota is short, though it is not, or {kept.victims} are to go for it"
        case ReservationEnd.EXPIRED:
            if not isinstance(moment.command, RingAlarms) or moment.now_ns < kept.until_ns or kept.victims:
                yield f"has expired, though it may last until {kept.until_ns}, and waits for {kept.victims}"


def _is_needed(moment: Moment, place: Place) -> bool:
    """Whether the ask waits at the end of the step with less room kept for it than it wants."""
    waiting = _waits(moment.before, place) and _waits(moment.after, place)
    changed = any(
        isinstance(one, AskAdded | AskWithdrawn | Allocated | ApplicationChanged)
        and (one.rm_id, one.partition, one.application_id) == (*moment.name, place.application_id)
        for one in (*moment.earlier, *moment.later)
    )
    stronger = any(
        isinstance(one, Reserved) and one.entitled and Place.of(one)[:2] == place[:2] for one in moment.later
    )
    return waiting and not changed and not stronger and not _another_started(moment, place)


def _another_started(moment: Moment, place: Place) -> bool:
    """Where one application starts at a time, another one did in this step: until it ran, this one was not wanted."""
    leaf = next((one.queue for one in moment.after.applications if one.application_id == place.application_id), "")
    order = next((one.application_order for one in moment.after.queues if one.path == leaf), "")
    return order == ApplicationOrder.STATE_AWARE and any(
        isinstance(one, ApplicationChanged) and one.state is ApplicationState.STARTING and one.queue == leaf
        for one in moment.earlier
    )


def _waits(partition: PartitionView, place: Place) -> bool:
    for item in partition.applications:
        if item.application_id == place.application_id:
            ask = next((one for one in item.asks if one.allocation_key == place.allocation_key), None)
            if ask is None or item.state not in PLACEABLE_STATES or awaits_start(partition, item):
                return False
            if ask.placeholder:
                return not item.waits_for_gang_of
            return not any(one.placeholder for one in item.asks)
    return False


def _node_is_good(moment: Moment, place: Place, size: Resources) -> Iterator[str]:
    if not isinstance(moment.command, RunCycle):
        states = [one.state for one in moment.later if isinstance(one, NodeChanged) and one.node_id == place.node_id]
        if NodeState.REMOVED not in states:
            yield "ends for its node, which stays"
        return
    node, ask, kept = _node(moment.after, place.node_id), moment.ask(*place[:2]), moment.book.reservations[place]
    if node is None or ask is None or _missing(ask, node):
        return
    book = moment.book
    beside_own = own_room_invariants.room(book, place.node_id, place.application_id)
    if not ask.required_node and beside_own.lacks(size.items()) is not None:
        return
    room = book.available(place.node_id).plus(book.leaving_from(place.node_id)).minus(book.before(place))
    is_hopeless = (
        kept.fact.entitled and not ask.required_node and not kept.victims and room.lacks(size.items()) is not None
    )
    if node.ready and (node.schedulable or ask.required_node) and not is_hopeless:
        yield f"ends for its node, which takes it, and will have {dict(room)} for it: {node}"


def _is_over_quota(moment: Moment, fact: Reserved) -> bool:
    """Whether a quota or limit may have been short; what limits allow is looked at when the step is over."""
    own = Place.of(fact) if fact.entitled else None
    for queue in moment.after.queues:
        if is_below(fact.queue, queue.path):
            used = moment.book.used(queue.path).plus(moment.book.quota_reserved(queue.path, but=own))
            if exceeded(queue, used, fact.resources) is not None:
                return True
    accounts = Accounts(moment.after)
    item = moment.application(fact.application_id)
    return item is not None and bool(
        accounts.limited(item, fact.resources) or accounts.has_to_wait(item) or accounts.gated(item)
    )


# Meanwhile


def _room_of_others(moment: Moment, fact: Allocated) -> Iterator[str]:
    """Who is placed leaves what is kept for others, but for what one with a better right need not look at."""
    if fact.replaces:
        return
    book = moment.book
    if not _had_room_kept(moment, fact):
        kept = book.kept_on(fact.node_id, firm_only=bool(fact.tags.get(REQUIRED_NODE_TAG)))
        name = book.available(fact.node_id).minus(kept).lacks(fact.resources.items())
        if name is not None:
            yield f"takes {name} of {dict(kept)} that is kept for others"
    for queue in moment.after.queues:
        if is_below(fact.queue, queue.path):
            reserved = book.quota_reserved(queue.path)
            name = exceeded(queue, book.used(queue.path).plus(reserved), fact.resources)
            if name is not None:
                yield f"takes {name} of the quota of {queue.path} that is reserved for others: {dict(reserved)}"


def _had_room_kept(moment: Moment, fact: Allocated) -> bool:
    """Whether what was said last is that it gets the room that was kept for it."""
    for one in reversed(moment.earlier):
        if isinstance(one, Allocated):
            return False
        if isinstance(one, ReservationEnded) and one.end is ReservationEnd.PLACED:
            return Place.of(one).is_of(fact)
    return False


class Rests:
    """Room that was kept in vain is left to others for as long: no node has any kept for the ask, and the node keeps
    none for anybody without a better right."""

    def __init__(self) -> None:
        self._until_ns: dict[tuple[str, ...], int] = {}

    def judged(self, moment: Moment, fact: Fact) -> Iterator[str]:
        if isinstance(fact, Reserved):
            is_claimed = fact.entitled and bool(moment.later) and isinstance(moment.later[0], Preempted)
            for name in () if is_claimed else (_ask_name(fact), *([_node_name(fact)] * (not fact.entitled))):
                if moment.now_ns < self._until_ns.get(name, 0):
                    yield f"room is kept again, though {name} rests until {self._until_ns[name]}"

    def hear(self, fact: Fact, now_ns: int) -> None:
        if isinstance(fact, AskAdded | AskWithdrawn):
            self._until_ns.pop(_ask_name(fact), None)
        elif isinstance(fact, ResourceManagerChanged):
            self._until_ns = {name: at_ns for name, at_ns in self._until_ns.items() if name[0] != fact.rm_id}
        elif isinstance(fact, NodeChanged) and fact.state is NodeState.REMOVED:
            self._until_ns.pop(_node_name(fact), None)
        elif isinstance(fact, ReservationEnded) and fact.end is ReservationEnd.EXPIRED:
            self._until_ns[_ask_name(fact)] = now_ns + TIMEOUTS.reservation_ns
            if not fact.entitled:
                self._until_ns[_node_name(fact)] = now_ns + TIMEOUTS.reservation_ns


def _node_name(fact: Reserved | ReservationEnded | NodeChanged) -> tuple[str, ...]:
    return fact.rm_id, fact.partition, fact.node_id


def _ask_name(fact: Reserved | ReservationEnded | AskAdded | AskWithdrawn) -> tuple[str, ...]:
    return fact.rm_id, fact.partition, fact.application_id, fact.allocation_key


def differences(book: RoomBook, partition: PartitionView) -> Iterator[str]:
    """Where the reservations that are shown are not those that were said."""
    shown = [
        (
            (one.application_id, one.allocation_key, one.node_id),
            (one.entitled, one.since_ns, dict(one.resources), sorted(one.waits_for)),
        )
        for node in partition.nodes
        for one in node.reservations
    ]
    counted = [
        (place[:3], (one.fact.entitled, one.since_ns, one.fact.resources.nonzero(), sorted(one.victims)))
        for place, one in book.reservations.items()
    ]
    if sorted(shown, key=repr) != sorted(counted, key=repr):
        yield f"reservations: facts say {counted}, the scheduler {shown}"


def _node(partition: PartitionView, node_id: str) -> NodeView | None:
    return next((node for node in partition.nodes if node.node_id == node_id), None)


def _missing(ask: AskView, node: NodeView) -> bool:
    return Resources(node.capacity).minus(node.occupied).lacks(ask.resources.items()) is not None
