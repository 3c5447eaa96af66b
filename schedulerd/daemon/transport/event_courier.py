"""Sends events to the resource managers that want them, on their callback streams (SI `SendEvent`).

One task serves all of them. It sleeps until there are new events or listeners. It makes a few messages at a time, for
one resource manager after the other, so that the loop is free in between and no resource manager waits for the one with
the most events. Events that a resource manager does not read in time are dropped where they wait (`Calls`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from schedulerd.daemon.runtime.event_feed import EventFeed, Follower
from schedulerd.daemon.transport.callbacks import Callbacks
from schedulerd.observe.event_messages import encoded, message_of_2021, message_of_2022, message_of_2023
from schedulerd.observe.event_record import Event
from schedulerd.wire.callback import EventMessage, InterfaceVersion

BATCH_MAX = 200
"""Number of messages made in one go: about a millisecond."""


_MESSAGES: Mapping[InterfaceVersion, Callable[[Event], EventMessage | None]] = {
    InterfaceVersion.V2021_02: message_of_2021,
    InterfaceVersion.V2022_12: message_of_2022,
    InterfaceVersion.V2023_06: message_of_2023,
}


class EventCourier:
    """Follows the event feed for each resource manager whose stream asks for events."""

    def __init__(self, feed: EventFeed, callbacks: Callbacks) -> None:
        self._feed = feed
        self._callbacks = callbacks
        self._followers: dict[str, tuple[Follower, ExitStack]] = {}

    async def run(self) -> None:
        """Delivers events forever."""
        changed = self._callbacks.listeners_changed
        while True:
            await changed.wait()
            changed.clear()
            self._meet(changed)
            for rm_id in list(self._followers):
                if self._deliver(rm_id):
                    changed.set()
                await asyncio.sleep(0)

    def _meet(self, changed: asyncio.Event) -> None:
        """Starts to follow for new listeners, from now on, and stops for those that are gone."""
        listeners = self._callbacks.event_listeners()
        for rm_id in [rm_id for rm_id in self._followers if rm_id not in listeners]:
            _, following = self._followers.pop(rm_id)
            following.close()
        for rm_id in listeners:
            if rm_id not in self._followers:
                following = ExitStack()
                self._followers[rm_id] = following.enter_context(self._feed.follow(rm_id, woken=changed)), following

    def _deliver(self, rm_id: str) -> bool:
        """Sends one batch to one resource manager; returns whether there may be more for it."""
        version = self._callbacks.event_listeners().get(rm_id)
        if version is None:
            return False
        follower, _ = self._followers[rm_id]
        events = follower.take(BATCH_MAX)
        messages: list[EventMessage] = list(encoded(events, _MESSAGES[version], self._feed.ring))
        self._callbacks.send_events(rm_id, messages)
        return not follower.is_at_end
