"""The fake API server on a TCP port without TLS, in this process, with a daemon beside it; shims are processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
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
        """One after the other, at a rate."""
        started_s = time.perf_counter()
        for number in range(workload.pods):
            ahead_s = number / per_second - (time.perf_counter() - started_s)
            if ahead_s > 0:
                await asyncio.sleep(max(ahead_s, LOOK_SECONDS))
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

    @contextmanager
    def shim_without_writes(self) -> Iterator[Measured]:
        """Its bindings come through a pipe, and are stored here."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        module = "benchmarks.kubernetes.shim_process"
        command = [sys.executable, "-m", module, str(self._config), self.daemon.target, SCHEDULER, str(writing)]
        loop, rest = asyncio.get_running_loop(), b""

        def bind() -> None:
            nonlocal rest
            whole, _, rest = (rest + os.read(reading, 2**20)).rpartition(b"\n")
            for line in whole.splitlines():
                binding: dict[str, Any] = msgspec.json.decode(line)
                self.fake.operations.bind(NAMESPACE, binding["metadata"]["name"], binding)

        loop.add_reader(reading, bind)
        try:
            with Measured(command, self.folder / "shim.log", (writing,)) as shim:
                yield shim
        finally:
            loop.remove_reader(reading)
            os.close(reading)
            os.close(writing)

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
