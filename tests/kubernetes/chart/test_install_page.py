"""docs/install.md, run as it is on a real API server: its files, and its commands but for those that make the image."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes import newcomer
from tests.kubernetes.chart.helm import CHART
from tests.kubernetes.chart.installation import LIMIT_SECONDS, Installation
from tests.kubernetes.contract.real_server import RealServer, assets
from tests.kubernetes.node import sandbox

PAGE = (CHART.parents[1] / "docs" / "install.md").read_text()
SECONDS_MAX = 600.0
"""It takes one minute, where nothing else runs."""

pytestmark = pytest.mark.timeout(SECONDS_MAX)


@pytest.fixture
def alone(real: RealServer) -> Iterator[RealServer]:
    """A server of its own, as the page's names are those of other tests too."""
    folder = assets()
    assert folder is not None
    with RealServer(folder) as server:
        yield server


@pytest.mark.nightly
async def test_a_newcomers_hour(real_loop: None) -> None:
    """From a clone to a pod that is placed, by README and this page."""
    if assets() is None or not sandbox.is_allowed():
        pytest.skip("KUBEBUILDER_ASSETS names no folder with a real API server, or there are no namespaces for users")
    said = await newcomer.play()
    commands = [command.split()[:2] for command, _ in said]
    for wanted in ("git clone", "helm install", "helm test", "helm upgrade", "helm rollback", "helm uninstall"):
        assert wanted.split() in commands
    (events,) = [out for command, out in said if command.startswith("kubectl get events")]
    assert "Successfully assigned default/hello to schedulerd-a" in events
    name, shown = (out for command, out in said if "jsonpath" in command)
    assert name == "schedulerd", "the pod of a team names no scheduler itself"
    assert json.loads(shown) == {"user": "contract", "groups": ["system:masters", "system:authenticated"]}
    assert all("Running" in out for command, out in said if command == "kubectl get pod hello")


async def test_the_plain_manifests(alone: RealServer, tmp_path: Path) -> None:
    (block,) = [one for one in newcomer.blocks(PAGE) if one.mark == "plain"]
    *needed, optional = block.text.splitlines()
    assert "policies.yaml" in optional, "whose versions are newer than this server"
    async with Installation(alone, "schedulerd") as world:
        await world.node("a")
        terminal = newcomer.Terminal(world, world.kubeconfig, CHART.parents[1], sys.stdout)
        for command in needed:
            await terminal.type(command)
        await terminal.type(f"kubectl rollout status deployment/schedulerd --timeout={LIMIT_SECONDS:g}s")
        await world.pod("p")
        await world.until_running("p")
        await terminal.type(f"kubectl delete -f config/kubernetes/schedulerd.yaml --timeout={LIMIT_SECONDS:g}s")
        await world.until(lambda pods: set(pods) == {"p"})
