"""The chart on a real API server: its containers run as processes with their command lines, volumes, tokens and probes,
and do what users want with the rights of their service account alone."""

from __future__ import annotations

import pytest

from tests.kubernetes.chart.installation import Installation
from tests.kubernetes.contract.conftest import SETUP_SECONDS_MAX
from tests.kubernetes.contract.real_server import RealServer

pytestmark = pytest.mark.timeout(SETUP_SECONDS_MAX)


async def test_a_pod_is_placed_and_helm_tests_it(real: RealServer) -> None:
    async with Installation(real) as world:
        await world.node("a")
        await world.install()
        await world.pod("p")
        pods = await world.until_running("p")
        assert pods["p"]["spec"]["nodeName"] == f"{world.name}-a"
        out = await world.helm("test", world.name)
        assert "Succeeded" in out, out
