"""What many clients, slow clients and large requests cannot do."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.types import Message

from schedulerd.daemon.admin.api import event_scan, event_stream, projections
from schedulerd.daemon.admin.api.answers import API_JSON, OPEN_MAX, WORK_SECONDS_MAX, Answers
from schedulerd.daemon.admin.api.configuration_routes import ImpactItem, Validation
from schedulerd.daemon.admin.api.event_routes import EVENTS_LISTED_MAX, EventFilter
from schedulerd.daemon.admin.api.event_scan import SCANNED_MAX
from schedulerd.daemon.admin.api.event_stream import (
    CHUNKS_KEPT_MAX,
    STREAMS_MAX,
    TICK_SECONDS,
    EventStream,
    EventStreams,
)
from schedulerd.daemon.admin.api.explain_routes import RESOURCES_MAX
from schedulerd.daemon.admin.api.finding import NAME_LENGTH_MAX
from schedulerd.daemon.admin.endless import UNREAD_SECONDS_MAX
from schedulerd.daemon.admin.state_queries import (
    IDLE_SECONDS,
    IDLE_SHARE_MAX,
    LOOP_SHARE_MAX,
    PIECE_BYTES_MAX,
    StateQueries,
)
from schedulerd.instant import Instant
from schedulerd.observe.event_record import Change, Detail, Kind, Record
from schedulerd.observe.event_ring import EventRing
from tests.unit import virtual_loop
from tests.unit.daemon.admin.api.api_world import ApiWorld


class Sources:
    """What `Answers` uses of the sources."""

    def __init__(self) -> None:
        self.queries = StateQueries(lambda _query: None, clock=asyncio.get_running_loop().time)


def endless() -> Generator[None, None, None]:
    """Holds the loop for a while at each step, by the virtual clock, and never comes to an end."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, virtual_loop.VirtualLoop)
    while True:
        loop.hold(0.01)
        yield


def test_an_explanation_that_gets_no_time_ends() -> None:
    async def story() -> float:
        answers = Answers(Sources())  # type: ignore[arg-type]
        with pytest.raises(HTTPException) as refused:
            await answers.finish(endless())
        assert (refused.value.status_code, refused.value.headers) == (503, {"Retry-After": "1"})
        return asyncio.get_running_loop().time()

    assert virtual_loop.run(story()) == pytest.approx(WORK_SECONDS_MAX, abs=0.1)


