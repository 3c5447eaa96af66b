"""Answers are written in slices with a bounded share of the loop, compressed if wanted, and never cut."""

from __future__ import annotations

import asyncio
import gzip
from itertools import pairwise
from typing import Any

import pytest

from schedulerd.core.language.commands import NewAsk, UpdateAllocations
from schedulerd.core.language.resources import Resources
from schedulerd.daemon.runtime.json_stream import JsonWriter
from schedulerd.daemon.yunikorn import answers, routes
from schedulerd.daemon.yunikorn.answers import CHUNK_BYTES, GZIP_BYTES_MIN, LARGE_MAX, OPEN_MAX, RETRY_SECONDS
from schedulerd.daemon.yunikorn.app import PeerApi
from schedulerd.daemon.yunikorn.go_json import encode
from schedulerd.daemon.yunikorn.pacing import GAP_SECONDS, LOOP_SHARE_MAX, SLICE_SECONDS, Pacer
from tests.loops import each_row
from tests.rest.asgi import Answer, ask
from tests.rest.world import World
from tests.unit.daemon.yunikorn.cluster import RM, cluster, get, run

P = "/ws/v1/partition/default"


class Clock:
    """Time that passes with work: so much at each reading, and as long as somebody sleeps."""

    def __init__(self, step_seconds: float) -> None:
        self.now = 0.0
        self.step_seconds = step_seconds
        self.sleeps: list[tuple[float, float]] = []
        """When a pause began, and how long it was."""

    def __call__(self) -> float:
        self.now += self.step_seconds
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append((self.now, seconds))
        self.now += seconds
        await asyncio.sleep(0)


def many(world: World, asks: int) -> World:
    """So many pending asks for one application."""
    for start in range(0, asks, 500):
        new = [NewAsk("app-1", f"ask-{start + n}", Resources(memory=5_000 + n % 7)) for n in range(500)]
        world.step(UpdateAllocations(RM, asks=new))
    return world


@pytest.fixture(scope="module")
def world() -> World:
    """2,000 asks."""
    return many(cluster(), 2_000)


