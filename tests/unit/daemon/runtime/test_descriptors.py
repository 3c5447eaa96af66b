"""File descriptors that run out are told once, and so is the end of it."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import NoReturn

import pytest
from structlog.testing import capture_logs

from schedulerd.daemon.runtime.descriptors import INTERVAL_SECONDS, DescriptorWatch
from tests.unit import virtual_loop


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
    looked_at: list[float] = []

    async def story() -> None:
        watch, loop = DescriptorWatch(), asyncio.get_running_loop()
        monkeypatch.setattr(watch, "look", lambda: looked_at.append(loop.time()))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(watch.run(), 3.5 * INTERVAL_SECONDS)

    virtual_loop.run(story())
    assert looked_at == [INTERVAL_SECONDS, 2 * INTERVAL_SECONDS, 3 * INTERVAL_SECONDS]
