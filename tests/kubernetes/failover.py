"""The leader of two replicas is killed, ended or stopped under load; the other one takes over, and nothing is lost.

    python -m tests.kubernetes.failover --kills 50 --lease 3/2/0.5
    python -m tests.kubernetes.failover --terms 20 --lease 3/2/0.5
    python -m tests.kubernetes.failover --stops 20 --stop-s 30 --lease 3/2/0.5

A replica is a daemon and a shim, as processes; the API server is the fake one, with bearer tokens that tell the
replicas apart. After every round all pods are bound, once each, the new leader's daemon and the API server agree, and
no write was performed for a replica that did not hold the lease then. Printed is the time from the signal until the
next binding is stored.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from schedulerd.kubernetes.api import resources as r
from tests.contract.daemon_process import DaemonProcess
from tests.kubernetes.contract.real_server import write_kubeconfig
from tests.kubernetes.fake import FakeCluster
from tests.kubernetes.fake.server import Sent
from tests.kubernetes.fake.store import Change
from tests.kubernetes.load import Load

LOG = logging.getLogger(__name__)
SCHEDULER, RM_ID, LEASE = "schedulerd", "kubernetes", "schedulerd"
LIMIT_SECONDS = 90.0
EXIT_LEASE_LOST = 76
LEASES = "/leases"
FAULTS = {"lose": 0.03, "cut": 0.03, "fail_after": 0.02, "cut_watch": 0.2, "end_watch": 0.2}
"""Probabilities of each request or watch, while there is load."""


@dataclass(frozen=True, slots=True)
class Times:
    duration_s: int
    deadline_s: float
    retry_s: float

    @classmethod
    def read(cls, text: str) -> Times:
        """Of DURATION/DEADLINE/RETRY."""
        duration, deadline, retry = text.split("/")
        return cls(int(duration), float(deadline), float(retry))


class Replica:
    """A daemon and a shim. Its name is its token, and the first part of its identity in the lease."""

    def __init__(self, name: str, folder: Path, server: str, times: Times) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        self._config = folder / f"{name}.kubeconfig"
        self._times = times
        write_kubeconfig(self._config, server, name)
        self._shim: subprocess.Popen[bytes] | None = None
        self._said = 0
        """Bytes of the log that are of earlier starts."""
        self.is_supervised = False
        """A shim that ends by itself is started again."""

    def start(self) -> None:
        """Blocks until the daemon serves."""
        self.daemon = DaemonProcess().__enter__()
        self.start_shim()

    def kill(self) -> None:
        """The pod is gone at once, as with its node."""
        self.shim.kill()
        self.shim.wait()
        self.daemon.__exit__(None, None, None)

    @property
    def shim(self) -> subprocess.Popen[bytes]:
        assert self._shim is not None
        return self._shim

    @property
    def log(self) -> str:
        """Of the shim, since its last start."""
        return self._log.read_bytes()[self._said :].decode()

    async def ended(self) -> int:
        return await asyncio.to_thread(self.shim.wait, LIMIT_SECONDS)

    def start_shim(self) -> None:
        self._said = self._log.stat().st_size if self._log.exists() else 0
        times = self._times
        command = [sys.executable, "-W", "error", "-m", "schedulerd", "kubernetes", "--kubeconfig", str(self._config)]
        command += ["--daemon", self.daemon.target, "--scheduler-name", SCHEDULER, "--rm-id", RM_ID]
        command += ["--http-bind", "127.0.0.1:0", "--leader-elect", "--lease-name", LEASE]
        command += ["--lease-identity", self.name, "--lease-duration-s", str(times.duration_s)]
        command += ["--lease-renew-deadline-s", str(times.deadline_s), "--lease-retry-s", str(times.retry_s)]
        with self._log.open("ab") as log:
            self._shim = subprocess.Popen(command, stderr=log, env=dict(os.environ))
        self.is_supervised = True


class Cluster:
    """A context: the API server, two replicas of which one leads, and load."""

    def __init__(self, times: Times, random: Random) -> None:
        self.times = times
        self.random = random
        self.fake = FakeCluster(tcp=True)
        self.held: list[tuple[float, str]] = []
        """When the lease changed its holder, and to whom; empty: to nobody."""
        self.lost = 0
        """Leases that were lost without an incident: on a machine that is too busy."""
        self.crashes: list[str] = []
        """Shims that ended by themselves, and not because of the lease."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Cluster]:
        with tempfile.TemporaryDirectory(prefix="failover-") as folder:
            async with self.fake:
                self.fake.store.listeners.append(self._see)
                self.load = Load(self.fake, SCHEDULER, self.random, nodes=8, cpu="8")
                self.replicas = [Replica(name, Path(folder), self.fake.url, self.times) for name in ("a", "b")]
                try:
                    for replica in self.replicas:
                        await asyncio.to_thread(replica.start)
                    supervising = asyncio.create_task(self._supervise())
                    await self.until_warm()
                    yield self
                    supervising.cancel()
                finally:
                    for replica in self.replicas:
                        with contextlib.suppress(AssertionError, AttributeError):
                            replica.kill()

    @property
    def leader(self) -> Replica:
        """That leads, or did so last."""
        name = next(holder for _, holder in reversed(self.held) if holder)
        return next(one for one in self.replicas if one.name == name)

    @property
    def standby(self) -> Replica:
        return next(one for one in self.replicas if one is not self.leader)

    async def until_warm(self) -> None:
        """One leads and has reported everything, the other one stands by."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while not self._is_warm():  # noqa: ASYNC110 - processes tell nobody
                await asyncio.sleep(0.02)

    def _is_warm(self) -> bool:
        if not self.held or not self.held[-1][1] or any(one.shim.poll() is not None for one in self.replicas):
            return False
        return "started: everything is reported" in self.leader.log and "standing by" in self.standby.log

    async def _supervise(self) -> None:
        """What the kubelet does with containers that end."""
        while True:
            for one in self.replicas:
                if one.is_supervised and (code := one.shim.poll()) is not None:
                    LOG.info("%s has ended with %d:\n%s", one.name, code, one.log[-1500:])
                    self.lost += code == EXIT_LEASE_LOST
                    if code != EXIT_LEASE_LOST:
                        self.crashes.append(f"{one.name} has ended with {code}")
                    one.start_shim()
            await asyncio.sleep(0.05)

    async def next_binding(self, before: str, since: int) -> float:
        """When the next binding was stored that another replica than `before` has sent; `since` is a number of
        writes."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while True:
                for write in self.fake.server.done[since:]:
                    if write.path.endswith("/binding") and write.token != before:
                        return write.at_s
                await asyncio.sleep(0.002)

    def check(self) -> None:
        """Nothing was performed for a replica that did not hold the lease, and nobody has crashed."""
        assert not self.crashes, self.crashes
        wrong = [one for one in self.fake.server.done if not one.path.endswith(LEASES) and not self._may(one)]
        assert not wrong, f"written without the lease: {wrong[:5]}; the lease: {self.held}"
        self.fake.server.done.clear()
        self.fake.server.sent.clear()

    def _may(self, write: Sent) -> bool:
        if f"{LEASES}/" in write.path or write.token not in {one.name for one in self.replicas}:
            return True
        holder = next((name for at_s, name in reversed(self.held) if at_s <= write.at_s), "")
        return write.token == holder

    def _see(self, change: Change) -> None:
        if change.kind.resource is not r.LEASES or change.is_deletion:
            return
        holder = (change.object["spec"].get("holderIdentity") or "").partition("_")[0]
        if not self.held or self.held[-1][1] != holder:
            self.held.append((asyncio.get_running_loop().time(), holder))