def test_a_large_answer_pauses_after_each_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 asks, each of which takes 0.1 ms by this clock: the loop is free after a slice and one piece of work at
    most, and all slices together have their share of the time."""
    monkeypatch.setattr(answers, "GO_JSON", JsonWriter(encode, ",", ":", chars=0))
    clock = Clock(step_seconds=0.0001)
    world = many(cluster(pacer=Pacer(clock=clock, sleep=clock.sleep)), 5_000)
    answer = get(world, f"{P}/application/app-1")
    assert len(answer.json["requests"]) == 5_001
    ends = [at + seconds for at, seconds in clock.sleeps]
    held = [begin - end for end, (begin, _) in zip([0.0, *ends], [*clock.sleeps, (clock.now, 0.0)], strict=False)]
    assert max(held) <= SLICE_SECONDS + 10 * clock.step_seconds
    assert all(seconds >= GAP_SECONDS for _, seconds in clock.sleeps)
    assert len(clock.sleeps) > 5_000 * clock.step_seconds / SLICE_SECONDS / 2
    worked = clock.now - sum(seconds for _, seconds in clock.sleeps)
    assert worked / clock.now < LOOP_SHARE_MAX * 1.3


@pytest.mark.parametrize(
    "path",
    [
        f"{P}/application/app-1",
        f"{P}/applications/active",
        f"{P}/queues",
        "/ws/v1/fullstatedump",
        "/ws/v1/partitions",
        f"{P}/usage/users",
        "/ws/v1/scheduler/healthcheck",
    ],
)
def test_no_piece_of_work_grows_with_the_state(path: str) -> None:
    """The most readings of the clock between two pauses do not depend on how much there is to write."""

    def longest(asks: int) -> int:
        readings: list[int] = [0]

        def clock() -> float:
            readings[-1] += 1
            return float(len(readings)) + readings[-1] * SLICE_SECONDS  # each slice is over at once

        async def sleep(_seconds: float) -> None:
            readings.append(0)

        world = many(cluster(), asks) if asks else cluster()
        pacer = Pacer(clock=clock, sleep=sleep)
        world.app.router.routes[:] = [PeerApi(world.rest, pacer)]
        assert get(world, path).status == 200
        return max(readings)

    assert longest(2_000) <= longest(0) + 2


def test_a_list_of_work_is_not_begun_while_others_have_their_share() -> None:
    clock = Clock(step_seconds=0.0)
    pacer = Pacer(clock=clock, sleep=clock.sleep)

    async def main() -> list[float]:
        times = []
        for _ in range(4):
            work = pacer.work()
            await work.begin()
            times.append(clock.now)
            clock.now += 0.01
            work.end()
        return times

    times = run(main())
    assert all(after - before > 0.0999 for before, after in pairwise(times))


@each_row(
    ("accept", "zipped"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("br", False),
        ("", False),
    ],
)
def test_compression_if_it_is_accepted(world: World, accept: str, zipped: bool) -> None:
    for path, is_large in ((f"{P}/application/app-1", True), (f"{P}/queues", False)):
        plain = get(world, path)
        answer = get(world, path, Accept_Encoding=accept)
        assert (len(plain.body) > CHUNK_BYTES) is is_large
        assert answer.json == plain.json
        assert (answer.headers.get("content-encoding"), answer.headers.get("vary")) == (
            ("gzip", "Accept-Encoding") if zipped else (None, None)
        )
        if zipped:
            assert gzip.decompress(answer.body) == plain.body
            assert len(answer.body) < len(plain.body) / 2


def test_small_answers_are_not_compressed() -> None:
    world = cluster()
    answer = get(world, "/ws/v1/clusters", Accept_Encoding="gzip")
    assert len(answer.body) < GZIP_BYTES_MIN
    assert "content-encoding" not in answer.headers


def test_a_large_answer_is_written_in_chunks(world: World) -> None:
    sent: list[int] = []

    async def main() -> None:
        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                sent.append(len(message.get("body", b"")))

        await world.app(scope(f"{P}/application/app-1"), _never, send)

    run(main())
    assert len(sent) > 10
    assert max(sent) <= 2 * CHUNK_BYTES


def test_so_many_large_answers_are_written_at_a_time(world: World) -> None:

    async def main() -> tuple[Answer, Answer, Answer]:
        waiting = [asyncio.create_task(_unread(world, f"{P}/application/app-1")) for _ in range(LARGE_MAX)]
        for _ in range(500):
            await asyncio.sleep(0)
        refused = await ask(world.app, "GET", f"{P}/application/app-1")
        small = await ask(world.app, "GET", "/ws/v1/clusters")
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return refused, small, await ask(world.app, "GET", f"{P}/application/app-1")

    refused, small, afterwards = run(main())
    assert (refused.status, refused.headers["retry-after"]) == (503, str(RETRY_SECONDS))
    assert f"{LARGE_MAX} large answers are being written already" in refused.json["message"]
    assert (small.status, afterwards.status) == (200, 200)


def test_so_many_requests_are_answered_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster()
    gate = asyncio.Event()

    async def slow(_call: object) -> object:
        await gate.wait()
        return []

    slow_route = routes.PeerRoute("GET", "/ws/v1/slow", slow)
    monkeypatch.setattr("schedulerd.daemon.yunikorn.app.ROUTES", (*routes.ROUTES, slow_route))
    world.app.router.routes[:] = [PeerApi(world.rest, world.pacer)]

    async def main() -> tuple[int, list[int]]:
        waiting = [asyncio.create_task(ask(world.app, "GET", "/ws/v1/slow")) for _ in range(OPEN_MAX)]
        for _ in range(10):
            await asyncio.sleep(0)
        refused = await ask(world.app, "GET", "/ws/v1/clusters")
        gate.set()
        return refused.status, [one.status for one in await asyncio.gather(*waiting)]

    assert run(main()) == (503, [200] * OPEN_MAX)


def scope(path: str) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [],
        "client": ("10.0.0.1", 1),
        "server": ("127.0.0.1", 1),
        "scheme": "http",
        "http_version": "1.1",
        "root_path": "",
    }


async def _never() -> Any:
    await asyncio.Event().wait()


async def _unread(world: World, path: str) -> None:
    """A client that reads nothing of the body."""

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    await world.app(scope(path), _never, send)
