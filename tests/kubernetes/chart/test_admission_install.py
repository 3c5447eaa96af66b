"""The chart's admission webhooks on a real API server, which reaches them through their Service: what people see."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.admission.cluster import Cluster, Said
from tests.kubernetes.admission.reviews import OWN
from tests.kubernetes.admission.test_stories import pod, queues, user_of
from tests.kubernetes.chart.alerts import ALERTS, OF_WEBHOOKS
from tests.kubernetes.chart.dashboards import WEBHOOKS, queries
from tests.kubernetes.chart.installation import LIMIT_SECONDS, Installation
from tests.kubernetes.chart.prometheus import PROMTOOL, Scrapes, bare, check_data
from tests.kubernetes.chart.test_install import QUEUES, check_panels
from tests.kubernetes.contract.conftest import SETUP_SECONDS_MAX
from tests.kubernetes.contract.real_server import RealServer, assets

pytestmark = pytest.mark.timeout(2 * SETUP_SECONDS_MAX)
JSON = dict[str, Any]


@pytest.fixture(scope="module")
def alone(servers: dict[str, RealServer]) -> Iterator[RealServer]:
    """A server of its own, as webhooks are for all of it, and with the network of Services."""
    folder = assets()
    if folder is None:
        pytest.skip("KUBEBUILDER_ASSETS names no folder with a real API server")
    with RealServer(folder, has_services=True) as server:
        yield server


class World:
    """The release, and kubectl of people. kubectl runs in threads, as the network of the pods is in this loop."""

    def __init__(self, installation: Installation, cluster: Cluster) -> None:
        self.release = installation
        self._cluster = cluster

    async def try_(self, *arguments: str, user: str = "", given: JSON | None = None) -> Said:
        said = await asyncio.to_thread(lambda: self._cluster.try_(*arguments, user=user, given=given))
        self.release.kubelet.check()
        return said

    async def create(self, document: JSON, user: str = "ann") -> Said:
        return await self.try_("create", "-f", "-", "-o", "json", user=user, given=document)

    async def team(self, name: str) -> None:
        await asyncio.to_thread(self._cluster.team, name)

    async def until(self, *arguments: str, user: str = "", given: JSON | None = None, says: str = "") -> Said:
        """Tries until it is performed, and says this: kubectl tells no other way that it would be."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while True:
                said = await self.try_(*arguments, user=user, given=given)
                if said.code == 0 and says in said.error:
                    return said
                await asyncio.sleep(0.3)


@contextlib.asynccontextmanager
async def a_world(real: RealServer, folder: Path, name: str, **admission: Any) -> AsyncIterator[World]:
    async with Installation(real, name) as installation:
        await installation.node("a")
        admission = {"enabled": True, **admission}
        await installation.install(admission=admission, queueFile={"text": QUEUES}, fullnameOverride="batch")
        yield World(installation, Cluster(real, folder))


def queue_file(text: str, name: str) -> JSON:
    document = queues(text, "batch-queues")
    document["metadata"]["namespace"] = name
    return document


def in_queue(document: JSON) -> JSON:
    document["metadata"]["labels"]["queue"] = "root.default"
    return document