async def kill(cluster: Cluster) -> float:
    """The leader's processes are killed; seconds until the next binding."""
    return await _takeover(cluster, Replica.kill, Replica.start)


async def term(cluster: Cluster) -> float:
    """SIGTERM for the leader's pod: both containers get it."""

    def end(leader: Replica) -> None:
        leader.shim.send_signal(signal.SIGTERM)
        leader.daemon.signal(signal.SIGTERM)

    def again(leader: Replica) -> None:
        assert leader.shim.wait(LIMIT_SECONDS) == 0, leader.log
        assert leader.daemon.wait() == 0
        leader.daemon.__exit__(None, None, None)
        leader.start()

    return await _takeover(cluster, end, again)


async def _takeover(cluster: Cluster, end: Callable[[Replica], None], again: Callable[[Replica], None]) -> float:
    leader, since = cluster.leader, len(cluster.fake.server.done)
    leader.is_supervised = False
    ended_s = asyncio.get_running_loop().time()
    end(leader)
    bound_s = await cluster.next_binding(leader.name, since)
    await asyncio.to_thread(again, leader)
    return bound_s - ended_s


async def stop(cluster: Cluster, seconds: float) -> float:
    """SIGSTOP for the leader's shim, and SIGCONT after so long: it writes nothing, and ends."""
    leader, since = cluster.leader, len(cluster.fake.server.done)
    leader.is_supervised = False
    loop = asyncio.get_running_loop()
    stopped_s = loop.time()
    leader.shim.send_signal(signal.SIGSTOP)
    bound_s = await cluster.next_binding(leader.name, since)
    await asyncio.sleep(max(0.0, stopped_s + seconds - loop.time()))
    sent = len(cluster.fake.server.sent)
    leader.shim.send_signal(signal.SIGCONT)
    code = await leader.ended()
    late = [one for one in cluster.fake.server.sent[sent:] if one.token == leader.name]
    assert not late, f"{leader.name} wrote after it had been stopped: {late}"
    assert code == EXIT_LEASE_LOST, f"{leader.name} has ended with {code}:\n{leader.log[-3000:]}"
    leader.start_shim()
    return bound_s - stopped_s


