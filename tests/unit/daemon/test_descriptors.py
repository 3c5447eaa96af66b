"""File descriptors that run out are told once, and so is the end of it."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import NoReturn

import pytest
from structlog.testing import capture_logs

from schedulerd.daemon import descriptors
from schedulerd.daemon.descriptors import DescriptorWatch


def none_left() -> NoReturn:
    raise OSError(errno.EMFILE, "Too many open files")


def test_it_is_told_when_they_run_out_and_when_there_are_some_again(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = DescriptorWatch()
    with capture_logs() as lines:
        watch.look()
        with monkeypatch.context() as short:
            short.setattr(socket, "socket", none_left)
            watch.look()
            watch.look()
        watch.look()
        watch.look()
    assert [(line["log_level"], line["event"].split(":")[0]) for line in lines] == [
        ("error", "no file descriptor left"),
        ("info", "file descriptors again"),
    ]
    assert lines[0]["reason"] == "Too many open files"


def test_it_looks_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "INTERVAL_SECONDS", 0.001)

    async def story() -> None:
        watch, looks = DescriptorWatch(), asyncio.Semaphore(0)
        monkeypatch.setattr(watch, "look", looks.release)
        running = asyncio.create_task(watch.run())
        for _ in range(3):
            await asyncio.wait_for(looks.acquire(), 10)
        running.cancel()

    asyncio.run(story())