async def test_turned_on_with_default_values(alone: RealServer, real_loop: None, tmp_path: Path) -> None:
    scrapes = Scrapes()
    async with a_world(alone, tmp_path, "first") as world:
        await world.team("team")
        # A pod is given to the scheduler, belongs to its maker, and is placed.
        said = await world.until("create", "-f", "-", "-o", "json", user="ann", given=in_queue(pod("p", "team")))
        stored = json.loads(said.out)
        assert stored["spec"]["schedulerName"] == "first"
        assert user_of(stored["metadata"]) == "ann"
        await world.until("wait", "--for=condition=PodScheduled", "pod/p", "-n", "team", "--timeout=20s")
        await world.release.scrape(scrapes)
        forged = await world.create(pod("q", "team", {OWN: '{"user":"bob"}'}))
        assert "names somebody else than 'ann'" in forged.error
        assert {one.split(" -> ")[0] for one in world.release.network.targets} >= {"batch-admission"}

        # Queue files are validated, and the daemon that leads says what they change.
        invalid = await world.try_("apply", "-f", "-", given=queue_file(QUEUES.replace("greedy", "a b"), "first"))
        assert "'a b'" in invalid.error
        smaller = queue_file(QUEUES.replace("          - {name: greedy}\n", ""), "first")
        said = await world.until("apply", "-f", "-", given=smaller, says="Warning: impact")
        for _ in range(15):  # until the kubelet has given the certificates to the webhooks
            if "impact unknown" not in said.error:
                break
            await world.try_("apply", "-f", "-", given=queue_file(QUEUES, "first"))
            said = await world.try_("apply", "-f", "-", given=smaller)
        assert "Warning: impact: queue root.greedy is no longer in the file" in said.error

        # Both webhooks have the rights that they need, and are drained one after the other.
        for container in (one for one in world.release.running() if "admission" in one.containers):
            _, text = await world.release.get("admission", "/metrics", container)
            assert 'schedulerd_admission_ca_bundle_current{configuration="mutatingwebhookconfigurations"} 1.0' in text
            assert not re.search(r"\b403\b", container.containers["admission"].log.read_text())
        answer = await world.release.api.call("GET", "/apis/policy/v1beta1/namespaces/first/poddisruptionbudgets")
        assert {one["metadata"]["name"] for one in answer.json["items"]} == {"batch", "batch-admission"}
        # Another review of each kind, which panels count as an increase.
        await world.create(in_queue(pod("r", "team")))
        await world.create(pod("q", "team", {OWN: '{"user":"bob"}'}))
        await world.release.scrape(scrapes)
    if PROMTOOL is None:
        pytest.skip("the webhooks work; without promtool nobody knows what dashboards and alerts show of it")
    check_panels([name for name in queries() if name.startswith(WEBHOOKS)], scrapes, "first", tmp_path)
    check_data([bare(ALERTS[name]["expr"]) for name in OF_WEBHOOKS], scrapes, tmp_path)


@pytest.mark.nightly
async def test_upgrades_while_the_webhooks_are_down(alone: RealServer, real_loop: None, tmp_path: Path) -> None:
    async with a_world(alone, tmp_path, "second", forgedUsers={"failurePolicy": "Fail"}) as world:
        release = world.release
        await world.team("down")
        await world.until("create", "-f", "-", user="ann", given=pod("before", "down"))
        bundle = await world.try_("get", "mutatingwebhookconfiguration", "batch", "-o", "yaml")
        said = await world.try_("scale", "deployment", "batch-admission", "-n", "second", "--replicas=0")
        assert said.code == 0, said.error
        async with asyncio.timeout(LIMIT_SECONDS):
            while any("admission" in one.containers for one in release.kubelet.pods.values()):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        refused = await world.create(pod("p", "down"))
        assert "users.schedulerd.io" in refused.error, "this server has no policy that could decide without them"
        # An upgrade passes, with another queue file, and brings them back with the certificates that they had.
        await release.upgrade(
            admission={"enabled": True, "logLevel": "debug"},
            queueFile={"text": QUEUES + "# other\n"},
            fullnameOverride="batch",
        )
        await world.until("create", "-f", "-", user="ann", given=pod("after", "down"))
        after = await world.try_("get", "mutatingwebhookconfiguration", "batch", "-o", "yaml")
        assert "caBundle" in bundle.out
        assert [line for line in bundle.out.splitlines() if "caBundle" in line] == [
            line for line in after.out.splitlines() if "caBundle" in line
        ]
        # Without the chart, pods are left alone.
        await release.uninstall()
        stored = json.loads((await world.create(pod("free", "down"))).out)
        assert stored["spec"]["schedulerName"] == "default-scheduler"
