"""Servers that send the list as the beginning of the watch, and those that cannot."""

from __future__ import annotations

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.api.world import World, pause
from tests.kubernetes.fake import Fault


async def test_servers_that_can_send_the_list_with_the_watch() -> None:
    async with World() as world:
        world.cluster.server.watch_list = True
        for name in "ab":
            world.cluster.pod(name)
        pods = world.watch(watch_list=True)
        await pause()
        assert pods.story == ["+a", "+b", "="]
        world.cluster.pod("c")
        await pause()
        assert world.requests("GET") == []
        await world.cluster.stop()
        world.cluster.delete(r.PODS, "a")
        world.cluster.store.compact()
        await world.cluster.start()
        await pause(5.0)
        assert pods.story == ["+a", "+b", "=", "+c", "?a", "="]
        assert world.requests("GET") == []


async def test_a_list_with_the_watch_that_is_cut_begins_again() -> None:
    async with World() as world:
        world.cluster.server.watch_list = True
        for name in "abcd":
            world.cluster.pod(name)
        world.cluster.faults.add(Fault("cut_watch", lines=2))
        pods = world.watch(watch_list=True)
        await pause(5.0)
        assert pods.story == ["+a", "+b", "+c", "+d", "="]
        assert pods.state() == world.stored()


async def test_servers_that_cannot_are_listed() -> None:
    async with World() as world:
        world.cluster.pod("a")
        pods = world.watch(watch_list=True)
        await pause()
        assert pods.story == ["+a", "="]
        assert len(world.requests("GET")) == 1
        assert sum("sendInitialEvents" in path for path in world.requests("WATCH")) == 1