async def round_of(cluster: Cluster, happen: Callable[[Cluster], object], load_s: float) -> float:
    """Load, an incident, load, and then everything must be right."""
    is_over = asyncio.Event()
    loading = asyncio.create_task(cluster.load.run(1, lasts=lambda: not is_over.is_set()))
    try:
        await asyncio.sleep(load_s * (0.5 + cluster.random.random()))
        await cluster.until_warm()
        seconds = await happen(cluster)  # type: ignore[misc]
        await asyncio.sleep(load_s * cluster.random.random())
    finally:
        is_over.set()
        cluster.fake.faults.stop()
        cluster.fake.faults.released.clear()
        await loading
    await cluster.until_warm()
    await cluster.load.settle(LIMIT_SECONDS)
    await cluster.load.agrees(lambda **query: cluster.leader.daemon.state(**query), RM_ID)
    cluster.check()
    return float(seconds)


async def run(
    times: Times, incidents: dict[str, int], *, seed: int, stop_s: float, load_s: float, with_faults: bool = False
) -> dict[str, list[float]]:
    """Raises AssertionError if something does not hold; by incident the seconds until the next binding."""
    happen: dict[str, Callable[[Cluster], object]] = {
        "kill": kill,
        "term": term,
        "stop": lambda cluster: stop(cluster, stop_s),
    }
    found: dict[str, list[float]] = {}
    async with Cluster(times, Random(seed)).running() as cluster:
        for name, count in incidents.items():
            for number in range(count):
                if with_faults:
                    cluster.fake.faults.draw(cluster.random, FAULTS)
                try:
                    seconds = await round_of(cluster, happen[name], load_s)
                except (AssertionError, TimeoutError) as error:
                    logs = "".join(f"{one.name}:\n{one.log[-2000:]}\n" for one in cluster.replicas)
                    raise AssertionError(f"{name} {number}: {error or type(error).__name__}\n{logs}") from error
                found.setdefault(name, []).append(seconds)
                LOG.info(
                    "%s %d: next binding after %.2f s; %d pods so far", name, number + 1, seconds, cluster.load.made
                )
        LOG.info("%d leases were lost without an incident", cluster.lost)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill, end and stop the leader of two replicas under load.")
    parser.add_argument("--kills", type=int, default=0, help="SIGKILL for daemon and shim of the leader")
    parser.add_argument("--terms", type=int, default=0, help="SIGTERM for daemon and shim of the leader")
    parser.add_argument("--stops", type=int, default=0, help="SIGSTOP and SIGCONT for the leader's shim")
    parser.add_argument("--stop-s", type=float, default=30.0)
    parser.add_argument("--load-s", type=float, default=2.0, help="seconds of load before and after, on average")
    parser.add_argument("--lease", default="15/10/2", help="duration/renew deadline/retry in seconds")
    parser.add_argument(
        "--faults", action="store_true", help="requests and watches are cut, and answers lost, meanwhile"
    )
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    incidents = {"kill": given.kills, "term": given.terms, "stop": given.stops}
    times = Times.read(given.lease)
    found = asyncio.run(
        run(times, incidents, seed=given.seed, stop_s=given.stop_s, load_s=given.load_s, with_faults=given.faults)
    )
    for name, seconds in found.items():
        LOG.info(
            "%s, lease %s: %d times, next binding after p50 %.2f s, max %.2f s",
            name,
            given.lease,
            len(seconds),
            statistics.median(seconds),
            max(seconds),
        )
    LOG.info("nothing lost, nothing bound twice, nothing written without the lease")


if __name__ == "__main__":
    main()
