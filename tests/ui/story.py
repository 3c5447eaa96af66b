"""A cluster with something of everything, played to a daemon by a resource manager: what pages are looked at with."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from schedulerd.client import Allocation, AllocationRelease, ApplicationRejected, Client, ResourceManager

GIB = 1 << 30
RACKS, NODES_PER_RACK = 8, 18
NAMESPACE, POD = "kubernetes.io/meta/namespace", "kubernetes.io/meta/podName"
GPU = "nvidia.com/gpu"

QUEUES = """\
partitions:
  - name: default
    nodesortpolicy: {type: binpacking}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: batch
            resources: {guaranteed: {vcore: 400, memory: 1600Gi}, max: {vcore: 640, memory: 2560Gi}}
            properties: {application.sort.policy: fifo}
          - name: ml
            resources: {guaranteed: {vcore: 600, memory: 2400Gi}, max: {vcore: 1400, memory: 5600Gi}}
            queues:
              - name: train
                resources: {guaranteed: {vcore: 300, memory: 1200Gi}}
              - name: notebooks
                resources: {guaranteed: {vcore: 40, memory: 160Gi}, max: {vcore: 80, memory: 320Gi}}
                limits:
                  - {limit: each person, users: ["*"], maxresources: {vcore: 16, memory: 64Gi}}
          - name: services
            resources: {guaranteed: {vcore: 600, memory: 2400Gi}}
          - name: research
            resources: {max: {vcore: 200, memory: 800Gi}}
