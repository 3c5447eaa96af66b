"""How much pods of one tenant that say very much slow down those of another one.

    python -m tests.kubernetes.neighbours
    python -m tests.kubernetes.neighbours --pods 40 --say anti-affinity --number 1000

On a real API server if KUBEBUILDER_ASSETS names a folder with one, else on the fake; daemon and shim are processes.
Before, while and after a neighbour has such pods, this measures the time from the creation of a *victim* to its binding
by schedulerd, that of a *control*, a pod that is bound without schedulerd, and that of an answer to `/livez` of the
shim.
Time that the control takes longer as well is that of the API server. The exit code is 1 if the victim is slower than
before by more than a second, beyond what the control is.

Times depend on the machine: how much work a pod may cause is counted in tests
(`tests/kubernetes/cluster/test_pod_work.py`, `tests/kubernetes/test_pace.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.builders import affinity, anti_affinity, ports, selector, spread, term
from tests.kubernetes.contract.real_server import assets
from tests.kubernetes.demo.cluster import NODES, SCHEDULER, Cluster

JSON = dict[str, Any]
NOISY, QUIET = "red", "blue"
PHASE_SECONDS, EVERY_SECONDS, LIMIT_SECONDS = 8.0, 0.5, 60.0
SLOWER_SECONDS_MAX = 1.0
HOST = "kubernetes.io/hostname"
SAY: dict[str, Callable[[int, int], JSON]] = {
    "affinity": lambda pod, n: {
        "affinity": affinity(*(term(HOST, selector(**{f"k{pod}-{i}": "v"})) for i in range(n)))
    },
    "anti-affinity": lambda pod, n: {
        "affinity": anti_affinity(*(term(HOST, selector(**{f"k{pod}-{i}": "v"})) for i in range(n)))
    },
    "spread": lambda pod, n: {
        "topologySpreadConstraints": [spread(f"t{i}", selector(**{f"k{pod}": "v"})) for i in range(n)]
    },
    "tolerations": lambda pod, n: {"tolerations": [{"key": f"k{pod}-{i}", "operator": "Exists"} for i in range(n)]},
    "ports": lambda pod, n: {"containers": ports(*({"containerPort": 1, "hostPort": 20_000 + i} for i in range(n)))},
}
"""What the pods of the neighbour say, by number of the pod and how often."""


def _terms(pod: int, number: int) -> list[JSON]:
    return [term(HOST, selector(**{f"k{pod}-{one}": "v"})) for one in range(number)]


class RoomyCluster(Cluster):
    async def _node(self, name: str) -> None:
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
        ready = [{"type": "Ready", "status": "True"}]
        status: JSON = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
        await self.create(r.NODES.path(), {"metadata": {"name": name, "labels": {HOST: name}}, "status": status})
        await self.patch(r.NODES.path("", name, "status"), {"status": status})


class Measurement:
    """Times of one phase, in seconds."""

    def __init__(self, cluster: Cluster, phase: str) -> None:
        self.victims: list[float] = []
        self.controls: list[float] = []
        self.probes: list[float] = []
        self._cluster = cluster
        self._phase = phase

    async def run(self, more: Awaitable[None] | None = None) -> None:
        async with asyncio.TaskGroup() as group:
            ends = asyncio.create_task(asyncio.sleep(PHASE_SECONDS) if more is None else _after(more))
            number = 0
            while not ends.done():
                group.create_task(self._victim(number))
                group.create_task(self._control(number))
                group.create_task(self._probe())
                number += 1
                await asyncio.sleep(EVERY_SECONDS)
            await ends

    def __str__(self) -> str:
        parts = (("victim", self.victims), ("control", self.controls), ("livez", self.probes))
        return f"{self._phase:7}" + "  ".join(f"{name} {_of(times)}" for name, times in parts)

    async def _victim(self, number: int) -> None:
        name = f"victim-{self._phase}-{number}"
        began = time.monotonic()
        await self._cluster.create(r.PODS.path(QUIET), _pod(name, SCHEDULER))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LIMIT_SECONDS):
                while not self._cluster.pods.get(f"{QUIET}/{name}", {}).get("spec", {}).get("nodeName"):
                    self._cluster.check()
                    await asyncio.sleep(0.005)
        self.victims.append(time.monotonic() - began)
        await self._cluster.delete(r.PODS.path(QUIET, name))

    async def _control(self, number: int) -> None:
        name = f"control-{self._phase}-{number}"
        began = time.monotonic()
        await self._cluster.create(r.PODS.path(QUIET), _pod(name, "nobody"))
        target = {"kind": "Node", "name": NODES[0]}
        await self._cluster.create(
            r.PODS.path(QUIET, name, "binding"), {"kind": "Binding", "metadata": {"name": name}, "target": target}
        )
        self.controls.append(time.monotonic() - began)
        await self._cluster.delete(r.PODS.path(QUIET, name))

    async def _probe(self) -> None:
        began = time.monotonic()
        async with httpx.AsyncClient(timeout=LIMIT_SECONDS) as client:
            with contextlib.suppress(httpx.HTTPError):
                await client.get(f"{self._cluster.shim_url}/livez")
        self.probes.append(time.monotonic() - began)


async def measure(pods: int, say: str, number: int) -> int:
    """The exit code."""
    async with RoomyCluster(assets()) as cluster:
        phases = {name: Measurement(cluster, name) for name in ("before", "during", "after")}
        await phases["before"].run()
        print(phases["before"], flush=True)
        names = [f"noisy-{one}" for one in range(pods)]

        async def make() -> None:
            for one, name in enumerate(names):
                await cluster.create(r.PODS.path(NOISY), _pod(name, SCHEDULER, **SAY[say](one, number)))
            await asyncio.sleep(PHASE_SECONDS)

        await phases["during"].run(make())
        print(phases["during"], flush=True)
        for name in names:
            await cluster.delete(r.PODS.path(NOISY, name))
        await phases["after"].run()
        print(phases["after"], flush=True)
        before, during, after = phases.values()
        slower = [
            _median(one.victims) - _median(before.victims) - max(0.0, _median(one.controls) - _median(before.controls))
            for one in (during, after)
        ]
        return int(max(slower) > SLOWER_SECONDS_MAX)


async def _after(what: Awaitable[None]) -> None:
    await what


def _pod(name: str, scheduler: str, **spec: Any) -> JSON:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "10m"}}}
    containers = [{**container, **one} for one in spec.pop("containers", [{}])]
    metadata = {"name": name, "labels": {"applicationId": name}}
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": scheduler, "containers": containers, "terminationGracePeriodSeconds": 0, **spec},
    }


def _median(times: list[float]) -> float:
    return sorted(times)[len(times) // 2] if times else 0.0


def _of(times: list[float]) -> str:
    found = sorted(times) or [0.0]
    ms = [round(1000 * found[at]) for at in (len(found) // 2, len(found) * 9 // 10, -1)]
    return "p50 {} p90 {} max {} ms".format(*ms)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes.neighbours")
    parser.add_argument("--pods", type=int, default=40, help="of the neighbour")
    parser.add_argument("--say", choices=sorted(SAY), default="affinity", help="what each of them says")
    parser.add_argument("--number", type=int, default=100, help="how often it says that")
    options = parser.parse_args()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return asyncio.run(measure(options.pods, options.say, options.number))


if __name__ == "__main__":
    sys.exit(main())
