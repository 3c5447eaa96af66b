"""A daemon that is killed or stopped under load leaves a journal that another process plays to the same digest."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.journal import Journal
from schedulerd.journal_files.digest import DIGEST_ENTRIES
from tests.contract import full_disk_daemon
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import RawClient, UpdateStream, allocated

ROOT = Path(__file__).parents[2]
NODES = 20
REQUESTS = 150
EACH = 20


def played(journal: Path, hash_seed: str, python: str = sys.executable) -> dict[str, Any]:
    """What `journal_check` says of it in a process of its own."""
    process = subprocess.run(
        [python, "-m", "tests.contract.journal_check", str(journal)],
        capture_output=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONDONTWRITEBYTECODE": "1"},
        text=True,
        timeout=LIMIT_SECONDS,
    )
    return dict(json.loads(process.stdout))


def load(client: RawClient) -> list[str]:
    """Asks for many pods and ends some of them; gives the UUIDs of all allocations that came."""
    client.set_up(nodes=NODES, memory=10 * EACH * REQUESTS, vcore=EACH * REQUESTS)
    stream = client.allocations()
    for request in range(REQUESTS):
        stream.send(client.asks("app-1", [f"pod-{request}-{number}" for number in range(EACH)]))
    got = stream.until(lambda got: len(allocated(got)) >= REQUESTS * EACH)
    uuids = [one.UUID for one in allocated(got)]
    for uuid in uuids[:REQUESTS]:
        stream.send(client.release("app-1", uuid))
    stream.until(lambda got: sum(len(response.released) for response in got) >= REQUESTS)
    return uuids


def the_journal(parent: Path) -> Path:
    (journal,) = parent.iterdir()
    return journal


def other_pythons() -> list[str]:
    """Interpreters of other versions that schedulerd supports: on the path, or where version managers put ours."""
    found = []
    for name in (f"python3.{minor}" for minor in (11, 12, 13) if minor != sys.version_info.minor):
        for command in (name, *map(str, Path(sys.base_prefix).parent.glob(f"*/bin/{name}"))):
            with contextlib.suppress(FileNotFoundError, subprocess.CalledProcessError):
                tell = [command, "-c", "import sys; print(sys.executable)"]
                found.append(subprocess.run(tell, capture_output=True, check=True, text=True).stdout.strip())
                break
    return found


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The journal of a daemon that was told to stop under load, and the UUIDs that its client got."""
    parent = tmp_path_factory.mktemp("journals")
    with DaemonProcess("--journal", str(parent)) as daemon, RawClient(daemon.target) as client:
        uuids = load(client)
        client.allocations().send(client.asks("app-1", [f"late-{number}" for number in range(1000)]))
        assert daemon.metric("schedulerd_journal_recording") == 1
        daemon.signal(signal.SIGTERM)
        closed = daemon.wait_for_event("journal closed")
        assert daemon.wait() == 0
    assert closed["reason"] == "schedulerd was stopped"
    return the_journal(parent), uuids


@pytest.mark.parametrize("hash_seed", ["0", "77"])
def test_what_a_stopped_daemon_recorded_is_proved_to_its_end(hash_seed: str, stopped: tuple[Path, list[str]]) -> None:
    journal, uuids = stopped
    again = played(journal, hash_seed)
    assert again["wrong"] == []
    assert again["proved"] == again["commands"] > 2 * DIGEST_ENTRIES
    assert set(uuids) <= set(again["uuids"])
    assert again["end"] == "schedulerd was stopped"


def test_another_version_of_python_comes_to_the_same(stopped: tuple[Path, list[str]]) -> None:
    pythons = other_pythons()
    if not pythons:
        pytest.skip("there is no other version of Python here that schedulerd supports")
    journal, _ = stopped
    here = played(journal, "1")
    for python in pythons:
        there = played(journal, "2", python)
        assert there.pop("python") != here["python"]
        assert there == {name: value for name, value in here.items() if name != "python"}


@pytest.mark.smoke
def test_what_a_killed_daemon_recorded_can_be_played(tmp_path: Path) -> None:
    with DaemonProcess("--journal", str(tmp_path)) as daemon, RawClient(daemon.target) as client:
        load(client)
        stream = client.allocations()
        stream.send(client.asks("app-1", [f"late-{number}" for number in range(20_000)]))
        stream.next()
        daemon.signal(signal.SIGKILL)
        assert daemon.wait() == -signal.SIGKILL
    again = played(the_journal(tmp_path), "77")
    assert again["wrong"] == []
    assert again["commands"] - again["proved"] < DIGEST_ENTRIES
    assert again["proved"] >= 2 * DIGEST_ENTRIES
    assert "without an end mark" in again["end"]


def some_that_are_written(
    daemon: DaemonProcess, client: RawClient, stream: UpdateStream[si_pb2.AllocationResponse]
) -> None:
    """Places 60 pods; returns when the journal has them: what it has not yet written when the disk is full is lost."""
    for request in range(3):
        stream.send(client.asks("app-1", [f"early-{request}-{number}" for number in range(20)]))
        stream.until(lambda got: len(allocated(got)) >= 20)
    end_seconds = time.monotonic() + 20
    while daemon.metric("schedulerd_journal_waiting_bytes"):
        assert time.monotonic() < end_seconds