"""

CHANGED_QUEUES = QUEUES.replace("max: {vcore: 640, memory: 2560Gi}", "max: {vcore: 560, memory: 2240Gi}")
"""The file after a change."""


class _Manager(ResourceManager):
    """Starts every pod, and ends what it is asked to end."""

    def __init__(self) -> None:
        self.running: dict[str, list[Allocation]] = {}
        self.changed = asyncio.Event()

    def on_allocated(self, allocation: Allocation) -> None:
        self.running.setdefault(allocation.applicationID, []).append(allocation)
        self.changed.set()

    def on_release_wanted(self, release: AllocationRelease) -> None:
        self._forget(release)

    def on_released(self, release: AllocationRelease) -> None:
        self._forget(release)

    def _forget(self, release: AllocationRelease) -> None:
        known = self.running.get(release.applicationID, [])
        self.running[release.applicationID] = [one for one in known if one.UUID != release.UUID]


class Story:
    """Plays on a loop of its own thread, so that a browser can be driven meanwhile. A context."""

    def __init__(self, target: str, queues: str = QUEUES) -> None:
        self._target, self._queues = target, queues
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._random = random.Random(25)
        self.client: Client
        self.manager: _Manager

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._connect())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closing.set_result(None) if not self._loop.is_closed() else None
        try:
            self._session.result(20)
        except Exception:
            if kind is None and not self.is_abandoned:
                raise
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(20)
            self._loop.close()

    is_abandoned = False
    """Whether the daemon was ended meanwhile, so that the session may fail."""

    def do(self, act: Callable[[Story], Awaitable[None]]) -> None:
        """Runs a part of the story, and returns when all of it was sent."""

        async def whole() -> None:
            await act(self)
            await self.client.drain()

        self._do(whole())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _connect(self) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()
        self._closing: Future[None] = Future()
        self._session = asyncio.run_coroutine_threadsafe(self._serve(ready), self._loop)
        await ready

    async def _serve(self, ready: asyncio.Future[None]) -> None:
        self.manager = _Manager()
        async with Client(
            self._target,
            self.manager,
            rm_id="prod-eu",
            config=self._queues,
            connect_timeout_s=20,
            reconnect_timeout_s=1,
        ) as client:
            self.client = client
            ready.set_result(None)
            await asyncio.wrap_future(self._closing)

    # what happens ---------------------------------------------------------------------------------------------------

    async def nodes(self) -> None:
        """Racks of nodes; those of the last rack have devices."""
        answers = []
        for number in range(RACKS * NODES_PER_RACK):
            rack = number // NODES_PER_RACK
            amounts = {"vcore": 16_000, "memory": 64 * GIB} | ({GPU: 4} if rack == RACKS - 1 else {})
            attributes = {"si/rackname": f"rack-{rack + 1}"}
            answers.append(self.client.add_node(node_id(number), amounts, attributes=attributes))
        await asyncio.gather(*answers)

    async def app(self, name: str, queue: str, pods: int, vcore: int, memory: int, **options: Any) -> None:
        """An application with so many pods of one size."""
        user = options.pop("user", "ann")
        await self.client.add_application(name, queue, user=user, tags={"namespace": user})
        for number in range(pods):
            self.pod(name, number, {"vcore": vcore, "memory": memory * GIB, **options.get("more", {})}, user)

    def pod(self, app: str, number: int, amounts: dict[str, int], namespace: str, **options: Any) -> None:
        name = f"{app}-{number}"
        self.client.ask(app, name, amounts, tags={NAMESPACE: namespace, POD: name}, **options)

    async def gang(self, name: str, members: int, real: int, vcore: int, memory: int, more: dict[str, int]) -> None:
        """A gang, with real asks for some of its members."""
        amounts = {"vcore": vcore, "memory": memory * GIB, **more}
        whole = {resource: amount * members for resource, amount in amounts.items()}
        await self.client.add_application(
            name,
            "root.ml.train",
            user="mia",
            tags={"namespace": "ml"},
            placeholders=whole,
            execution_timeout_ms=7_200_000,
        )
        for number in range(members):
            self.client.ask(name, f"{name}-ph-{number}", amounts, task_group="workers", placeholder=True)
        await self.client.drain()
        for number in range(real):
            self.pod(name, number, amounts, "ml", task_group="workers")

    async def morning(self) -> None:
        """Fills the cluster so far that some of everything is there."""
        await self.nodes()
        for number in range(24):
            await self.app(
                f"checkout-{number:02}", "root.services", 9, 2_000, 6, user=["ann", "bob", "eve"][number % 3]
            )
        await self.gang("llama-sft-7", 48, 30, 4_000, 16, {})
        await self.gang("vision-pretrain", 64, 0, 2_000, 8, {GPU: 2})
        for number in range(12):
            await self.app(
                f"notebook-{number:02}",
                "root.ml.notebooks",
                2,
                4_000,
                16,
                user=["joe", "kim"][number % 2],
            )
        for number in range(9):
            await self.app(f"spark-etl-{number}", "root.batch", 40, 2_000, 8, user="dan")
        await self.app("genome-scan", "root.research", 3, 24_000, 96, user="zoe")
        await self.app("protein-fold", "root.research", 12, 4_000, 12, user="zoe")

    async def noon(self) -> None:
        """Pods end here and there, nodes drain or fail, and something is refused."""
        for prefix, count in (("checkout", 90), ("spark", 24)):
            pods = [one for name, some in self.manager.running.items() if name.startswith(prefix) for one in some]
            for one in self._random.sample(pods, count):
                self.client.release(one)
        self.client.drain_node(node_id(20))
        self.client.drain_node(node_id(57))
        self.client.update_node(node_id(91), attributes={"si/rackname": "rack-6", "ready": "false"})
        with contextlib.suppress(ApplicationRejected):
            await self.client.add_application("typo-in-queue", "root.srvices", user="bob")

    async def turn(self, number: int) -> None:
        """Jobs end and others come, and services follow the load, so that the history has a shape."""
        for one in self._some("spark", (1 + number % 3) / 8):
            self.client.release(one)
        for job in range(1 + number % 4 // 2):
            await self.app(f"spark-hourly-{number:02}-{job}", "root.batch", 30 + 9 * (number % 5), 2_000, 8, user="dan")
        if number % 12 < 6:
            await self.app(f"peak-{number:02}", "root.services", 20 + 5 * (number % 3), 4_000, 12, user="bob")
        else:
            for one in self._some("peak", 0.3):
                self.client.release(one)

    def _some(self, prefix: str, share: float) -> list[Allocation]:
        pods = [one for name, some in self.manager.running.items() if name.startswith(prefix) for one in some]
        return self._random.sample(pods, int(len(pods) * share))


def node_id(number: int) -> str:
    return f"eu-{number // NODES_PER_RACK + 1:02}-{number % NODES_PER_RACK + 1:02}"
