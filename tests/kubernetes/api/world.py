"""A fake API server and clients of it on one virtual loop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Any

import aiohttp
import msgspec

from schedulerd.kubernetes.api import (
    ApiMetrics,
    Deleted,
    PoolSettings,
    Reflector,
    Resource,
    Synced,
    Transport,
    Upserted,
    WatchEvent,
    WatchSettings,
    WritePool,
)
from schedulerd.kubernetes.api.resources import PODS
from schedulerd.kubernetes.api.transport import GatedConnector
from schedulerd.kubernetes.api.write_connections import WriteConnection
from schedulerd.kubernetes.auth import Access, Material
from tests.kubernetes.fake import FakeCluster
from tests.kubernetes.fake.store import Change


class UnixConnector(GatedConnector, aiohttp.UnixConnector):
    """What the fake is reached by."""

    async def dial(
        self, protocol: WriteConnection, host: str, port: int, tls: ssl.SSLContext | None, server_name: str | None
    ) -> None:
        await asyncio.get_running_loop().create_unix_connection(lambda: protocol, self.path)


class Meta(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    labels: dict[str, str] = {}
    deletion_timestamp: str = ""


class Thing(msgspec.Struct):
    """Any object."""

    metadata: Meta
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


def no_jitter() -> float:
    return 0.0


class Watched:
    """A reflector that runs, and what it told."""

    def __init__(self, reflector: Reflector[Thing], events: list[WatchEvent]) -> None:
        self.reflector = reflector
        self.events = events
        self.task = asyncio.create_task(reflector.run())

    @property
    def story(self) -> list[str]:
        """`+a` new, `~a` changed, `-a` deleted, `?a` deletion was missed, `=` synced."""
        return [word(event) for event in self.events]

    def state(self) -> dict[tuple[str, str], str]:
        """Versions of the objects that exist by what was told. Fails if an event does not fit those before it."""
        known: dict[tuple[str, str], Thing] = {}
        for event in self.events:
            if isinstance(event, Synced):
                continue
            key = event.object.metadata.namespace, event.object.metadata.name
            there = known.get(key)
            if isinstance(event, Deleted):
                assert there is not None, f"deleted twice or never told: {key}"
                assert there.metadata.uid == event.object.metadata.uid
                del known[key]
                continue
            old = event.old
            assert (there is None) == (old is None), f"{key}: told {there}, and now as a change of {old}"
            if there is not None:
                assert there.metadata.uid == event.object.metadata.uid, f"{key} was replaced without a deletion"
                assert int(event.object.metadata.resource_version) > int(there.metadata.resource_version)
            known[key] = event.object
        return {key: thing.metadata.resource_version for key, thing in known.items()}

    def clear(self) -> None:
        self.events.clear()


def word(event: WatchEvent) -> str:
    if isinstance(event, Synced):
        return "="
    name = str(event.object.metadata.name)
    if isinstance(event, Upserted):
        return ("+" if event.old is None else "~") + name
    return ("?" if event.was_missed else "-") + name


class World:
    """A context. `token` is what the access reads each time it is asked."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.token = "first"
        self.reads = 0
        self.metrics = ApiMetrics()
        self.history: list[Change] = []
        """Everything that ever happened to any object."""
        self.cluster.store.listeners.append(self.history.append)
        self._watched: list[Watched] = []
        self._pools: list[WritePool] = []

    async def __aenter__(self) -> World:
        await self.cluster.__aenter__()
        self.transport = self.new_transport()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for watched in self._watched:
            watched.task.cancel()
        await asyncio.gather(*(watched.task for watched in self._watched), return_exceptions=True)
        for pool in self._pools:
            await pool.close()
        await self.transport.close()
        await self.cluster.__aexit__(kind, error, at)

    def new_transport(self, connector: Callable[[], GatedConnector] | None = None) -> Transport:
        async def read() -> Material:
            self.reads += 1
            return Material(token=self.token)

        path = self.cluster.path
        return Transport(Access("http://fake", read), self.metrics, connector or (lambda: UnixConnector(path, limit=0)))

    def watch(
        self, resource: Resource = PODS, *, watch_list: bool = False, settings: WatchSettings | None = None, **more: Any
    ) -> Watched:
        events: list[WatchEvent] = []

        async def deliver(_: Resource, batch: list[WatchEvent]) -> None:
            events.extend(batch)

        more.setdefault("random", no_jitter)
        reflector = Reflector(
            self.transport,
            resource,
            Thing,
            more.pop("deliver", deliver),
            settings=settings or WatchSettings(watch_list=watch_list),
            **more,
        )
        watched = Watched(reflector, events)
        self._watched.append(watched)
        return watched

    def pool(self, settings: PoolSettings | None = None, **more: Any) -> WritePool:
        more.setdefault("random", no_jitter)
        pool = WritePool(more.pop("transport", self.transport), settings, **more)
        self._pools.append(pool)
        return pool

    def stored(self, resource: Resource = PODS) -> dict[tuple[str, str], str]:
        """Versions of the objects that exist."""
        kind = self.cluster.kind(resource)
        return {key: thing["metadata"]["resourceVersion"] for key, thing in self.cluster.store.of(kind).items()}

    def requests(self, method: str, part: str = "") -> list[str]:
        return [path for one, path in self.cluster.server.requests if one == method and part in path]


async def pause(seconds: float = 0.01) -> None:
    """Lets everybody do what is to be done, and time pass: on a virtual loop it takes none."""
    await asyncio.sleep(seconds)
