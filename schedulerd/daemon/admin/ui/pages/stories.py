"""Events of the ring that a page wants, the newest ones: found over several refreshes, and folded where they are
equal."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator
from typing import NamedTuple

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core.language.ask_tags import pod_of
from schedulerd.daemon.admin.api.projections import pod_of_request
from schedulerd.daemon.admin.ui.context import Context
from schedulerd.daemon.admin.ui.texts import amounts, many, moment, row_key
from schedulerd.daemon.admin.ui.view import View
from schedulerd.daemon.admin.ui.words import event_words, message_of, without_uuids
from schedulerd.observe.event_messages import reason
from schedulerd.observe.event_record import SI, Event, Kind, Record
from schedulerd.observe.event_ring import EventCursor, EventRing

SCANNED_MAX = 5_000
"""Events that one refresh of a page looks at."""
KEPT_MAX = 400
"""Events of a page that are kept, to be folded into its rows."""
_READ = 32

Wants = Callable[[Event], bool]


class Story:
    """The last events that a page wants. What was not looked at yet is searched at later refreshes, the newest first,
    so that a page is there at once and its story soon after."""

    def __init__(self, limit: int = KEPT_MAX) -> None:
        self.events: list[Event] = []
        """Oldest first."""
        self.searched_to_ns: int | None = None
        """Wall time back to which events were looked at; None if all were that are remembered."""
        self._limit = limit
        self._next_id = 0
        self._unread: list[tuple[int, int]] = []
        """Ranges of ids that were not looked at, oldest first; the second id is not included."""

    def read(self, ring: EventRing, rm_id: str, wants: Wants) -> Generator[None, None, None]:
        """Looks at events that were not looked at, some thousand each time."""
        if ring.next_id > self._next_id:
            self._unread.append((self._next_id, ring.next_id))
            self._next_id = ring.next_id
        left = SCANNED_MAX
        while left > 0 and (part := self._next_part(ring, min(left, _READ))) is not None:
            begin, end = part
            found = EventCursor(ring, begin, rm_id, wants, end).take(end - begin)
            at = bisect_left(self.events, begin, key=lambda one: one.event_id)
            self.events[at:at] = found
            del self.events[: -self._limit]
            left -= end - begin
            yield
        self.searched_to_ns = None
        if self._unread:
            seen = ring.read(self._unread[-1][1], 1).events
            self.searched_to_ns = seen[0].at_ns if seen else self.searched_to_ns

    def _next_part(self, ring: EventRing, size: int) -> tuple[int, int] | None:
        """The newest ids that were not looked at, which count as looked at from now on; None if there are none, or if
        events before them would not be kept."""
        if not self._unread:
            return None
        begin, end = self._unread[-1]
        is_full = len(self.events) >= self._limit and self.events[0].event_id >= end
        if is_full or end <= ring.lowest_id:
            self._unread.clear()
            return None
        at = max(begin, ring.lowest_id, end - size)
        if at <= max(begin, ring.lowest_id):
            self._unread.pop()
        else:
            self._unread[-1] = begin, at
        return at, end


KINDS = {Kind.REQUEST: "request", Kind.APP: "app", Kind.NODE: "node", Kind.QUEUE: "queue"}


class _Row(NamedTuple):
    """Events of one second that say the same."""

    second: int
    kind: int
    object_id: str
    """The application of a request; '' for allocations on nodes, which are said of several nodes at once."""
    name: str
    text: str


def add_events(made: View, context: Context, story: Story, limit: int) -> None:
    """Adds the list `events`, the newest first, and says how far back events were searched."""
    made.begin("events")
    rows: dict[_Row, list[Event]] = {}
    for one in reversed(story.events):
        record = one.record
        object_id = record.object_id
        if record.kind == Kind.REQUEST:
            object_id = record.group or object_id
        elif record.kind == Kind.NODE and record.detail == SI.NODE_ALLOC:
            object_id = ""
        row = _Row(one.at_ns // 1_000_000_000, record.kind, object_id, reason(record), without_uuids(_text(record)))
        if row not in rows and len(rows) >= limit:
            break
        rows.setdefault(row, []).append(one)
    for row, some in rows.items():
        _add_row(made, context, row, some)
    to = story.searched_to_ns
    searched = f"searched back to {moment(to, context.now.wall_ns)} so far" if to is not None else ""
    made.put(
        events_searched=f"Events were {searched}; the search goes on." if searched else "",
        events_empty=f"None found yet: {searched}." if searched else "None is remembered.",
    )


def _add_row(made: View, context: Context, row: _Row, some: list[Event]) -> None:
    record = some[0].record
    name, href = row.object_id, _link(context, record)
    other, other_href = _other(context, record) if len(some) == 1 else ("", "")
    if record.kind == Kind.REQUEST and len(some) == 1:
        name = pod_of_request(context.place.partition, record) or record.object_id
        other, other_href = row.object_id, context.links.application(row.object_id)
    elif record.kind == Kind.REQUEST:
        href = context.links.application(row.object_id)
    elif not row.object_id:
        nodes = {one.record.object_id for one in some}
        name = record.object_id if len(nodes) == 1 else many(len(nodes), "node")
        href = href if len(nodes) == 1 else context.links.to("nodes")
    made.add(
        "events",
        row_key(*row),
        at=moment(some[0].at_ns, context.now.wall_ns),
        kind=KINDS.get(record.kind, "other"),
        object=name,
        object__href=href,
        what=event_words(row.name, len(some)),
        text=row.text,
        other=other,
        other__href=other_href,
        other__class="" if other_href else "none",
    )


def _text(record: Record) -> str:
    message = record.message
    if record.kind == Kind.APP:
        message = message_of(reason(record), message)
    return ": ".join(part for part in (message, amounts(record.resources)) if part)


def _link(context: Context, record: Record) -> str:
    links, object_id = context.links, record.object_id
    match record.kind:
        case si_pb2.EventRecord.APP:
            return links.application(object_id)
        case si_pb2.EventRecord.REQUEST:
            return links.ask(record.group or record.reference_id, object_id)
        case si_pb2.EventRecord.NODE:
            return links.node(object_id)
        case si_pb2.EventRecord.QUEUE:
            return links.queue(object_id)
        case _:
            return links.to("events")


def _other(context: Context, record: Record) -> tuple[str, str]:
    """The thing that the event refers to beside its own object, if it is there."""
    partition, links, name = context.place.partition, context.links, record.reference_id
    allocation = partition.allocations.get(name)
    if allocation is not None:
        ask = allocation.ask
        return pod_of(ask.spec.tags) or ask.key, links.ask(allocation.application.application_id, ask.key)
    application = partition.applications.get(record.object_id) if record.kind == Kind.APP else None
    if application is not None and name in application.asks:
        return pod_of(application.asks[name].spec.tags) or name, links.ask(record.object_id, name)
    if name in partition.applications:
        return name, links.application(name)
    return (name, links.node(name)) if name in partition.nodes else ("", "")
