"""A cluster autoscaler for stories."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.resources import read_quantities
from tests.kubernetes.autoscaler import Autoscaler
from tests.kubernetes.shim.world import JSON, World

TEMPLATE: dict[str, str | int] = {"cpu": "2", "memory": "16Gi", "pods": "110"}
LOOK_SECONDS = 0.2


@asynccontextmanager
async def autoscaling(world: World) -> AsyncIterator[Autoscaler]:
    """A cluster autoscaler of nodes with two processors. It looks at all pods five times in a second."""
    autoscaler = Autoscaler(read_quantities(TEMPLATE))

    async def look() -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            pods = [convert(Pod, one) for one in (await world.api.get(r.PODS)).json["items"]]
            mine = [one for one in (await world.api.get(r.NODES)).json["items"] if is_of(world, one)]
            nodes = {one["metadata"]["name"]: convert(Node, one) for one in mine}
            room = {name: read_quantities(one.status.allocatable) for name, one in nodes.items()}
            added, gone = autoscaler.look(pods, room)
            for name in gone:
                await world.api.delete(r.NODES, name)
            autoscaler.added = [world.node_name(name) if name in added else name for name in autoscaler.added]
            for name in added:
                await world.node(name, cpu="2")

    task = asyncio.create_task(look())
    try:
        yield autoscaler
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def is_of(world: World, node: JSON) -> bool:
    return bool(node["metadata"].get("labels", {}).get("world") == world.api.namespace)
