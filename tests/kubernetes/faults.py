"""Faults of every kind between shim and API server, under load that includes gangs and claims, with a real daemon.

    python -m tests.kubernetes.faults --seeds 200 [--first 0]

Every seed is a shim of its own on a fake API server of its own; they share a daemon. Each kind of fault happens to many
of the requests or watches of the shim, which is shown. Then nothing goes wrong any longer, all pods are bound, no
placeholder is left, and both sides agree. What a seed draws is fixed, what the machine makes of it is not. Exit code 1
if a seed failed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection
from random import Random

from schedulerd.kubernetes.api import BackoffSettings, WatchSettings
from schedulerd.kubernetes.api import resources as r
from tests.contract.daemon_process import DaemonProcess
from tests.kubernetes.contract.api import Api
from tests.kubernetes.fake import FakeCluster
from tests.kubernetes.fake.failures import Failure
from tests.kubernetes.fake.faults import Fault
from tests.kubernetes.fake.store import Object
from tests.kubernetes.fake.watching import LINES_MAX
from tests.kubernetes.load import Load
from tests.kubernetes.shim.world import World

PODS = 120
WATCH = WatchSettings(silent_s=1.5, backoff=BackoffSettings(0.05, 2.0, 0.5))
SECONDS = 0.3
"""Between two faults, at most."""
SEED_SECONDS_MAX = 150.0
SECONDS_MAX = 10.0
"""Until a fault happens to somebody."""
AVOIDED_NS = 2_000_000_000
"""A pod whose volume is on one node cannot go elsewhere meanwhile, and all pods must be bound soon after the faults."""

Happen = Callable[[World, Random], None]


def draw(**rates: float) -> Happen:
    """Requests and watches that fail at random."""

    def happen(world: World, random: Random) -> None:
        fake(world).faults.draw(random, rates)
        fake(world).server.watches_end()

    return happen


def refuse(code: int, retry_after_s: int | None = None) -> Happen:
    """The next writes are refused."""

    def happen(world: World, random: Random) -> None:
        for method, part in (("POST", "binding"), ("PATCH", "status"), ("DELETE", "")):
            fault = Fault("refuse", code=code, retry_after_s=retry_after_s)
            fake(world).faults.add(fault, method=method, plural="pods", subresource=part, times=3)

    return happen


def forget(*, by_line: bool) -> Happen:
    """All watches end, and where they would go on is forgotten when they come back."""

    def happen(world: World, random: Random) -> None:
        server = fake(world).server
        server.expires_by_line = by_line
        server.watches_end()
        fake(world).create(r.NAMESPACES, f"passes-{random.random()}"[:20].replace(".", "-"))
        for number in range(2):
            fake(world).pod(f"passes-{fake(world).store.version}-{number}", schedulerName="nobody")
        fake(world).store.compact()

    return happen


def slow(world: World, random: Random) -> None:
    """The server has more for the watches than it keeps: it ends them."""
    server = fake(world).server
    server.watch_lines_max = 5
    for watch in server.watches:
        watch.is_slow = True
    fake(world).faults.happened.append(("slow", "WATCH", f"{len(server.watches)}"))


def rotate(world: World, random: Random) -> None:
    """The token of the shim is not accepted any longer, and there is a new one."""
    token = f"token-{random.random()}"
    world.api.headers = {"Authorization": f"Bearer {token}"}
    fake(world).server.tokens = {token}


def steal(world: World, random: Random) -> None:
    """Somebody else is faster, from now on: bindings are answered with 409."""
    operations = fake(world).operations
    if "bind" in vars(operations):
        return
    bind = type(operations).bind
    nodes = [name for _, name in fake(world).store.of(fake(world).kind(r.NODES))]

    def late(namespace: str, name: str, binding: Object) -> Object:
        if random.random() < 0.3:
            other = {"metadata": {"name": name}, "target": {"kind": "Node", "name": random.choice(nodes)}}
            with contextlib.suppress(Failure):
                bind(operations, namespace, name, other)
            fake(world).faults.happened.append(("stolen", "POST", name))
        return bind(operations, namespace, name, binding)

    operations.bind = late  # type: ignore[method-assign]


KINDS: dict[str, tuple[Happen, str, str]] = {
    "410 as a line": (forget(by_line=True), "expired", "line"),
    "410 as a status": (forget(by_line=False), "expired", "code"),
    "409, taken by somebody else": (steal, "stolen", ""),
    "409, refused": (refuse(409), "refuse", ""),
    "422": (refuse(422), "refuse", ""),
    "429 with Retry-After": (refuse(429, 1), "refuse", ""),
    "503": (refuse(503), "refuse", ""),
    "cut requests": (draw(cut=0.1), "cut", ""),
    "lost answers": (draw(lose=0.1), "lose", ""),
    "killed amid deletions": (draw(halve=0.1), "halve", ""),
    "500 and done all the same": (draw(fail_after=0.1), "fail_after", ""),
    "cut watches": (draw(cut_watch=0.5), "cut_watch", ""),
    "ended watches": (draw(end_watch=0.5), "end_watch", ""),
    "silent watches": (draw(stall_watch=0.3), "stall_watch", ""),
    "slow watchers": (slow, "slow", ""),
    "token rotation": (rotate, "unauthorized", ""),
}


async def under_load(world: World, seed: int, kinds: Collection[str], pods: int, rounds: int = 1) -> Load:
    """Load, with faults of these kinds, each as often; then all is well, and everything must be right."""
    random = Random(seed)
    load = Load(fake(world), world.scheduler, random, has_gangs=True)
    await world.start(WATCH, avoided_ns=AVOIDED_NS)
    loading = asyncio.create_task(load.run(pods, lasts=lambda: not were_all.is_set()))
    were_all = asyncio.Event()
    for _ in range(rounds):
        for kind in random.sample(sorted(kinds), len(kinds)):
            await happens(world, random, kind)
    were_all.set()
    try:
        await loading
        stop(world)
        await load.settle()
        await load.agrees(world.daemon.state, world.rm_id)
    finally:
        world.check()
    return load


async def happens(world: World, random: Random, kind: str) -> None:
    """Returns when the fault was seen to happen."""
    happen, fault, method = KINDS[kind]
    happened = fake(world).faults.happened
    before = len(happened)
    async with asyncio.timeout(SECONDS_MAX):
        happen(world, random)
        while not any(name == fault and method in ("", how) for name, how, _ in happened[before:]):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await asyncio.sleep(SECONDS * random.random())


def stop(world: World) -> None:
    """Nothing goes wrong any longer."""
    fake(world).faults.stop()
    fake(world).server.watch_lines_max = LINES_MAX
    fake(world).server.watches_end()


def fake(world: World) -> FakeCluster:
    assert world.api.fake is not None
    return world.api.fake


async def run(first: int, seeds: int) -> int:
    """How many seeds have failed."""
    total: Counter[str] = Counter()
    began_s = time.monotonic()
    with DaemonProcess() as daemon:
        for seed in range(first, first + seeds):
            try:
                async with asyncio.timeout(SEED_SECONDS_MAX), World(Api(None), daemon) as world:
                    load = await under_load(world, seed, KINDS, PODS)
                    happened = len(fake(world).faults.happened)
            except Exception:  # noqa: BLE001 - whatever it is, the other seeds go on
                total["failed"] += 1
                print(f"seed {seed}:\n{traceback.format_exc()}", flush=True)
                continue
            total.update(pods=load.made, gangs=load.gangs, placeholder_pods=len(load.placeholders), faults=happened)
            print(f"seed {seed}: {happened} faults; {time.monotonic() - began_s:.0f} s so far", flush=True)
    print(f"{seeds} seeds in {time.monotonic() - began_s:.0f} s: {dict(total)}")
    return total["failed"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Let everything go wrong between the shim and its API server.")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    sys.exit(1 if asyncio.run(run(given.first, given.seeds)) else 0)


if __name__ == "__main__":
    main()
