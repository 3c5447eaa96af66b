"""What each list has: its candidates, its filters and its orders."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from starlette.exceptions import HTTPException

from schedulerd.core.language.ask_tags import NAMESPACE_TAG, POD_NAME_TAG
from schedulerd.core.language.checks import shown
from schedulerd.core.language.lifecycles import ApplicationState, NodeState
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.pending.rules.states import PendingState, states_of
from schedulerd.daemon.admin.api.finding import NAME_LENGTH_MAX, Place
from schedulerd.daemon.admin.api.pages import Key, Listing, Order, PageQuery, choose_order
from schedulerd.daemon.admin.api.projections import Preemption, Projection, QueueLimit, UserUse

Name = Annotated[str, Field(max_length=NAME_LENGTH_MAX)]
Flag = bool | None
ApplicationSort = Literal["time", "-time", "id", "-id", "queue", "-queue", "allocations", "-allocations"]
AskSort = Literal["time", "-time", "id", "-id", "queue", "-queue"]
NodeSort = Literal["id", "-id", "allocations", "-allocations"]


def _lower(value: object) -> object:
    """In lower case; None for ''."""
    return (value.lower() or None) if isinstance(value, str) else value


class QueueQuery(PageQuery):
    """Filters of queues."""

    queue: Name = ""
    """Only this queue and those below it."""
    leaf: Flag = None
    """Only leaves, or only others."""


class ApplicationQuery(PageQuery):
    """Filters of applications, and of what belongs to them."""

    application: Name = ""
    """Its id, or the id that pods of one namespace give it, if no other namespace has one of that id."""
    queue: Name = ""
    """Only in this queue and below."""
    user: Name = ""


class ApplicationListQuery(ApplicationQuery):
    """Filters of applications."""

    state: Name = ""
    """Such as Accepted or Running; in any case."""
    namespace: Name = ""
    """Its tag `namespace`."""
    pending: Flag = None
    """Only with, or only without, pending allocations."""
    sort: ApplicationSort = "time"
    """id, time, queue, allocations; with - before it to descend."""


class AskQuery(ApplicationQuery):
    """Filters of asks."""

    ask: Name = ""
    """Its allocation key."""
    namespace: Name = ""
    """Namespace of its pod."""
    pod: Name = ""
    """Name of its pod."""
    state: Annotated[PendingState | None, BeforeValidator(_lower)] = None
    """Only asks with an allocation in this pending state; in any case."""
    pending: Flag = None
    """Only with, or only without, pending allocations."""
    sort: AskSort = "time"
    """id, time, queue; with - before it to descend."""


class NodeQuery(PageQuery):
    """Filters of nodes."""

    state: Name = ""
    """schedulable, draining or not_ready; in any case."""
    attribute: Name = ""
    """NAME=VALUE."""
    reserved: Flag = None
    """Only with, or only without, reservations."""
    sort: NodeSort = "id"
    """id, allocations; with - before it to descend."""


class GangQuery(ApplicationQuery):
    """Filters of gangs."""

    complete: Flag = None
    """Only complete, or only incomplete gangs."""


class ReservationQuery(ApplicationQuery):
    """Filters of reservations and preemptions."""

    node: Name = ""


class UserQuery(PageQuery):
    """Filters of users and groups."""

    name: Name = ""
    kind: Literal["user", "group", ""] = ""
    queue: Name = ""
    """Only what is used in this queue and below, by queue."""


def queues(found: Place, query: QueueQuery, projection: Projection, is_current: Callable[[], bool]) -> Listing[Queue]:
    """Queues in the order of their paths, parents first."""

    def keeps(one: Queue) -> bool:
        return is_below(one, query.queue) and query.leaf in (None, one.is_leaf)

    root = found.partition.root
    return Listing(
        candidates=lambda _after: list(root.walk()),
        keeps=keeps,
        show=lambda one: projection.queue(one) if root.find(one.path) is one else None,
        is_current=is_current,
        order=Order(lambda one: (one.path.replace(".", "\0"),), (str,)),
    )


_APPLICATION_ORDERS = {
    "time": Order(lambda one: (one.serial,), (int,)),
    "id": Order(lambda one: (one.application_id, one.serial), (str, int)),
    "queue": Order(lambda one: (one.queue.path, one.serial), (str, int)),
    "allocations": Order(lambda one: (len(one.allocations), one.serial), (int, int), changes=True),
}


def applications(
    found: Place, query: ApplicationListQuery, projection: Projection, is_current: Callable[[], bool]
) -> Listing[Application]:
    """Applications in the order of submission."""
    order, descending = choose_order(_APPLICATION_ORDERS, query.sort)
    state = _state(query.state, ApplicationState)

    def keeps(one: Application) -> bool:
        return (
            _keeps_application(one, query)
            and state in ("", one.state.value.lower())
            and query.namespace in ("", one.spec.tags.get("namespace", ""))
            and query.pending in (None, bool(one.groups or one.awaiting_placeholder))
        )

    return Listing(
        candidates=lambda after: _applications(found, query.application, after),
        keeps=keeps,
        show=lambda one: projection.application(one) if _is_there(found, one) else None,
        is_current=is_current,
        order=order,
        is_ordered=query.sort == "time",
        descending=descending,
    )


_ASK_ORDERS = {
    "time": Order(lambda one: (one[0].serial, one[1].serial), (int, int)),
    "id": Order(lambda one: (one[0].application_id, one[1].key, one[1].serial), (str, str, int)),
    "queue": Order(lambda one: (one[0].queue.path, one[0].serial, one[1].serial), (str, int, int)),
}


def asks(
    found: Place, query: AskQuery, projection: Projection, is_current: Callable[[], bool]
) -> Listing[tuple[Application, Ask]]:
    """Asks in the order of submission of their applications, then of their own; without slots, which nobody asked
    for."""
    order, descending = choose_order(_ASK_ORDERS, query.sort)

    def keeps(pair: tuple[Application, Ask]) -> bool:
        application, one = pair
        tags = one.spec.tags or {}
        return (
            not one.spec.slot
            and query.ask in ("", one.key)
            and query.pending in (None, bool(one.pending or one.swaps))
            and query.namespace in ("", tags.get(NAMESPACE_TAG, ""))
            and query.pod in ("", tags.get(POD_NAME_TAG, ""))
            and (not query.state or _is_in(found, application, one, query.state))
        )

    def candidates(after: Key | None) -> Iterator[tuple[Application, Ask] | None]:
        # The first application after the cursor is the one whose asks the last page ended in.
        of_application = None if after is None else (after[0] - 1,)
        for application in _applications(found, query.application, of_application):
            if not application.asks or not _keeps_application(application, query):
                yield None
                continue
            listed = list(application.asks.values())
            begun = after is not None and application.serial == after[0]
            first = bisect_right(listed, after[1], key=lambda one: one.serial) if begun and after else 0
            for one in listed[first:]:
                yield application, one

    def show(pair: tuple[Application, Ask]) -> object | None:
        application, one = pair
        is_there = _is_there(found, application) and application.asks.get(one.key) is one
        return projection.ask(one, application) if is_there else None

    return Listing(candidates, keeps, show, is_current, order, query.sort == "time", descending)


_NODE_ORDERS = {
    "id": Order(lambda one: (one.node_id,), (str,)),
    "allocations": Order(lambda one: (len(one.allocations), one.node_id), (int, str), changes=True),
}


def nodes(found: Place, query: NodeQuery, projection: Projection, is_current: Callable[[], bool]) -> Listing[Node]:
    """Nodes by id."""
    order, descending = choose_order(_NODE_ORDERS, query.sort)
    name, sign, value = query.attribute.partition("=")
    if query.attribute and not (name and sign):
        raise HTTPException(422, f"attribute: is {shown(query.attribute)}; it must be NAME=VALUE")
    state = _state(query.state, NodeState)

    def keeps(one: Node) -> bool:
        return (
            state in ("", one.state.value.lower())
            and (not name or one.attribute(name) == value)
            and query.reserved in (None, bool(one.reservations))
        )

    return Listing(
        candidates=lambda _after: list(found.partition.nodes.values()),
        keeps=keeps,
        show=lambda one: projection.node(one) if found.partition.nodes.get(one.node_id) is one else None,
        is_current=is_current,
        order=order,
        descending=descending,
    )


def gangs(
    found: Place, query: GangQuery, projection: Projection, is_current: Callable[[], bool]
) -> Listing[Application]:
    """Gangs in the order of submission of their applications."""

    def keeps(one: Application) -> bool:
        gang = one.gang
        return gang is not None and _keeps_application(one, query) and query.complete in (None, not gang.waits)

    return Listing(
        candidates=lambda after: _applications(found, query.application, after),
        keeps=keeps,
        show=lambda one: projection.gang(one) if _is_there(found, one) else None,
        is_current=is_current,
        order=_APPLICATION_ORDERS["time"],
        is_ordered=True,
    )


def reservations(
    found: Place, query: ReservationQuery, projection: Projection, is_current: Callable[[], bool]
) -> Listing[Reservation]:
    """Reservations, oldest first."""
    return Listing(
        candidates=lambda _after: list(found.partition.reservations),
        keeps=lambda one: _keeps_reservation(one, query),
        show=lambda one: projection.reservation(one) if one in found.partition.reservations else None,
        is_current=is_current,
        order=Order(_reservation_key, (int, str, str, str, int)),
    )


def preemptions(
    found: Place, query: ReservationQuery, projection: Projection, is_current: Callable[[], bool]
) -> Listing[Preemption]:
    """Victims that have not ended, by the age of the reservation that waits for them."""
    return Listing(
        candidates=lambda _after: (
            Preemption(one, victim)
            for one in list(found.partition.reservations)
            if one.victims and _keeps_reservation(one, query)
            for victim in list(one.victims)
        ),
        keeps=lambda one: True,
        show=lambda one: projection.preemption(one) if one.victim in one.reservation.victims else None,
        is_current=is_current,
        order=Order(lambda one: (*_reservation_key(one.reservation), one.victim.uuid), (int, str, str, str, int, str)),
    )


def users(found: Place, query: UserQuery, projection: Projection, is_current: Callable[[], bool]) -> Listing[UserUse]:
    """What users, then groups, use in each queue."""
    usages = found.partition.usages

    def candidates(_after: Key | None) -> Iterator[UserUse]:
        for name, by_path in list(usages.groups.items()):
            yield from (UserUse("group", name, path, ledger) for path, ledger in list(by_path.items()))
        for name, by_path in list(usages.users.items()):
            yield from (UserUse("user", name, path, ledger) for path, ledger in list(by_path.items()))

    def keeps(one: UserUse) -> bool:
        prefix = query.queue.lower()
        is_there = not prefix or one.queue == prefix or one.queue.startswith(f"{prefix}.")
        return is_there and query.name in ("", one.name) and query.kind in ("", one.kind)

    order = Order(lambda one: (one.kind, one.name, one.queue), (str, str, str))
    return Listing(candidates, keeps, projection.user, is_current, order)


def limits(
    found: Place, query: QueueQuery, projection: Projection, is_current: Callable[[], bool]
) -> Listing[QueueLimit]:
    """Limits by queue, in the order of the queue file."""
    return Listing(
        candidates=lambda _after: (
            QueueLimit(queue, number, one)
            for queue in list(found.partition.root.walk())
            for number, one in enumerate(queue.limits)
        ),
        keeps=lambda one: is_below(one.queue, query.queue) and query.leaf in (None, one.queue.is_leaf),
        show=projection.limit,
        is_current=is_current,
        order=Order(lambda one: (one.queue.path, one.number), (str, int)),
    )


def _state(given: str, known: type[Enum]) -> str:
    """The state that is meant, in lower case. Raises `HTTPException` with 422 if it is none."""
    states = [str(one.value) for one in known]
    if given and given.lower() not in [one.lower() for one in states]:
        raise HTTPException(422, f"state: is {shown(given)}; it must be one of {', '.join(states)}")
    return given.lower()


def is_below(queue: Queue, path: str) -> bool:
    """Whether the queue is the one of this path, or below it; True for ''."""
    wanted = path.lower()
    return not wanted or queue.path == wanted or queue.path.startswith(f"{wanted}.")


def _applications(found: Place, only: str, after: Key | None) -> Iterator[Application]:
    """The applications after this serial, in the order of submission; with `only`, at most the one with that id."""
    known = found.partition.applications
    listed = ([known[only]] if only in known else []) if only else list(known.values())
    first = bisect_right(listed, after[0], key=lambda one: one.serial) if after is not None else 0
    yield from listed[first:]


def _keeps_application(one: Application, query: ApplicationQuery) -> bool:
    return (
        query.application in ("", one.application_id)
        and query.user in ("", one.spec.user)
        and is_below(one.queue, query.queue)
    )


def _keeps_reservation(one: Reservation, query: ReservationQuery) -> bool:
    return _keeps_application(one.application, query) and query.node in ("", one.node.node_id)


def _reservation_key(one: Reservation) -> Key:
    return one.made_at_ns, one.node.node_id, one.application.application_id, one.ask.key, one.number


def _is_there(found: Place, one: Application) -> bool:
    return found.partition.applications.get(one.application_id) is one


def _is_in(found: Place, application: Application, ask: Ask, state: str) -> bool:
    return any(one.state == state for one in states_of(found.partition, found.rm.state, application, ask))
