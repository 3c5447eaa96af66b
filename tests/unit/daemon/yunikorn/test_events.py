"""Events as a batch and as an endless stream, with the errors of the peer and bounds of our own."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from schedulerd.core.language.commands import NewApplication, UpdateApplications
from schedulerd.daemon.admin import endless
from schedulerd.daemon.admin.http_connections import LONG_LIVED
from schedulerd.daemon.runtime.shares import share_of
from schedulerd.daemon.yunikorn.events import BATCH_MAX, STREAMS_MAX
from tests.loops import each_row
from tests.rest.asgi import ask
from tests.rest.world import World, open_settings
from tests.unit.daemon.yunikorn.cluster import RM, cluster, get, run

BATCH = "/ws/v1/events/batch"
STREAM = "/ws/v1/events/stream"


def happen(world: World, count: int) -> None:
    """At least so many events."""
    end = world.feed.ring.next_id + count
    while (at := world.feed.ring.next_id) < end:
        new = [NewApplication(f"more-{at}-{n}", "root.other") for n in range(100)]
        world.step(UpdateApplications(RM, new=new))


def test_all_events_with_the_range_of_their_ids() -> None:
    world = cluster()
    found = get(world, BATCH).json
    assert (found["LowestID"], found["HighestID"]) == (0, world.feed.ring.next_id - 1)
    assert len(found["EventRecords"]) == world.feed.ring.next_id
    first = found["EventRecords"][0]
    assert {type(first[key]) for key in ("timestampNano", "resource")} == {int, dict}
    assert found["InstanceUUID"] == world.feed.ring.instance_id
    assert get(world, BATCH, "start=3&count=2").json["EventRecords"] == found["EventRecords"][3:5]
    assert get(world, BATCH, "start=3&start=5&count=1").json["EventRecords"] == found["EventRecords"][3:4]
    assert get(world, BATCH, "start=&count=").json == found


@each_row(
    ("query", "message"),
    [
        ("count=0", '0 is not a valid value for "count"'),
        ("count=-1", 'strconv.ParseUint: parsing "-1": invalid syntax'),
        ("start=abc", 'strconv.ParseUint: parsing "abc": invalid syntax'),
        ("start=%2B1", 'strconv.ParseUint: parsing "+1": invalid syntax'),
        ("start=1_0", 'strconv.ParseUint: parsing "1_0": invalid syntax'),
        ("start=%D9%A3", 'strconv.ParseUint: parsing "\u0663": invalid syntax'),
        ("count=18446744073709551616", 'strconv.ParseUint: parsing "18446744073709551616": value out of range'),
        (f"count={'9' * 4_500}", f'strconv.ParseUint: parsing "{"9" * 4_500}": value out of range'),
        ("count=%00%22", 'strconv.ParseUint: parsing "\\x00\\"": invalid syntax'),
    ],
)
def test_numbers_that_are_none(query: str, message: str) -> None:
    answer = get(cluster(), BATCH, query)
    assert (answer.status, answer.json["message"]) == (400, message)


def test_outside_the_range_there_are_no_events() -> None:
    world = cluster(settings=open_settings(event_ring_max=1_000))
    happen(world, 1_500)
    lowest = world.feed.ring.lowest_id
    assert lowest > 0
    for start in (0, lowest - 1, world.feed.ring.next_id, 2**64 - 1):
        found = get(world, BATCH, f"start={start}").json
        assert found["EventRecords"] is None
        assert found["LowestID"] == lowest
    assert len(get(world, BATCH, f"start={lowest}").json["EventRecords"]) == 1_000


def test_a_batch_has_so_many_events_at_most() -> None:
    world = cluster()
    happen(world, BATCH_MAX + 500)
    for query in ("", "count=99999999"):
        assert len(get(world, BATCH, query).json["EventRecords"]) == BATCH_MAX


def test_of_one_resource_manager_only() -> None:
    world = cluster()
    world.register("", "rm-2")
    all_events = get(world, BATCH).json["EventRecords"]
    of_one = get(world, BATCH, "rm=rm-2").json["EventRecords"]
    assert 0 < len(of_one) < len(all_events)
    assert get(world, BATCH, "rm=nobody").json["EventRecords"] == []


def test_without_tracking_there_are_none() -> None:
    world = cluster(event_tracking=False)
    for path in (BATCH, STREAM):
        assert (get(world, path).status, get(world, path).json["message"]) == (500, "Event tracking is disabled")


class Client:
    """Follows the stream on the loop of the test."""

    def __init__(self, world: World, query: str = "", host: str = "10.0.0.1") -> None:
        self.lines: list[Any] = []
        self.ended = False
        self.reads = asyncio.Event()
        self.reads.set()
        self.gone = asyncio.Event()
        self.is_long_lived = False
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "method": "GET",
            "path": STREAM,
            "query_string": query.encode(),
            "headers": [],
            "client": (host, 1),
            "server": ("127.0.0.1", 1),
            "scheme": "http",
            "http_version": "1.1",
            "root_path": "",
            LONG_LIVED: self._long_lived,
        }
        self.task = asyncio.ensure_future(world.app(self._scope, self._receive, self._send))

    def _long_lived(self) -> None:
        self.is_long_lived = True

    async def _receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self.reads.wait()
        self.lines += [json.loads(line) for line in message.get("body", b"").splitlines()]
        self.ended |= message["type"] == "http.response.body" and not message.get("more_body")


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_stream_begins_with_the_instance_and_goes_on() -> None:
    world = cluster()

    async def main() -> None:
        client = Client(world, "count=2")
        await turns()
        assert client.is_long_lived
        batch = await ask(world.app, "GET", BATCH)
        assert client.lines == [{"InstanceUUID": world.feed.ring.instance_id}, *batch.json["EventRecords"][-2:]]
        before = world.feed.ring.next_id
        happen(world, 100)
        await turns(100)
        assert len(client.lines) == 3 + world.feed.ring.next_id - before
        world.feed.close()
        await client.task
        assert client.ended

    run(main())


def test_a_client_that_goes_is_forgotten() -> None:
    world = cluster()

    async def main() -> None:
        client = Client(world)
        await turns()
        assert world.feed.counts.followers == 1
        client.gone.set()
        await client.task
        assert world.feed.counts.followers == 0
        assert not client.ended

    run(main())


def test_a_client_that_does_not_read_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endless, "UNREAD_SECONDS_MAX", 0.01)
    world = cluster()

    async def main() -> None:
        client = Client(world)
        await turns()
        client.reads.clear()
        happen(world, 100)
        await client.task
        assert not client.ended  # the client sees that there would be more
        assert world.feed.counts.followers == 0

    run(main())


def test_a_client_that_loses_events_is_cut() -> None:
    world = cluster(settings=open_settings(event_ring_max=1_000))

    async def main() -> None:
        client = Client(world)
        await turns()
        client.reads.clear()
        happen(world, 100)
        await turns()
        happen(world, 3_000)
        client.reads.set()
        await client.task
        assert not client.ended
        assert len(client.lines) < 1_000

    run(main())


def test_so_many_streams_are_open_at_a_time() -> None:
    world = cluster()

    async def main() -> None:
        of_one = [Client(world) for _ in range(share_of(STREAMS_MAX))]
        await turns()
        refused = await ask(world.app, "GET", STREAM, leaves_after=50)
        assert refused.status == 200  # another address
        one_too_many = Client(world)
        await one_too_many.task
        assert one_too_many.lines[0]["message"] == "Too many streaming connections"
        others = [Client(world, host=f"10.0.1.{n}") for n in range(STREAMS_MAX - len(of_one))]
        await turns()
        assert (await ask(world.app, "GET", STREAM, leaves_after=50)).status == 503
        for client in (*of_one, *others):
            client.gone.set()
        await asyncio.gather(*(client.task for client in (*of_one, *others)))
        assert (await ask(world.app, "GET", STREAM, leaves_after=50)).status == 200

    run(main())


@pytest.mark.parametrize("query", ["count=abc", "count=-1"])
def test_a_stream_that_cannot_begin(query: str) -> None:
    assert get(cluster(), STREAM, query).status == 400
