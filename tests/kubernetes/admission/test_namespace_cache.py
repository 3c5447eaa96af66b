"""Annotations of namespaces: from a watch, and looked up for pods that come right after their namespace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from schedulerd.kubernetes.admission.namespace_cache import NamespaceCache
from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.api.world import World, pause
from tests.kubernetes.fake import Fault


@asynccontextmanager
async def watching(world: World) -> AsyncIterator[NamespaceCache]:
    cache = NamespaceCache(world.transport)
    task = asyncio.create_task(cache.run())
    try:
        yield cache
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def make(world: World, name: str) -> None:
    world.cluster.create(r.NAMESPACES, name, metadata={"name": name, "annotations": {"a": name}})


async def annotation(cache: NamespaceCache, name: str) -> str | None:
    found = await cache.metadata(name)
    return None if found is None else (found.annotations or {}).get("a")


async def test_namespaces_are_known_as_the_watch_tells_them() -> None:
    async with World() as world:
        make(world, "n")
        async with watching(world) as cache:
            before = cache.is_synced
            await pause(1)
            assert (before, cache.is_synced) == (False, True)
            asked = len(world.requests("GET", "/namespaces/n"))
            assert await annotation(cache, "n") == "n"
            assert len(world.requests("GET", "/namespaces/n")) == asked
            world.cluster.delete(r.NAMESPACES, "n", "")
            world.cluster.operations.finish_namespaces()
            await pause(1)
            assert await cache.metadata("n") is None


async def test_one_that_the_watch_has_not_told_is_looked_up_for_a_while() -> None:
    async with World() as world:
        cache = NamespaceCache(world.transport)
        make(world, "n")
        assert await annotation(cache, "n") == "n"
        assert await cache.metadata("other") is None
        for fault in (Fault("refuse", code=403), Fault("hang")):
            world.cluster.faults.add(fault, method="GET", plural="namespaces")
            assert await cache.metadata("n") is None, "it goes by its name"
        assert await annotation(cache, "n") == "n"
