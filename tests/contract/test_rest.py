"""YuniKorn's REST API of a real daemon: over HTTP, with its processes, settings and limits."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import httpx
import pytest

from schedulerd.daemon.yunikorn.routes import ROUTES
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import RawClient

P = "/ws/v1/partition/default"


def get(daemon: DaemonProcess, path: str, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return httpx.get(daemon.url + path, headers=named, timeout=LIMIT_SECONDS)


def test_every_route_of_a_daemon_that_schedules() -> None:
    with DaemonProcess() as daemon, RawClient(daemon.target, "rm-1") as client:
        client.set_up()
        stream = client.allocations()
        stream.send(client.asks("app-1", ["one", "two"]))
        stream.until(lambda got: any(response.new for response in got))
        names = {"{partition}": "default", "{queue}": "root.a", "{application}": "app-1", "{state}": "active"}
        (node,) = get(daemon, f"{P}/nodes").json()
        names |= {"{node}": node["nodeID"], "{user}": "nobody", "{group}": "nobody"}
        for route in ROUTES:
            path = route.path
            for variable, name in names.items():
                path = path.replace(variable, name)
            if route.method == "POST" or path.endswith("/stream"):
                continue
            answer = get(daemon, path)
            assert answer.status_code == (404 if "nobody" in path else 200), path
        (app,) = get(daemon, f"{P}/applications/active").json()
        assert {one["allocationKey"] for one in app["allocations"]} == {"one", "two"}
        shown = get(daemon, "/ws/v1/config", Accept="application/json").json()
        assert [one["Name"] for one in shown["Partitions"]] == ["default"]
        stream.cancel()


def test_a_stream_of_events_and_validation(daemon: DaemonProcess, client: RawClient) -> None:
    with httpx.stream("GET", f"{daemon.url}/ws/v1/events/stream", timeout=LIMIT_SECONDS) as answer:
        lines = answer.iter_lines()
        assert list(json.loads(next(lines))) == ["InstanceUUID"]
        client.register()
        assert json.loads(next(lines))["timestampNano"] > 0
    url = f"{daemon.url}/ws/v1/validate-conf"
    assert httpx.post(url, content=b"partitions: []", timeout=LIMIT_SECONDS).json() == {"allowed": True}
    refused = httpx.post(url, content=b"partitions:\n  - name: a b\n", timeout=LIMIT_SECONDS).json()
    assert refused["allowed"] is False
    assert "a partition name is" in refused["reason"]


def test_compression_and_the_page(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<html></html>")
    with DaemonProcess("--web-root", str(tmp_path), "--rest-items-max", "15") as daemon:
        assert get(daemon, "/").headers["content-security-policy"].startswith("default-src 'self'; ")
        with RawClient(daemon.target, "rm-1") as client:
            client.set_up(nodes=15)
            with httpx.stream(
                "GET", f"{daemon.url}{P}/nodes", headers={"accept-encoding": "gzip"}, timeout=LIMIT_SECONDS
            ) as answer:
                assert answer.headers["content-encoding"] == "gzip"
                assert len(json.loads(gzip.decompress(b"".join(answer.iter_raw())))) == 15
            assert get(daemon, "/ws/v1/fullstatedump").status_code == 503


@pytest.mark.parametrize(("setting", "status"), [("off", 403), ("token", 401), ("on", 200)])
def test_roles_that_may_read(tmp_path: Path, setting: str, status: int) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("ann view a-token-of-the-operator")
    with DaemonProcess("--http-rest", setting, "--http-tokens-file", str(tokens)) as daemon:
        assert get(daemon, "/ws/v1/clusters").status_code == status
        assert get(daemon, "/ws/v1/metrics").status_code == 200
        named = get(daemon, "/ws/v1/clusters", Authorization="Bearer a-token-of-the-operator")
        assert named.status_code == (403 if setting == "off" else 200)


def test_a_foreign_name_of_this_machine_is_refused() -> None:
    """A page of another site could let its own name stand for this machine, and read what only this machine may."""
    with DaemonProcess() as daemon:
        assert get(daemon, "/ws/v1/clusters", Host="rebound.example.com").status_code == 421
        assert get(daemon, "/ws/v1/clusters", Host="localhost").status_code == 200
