"""Finds and reads the queue file of a resource manager: the text that it sent, or the file of its policy group.

A text that was sent has precedence over the file of the policy group (SEMANTICS C1). The text is a secret (`si_secret`
in the interface), so the log says what is wrong in which line but quotes nothing; only the sender sees quotes. Files
are read in threads, because a disk may not answer; texts are parsed in a separate process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

import structlog

from schedulerd.config import (
    DEFAULT_GROUP,
    PolicyGroupUnknown,
    Problem,
    QueueFile,
    QueueFileInvalid,
    QueueFileText,
    QueueFileUnreadable,
    ShownConfiguration,
)
from schedulerd.core.language.specs import ConfigurationText
from schedulerd.daemon.files.files_in_force import GROUPS_MAX, FilesInForce, LoadedQueueFile
from schedulerd.daemon.files.reading_process import ReadingProcess
from schedulerd.daemon.runtime.shares import NoneLeft, Turns
from schedulerd.daemon.runtime.workers import Busy, TooSlow, Workers

REASONS_MAX = 20
"""Maximum number of problems of one file in the log."""

FILE_SECONDS_MAX = 10.0
"""How long reading a file may take. It may be on a network that does not answer."""
FILES_WAITING_MAX = 1_000
"""Maximum number of registrations and reloads that wait for a thread that reads files."""
NO_PARTITIONS = "there are no partitions, so nothing could be scheduled; a truncated file looks like that"
_FILE_THREADS = 4
"""This many files may be stuck on a network that does not answer before other files have to wait."""

Load = Callable[[str, str], Awaitable[QueueFile]]
"""Parses a text, given with the name of its source. Raises `QueueFileInvalid` and `Busy`."""

ReadPolicyGroup = Callable[[str], QueueFileText]
"""Finds the queue file of a policy group. Raises `PolicyGroupUnknown`."""

log = structlog.stdlib.get_logger(__name__)


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
    """Reads queue files, and keeps the last valid text of each policy group."""

    def __init__(
        self,
        read_policy_group: ReadPolicyGroup,
        load: Load,
        waiting_max: int = 1_000,
        groups_with_file: Callable[[], list[str]] = list,
        source_of: Callable[[str], str] = str,
    ) -> None:
        """At most `waiting_max` queue files may be requested at a time, a quarter of them by one client.

        `groups_with_file` lists the policy groups that have a file; it may raise `OSError`. `source_of` names the file
        of a policy group without reading anything; it may raise `PolicyGroupUnknown`.
        """
        self.in_force = FilesInForce()
        self._groups_with_file = groups_with_file
        self._source_of = source_of
        self._unlisted = ""
        """Why the groups with a file could not be listed at the last attempt."""
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

    async def for_registration(self, rm_id: str, text: str, policy_group: str, client: str) -> LoadedQueueFile:
        """As `wanted`, but if the file of the policy group cannot be used now, its last valid text is returned."""
        try:
            return await self.wanted(rm_id, text, policy_group, client)
        except (PolicyGroupUnknown, QueueFileInvalid) as error:
            known = None if text else self.in_force.of(policy_group or DEFAULT_GROUP)
            if known is None:
                raise
            log.error(
                "queue file cannot be used: the registration gets its last valid text",
                rm_id=rm_id,
                source=known.configuration.source,
                checksum=known.configuration.checksum,
                reasons=reasons_of(error),
            )
            return known

    async def of_group(self, policy_group: str) -> LoadedQueueFile:
        """The present file of a policy group. Raises `PolicyGroupUnknown`, `QueueFileInvalid` and `Busy`."""
        group = policy_group or DEFAULT_GROUP
        try:
            found = await self._find(group)
            loaded = self.in_force.same(group, found) or await self._load(found, group)
            if not loaded.partitions:
                raise QueueFileInvalid(found.source, (Problem("", None, None, NO_PARTITIONS),))
        except (PolicyGroupUnknown, QueueFileInvalid) as error:
            self.in_force.failed(group, error)
            raise
        self.in_force.read(group, loaded)
        return loaded

    async def _find(self, group: str) -> QueueFileText:
        try:
            found = await self._files.run(self._read_policy_group, group)
        except TooSlow as error:
            raise QueueFileUnreadable(group, self._source_of(group), f"cannot be read: {error}") from error
        self.in_force.check_not_removed(group, found)
        return found

    async def read_ahead(self, except_for: Collection[str]) -> None:
        """Reads the files of all groups, so that each has a text in force when a resource manager wants it.

        A replica that stands by has no resource manager that would have made it read them. `except_for`: groups whose
        file was read just now. What is wrong is logged when it is new. The next check tries again what cannot be read
        now.
        """
        try:
            listed = await self._listed()
        except Busy:
            return
        hanging = 0
        for group in sorted({*listed, *self.in_force.validity} - set(except_for)):
            before = {one.policy_group: one.problem for one in self.in_force.broken}
            try:
                await self.of_group(group)
            except (PolicyGroupUnknown, QueueFileInvalid) as error:
                broken = next((one for one in self.in_force.broken if one.policy_group == group), None)
                if broken is not None and before.get(group) != broken.problem:
                    log.error("queue file cannot be used", source=broken.source, reasons=reasons_of(error))
                hanging += isinstance(error.__cause__, TooSlow)
                if hanging == _FILE_THREADS:  # each further file would take its full time, for nothing
                    return
            except Busy:
                return

    async def _listed(self) -> list[str]:
        """The policy groups that have a file, up to `GROUPS_MAX`; none if they cannot be listed, which is logged.

        Raises `Busy`.
        """
        try:
            groups = await self._files.run(self._groups_with_file)
        except (TooSlow, OSError) as error:
            reason = str(error)
            if reason != self._unlisted:
                log.error("queue files of policy groups cannot be listed", reason=reason)
            self._unlisted = reason
            return []
        self._unlisted = ""
        return groups[:GROUPS_MAX]

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
