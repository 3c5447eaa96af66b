"""The daemon on a socket file: which users may open it, and what happens to one that is there already."""

from __future__ import annotations

import asyncio
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedulerd.client import Allocation, Client, ResourceManager
from tests.contract.daemon_process import DaemonProcess


@pytest.fixture
def path() -> Iterator[Path]:
    """Short: the path of a socket has 107 bytes at most."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        yield Path(directory) / "grpc.sock"


class Pods(ResourceManager):
    def __init__(self) -> None:
        self.placed = asyncio.Event()

    def on_allocated(self, allocation: Allocation) -> None:
        self.placed.set()


async def place(target: str, rm_id: str) -> None:
    pods = Pods()
    async with Client(target, pods, rm_id=rm_id) as client:
        client.add_node("n1", {"vcore": 1_000})
        client.add_application("app", "root.default", user="ann")
        client.ask("app", "pod", {"vcore": 100})
        async with asyncio.timeout(20):
            await pods.placed.wait()


async def place_twice(target: str) -> None:
    await asyncio.gather(place(target, "one"), place(target, "two"))


def failure(path: Path) -> str:
    """The log of a daemon that does not start there."""
    other = DaemonProcess("--grpc-bind", f"unix:{path}")
    try:
        assert other.wait() != 0
        return "".join(other.lines)
    finally:
        other.__exit__(None, None, None)


def test_clients_talk_over_a_socket_file_that_only_its_user_may_open(path: Path) -> None:
    with DaemonProcess("--grpc-bind", f"unix:{path}"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        asyncio.run(place_twice(f"unix:{path}"))


def test_the_file_of_a_dead_daemon_is_replaced(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert path.is_socket()
    with DaemonProcess("--grpc-bind", f"unix:{path}"):
        asyncio.run(place(f"unix:{path}", "one"))


def test_the_file_of_a_living_daemon_and_any_other_file_are_left_alone(path: Path) -> None:
    with DaemonProcess("--grpc-bind", f"unix:{path}"):
        assert "another process listens there" in failure(path)
        asyncio.run(place(f"unix:{path}", "one"))
    path.unlink(missing_ok=True)
    path.write_text("precious")
    assert "the file is no socket" in failure(path)
    assert path.read_text() == "precious"
