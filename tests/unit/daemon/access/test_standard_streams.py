"""Which streams are held against the share of gRPC's own services, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from schedulerd.daemon.access.grpc_access import GrpcAccess
from schedulerd.daemon.access.refusals import Refusals
from schedulerd.daemon.access.standard_streams import StandardStreams

OURS = "si.v1.Scheduler"
WATCH = "/grpc.health.v1.Health/Watch"


class Aborted(Exception):
    """What `context.abort` raises."""


class Call:
    """A call whose client reads everything."""

    def __init__(self) -> None:
        self.written: list[object] = []
        self.status: tuple[grpc.StatusCode, str] | None = None

    async def write(self, message: object) -> None:
        self.written.append(message)

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        self.status = (code, details)
        raise Aborted

    def peer(self) -> str:
        return "ipv4:10.0.0.1:1"


class World:
    """An interceptor that lets one stream in at a time."""

    def __init__(self) -> None:
        self.refusals = Refusals(lambda _seconds, _call: None)
        self.interceptor = StandardStreams(GrpcAccess(1, refusals=self.refusals), [OURS])
        self.over = asyncio.Event()

    async def until_over(self, _requests: object, context: Any) -> None:
        """As `Health` answers: it writes by itself."""
        await context.write("status")
        await self.over.wait()

    async def responses(self, _requests: object, _context: object) -> AsyncIterator[str]:
        """As the servicer of reflection answers."""
        yield "first"
        await self.over.wait()
        yield "second"

    async def fail(self, _requests: object, _context: object) -> None:
        raise ZeroDivisionError

    async def handler(self, serve: Any, path: str = WATCH) -> Any:
        made: Any = grpc.stream_stream_rpc_method_handler(serve)
        return await self.intercept(path, made), made

    async def intercept(self, path: str, handler: Any) -> Any:
        async def continuation(_details: object) -> Any:
            return handler

        return await self.interceptor.intercept_service(continuation, SimpleNamespace(method=path))

    async def begin(self, serve: Any) -> tuple[Call, asyncio.Task[None]]:
        handler, _ = await self.handler(serve)
        call = Call()
        task = asyncio.create_task(handler.stream_stream(None, call))
        await asyncio.sleep(0)
        return call, task


@pytest.mark.parametrize("way", ["until_over", "responses"])
def test_a_stream_is_served_and_one_too_many_is_refused_until_it_ends(way: str) -> None:
    async def play() -> None:
        world = World()
        served, serving = await world.begin(getattr(world, way))
        refused, refusing = await world.begin(getattr(world, way))
        with pytest.raises(Aborted):
            await refusing
        assert refused.status is not None
        assert refused.status[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert world.refusals.counts == {("Watch", "resource_exhausted"): 1}
        world.over.set()
        await serving
        assert served.written == (["status"] if way == "until_over" else ["first", "second"])
        again, serving = await world.begin(getattr(world, way))
        await serving
        assert again.status is None

    asyncio.run(play())


@pytest.mark.parametrize("way", ["until_over", "responses"])
def test_a_stream_that_its_client_cancels_makes_room(way: str) -> None:
    async def play() -> None:
        world = World()
        _, serving = await world.begin(getattr(world, way))
        serving.cancel()
        await asyncio.wait({serving})
        next_one, serving = await world.begin(getattr(world, way))
        world.over.set()
        await serving
        assert next_one.status is None

    asyncio.run(play())


def test_a_stream_that_fails_makes_room() -> None:
    async def play() -> None:
        world = World()
        for _ in range(2):
            _, serving = await world.begin(world.fail)
            with pytest.raises(ZeroDivisionError):
                await serving

    asyncio.run(play())


def test_our_own_streams_calls_with_one_answer_and_unknown_methods_are_left_alone() -> None:
    async def play() -> None:
        world = World()
        intercepted, made = await world.handler(world.until_over, f"/{OURS}/UpdateNode")
        assert intercepted is made
        unary: Any = grpc.stream_unary_rpc_method_handler(world.until_over)
        assert await world.intercept("/grpc.health.v1.Health/Check", unary) is unary
        for path in ("", "/", "x", "/a/b/c"):
            assert await world.intercept(path, None) is None

    asyncio.run(play())