def test_a_journal_that_finds_no_room_ends_and_the_daemon_goes_on(tmp_path: Path) -> None:
    with DaemonProcess("--journal", str(tmp_path)) as daemon, RawClient(daemon.target) as client:
        client.set_up(memory=100_000, vcore=10_000)
        stream = client.allocations()
        some_that_are_written(daemon, client, stream)
        (file,) = the_journal(tmp_path).iterdir()
        # What the kernel says of a file that may not grow is what it says of a disk that is full, but for the number.
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (file.stat().st_size + 1000,) * 2)
        for request in range(20):
            stream.send(client.asks("app-1", [f"pod-{request}-{number}" for number in range(20)]))
        stream.until(lambda got: len(allocated(got)) >= 400)
        ended = daemon.wait_for_event("journal ended")
        assert "File too large" in ended["reason"]
        assert "scheduling goes on" in ended["consequence"]
        assert daemon.metric("schedulerd_journal_recording") == 0
        stream.send(client.asks("app-1", ["afterwards"]))
        assert allocated([stream.next()])[0].allocationKey == "afterwards"
        assert daemon.state()["violations"] == []
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 0
    again = played(the_journal(tmp_path), "77")
    assert again["wrong"] == []
    assert again["commands"] == ended["commands"] > 4
    assert ("File too large" in again["end"]) == ("end_mark" not in ended)


def on_a_disk(room_bytes: int, parent: Path) -> DaemonProcess:
    return DaemonProcess(
        "--journal",
        str(parent),
        module="tests.contract.full_disk_daemon",
        environment={full_disk_daemon.ROOM: str(room_bytes)},
    )


def said_of_the_journal(daemon: DaemonProcess) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, daemon.lines) if line["event"].startswith("journal")]


@pytest.mark.parametrize("room_bytes", [12_000, 30_000])
def test_a_disk_that_fills_up_ends_the_journal_once_and_the_daemon_goes_on(room_bytes: int, tmp_path: Path) -> None:
    with on_a_disk(room_bytes, tmp_path) as daemon, RawClient(daemon.target) as client:
        client.set_up(memory=100_000, vcore=10_000)
        stream = client.allocations()
        some_that_are_written(daemon, client, stream)
        for request in range(200):
            stream.send(client.asks("app-1", [f"pod-{request}-{number}" for number in range(20)]))
        ended = daemon.wait_for_event("journal ended")
        assert ended["level"] == "error"
        assert ended["reason"] == "it cannot be written: [Errno 28] No space left on device"
        assert "scheduling goes on" in ended["consequence"]
        stream.until(lambda got: len(allocated(got)) >= 4_000)
        assert daemon.metric("schedulerd_journal_recording") == 0
        assert daemon.metric("schedulerd_journal_waiting_bytes") == 0
        assert daemon.state()["violations"] == []
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 0
        assert [line["event"] for line in said_of_the_journal(daemon)] == ["journal", "journal ended"]
    again = played(the_journal(tmp_path), "77")
    assert again["wrong"] == []
    assert again["commands"] == ended["commands"] > 4
    assert ("No space left" in again["end"]) == ("end_mark" not in ended)


def test_a_disk_that_is_full_from_the_beginning_stops_no_start(tmp_path: Path) -> None:
    with on_a_disk(100, tmp_path) as daemon, RawClient(daemon.target) as client:
        (said,) = said_of_the_journal(daemon)
        assert (said["level"], said["event"]) == ("error", "journal cannot be written")
        assert said["reason"] == "[Errno 28] No space left on device"
        client.set_up()
        stream = client.allocations()
        stream.send(client.asks("app-1", ["pod"]))
        assert allocated([stream.next()])[0].allocationKey == "pod"
        assert daemon.metric("schedulerd_journal_recording") == 0


def test_a_torn_journal_stops_no_start_and_is_left_alone(tmp_path: Path) -> None:
    flags = ("--journal", str(tmp_path))
    with DaemonProcess(*flags) as daemon, RawClient(daemon.target) as client:
        client.set_up()
        daemon.signal(signal.SIGKILL)
        daemon.wait()
    (torn,) = the_journal(tmp_path).iterdir()
    whole = list(Journal.open(torn))
    torn.write_bytes(torn.read_bytes()[:-1])
    before = torn.read_bytes()
    with DaemonProcess(*flags) as daemon:
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 0
    assert torn.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2
    journal = Journal.open(torn)
    records = list(journal)
    assert records == whole[: len(records)]
    assert journal.cut_bytes > 0


def test_a_directory_that_is_removed_is_noticed_without_anything_to_write(tmp_path: Path) -> None:
    with DaemonProcess("--journal", str(tmp_path)) as daemon, RawClient(daemon.target) as client:
        client.set_up()
        assert httpx.get(f"{daemon.url}/readyz").json() == {"status": "ok", "journal": "recording"}
        shutil.rmtree(the_journal(tmp_path))
        line = daemon.wait_for_event("journal ended")
        assert "was removed, moved or replaced" in line["reason"]
        assert daemon.metric("schedulerd_journal_recording") == 0
        ready = httpx.get(f"{daemon.url}/readyz")
        assert ready.status_code == 200
        assert ready.json()["journal"] == f"not recording: {line['reason']}"
        client.register()
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 0
