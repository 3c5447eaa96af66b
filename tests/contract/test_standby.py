"""A replica that does not lead says so, until its resource manager registers."""

from __future__ import annotations

import httpx

from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import RawClient

PATHS = ("/api/v1/queues", "/ws/v1/clusters")


def test_a_standby_answers_503_until_it_leads() -> None:
    def statuses(*paths: str) -> list[int]:
        return [httpx.get(daemon.url + path, timeout=LIMIT_SECONDS).status_code for path in paths]

    with DaemonProcess("--http-standby") as daemon, RawClient(daemon.target, "rm-1") as client:
        assert statuses(*PATHS) == [503, 503]
        assert statuses("/livez", "/readyz", "/metrics", "/ws/v1/metrics") == [200, 200, 200, 200]
        client.register()
        assert statuses(*PATHS) == [200, 200]