def test_so_many_requests_are_open_at_a_time() -> None:
    async def story() -> None:
        answers = Answers(Sources())  # type: ignore[arg-type]
        tasks = [asyncio.ensure_future(answers.finish(endless())) for _ in range(OPEN_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(HTTPException, match="503"):
            await answers.fresh(1)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert (await answers.fresh(1)).body == b"1"

    virtual_loop.run(story())


def a_second_of_work() -> Generator[None, None, str]:
    holding = endless()
    for _ in range(100):
        next(holding)
        yield
    return "done"


def test_work_pauses_for_its_share_of_the_loop() -> None:
    async def story() -> float:
        assert await Sources().queries.finish(a_second_of_work()) == "done"
        return asyncio.get_running_loop().time()

    assert virtual_loop.run(story()) == pytest.approx(1 / LOOP_SHARE_MAX, rel=0.05)


@pytest.mark.parametrize(
    ("works_ago", "share"), [(IDLE_SECONDS / 2, LOOP_SHARE_MAX), (2 * IDLE_SECONDS, IDLE_SHARE_MAX)]
)
def test_an_idle_scheduler_leaves_more_of_the_loop(works_ago: float, share: float) -> None:
    async def story() -> float:
        clock = asyncio.get_running_loop().time
        began = clock()
        queries = StateQueries(
            lambda _query: None,
            clock=clock,
            worked_at=lambda: clock() - works_ago,
        )
        await queries.finish(a_second_of_work())
        return clock() - began

    assert virtual_loop.run(story()) == pytest.approx(1 / share, rel=0.05)


def test_an_explanation_waits_for_one_of_many_lists_at_a_time() -> None:
    async def story() -> float:
        queries = Sources().queries
        lists = [asyncio.ensure_future(queries.finish(endless())) for _ in range(20)]
        await asyncio.sleep(1)
        began = asyncio.get_running_loop().time()
        assert await queries.finish(a_second_of_work(), ahead=True) == "done"
        for one in lists:
            one.cancel()
        await asyncio.wait(lists)
        return asyncio.get_running_loop().time() - began

    assert virtual_loop.run(story()) == pytest.approx(2 / LOOP_SHARE_MAX, rel=0.05)


def test_a_large_answer_is_written_in_pieces() -> None:
    impact = [ImpactItem("kind", "default", f"root.{number}", True, "<m>é") for number in range(1_000)]
    answer = Validation(True, "", "sum", [], [], "rm", impact)
    parts = list(API_JSON.pieces(answer))
    assert "".join(parts).encode() == TypeAdapter(Validation).dump_json(answer)
    assert max(map(len, parts)) < 8_192 + 200


def test_lists_are_handed_on_in_pieces() -> None:
    async def story() -> list[int]:
        queries = Sources().queries
        return [len(piece) async for piece in queries.pieces(iter([b"x" * 1_000] * 200))]

    sizes = virtual_loop.run(story())
    assert sum(sizes) == 200_000
    assert max(sizes) < PIECE_BYTES_MAX + 1_000


def test_names_are_bounded() -> None:
    long = "x" * (NAME_LENGTH_MAX + 1)
    assert ApiWorld().refused("/asks", application=long)[0] == 422
    assert ApiWorld().refused("/explain/pod", pod=long)[0] == 422


def test_resources_of_a_supposed_ask_are_bounded() -> None:
    body = {"queue": "root.b", "resources": {f"r{number}": 1 for number in range(RESOURCES_MAX + 1)}}
    assert ApiWorld().request("POST", "/whatif/fits", json=body).status_code == 422


def test_events_of_a_list_are_bounded() -> None:
    assert ApiWorld().refused("/events", limit=EVENTS_LISTED_MAX + 1)[0] == 422


def event_streams(world: ApiWorld) -> EventStreams:
    queries = StateQueries(lambda _query: None, clock=asyncio.get_running_loop().time)
    return EventStreams(world.events.feed, queries, world.talk.scheduler)


async def nothing_comes() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


def test_so_many_streams_are_open_at_a_time() -> None:
    async def story() -> None:
        world = ApiWorld()
        streams = event_streams(world)

        async def send(_message: Message) -> None: ...

        def opened() -> Any:
            return EventStream(streams, EventFilter(), None)({}, nothing_comes, send)

        tasks = [asyncio.ensure_future(opened()) for _ in range(STREAMS_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(HTTPException, match="503"):
            await opened()
        await asyncio.wait(tasks)
        assert world.events.feed.counts.followers == 0

    virtual_loop.run(story())


def test_a_client_that_does_not_read_a_stream_is_cut() -> None:
    async def story() -> float:
        world = ApiWorld()
        ended = []

        async def send(message: Message) -> None:
            if message.get("body"):
                await asyncio.Event().wait()
            if message.get("more_body") is False:
                ended.append(message)

        stream = EventStream(event_streams(world), EventFilter(), None)
        await stream({}, nothing_comes, send)
        assert ended == []
        return asyncio.get_running_loop().time()

    assert virtual_loop.run(story()) == pytest.approx(UNREAD_SECONDS_MAX)


def test_events_are_made_once_for_all_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients with the same filter get the same bytes at the same moments, however many they are."""
    made: list[int] = []
    original = projections.event

    def counted(one: Any, *others: Any) -> Any:
        made.append(one.event_id)
        return original(one, *others)

    async def story() -> list[list[tuple[float, bytes]]]:
        world = ApiWorld()
        world.events.register()
        streams = event_streams(world)
        got: list[list[tuple[float, bytes]]] = []

        async def watched() -> None:
            own: list[tuple[float, bytes]] = []
            got.append(own)

            async def send(message: Message) -> None:
                own.append((asyncio.get_running_loop().time(), message.get("body", b"")))

            await EventStream(streams, EventFilter(), None)({}, nothing_comes, send)

        tasks = [asyncio.ensure_future(watched()) for _ in range(20)]
        await asyncio.sleep(0.1)
        for _ in range(3):
            world.events.happen(1)
            await asyncio.sleep(0.1)
        await asyncio.wait(tasks)
        return got

    monkeypatch.setattr(event_stream, "event", counted)
    first, *others = virtual_loop.run(story())
    assert all([text for _, text in one] == [text for _, text in first] for one in others)
    assert len(made) == len(set(made)) == 6
    moments = {at for at, text in first if text.startswith(b"id: ")}
    assert len(moments) == 1
    assert all(at % TICK_SECONDS < 0.01 for at in moments)


def test_streams_of_many_filters_share_the_time_of_state_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the virtual clock, an event takes 1 ms: 40 streams, each with its own 100 events, take 4 s of the loop."""
    original = projections.event

    def slow(one: Any, *others: Any) -> Any:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual_loop.VirtualLoop)
        loop.hold(0.001)
        return original(one, *others)

    async def story() -> float:
        world = ApiWorld()
        world.events.register()
        world.events.happen(50)
        streams = event_streams(world)
        wanted = [EventFilter(object=f"app-{number}") for number in range(40)]
        # All events are of the applications, but the filters differ in how they are written only.
        monkeypatch.setattr(EventFilter, "wants", lambda _filter, _one: True)
        await asyncio.gather(*(streams.chunk(one, 0, 100) for one in wanted))
        return asyncio.get_running_loop().time()

    monkeypatch.setattr(event_stream, "event", slow)
    assert virtual_loop.run(story()) >= 0.9 * 40 * 100 * 0.001 / LOOP_SHARE_MAX


def test_a_search_looks_at_so_many_events_forwards_and_backwards() -> None:
    ring = EventRing(100_000, "this-run")
    record = Record(Kind.APP, "app", Change.NONE, Detail.DETAILS_NONE)
    rare = record._replace(object_id="rare")
    for number in range(100_000):
        ring.add(Instant(0, 0), "rm", "default", 1, lambda one: (one,), rare if number == 50_000 else record)

    def run(work: Generator[None, None, event_scan.Found]) -> tuple[list[int], int, int]:
        stops = 0
        while True:
            try:
                next(work)
                stops += 1
            except StopIteration as end:
                return [one.event_id for one in end.value.events], end.value.edge, stops

    wanted = EventFilter(object="rare")
    assert run(event_scan.backwards(ring, wanted, 100_000, 100)) == ([], 100_000 - SCANNED_MAX, SCANNED_MAX // 32)
    assert run(event_scan.backwards(ring, wanted, 60_000, 100)) == ([50_000], 40_000, SCANNED_MAX // 32)
    assert run(event_scan.backwards(ring, wanted, 60_000, 1))[:2] == ([50_000], 50_000)
    assert run(event_scan.forwards(ring, wanted, 0, 100_000, 100)) == ([], SCANNED_MAX, SCANNED_MAX // 32)
    assert run(event_scan.forwards(ring, wanted, 40_000, 100_000, 100)) == ([50_000], 60_000, SCANNED_MAX // 32)


def test_so_many_texts_are_kept_for_other_streams() -> None:
    async def story() -> int:
        world = ApiWorld()
        world.events.register()
        world.events.happen(CHUNKS_KEPT_MAX)
        streams = event_streams(world)
        for start in range(2 * CHUNKS_KEPT_MAX):
            await streams.chunk(EventFilter(), start, streams.ring.next_id)
        return len(streams._kept)

    assert virtual_loop.run(story()) == CHUNKS_KEPT_MAX
