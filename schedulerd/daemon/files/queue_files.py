"""Finds and reads the queue file of a resource manager: the text that it sent, or the file of its policy group.

A text that was sent has precedence over the file of the policy group (SEMANTICS C1). The text is a secret (`si_secret`
in the interface), so the log says what is wrong in which line but quotes nothing; only the sender sees quotes. Files
are read in threads, because a disk may not answer; texts are parsed in a separate process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from schedulerd.config import (
    DEFAULT_GROUP,
    PolicyGroupUnknown,
    Problem,
    QueueFile,
    QueueFileInvalid,
    QueueFileText,
    ShownConfiguration,
    shorten,
)
from schedulerd.core.specs import ConfigurationText, PartitionSpec
from schedulerd.daemon.files.reading_process import ReadingProcess
from schedulerd.daemon.runtime.shares import NoneLeft, Turns
from schedulerd.daemon.runtime.workers import Busy, TooSlow, Workers

REASONS_MAX = 20
"""Maximum number of problems of one file in the log."""

FILE_SECONDS_MAX = 10.0
"""How long reading a file may take. It may be on a network that does not answer."""
FILES_WAITING_MAX = 1_000
"""Maximum number of registrations and reloads that wait for a thread that reads files."""
_FILE_THREADS = 4
"""This many files may be stuck on a network that does not answer before other files have to wait."""

Load = Callable[[str, str], Awaitable[QueueFile]]
"""Parses a text, given with the name of its source. Raises `QueueFileInvalid` and `Busy`."""

ReadPolicyGroup = Callable[[str], QueueFileText]
"""Finds the queue file of a policy group. Raises `PolicyGroupUnknown`."""

log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedQueueFile:
    """A valid queue file: its partitions, its text and its warnings."""

    partitions: tuple[PartitionSpec, ...]
    configuration: ConfigurationText
    warnings: tuple[Problem, ...]


class TextReader:
    """Parses texts one after the other, in a separate process. `purpose` and `waiting_max` are as for `Workers`."""

    def __init__(self, purpose: str, *, waiting_max: int, niceness: int = 0) -> None:
        self._process = ReadingProcess(niceness)
        self._workers = Workers(purpose, threads=1, waiting_max=waiting_max)

    def start(self) -> None:
        """Starts the process now, so that the first text does not wait for it."""
        self._process.start()

    async def load(self, text: str, source: str) -> QueueFile:
        """Raises `QueueFileInvalid`, and `Busy` at once."""
        return await self._workers.run(self._process.load, text, source)

    async def show(self, text: str, source: str) -> ShownConfiguration:
        """A valid text as it is shown. Raises `QueueFileInvalid` if that costs too much, and `Busy` at once."""
        return await self._workers.run(self._process.show, text, source)

    def close(self) -> None:
        """Ends the process, even while it parses a text."""
        self._process.close()


class QueueFiles:
    """Reads queue files. Nothing is cached here: callers keep the results."""

    def __init__(self, read_policy_group: ReadPolicyGroup, load: Load, waiting_max: int = 1_000) -> None:
        """At most `waiting_max` queue files may be requested at a time, a quarter of them by one client."""
        self._read_policy_group = read_policy_group
        self._load_text = load
        self._turns = Turns(waiting_max, "queue files are wanted")
        self._files = Workers(
            "queue files", threads=_FILE_THREADS, waiting_max=FILES_WAITING_MAX, seconds_max=FILE_SECONDS_MAX
        )

    async def wanted(self, rm_id: str, text: str, policy_group: str, client: str) -> LoadedQueueFile:
        """The queue file that a resource manager asks for: the text that it sends, or the file of the policy group.

        The files of one client are read one after the other, so that no client waits for many large ones of another.
        Raises `PolicyGroupUnknown`, `QueueFileInvalid` and `Busy`. Warnings are logged.
        """
        try:
            async with self._turns.turn(client):
                if text:
                    loaded = await self._load(QueueFileText(text, f"config sent for {rm_id!r}"), None)
                else:
                    loaded = await self.of_group(policy_group)
        except NoneLeft as problem:
            raise Busy(f"{problem}; try again later") from problem
        log_warnings(loaded, rm_id)
        return loaded

    async def of_group(self, policy_group: str) -> LoadedQueueFile:
        """The present file of a policy group. Raises `PolicyGroupUnknown`, `QueueFileInvalid` and `Busy`."""
        group = policy_group or DEFAULT_GROUP
        try:
            found = await self._files.run(self._read_policy_group, group)
        except TooSlow as error:
            reason = f"the queue file of policyGroup {shorten(group)!r} cannot be read: {error}"
            raise PolicyGroupUnknown(reason) from error
        return await self._load(found, group)

    async def _load(self, found: QueueFileText, policy_group: str | None) -> LoadedQueueFile:
        queue_file = await self._load_text(found.text, found.source)
        configuration = ConfigurationText(
            text=found.text,
            source=found.source,
            checksum=queue_file.checksum,
            policy_group=policy_group,
            os_group_partitions=queue_file.os_group_partitions,
        )
        return LoadedQueueFile(queue_file.partitions, configuration, queue_file.warnings)


def log_warnings(loaded: LoadedQueueFile, rm_id: str = "") -> None:
    """Logs one line for each warning, up to `REASONS_MAX`."""
    source = loaded.configuration.source
    is_sent = loaded.configuration.policy_group is None
    for warning in loaded.warnings[:REASONS_MAX]:
        log.warning("queue file", rm_id=rm_id, source=source, problem=_for_log(warning, is_sent))
    if len(loaded.warnings) > REASONS_MAX:
        rest = f"{len(loaded.warnings) - REASONS_MAX} more; `schedulerd validate` shows all"
        log.warning("queue file", rm_id=rm_id, source=source, problem=rest)


def reasons_of(error: PolicyGroupUnknown | QueueFileInvalid | Busy, *, is_sent: bool = False) -> list[str]:
    """Why a queue file cannot be used, for the log: one sentence for each problem, up to `REASONS_MAX`.

    `is_sent`: the text came in a request, so nothing of it may be logged.
    """
    if not isinstance(error, QueueFileInvalid):
        return [str(error)]
    reasons = [_for_log(problem, is_sent) for problem in error.problems[:REASONS_MAX]]
    more = len(error.problems) - len(reasons)
    return [*reasons, f"{more} more; `schedulerd validate` shows all"] if more else reasons


def _for_log(problem: Problem, is_sent: bool) -> str:
    return problem.without_text() if is_sent else str(problem)
