"""Events of the ring that a page wants, the newest ones: found once, and continued at each refresh."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.daemon.admin.ui.addresses import Addresses
from schedulerd.daemon.admin.ui.context import Context
from schedulerd.daemon.admin.ui.texts import amount, clock_time, row_key
from schedulerd.daemon.admin.ui.view import View
from schedulerd.observe.event_messages import reason
from schedulerd.observe.event_record import Event, Kind
from schedulerd.observe.event_ring import EventRing

SCANNED_MAX = 5_000
"""Events that one refresh of a page looks at."""
_READ = 32

Wants = Callable[[Event], bool]


class Story:
    """The last events that a page wants."""

    def __init__(self, limit: int) -> None:
        self.events: deque[Event] = deque(maxlen=limit)
        """Oldest first."""
        self._limit = limit
        self._next_id: int | None = None
        self._seen_from = 0

    def read(self, ring: EventRing, rm_id: str, wants: Wants) -> Generator[None, None, None]:
        """Reads what is new, and goes further back if there are not enough: some thousand events each time, so that
        a page is there at once and its story soon after."""
        if self._next_id is None:
            self._next_id = self._seen_from = ring.next_id
        at = max(self._next_id, ring.next_id - SCANNED_MAX)
        end = ring.next_id
        while at < end:
            found = ring.read(at, _READ, rm_id)
            self.events.extend(filter(wants, found.events))
            at = max(found.next_id, at + 1)
            yield
        self._next_id = at
        yield from self._look_back(ring, rm_id, wants)

    def _look_back(self, ring: EventRing, rm_id: str, wants: Wants) -> Generator[None, None, None]:
        """Groups of events backwards; each is read forwards."""
        lowest = max(ring.lowest_id, self._seen_from - SCANNED_MAX)
        while self._seen_from > lowest and len(self.events) < self._limit:
            begin = max(lowest, self._seen_from - _READ)
            found: list[Event] = []
            at = begin
            while at < self._seen_from:
                part = ring.read(at, self._seen_from - at, rm_id)
                found += [one for one in part.events if one.event_id < self._seen_from and wants(one)]
                at = max(part.next_id, at + 1)
            self.events.extendleft(reversed(found[len(self.events) - self._limit :]))
            self._seen_from = begin
            yield


KINDS = {Kind.REQUEST: "request", Kind.APP: "app", Kind.NODE: "node", Kind.QUEUE: "queue"}


def add_events(made: View, context: Context, story: Story) -> None:
    """Adds the list `events`, the newest first."""
    made.begin("events")
    for one in reversed(story.events):
        record = one.record
        kind = KINDS.get(record.kind, "")
        resources = ", ".join(f"{name} {amount(name, value)}" for name, value in record.resources.items())
        said = ": ".join(part for part in (record.message, resources) if part)
        made.add(
            "events",
            row_key(one.event_id),
            at=clock_time(one.at_ns),
            kind=kind or "other",
            object=record.object_id,
            object__href=_link(context.links, record.kind, record.object_id, record.reference_id or record.group),
            what=_words(reason(record)),
            text=said,
            other=record.reference_id if record.kind != Kind.REQUEST else record.group or record.reference_id,
        )


def _words(name: str) -> str:
    """`AppAllocAdded` as `app alloc added`."""
    return "".join(f" {one.lower()}" if one.isupper() else one for one in name).strip()


def _link(links: Addresses, kind: int, object_id: str, reference: str) -> str:
    match kind:
        case si_pb2.EventRecord.APP:
            return links.application(object_id)
        case si_pb2.EventRecord.REQUEST:
            return links.application(reference)
        case si_pb2.EventRecord.NODE:
            return links.node(object_id)
        case si_pb2.EventRecord.QUEUE:
            return links.queue(object_id)
        case _:
            return links.to("events")
