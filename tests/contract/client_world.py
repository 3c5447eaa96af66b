"""A resource manager made with `schedulerd.client` that writes down what it hears, and what the daemon has of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from schedulerd.client import (
    Allocation,
    AllocationRelease,
    Client,
    RejectedAllocationAsk,
    RejectedApplication,
    RejectedNode,
    ResourceManager,
)
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import QUEUES

NODE = {"memory": 1_000, "vcore": 100}
POD = {"memory": 10, "vcore": 1}
PODS_PER_NODE = 100

Placed = tuple[str, str, str]
"""UUID, allocation key and node of an allocation."""


class Diary(ResourceManager):
    """Does nothing on its own, beside confirming."""

    def __init__(self) -> None:
        self.accepted = 0
        """Nodes and applications."""
        self.allocated: list[Allocation] = []
        self.released: list[str] = []
        self.rejections: list[str] = []
        self.lost: list[str] = []
        """Why the connection was lost, for each time."""
        self.resumed = self.resynced = 0
        self._changed = asyncio.Event()

    async def until(self, reached: Callable[[], bool]) -> None:
        """Returns when what was heard has made it true."""
        while not reached():
            self._changed.clear()
            await self._changed.wait()

    def changed(self) -> None:
        """To be called when something was heard that a test may wait for."""
        self._changed.set()

    def on_node_accepted(self, node_id: str) -> None:
        self.accepted += 1
        self.changed()

    def on_application_accepted(self, application_id: str) -> None:
        self.accepted += 1
        self.changed()

    def on_allocated(self, allocation: Allocation) -> None:
        self.allocated.append(allocation)
        self.changed()

    def on_released(self, release: AllocationRelease) -> None:
        self.released.append(release.UUID)
        self.changed()

    def on_node_rejected(self, rejected: RejectedNode) -> None:
        self.rejections.append(rejected.reason)

    def on_application_rejected(self, rejected: RejectedApplication) -> None:
        self.rejections.append(rejected.reason)

    def on_ask_rejected(self, rejected: RejectedAllocationAsk) -> None:
        self.rejections.append(rejected.reason)

    def on_lost(self, reason: str) -> None:
        self.lost.append(reason)

    def on_resumed(self) -> None:
        self.resumed += 1
        self.changed()

    def on_resynced(self) -> None:
        self.resynced += 1
        self.changed()


def bounded(story: Callable[[], Awaitable[None]]) -> None:
    """Runs a story within a hard time limit."""

    async def main() -> None:
        async with asyncio.timeout(2 * LIMIT_SECONDS):
            await story()

    asyncio.run(main())


def port(daemon: DaemonProcess) -> int:
    return int(daemon.target.rpartition(":")[2])


async def logged(daemon: DaemonProcess, rm_id: str, state: str) -> None:
    """Returns when the daemon's log says that the resource manager is in this state."""

    def matches(line: dict[str, Any]) -> bool:
        return bool(line["rm_id"] == rm_id and line["state"] == state)

    await asyncio.to_thread(daemon.wait_for_event, "resource manager changed", matches)


def a_client(target: str, rm: ResourceManager, rm_id: str) -> Client:
    return Client(target, rm, rm_id=rm_id, config=QUEUES, reconnect_timeout_s=15)


async def set_up(client: Client, applications: Iterable[str], nodes: int = 1) -> None:
    """Returns when they are accepted."""
    await asyncio.gather(
        *(client.add_node(f"node-{number:03}", NODE) for number in range(nodes)),
        *(client.add_application(each, "root.a", user="testuser", groups=["testgroup"]) for each in applications),
    )


def placed(allocations: Iterable[Allocation]) -> set[Placed]:
    return {(each.UUID, each.allocationKey, each.nodeID) for each in allocations}


async def placed_in(daemon: DaemonProcess, client: Client, applications: Iterable[str]) -> set[Placed]:
    """What the daemon has of these applications; no invariant of its state is broken, and nothing is there twice."""
    found: list[Placed] = []
    for application_id in applications:
        state = await asyncio.to_thread(daemon.state, rm=client.rm_id, application=application_id, node="none")
        (manager,) = state["resource_managers"]
        (application,) = manager["partitions"][0]["applications"]
        found += [(each["uuid"], each["allocation_key"], each["node_id"]) for each in application["allocations"]]
    assert len(found) == len(set(found))
    assert (await asyncio.to_thread(daemon.state))["violations"] == []
    return set(found)
