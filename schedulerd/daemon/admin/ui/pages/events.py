"""What happened, the newest first."""

from __future__ import annotations

from collections.abc import Generator

from schedulerd.daemon.admin.ui.context import Context
from schedulerd.daemon.admin.ui.pages.head import add_head
from schedulerd.daemon.admin.ui.pages.stories import KINDS, Story, add_events
from schedulerd.daemon.admin.ui.texts import visible
from schedulerd.daemon.admin.ui.view import View
from schedulerd.observe.event_record import Event

PARAMS = ("type", "object")
EVENTS_SHOWN = 60


def view(context: Context) -> Generator[None, None, View]:
    """The view: of one kind of object, or of the object with an id, if the parameters say so."""
    made = View("Events", "events.html")
    yield from add_head(made, context)
    kind, name = context.params.get("type", ""), context.params.get("object", "")
    partition = context.place.partition.name

    def wants(one: Event) -> bool:
        record = one.record
        return (
            one.partition in ("", partition)
            and (not kind or KINDS.get(record.kind) == kind)
            and (not name or name in (record.object_id, record.reference_id, record.group))
        )

    story = context.memo.setdefault("story", Story())
    if context.sources.feed.tracked:
        yield from story.read(context.sources.feed.ring, context.place.rm.rm_id, wants)
    add_events(made, context, story, EVENTS_SHOWN)
    made.fixed |= {
        "tracked": context.sources.feed.tracked,
        "filters": {"type": kind if kind in KINDS.values() else "", "object": visible(name)},
        "kinds": list(KINDS.values()),
        "show_all": context.links.to("events"),
    }
    return made
