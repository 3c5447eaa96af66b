"""A replica that does not lead says so, until its resource manager registers."""

from __future__ import annotations

import grpc
import httpx
import pytest

from schedulerd._generated.schedulerd.v1 import admin_pb2, admin_pb2_grpc
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import RawClient

PATHS = ("/api/v1/queues", "/ws/v1/clusters", "/debug/state")


def test_a_standby_answers_503_until_it_leads() -> None:
    def statuses(*paths: str) -> list[int]:
        return [httpx.get(daemon.url + path, timeout=LIMIT_SECONDS).status_code for path in paths]

    with DaemonProcess("--http-standby") as daemon, RawClient(daemon.target, "rm-1") as client:
        assert statuses(*PATHS) == [503, 503, 503]
        assert statuses("/livez", "/readyz", "/metrics", "/ws/v1/metrics") == [200, 200, 200, 200]
        client.register()
        assert statuses(*PATHS) == [200, 200, 200]


def test_it_names_the_leader_that_it_was_told() -> None:
    with DaemonProcess("--http-standby") as daemon, grpc.insecure_channel(daemon.target) as channel:
        admin = admin_pb2_grpc.AdminStub(channel)

        def told(leader: str) -> list[str]:
            admin.SetLeader(admin_pb2.SetLeaderRequest(leader=leader), timeout=LIMIT_SECONDS)
            return [httpx.get(daemon.url + path, timeout=LIMIT_SECONDS).text for path in (*PATHS, "/ui/")]

        assert all("batch-7" in text for text in told("batch-7"))
        *answers, page = told("<b>")
        assert "The replica &lt;b&gt; leads" in page
        assert all("<b>" in text for text in answers)
        assert not [text for text in told("") if "batch-7" in text or "<b>" in text]
        for name in ("x" * 254, "a\nb"):
            with pytest.raises(grpc.RpcError) as refused:
                told(name)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
