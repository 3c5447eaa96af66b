"""The real scheduler with a record of what it was told, and the smallest stream and stopwatch that a test can read."""

from __future__ import annotations

import asyncio
import itertools
import math
from typing import Any

from schedulerd.config import QueueFile, load_queue_file, matches
from schedulerd.core.language.commands import Command, RegisterResourceManager
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.specs import Acl, PartitionSpec, QueueSpec, Timeouts
from schedulerd.core.scheduler import Scheduler
from schedulerd.daemon.sessions.open_calls import CloseReason

QUEUES = (
    PartitionSpec(
        "default", QueueSpec("root", parent=True, submit_acl=Acl(everybody=True), children=(QueueSpec("a"),))
    ),
)


class RecordingScheduler(Scheduler):
    """Steps like any other."""

    def __init__(self, timeouts: Timeouts | None = None) -> None:
        numbers = itertools.count(1)
        super().__init__(timeouts or Timeouts(), lambda: f"uuid-{next(numbers)}", matches)
        self.stepped: list[tuple[int, Command]] = []

    def step(self, now_ns: int, command: Command) -> list[Fact]:
        self.stepped.append((now_ns, command))
        return super().step(now_ns, command)

    @property
    def commands(self) -> list[str]:
        """The kinds of command it was told, in order."""
        return [type(command).__name__ for _, command in self.stepped]


async def load_here(text: str, source: str) -> QueueFile:
    """Reads a text on the loop, which waits."""
    return load_queue_file(text, source)


class NoStopwatch:
    """Measures nothing."""

    def step_seconds(self, command_name: str, seconds: float) -> None:
        assert seconds >= 0, command_name

    def cycle_seconds(self, seconds: float) -> None:
        assert seconds >= 0


class FakeStream:
    """An open stream of which one sees what a session does to it."""

    def __init__(self, peer: str = "ipv4:10.0.0.1:1000") -> None:
        self.peer = peer
        self.is_lost = False
        self.written_seconds_ago = math.inf
        self.over = asyncio.Event()
        self.ending: CloseReason | None = None
        self.was_superseded = False
        self.may_read: bool | None = None

    def is_in_doubt(self, seconds: float) -> bool:
        return self.written_seconds_ago < seconds

    def end(self, ending: CloseReason) -> None:
        self.ending = self.ending or ending

    def supersede(self) -> None:
        self.was_superseded = True

    def let_read(self, allowed: bool) -> None:
        self.may_read = allowed


def registration(rm_id: str = "rm") -> RegisterResourceManager:
    return RegisterResourceManager(rm_id, QUEUES)


def named(commands: list[Any]) -> list[str]:
    return [type(command).__name__ for command in commands]
