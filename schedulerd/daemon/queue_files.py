"""Finds and reads the queue file of a resource manager: the text that it sent, or the file of its policy group.

A text that was sent wins over the file of the policy group (SEMANTICS C1). It is a secret (`si_secret` in the
interface), so of its problems the log has what is wrong in which line; what is written there only its sender is told.
Files are read in threads, because a disk may not answer; texts are read by a process of its own.
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
    shorten,
)
from schedulerd.core.specs import ConfigurationText, PartitionSpec
from schedulerd.daemon.reading_process import ReadingProcess
from schedulerd.daemon.shares import NoneLeft, Turns
from schedulerd.daemon.workers import Busy, TooSlow, Workers

REASONS_MAX = 20
"""How many problems of one file the log gets."""

FILE_SECONDS_MAX = 10.0
"""How long reading a file may take: one that is on a network, and the network does not answer."""
FILES_WAITING_MAX = 1_000
"""How many registrations and reloads wait for a thread that reads files."""
_FILE_THREADS = 4
"""So many files may be stuck on a network that does not answer, before others wait for them."""

Load = Callable[[str, str], Awaitable[QueueFile]]
"""Reads a text, given with the name of its source; raises `QueueFileInvalid` and `Busy`."""

ReadPolicyGroup = Callable[[str], QueueFileText]
"""Finds the queue file of a policy group; raises `PolicyGroupUnknown`."""

log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedQueueFile:
    """A queue file that is valid: what it says, and the text that says it."""

    partitions: tuple[PartitionSpec, ...]
    configuration: ConfigurationText
    warnings: tuple[Problem, ...]


class TextReader:
    """Reads texts one after the other, in a process of its own. `purpose` and `waiting_max` are as for `Workers`."""

    def __init__(self, purpose: str, *, waiting_max: int, niceness: int = 0) -> None:
        self._process = ReadingProcess(niceness)
        self._workers = Workers(purpose, threads=1, waiting_max=waiting_max)

    def start(self) -> None:
        """Lets the process begin now, so that the first text does not wait for it."""
        self._process.start()

    async def load(self, text: str, source: str) -> QueueFile:
        """Raises `QueueFileInvalid`, and `Busy` at once."""
        return await self._workers.run(self._process.load, text, source)

    def close(self) -> None:
        """Ends the process, whatever it reads."""
        self._process.close()


class QueueFiles:
    """Reads queue files. Whoever calls keeps what was read: nothing is remembered here."""

    def __init__(self, read_policy_group: ReadPolicyGroup, load: Load, waiting_max: int = 1_000) -> None:
        """Resource managers may want `waiting_max` queue files at a time, those of one client a quarter of them."""
        self._read_policy_group = read_policy_group
        self._load_text = load
        self._turns = Turns(waiting_max, "queue files are wanted")
        self._files = Workers(
            "queue files", threads=_FILE_THREADS, waiting_max=FILES_WAITING_MAX, seconds_max=FILE_SECONDS_MAX
        )

    async def wanted(self, rm_id: str, text: str, policy_group: str, client: str) -> LoadedQueueFile:
        """What a resource manager asks for: the text that it sends, else the file of the policy group.

        Of one client one is read after the other, so that nobody waits for many large ones of another. Raises
        `PolicyGroupUnknown`, `QueueFileInvalid` and `Busy`. Warnings are logged.
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
        """What the file of a policy group says now. Raises `PolicyGroupUnknown`, `QueueFileInvalid` and `Busy`."""
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
    """One line for each, up to `REASONS_MAX`."""
    source = loaded.configuration.source
    is_sent = loaded.configuration.policy_group is None
    for warning in loaded.warnings[:REASONS_MAX]:
        log.warning("queue file", rm_id=rm_id, source=source, problem=_for_log(warning, is_sent))
    if len(loaded.warnings) > REASONS_MAX:
        rest = f"{len(loaded.warnings) - REASONS_MAX} more; `schedulerd validate` shows all"
        log.warning("queue file", rm_id=rm_id, source=source, problem=rest)


def reasons_of(error: PolicyGroupUnknown | QueueFileInvalid | Busy, *, is_sent: bool = False) -> list[str]:
    """Why a queue file cannot be used, for the log: one sentence for each problem, up to `REASONS_MAX`.

    `is_sent` if the text came in a request, of which nothing may stand there.
    """
    if not isinstance(error, QueueFileInvalid):
        return [str(error)]
    reasons = [_for_log(problem, is_sent) for problem in error.problems[:REASONS_MAX]]
    more = len(error.problems) - len(reasons)
    return [*reasons, f"{more} more; `schedulerd validate` shows all"] if more else reasons


def _for_log(problem: Problem, is_sent: bool) -> str:
    return problem.without_text() if is_sent else str(problem)
