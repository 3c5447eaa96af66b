"""The fake API server on a TCP port without TLS, in this process, with a daemon beside it; shims are processes."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.kubernetes.cluster import NAMESPACE, Workload, daemon, kubeconfig
from benchmarks.kubernetes.processes import Measured
from benchmarks.kubernetes.rivals import SCHEDULER, shim_command
from benchmarks.measurement import WrongResult
from schedulerd.kubernetes.api import resources as r
from schedulerd.simulate.demo import Daemon
from tests.kubernetes.fake import FakeCluster
from tests.kubernetes.fake.store import Change

LOOK_SECONDS = 0.02
STORE_SECONDS = 0.002
"""Between two looks for bindings that came without HTTP."""
AT_ONCE = 50
"""Pods; as many as the user of k makes at a time."""
MANAGED_FIELDS = 2_000
"""Bytes of `managedFields` that pods have on real servers, and that the fake does not make."""


@dataclass(slots=True)
class FakeWorld:
    fake: FakeCluster
    daemon: Daemon
    folder: Path
    bound: dict[str, float] = field(default_factory=dict)
    """By name of a pod: when its binding was stored."""

    def make_nodes(self, workload: Workload) -> None:
        for number in range(workload.nodes):
            node = workload.node(number)
            self.fake.create(r.NODES, node["metadata"]["name"], metadata=node["metadata"], status=node["status"])

    def make_pod(self, workload: Workload, number: int, node: str = "") -> None:
        pod = workload.pod(number, SCHEDULER)
        pod["metadata"]["managedFields"] = [{"manager": "user", "fieldsV1": {"f:spec": "x" * MANAGED_FIELDS}}]
        if node:
            pod["spec"]["nodeName"] = node
            pod["status"] = {"phase": "Running"}
        self.fake.operations.create(self.fake.kind(r.PODS), NAMESPACE, pod)

    async def make_pods(self, workload: Workload, per_second: float) -> None:
        """One after the other at a rate, or at most 50 before what they cause goes on."""
        started_s = time.perf_counter()
        for number in range(workload.pods):
            ahead_s = number / per_second - (time.perf_counter() - started_s)
            if ahead_s > 0:
                await asyncio.sleep(max(ahead_s, LOOK_SECONDS))
            elif number % AT_ONCE == 0:
                await asyncio.sleep(0)
            self.make_pod(workload, number)

    async def until(self, what: str, is_reached: Callable[[], bool], shim: Measured, seconds_max: float) -> None:
        """Raises `WrongResult` if it takes longer, or if the shim has ended."""
        end_s = time.perf_counter() + seconds_max
        while not is_reached():
            shim.check()
            if time.perf_counter() > end_s:
                raise WrongResult(
                    f"{what}: {len(self.bound)} pods bound, {self.scheduled_events()} events within {seconds_max:g} s"
                )
            await asyncio.sleep(LOOK_SECONDS)

    def shim(self) -> Measured:
        """The public command."""
        command = shim_command(self._config, self.daemon.target)
        return Measured(command, self.folder / "shim.log")

    @asynccontextmanager
    async def shim_without_writes(self) -> AsyncIterator[Measured]:
        """Its bindings come through a file, and are stored here."""
        bindings = self.folder / "bindings"
        bindings.touch()
        module = "benchmarks.kubernetes.shim_process"
        command = [sys.executable, "-m", module, str(self._config), self.daemon.target, SCHEDULER, str(bindings)]
        storing = asyncio.create_task(self._store(bindings))
        try:
            with Measured(command, self.folder / "shim.log") as shim:
                yield shim
        finally:
            storing.cancel()
            await asyncio.gather(storing, return_exceptions=True)

    async def _store(self, bindings: Path) -> None:
        rest = b""
        with bindings.open("rb") as file:
            while True:
                whole, _, rest = (rest + file.read()).rpartition(b"\n")
                for line in whole.splitlines():
                    binding: dict[str, Any] = msgspec.json.decode(line)
                    self.fake.operations.bind(NAMESPACE, binding["metadata"]["name"], binding)
                await asyncio.sleep(STORE_SECONDS)

    def scheduled_events(self) -> int:
        """Other events, such as why a pod waits, do not count."""
        return sum(event["reason"] == "Scheduled" for event in self.fake.store.of(self.fake.kind(r.EVENTS)).values())

    @property
    def _config(self) -> Path:
        config = self.folder / "kubeconfig"
        config.write_text(kubeconfig(self.fake.url, "t"))
        return config


@asynccontextmanager
async def fake_world(workload: Workload, folder: Path) -> AsyncIterator[FakeWorld]:
    with contextlib.ExitStack() as stack:
        beside = stack.enter_context(daemon(workload, folder))
        beside.wait_until_ready()
        async with FakeCluster(tcp=True) as fake:
            fake.create(r.NAMESPACES, NAMESPACE)
            world = FakeWorld(fake, beside, folder)
            fake.store.listeners.append(lambda change: _note(world, change))
            yield world


def _note(world: FakeWorld, change: Change) -> None:
    if change.kind.plural == "pods" and change.before is not None and change.object["spec"].get("nodeName"):
        name = change.object["metadata"]["name"]
        if name not in world.bound:
            world.bound[name] = time.perf_counter()
