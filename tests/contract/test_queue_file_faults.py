"""A queue file that is broken, removed, unreadable or no file, at every moment of a failover between two daemons."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import QUEUES, RawClient

OTHER = QUEUES + "          - name: c\n"


def broken(file: Path) -> None:
    file.write_text("partitions: [nonsense]")


def removed(file: Path) -> None:
    file.unlink()


def unreadable(file: Path) -> None:
    """For every user, root too: a link that leads to itself."""
    file.unlink()
    file.symlink_to(file.name)


def a_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def half_written(file: Path) -> None:
    file.write_text(QUEUES[: QUEUES.index("queues:") + 4])


def empty(file: Path) -> None:
    file.write_text("")


FAULTS: list[Callable[[Path], None]] = [broken, removed, unreadable, a_directory, half_written, empty]


def mend(file: Path, text: str) -> None:
    """Puts a new file in place of whatever is there, at once as far as that can be."""
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    fresh = file.with_name("fresh")
    fresh.write_text(text)
    fresh.rename(file)


def readyz(daemon: DaemonProcess) -> tuple[int, dict[str, Any]]:
    answer = httpx.get(f"{daemon.url}/readyz", timeout=LIMIT_SECONDS)
    return answer.status_code, answer.json()


def queues_of(daemon: DaemonProcess) -> set[str]:
    (rm,) = daemon.state()["resource_managers"]
    return {queue["path"] for queue in rm["partitions"][0]["queues"]}


def test_no_fault_of_the_file_ends_a_registration_or_a_takeover(tmp_path: Path) -> None:
    """`unaware` does not look at its file by itself: it learns of the fault from the registration."""
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES)
    flags = ("--config", str(file), "--queue-file-poll-s")
    with DaemonProcess(*flags, "0") as unaware, DaemonProcess(*flags, "0.02") as standby:
        for at, fault in enumerate(FAULTS):
            text = (QUEUES, OTHER)[at % 2]
            fault(file)
            with RawClient(unaware.target, "rm") as client:
                client.register(config="")
                client.register(config="")
            reasons = standby.wait_for_event("queue file not reloaded: nothing changed")["reasons"]
            with RawClient(standby.target, "rm") as client:
                client.register(config="")
            expected = {"root.c"} if at and at % 2 == 0 else set()
            for daemon in (unaware, standby):
                assert queues_of(daemon) & {"root.a", "root.c"} == {"root.a"} | expected, fault.__name__
                status, detail = readyz(daemon)
                assert (status, detail["status"]) == (200, "ok")
                assert "policyGroup 'queues' cannot be used" in detail["queue_files"][0]
                assert "nonsense" not in str(detail), "everybody may read it, and it quotes nothing"
                assert daemon.metric("schedulerd_queue_file_valid", group="queues") == 0
                (item,) = httpx.get(f"{daemon.url}/api/v1/config/broken", timeout=LIMIT_SECONDS).json()["items"]
                assert item["problem"].removesuffix(")").split(" (and")[0] in reasons
                assert item["has_text_in_force"]
                page = httpx.get(f"{daemon.url}/ui/", timeout=LIMIT_SECONDS).text
                assert "could not replace this one" in page
            mend(file, text)
            unaware.signal(signal.SIGHUP)
            for daemon in (unaware, standby):
                daemon.wait_for_event("queue file reloaded" if at else "queue file unchanged")
                status, detail = readyz(daemon)
                assert (status, detail) == (200, {"status": "ok"})
                assert daemon.metric("schedulerd_queue_file_valid", group="queues") == 1


@pytest.mark.parametrize("fault", [broken, removed, a_directory])
def test_a_daemon_without_a_valid_file_waits_for_one_and_is_not_ready(
    tmp_path: Path, fault: Callable[[Path], None]
) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES)
    fault(file)
    daemon = DaemonProcess("--config", str(file), "--wait-for-queue-file", "--queue-file-poll-s", "0.02")
    try:
        port = daemon.wait_for_event("not ready: waiting for a valid queue file")["http_port"]
        daemon.url = f"http://127.0.0.1:{port}"
        daemon.wait_for_event("no valid queue file: waiting for one")
        status, detail = readyz(daemon)
        assert (status, detail["reason"]) == (503, "no valid queue file has been read yet")
        assert "no valid text of it has been read" in detail["queue_files"][0]
        assert httpx.get(f"{daemon.url}/livez", timeout=LIMIT_SECONDS).status_code == 200
        assert daemon.metric("schedulerd_queue_file_valid", group="queues") == 0
        mend(file, QUEUES)
        target = f"127.0.0.1:{daemon.wait_for_event('serving')['grpc_port']}"
        assert readyz(daemon) == (200, {"status": "ok"})
        with RawClient(target) as client:
            client.register(config="")
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 0
    finally:
        daemon.__exit__(None, None, None)


def test_a_daemon_that_waits_for_its_file_ends_when_it_is_told_to(tmp_path: Path) -> None:
    socket = tmp_path / "grpc.sock"
    flags = ("--config", str(tmp_path / "none.yaml"), "--wait-for-queue-file", "--grpc-bind", f"unix:{socket}")
    daemon = DaemonProcess(*flags)
    try:
        daemon.wait_for_event("no valid queue file: waiting for one")
        with grpc.insecure_channel(f"unix:{socket}") as channel, pytest.raises(grpc.FutureTimeoutError):
            grpc.channel_ready_future(channel).result(timeout=0.2)
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 0
    finally:
        daemon.__exit__(None, None, None)


def test_a_daemon_without_a_file_and_without_the_setting_exits_with_78(tmp_path: Path) -> None:
    daemon = DaemonProcess("--config", str(tmp_path / "none.yaml"))
    assert daemon.wait() == os.EX_CONFIG
    daemon.__exit__(None, None, None)


def test_files_of_unused_groups_have_a_text_in_force(tmp_path: Path) -> None:
    """A replica that stands by has no resource manager for whom it would have read them."""
    group = tmp_path / "gpu.yaml"
    group.write_text(QUEUES)
    flags = ("--policy-groups-dir", str(tmp_path), "--queue-file-poll-s", "0")
    with DaemonProcess(*flags) as daemon, RawClient(daemon.target) as client:
        until = time.monotonic() + LIMIT_SECONDS
        while not daemon.metric("schedulerd_queue_file_valid", group="gpu"):
            assert time.monotonic() < until
        removed(group)
        client.register(config="", policy_group="gpu")
        status, detail = readyz(daemon)
        assert status == 200
        assert "'gpu' cannot be used" in detail["queue_files"][0]
