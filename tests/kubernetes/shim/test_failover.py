"""Two replicas of daemon and shim, of which one leads: what happens to pods when it goes away in every way there is.

`python -m tests.kubernetes.failover` does the same many times under load, and measures it.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from schedulerd.kubernetes.api import resources as r
from tests.contract.daemon_process import DaemonProcess
from tests.kubernetes import failover
from tests.kubernetes.fake import FakeCluster
from tests.kubernetes.shim.conftest import on_both
from tests.kubernetes.shim.test_command import Command, metrics, way_to
from tests.kubernetes.shim.world import LIMIT_SECONDS, Pods, World

DURATION_SECONDS, DEADLINE_SECONDS, RETRY_SECONDS = 5, 4.0, 0.5
TIMES = (
    *("--lease-duration-s", str(DURATION_SECONDS)),
    *("--lease-renew-deadline-s", str(DEADLINE_SECONDS)),
    *("--lease-retry-s", str(RETRY_SECONDS)),
)
PODS = 80
"""Of which some are bound by the first leader, and all others by the second one."""
SLACK_SECONDS = 10.0
"""Of a slow machine, in tests that compare with the time that people are promised."""


class Replica(Command):
    """A shim with a daemon of its own."""

    def __init__(self, world: World, config: Path, name: str, daemon: DaemonProcess, *flags: str) -> None:
        self.own_daemon = daemon
        self.name = name
        given = ("--leader-elect", "--lease-namespace", world.api.namespace, "--lease-identity", name, *TIMES, *flags)
        super().__init__(world, config, *given, daemon=self.own_daemon.target)

    async def __aexit__(self, *failure: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
        await super().__aexit__(*failure)
        await stopped(self.own_daemon)

    async def stands_by(self, leader: str) -> None:
        """Waits until it could take over, and knows the leader."""
        async with asyncio.timeout(LIMIT_SECONDS):
            said = f"ok: standing by, the leader is {leader}_"
            while not (await self.get("/readyz"))[1].startswith(said):  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.05)

    async def leads(self) -> None:
        await self.until("this process leads")
        await self.until("started: everything is reported")


async def started(*flags: str) -> DaemonProcess:
    """The fake API server goes on meanwhile."""
    return await asyncio.to_thread(DaemonProcess(*flags).__enter__)


async def stopped(daemon: DaemonProcess) -> None:
    await asyncio.to_thread(daemon.__exit__, None, None, None)


@contextlib.asynccontextmanager
async def replicas(
    world: World, folder: Path, *daemon_flags: str, have_pods: bool = False
) -> AsyncIterator[tuple[Replica, Replica]]:
    """The first one leads, the second one stands by. With pods, these have their names. On the fake their tokens are
    their names as well."""
    config = await way_to(world, folder)

    def config_of(name: str) -> Path:
        if world.api.fake is None:
            return config
        assert world.api.fake.server.tokens is not None
        world.api.fake.server.tokens.add(name)
        file = folder / f"{name}.kubeconfig"
        file.write_text(config.read_text().replace("contract-token", name))
        return file

    def flags(name: str) -> tuple[str, ...]:
        return ("--pod-name", name) if have_pods else ()

    async with Replica(world, config_of("one"), "one", await started(*daemon_flags), *flags("one")) as one:
        await one.leads()
        async with Replica(world, config_of("two"), "two", await started(*daemon_flags), *flags("two")) as two:
            await two.until("standing by")
            await two.stands_by("one")
            yield one, two


def role(pods: Pods, name: str) -> str | None:
    return pods[name]["metadata"].get("labels", {}).get("schedulerd.io/role") if name in pods else None


async def lease(world: World) -> dict[str, object]:
    return dict((await world.api.get(r.LEASES, "schedulerd")).json["spec"])


async def load(world: World) -> list[str]:
    """Makes pods one after the other; their names."""
    names = [f"p{number}" for number in range(PODS)]
    for name in names:
        await world.pod(name, cpu="10m")
        await asyncio.sleep(0.01)
    return names


async def bound_once(world: World, daemon: DaemonProcess, *names: str) -> None:
    await world.until_bound(*names)
    assert sorted(name for name, _ in world.history) == sorted(names), "each is bound once"
    await world.agrees(daemon)


async def test_a_standby_says_that_it_is_one(world: World, tmp_path: Path) -> None:
    await world.node("n")
    for name in ("one", "two"):  # their own
        await world.pod(name, node=world.node_name("n"), schedulerName="default-scheduler")
    async with replicas(world, tmp_path, have_pods=True) as (one, two):
        assert await one.get("/readyz") == (200, "ok\n")
        assert (await two.get("/readyz"))[0] == 200
        assert (await one.get("/leader"))[0] == 200
        code, text = await two.get("/leader")
        assert (code, text.partition("_")[0]) == (503, "one")
        leading, waiting = await metrics(one), await metrics(two)
        assert (leading["schedulerd_leader"], waiting["schedulerd_leader"]) == (1, 0)
        assert 0 < leading["schedulerd_kubernetes_lease_seconds_left"] <= DEADLINE_SECONDS
        assert waiting["schedulerd_kubernetes_lease_seconds_left"] == 0
        assert leading["schedulerd_kubernetes_lease_renewals_total", "done"] >= 1
        assert leading["schedulerd_kubernetes_takeover_seconds"] > 0
        assert waiting["schedulerd_kubernetes_ready"] == 1
        assert two.own_daemon.state()["resource_managers"] == [], "the standby's daemon has nothing to schedule"
        await world.until(lambda pods: (role(pods, "one"), role(pods, "two")) == ("leader", "standby"))
        told = await world.until_told("Lease", "schedulerd", "LeaderElection")
        assert told["note"].startswith("one_")
        assert told["note"].endswith("became leader")
        assert await two.end() == 0, "a standby has nothing to give back"
        assert (await one.get("/leader"))[0] == 200


async def test_a_standby_names_the_leader_to_those_who_ask_its_daemon(world: World, tmp_path: Path) -> None:
    async def answers(replica: Replica) -> dict[str, tuple[int, str]]:
        """Status and text, by path."""
        async with httpx.AsyncClient(base_url=replica.own_daemon.url, timeout=LIMIT_SECONDS) as client:
            found = {
                path: await client.get(path) for path in ("/api/v1/queues", "/ws/v1/clusters", "/debug/state", "/ui/")
            }
        return {path: (one.status_code, one.text) for path, one in found.items()}

    async with replicas(world, tmp_path, "--http-standby") as (one, two):
        async with asyncio.timeout(LIMIT_SECONDS):
            while "ask one, which leads" not in (await answers(two))["/debug/state"][1]:  # noqa: ASYNC110 - the shim tells it
                await asyncio.sleep(0.1)
        waiting = await answers(two)
        _, page = waiting.pop("/ui/")
        assert "standby</span> Nothing is scheduled here" in page
        assert "The replica one leads" in page
        assert all(code == 503 and "ask one, which leads" in text for code, text in waiting.values())
        assert {code for code, _ in (await answers(one)).values()} == {200}
        assert await one.end() == 0
        await two.leads()
        assert {code for code, _ in (await answers(two)).values()} == {200}


@on_both
async def test_a_leader_that_is_killed(world: World, tmp_path: Path) -> None:
    await world.node("n")
    async with replicas(world, tmp_path) as (one, two):
        loading = asyncio.create_task(load(world))
        await world.until_bound("p0", "p10")
        one.process.kill()
        killed_s = time.monotonic()
        await bound_once(world, two.own_daemon, *await loading)
        assert time.monotonic() - killed_s < DURATION_SECONDS + 2 + SLACK_SECONDS
        assert (await lease(world))["leaseTransitions"] == 1


async def test_a_leader_that_is_told_to_end(world: World, tmp_path: Path) -> None:
    await world.node("n")
    async with replicas(world, tmp_path) as (one, two):
        await world.pod("before")
        await world.until_bound("before")
        assert await one.end() == 0, "".join(one.lines)
        assert any("is released" in line for line in one.lines)
        await two.until("this process leads")
        await world.pod("after")
        await bound_once(world, two.own_daemon, "before", "after")
        assert one.own_daemon.state()["resource_managers"] == []
        assert await two.end() == 0
        assert (await lease(world))["holderIdentity"] == ""


async def test_a_leader_that_is_stopped_and_goes_on_later(world: World, tmp_path: Path) -> None:
    await world.node("n")
    async with replicas(world, tmp_path) as (one, two):
        loading = asyncio.create_task(load(world))
        await world.until_bound("p0", "p10")
        one.process.send_signal(signal.SIGSTOP)
        await two.leads()
        await bound_once(world, two.own_daemon, *await loading)
        assert world.api.fake is not None
        sent = len(world.api.fake.server.sent)
        one.process.send_signal(signal.SIGCONT)
        assert await one.ended() == 76, "".join(one.lines)
        assert not [write for write in world.api.fake.server.sent[sent:] if write.token == "one"]
        assert one.own_daemon.state()["resource_managers"] == []


class TestOnTheFake:
    """The real server cannot be told to fail."""

    @staticmethod
    def fake(world: World) -> FakeCluster:
        assert world.api.fake is not None
        return world.api.fake

    async def test_without_an_api_server_the_leader_ends_and_the_standby_waits(
        self, world: World, tmp_path: Path
    ) -> None:
        await world.node("n")
        async with replicas(world, tmp_path) as (one, two):
            await self.fake(world).stop()
            assert await one.ended() == 76
            assert any("no renewal for 4 s" in line for line in one.lines)
            assert two.process.returncode is None
            await self.fake(world).start()
            await self.fake(world).listen()
            await two.leads()

    async def test_a_standby_whose_daemon_is_away_does_not_take_over(self, world: World, tmp_path: Path) -> None:
        await world.node("n")
        async with replicas(world, tmp_path) as (one, two):
            await stopped(two.own_daemon)
            await two.until("can no longer be reached")
            code, text = await two.get("/readyz")
            assert code == 503
            assert "cannot be reached" in text
            assert await one.end() == 0
            assert (await lease(world))["holderIdentity"] == ""
            two.own_daemon = await started("--grpc-bind", two.own_daemon.target)
            await two.leads()

    async def test_a_leader_whose_daemon_does_not_come_back_gives_up(self, world: World, tmp_path: Path) -> None:
        await world.node("n")
        config = await way_to(world, tmp_path)
        async with Replica(world, config, "one", await started(), "--connect-timeout-s", "1") as one:
            await one.leads()
            async with Replica(world, config, "two", await started()) as two:
                await two.until("standing by")
                await stopped(one.own_daemon)
                await two.leads()
                assert await one.ended() == 69, "".join(one.lines[-3:])
                await world.pod("p")
                await bound_once(world, two.own_daemon, "p")

    async def test_somebody_takes_the_lease(self, world: World, tmp_path: Path) -> None:
        async with replicas(world, tmp_path) as (one, _):
            taken = {"spec": {"holderIdentity": "somebody"}}
            assert (await world.api.patch(r.LEASES, "schedulerd", taken)).status == 200
            assert await one.ended() == 76
            assert any("somebody has taken it" in line for line in one.lines)


@pytest.mark.nightly
@pytest.mark.timeout(180)
def test_failovers_under_load() -> None:
    """The short form of `python -m tests.kubernetes.failover`."""
    times = failover.Times(DURATION_SECONDS, DEADLINE_SECONDS, RETRY_SECONDS)
    incidents = {"kill": 1, "term": 1, "stop": 1}
    found = asyncio.run(failover.run(times, incidents, seed=5, stop_s=7.0, load_s=0.5))
    assert {name: len(seconds) for name, seconds in found.items()} == incidents
    assert max(found["kill"]) < DURATION_SECONDS + 2 + SLACK_SECONDS
    assert max(found["term"]) < 3 + SLACK_SECONDS
