"""Finds and reads the queue file of a resource manager: the text that it sent, or the file of its policy group.

A text that was sent wins over the file of the policy group (SEMANTICS C1). It is a secret (`si_secret` in the
interface), so of its problems the log has what is wrong in which line; what is written there only its sender is told.
Files are read in threads: a long one takes a second, and the loop has others to serve meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from schedulerd.config import (
    DEFAULT_GROUP,
    PolicyGroupUnknown,
    Problem,
    QueueFile,
    QueueFileInvalid,
    QueueFileText,
    load_queue_file,
)
from schedulerd.core.specs import ConfigurationText, PartitionSpec

REASONS_MAX = 20
"""How many problems of one file the log gets."""

ReadPolicyGroup = Callable[[str], QueueFileText]
"""Finds the queue file of a policy group; raises `PolicyGroupUnknown`."""

log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedQueueFile:
    """A queue file that is valid: what it says, and the text that says it."""

    partitions: tuple[PartitionSpec, ...]
    configuration: ConfigurationText
    warnings: tuple[Problem, ...]


class QueueFiles:
    """Reads queue files. Whoever calls keeps what was read: nothing is remembered here."""

    def __init__(self, read_policy_group: ReadPolicyGroup) -> None:
        self._read_policy_group = read_policy_group

    async def wanted(self, rm_id: str, text: str, policy_group: str) -> LoadedQueueFile:
        """What a resource manager asks for: the text that it sends, else the file of the policy group.

        Raises `PolicyGroupUnknown` and `QueueFileInvalid`. Warnings are logged.
        """
        if text:
            loaded = await asyncio.to_thread(_load, QueueFileText(text, f"config sent for {rm_id!r}"), None)
        else:
            loaded = await self.of_group(policy_group)
        log_warnings(loaded, rm_id)
        return loaded

    async def of_group(self, policy_group: str) -> LoadedQueueFile:
        """What the file of a policy group says now. Raises `PolicyGroupUnknown` and `QueueFileInvalid`."""
        return await asyncio.to_thread(self._of_group, policy_group or DEFAULT_GROUP)

    def _of_group(self, policy_group: str) -> LoadedQueueFile:
        return _load(self._read_policy_group(policy_group), policy_group)


def _load(found: QueueFileText, policy_group: str | None) -> LoadedQueueFile:
    queue_file: QueueFile = load_queue_file(found.text, found.source)
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


def reasons_of(error: PolicyGroupUnknown | QueueFileInvalid, *, is_sent: bool = False) -> list[str]:
    """Why a queue file cannot be used, for the log: one sentence for each problem, up to `REASONS_MAX`.

    `is_sent` if the text came in a request, of which nothing may stand there.
    """
    if isinstance(error, PolicyGroupUnknown):
        return [str(error)]
    reasons = [_for_log(problem, is_sent) for problem in error.problems[:REASONS_MAX]]
    more = len(error.problems) - len(reasons)
    return [*reasons, f"{more} more; `schedulerd validate` shows all"] if more else reasons


def _for_log(problem: Problem, is_sent: bool) -> str:
    return problem.without_text() if is_sent else str(problem)
