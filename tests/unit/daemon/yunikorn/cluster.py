"""A small cluster for the tests of the routes, and a client that asks it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from schedulerd.core.language.commands import (
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.resources import Resources
from tests.rest.asgi import Answer, ask
from tests.rest.world import World

RM = "rm-1"
QUEUES = """
partitions:
  - name: default
    placementrules:
      - name: provided
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: parent
            queues:
              - name: leaf
                maxapplications: 5
                resources:
                  max: {memory: 8G, vcore: 8}
                limits:
                  - limit: ann
                    users: [ann]
                    maxapplications: 3
                  - limit: devs
                    groups: [devs]
                    maxresources: {vcore: 6}
          - name: other
"""

ResultT = TypeVar("ResultT")


def cluster(**options: Any) -> World:
    """Two nodes; an application of ann in root.parent.leaf with an allocation and an ask; a rejected one of bob."""
    world = World(**options)
    world.register(QUEUES, RM)
    fill(world, RM)
    return world


def fill(world: World, rm_id: str) -> None:
    """Nodes, applications and asks of one resource manager."""
    nodes = [
        NodeUpdate(
            name,
            NodeAction.CREATE,
            capacity=Resources(memory=4_000, vcore=4_000),
            attributes={"si/hostname": f"host-{name}", "si/rackname": "/r1"},
        )
        for name in ("node-1", "node-2")
    ]
    world.step(UpdateNodes(rm_id, nodes))
    new = [
        NewApplication("app-1", "root.parent.leaf", user="ann", groups=("devs",)),
        NewApplication("app-2", "root.nowhere", user="bob"),
    ]
    world.step(UpdateApplications(rm_id, new=new))
    asks = [
        NewAsk("app-1", "small", Resources(memory=1_000, vcore=1_000), priority=3),
        NewAsk("app-1", "huge", Resources(memory=5_000, vcore=1_000)),
    ]
    world.step(UpdateAllocations(rm_id, asks=asks))


def get(world: World, path: str, query: str = "", **headers: str) -> Answer:
    """GET, with these headers; `_` in their names is `-`."""
    return request(world, "GET", path, query, b"", **headers)


def request(world: World, method: str, path: str, query: str = "", body: bytes = b"", **headers: str) -> Answer:
    """Any request."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return run(ask(world.app, method, path, query, named, body))


def run(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """On a loop of its own."""
    return asyncio.run(work)
