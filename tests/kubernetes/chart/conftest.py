"""A real API server, shared with no other folder of tests."""

from __future__ import annotations

import pytest

from tests.kubernetes.chart.helm import program
from tests.kubernetes.contract.conftest import servers
from tests.kubernetes.contract.real_server import RealServer, assets
from tests.kubernetes.node import sandbox

__all__ = ["servers"]


@pytest.fixture
def real(servers: dict[str, RealServer], real_loop: None) -> RealServer:
    if assets() is None or program() is None:
        pytest.skip("KUBEBUILDER_ASSETS names no folder with a real API server and helm")
    if not sandbox.is_allowed():
        pytest.skip("this machine does not let its users make namespaces")
    return servers["real"]
