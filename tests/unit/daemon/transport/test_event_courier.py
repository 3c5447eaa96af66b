"""Events on the callback streams of the resource managers that want them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest
from structlog.testing import capture_logs

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd.core.language.commands import NewApplication, UpdateApplications
from schedulerd.daemon.runtime.event_feed import EventFeed
from schedulerd.daemon.transport import event_courier
from schedulerd.daemon.transport.event_courier import EventCourier
from schedulerd.observe import event_messages
from schedulerd.observe.event_record import Event
from schedulerd.observe.event_recorder import EventRecorder
from schedulerd.observe.event_ring import EventRing
from schedulerd.wire.callback import InterfaceVersion
from schedulerd.wire.dialect import Stream
from tests.unit.daemon import callback_world
from tests.unit.daemon.callback_world import CallbackCall, World
from tests.unit.daemon.fake_call import turns
from tests.unit.daemon.recording import FakeStream


class Delivery:
    """A world in which events are delivered; they are recorded only while somebody wants them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.feed = EventFeed(EventRecorder(EventRing(1_000, "run")), world.owner, tracked=False)
        self._courier = asyncio.create_task(EventCourier(self.feed, world.callbacks).run())

    async def connected(self, rm_id: str = "rm", version: int = 0) -> tuple[CallbackCall, asyncio.Task[None]]:
        context, served = self.world.open()
        context.hello(rm_id, version=version, events=True)
        await turns()
        return context, served

    async def submit(self, *application_ids: str, rm_id: str = "rm") -> None:
        new = [NewApplication(one, "root.a", user="u") for one in application_ids]
        await (await self.world.owner.submit(UpdateApplications(rm_id, new)))
        await turns()

    async def end(self) -> None:
        self._courier.cancel()
        await asyncio.wait({self._courier})


def run(story: Callable[[Delivery], Coroutine[None, None, None]]) -> None:
    async def play(world: World) -> None:
        delivery = Delivery(world)
        await story(delivery)
        await delivery.end()

    callback_world.run(play)


def names(context: CallbackCall, field: str = "events") -> list[str]:
    return [event.objectID for event in getattr(context.received, field)]


def test_each_resource_manager_gets_its_own_events_in_its_version() -> None:
    async def story(delivery: Delivery) -> None:
        new, _ = await delivery.connected("rm", callback_pb2.INTERFACE_VERSION_2023_06)
        old, _ = await delivery.connected("other", callback_pb2.INTERFACE_VERSION_2021_02)
        await delivery.submit("app-1")
        await delivery.submit("app-2", rm_id="other")
        assert names(new) == ["app-1", "root.a"]
        assert names(old, "eventsOf2021") == ["app-2", "root.a"]
        assert [(event.groupID, event.reason) for event in old.received.eventsOf2021] == [
            ("root.a", "AppNew"),
            ("", "QueueAppAdded"),
        ]

    run(story)


def test_2022_has_its_shape_too() -> None:
    async def story(delivery: Delivery) -> None:
        context, _ = await delivery.connected(version=callback_pb2.INTERFACE_VERSION_2022_12)
        await delivery.submit("app-1")
        assert names(context, "eventsOf2022") == ["app-1", "root.a"]

    run(story)


def test_a_stream_that_says_no_version_gets_that_of_its_update_stream() -> None:
    async def story(delivery: Delivery) -> None:
        for rm_id, kind in (("rm", Stream.UPDATE), ("other", Stream.NODE)):
            delivery.world.sessions.attach(rm_id, kind, FakeStream())
        old, _ = await delivery.connected("rm")
        new, _ = await delivery.connected("other")
        await delivery.submit("app-1")
        await delivery.submit("app-2", rm_id="other")
        assert (names(old), names(old, "eventsOf2021")) == ([], ["app-1", "root.a"])
        assert (names(new), names(new, "eventsOf2021")) == (["app-2", "root.a"], [])

    run(story)


def test_nothing_is_recorded_for_streams_that_do_not_want_events() -> None:
    async def story(delivery: Delivery) -> None:
        await delivery.world.connected(predicates=True)
        await delivery.submit("app-1")
        assert (delivery.feed.ring.next_id, delivery.feed.counts.followers) == (0, 0)

    run(story)


def test_a_stream_that_ends_is_not_followed_and_the_next_begins_with_what_is_new() -> None:
    async def story(delivery: Delivery) -> None:
        first, served = await delivery.connected()
        first.half_close()
        served.cancel()
        await asyncio.wait({served})
        await turns()
        assert delivery.feed.counts.followers == 0
        await delivery.submit("missed")
        second, _ = await delivery.connected()
        await delivery.submit("seen")
        assert names(second) == ["seen", "root.a"]

    run(story)


def test_many_events_are_delivered_in_pieces_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_courier, "BATCH_MAX", 3)

    async def story(delivery: Delivery) -> None:
        context, _ = await delivery.connected()
        await delivery.submit(*(f"app-{number}" for number in range(20)))
        assert names(context)[::2] == [f"app-{number}" for number in range(20)]
        messages = [callback_pb2.CallbackCall.FromString(response) for response in context.responses]
        assert [len(message.events) for message in messages] == [0, *[3] * 13, 1]

    run(story)


@pytest.mark.parametrize("broken", ["message_of_2023", "message_of_2022", "message_of_2021"])
def test_an_event_that_cannot_be_encoded_is_left_out_and_the_courier_goes_on(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_version = next(one for one in InterfaceVersion if one.startswith(broken[-4:]))
    version = callback_pb2.InterfaceVersion.Value(f"INTERFACE_VERSION_{of_version.replace('-', '_')}")
    real = getattr(event_messages, broken)

    def encode(event: Event) -> object:
        if event.record.object_id == "app-2":
            raise OverflowError("Value out of range")
        return real(event)

    monkeypatch.setitem(event_courier._MESSAGES, of_version, encode)

    async def story(delivery: Delivery) -> None:
        context, _ = await delivery.connected(version=version)
        await delivery.submit("app-1", "app-2", "app-3")
        field = {"2021": "eventsOf2021", "2022": "eventsOf2022", "2023": "events"}[broken[-4:]]
        assert names(context, field) == ["app-1", "root.a", "root.a", "app-3", "root.a"]
        assert delivery.feed.counts.failed == 1

    with capture_logs() as lines:
        run(story)
    [line] = [line for line in lines if line["event"] == "event left out: it cannot be shown"]
    assert (line["log_level"], str(line["exc_info"])) == ("error", "Value out of range")
