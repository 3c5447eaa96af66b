"""Calls of ListEvents and StreamEvents without gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NoReturn, cast

import grpc

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd.daemon.access.methods import UnaryContext
from schedulerd.daemon.admin.event_service import EventService, StreamContext
from tests.unit.daemon.event_world import EventWorld
from tests.unit.daemon.fake_call import turns


class Aborted(Exception):
    """How a call ended that was not answered."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"{code}: {details}")
        self.code = code
        self.details = details


class Call:
    """The border to gRPC: what was written, and whether the client reads."""

    def __init__(self) -> None:
        self.written: list[admin_pb2.StreamEventsResponse] = []
        self.reading = asyncio.Event()
        self.reading.set()

    async def write(self, message: admin_pb2.StreamEventsResponse) -> None:
        await self.reading.wait()
        self.written.append(message)

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        raise Aborted(code, details)

    @property
    def ids(self) -> list[int]:
        return [event.id for message in self.written for event in message.events]

    @property
    def lost(self) -> int:
        return sum(message.lost for message in self.written)


def play(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10):
            await story()

    asyncio.run(bounded())


def listed(world: EventWorld, **request: Any) -> admin_pb2.ListEventsResponse:
    call = cast(UnaryContext, Call())
    return asyncio.run(EventService(world.feed).list_events(admin_pb2.ListEventsRequest(**request), call))


@asynccontextmanager
async def streaming(
    world: EventWorld, service: EventService | None = None, **request: Any
) -> AsyncIterator[tuple[Call, asyncio.Task[None]]]:
    """A stream that is open until the client cancels it."""
    call = Call()
    service = service or EventService(world.feed)
    message = admin_pb2.StreamEventsRequest(**request)
    served = asyncio.create_task(service.stream_events(message, cast(StreamContext, call)))
    await turns()
    yield call, served
    served.cancel()
    await asyncio.wait({served})


def a_world(**fields: Any) -> EventWorld:
    world = EventWorld(**fields)
    world.register()
    return world
