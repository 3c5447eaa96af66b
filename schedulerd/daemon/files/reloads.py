"""Applies changed queue files to the resource managers that use them, on SIGHUP or when a file has changed.

Each file is read once for all resource managers that use it. A resource manager that sent its own configuration is not
affected (SEMANTICS C1). A file that cannot be used, or whose text is in effect already, never reaches the scheduler.
The daemon's own file is read in any case, so that an error in it is reported at once, and not when the next resource
manager registers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import structlog

from schedulerd.config import DEFAULT_GROUP, PolicyGroupUnknown, QueueFileInvalid
from schedulerd.core.language.commands import UpdateConfiguration
from schedulerd.core.language.specs import ConfigurationText
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.daemon.files.files_in_force import LoadedQueueFile
from schedulerd.daemon.files.queue_files import QueueFiles, log_warnings, reasons_of
from schedulerd.daemon.files.rereading import Reread
from schedulerd.daemon.runtime.owner import Owner
from schedulerd.daemon.runtime.workers import Busy
from schedulerd.observe.tally import ReloadResult

OWN_FILE = ""
"""Stands for the daemon's own file in place of an rmID. RMs that register without naming another file use this one."""

RETRY_SECONDS = 5.0
"""Seconds between two attempts to read the daemon's own file, while there was no valid one since the start."""

Count = Callable[[str, ReloadResult, int], None]
"""Counts a reload that does not reach the scheduler: rmID, result, nanoseconds since the epoch."""

log = structlog.stdlib.get_logger(__name__)


class Reloads(Reread):
    """Reads all queue files again, one reload after the other.

    `own` is the daemon's file as read at the start; None if there was no valid one, for which `first` waits.
    """

    def __init__(
        self,
        queue_files: QueueFiles,
        own: ConfigurationText | None,
        resource_managers: Mapping[str, ResourceManager],
        owner: Owner,
        count: Count,
        *,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        super().__init__()
        self._queue_files = queue_files
        self._own = own
        self._resource_managers = resource_managers
        self._owner = owner
        self._count = count
        self._clock_ns = clock_ns
        self.has_own = asyncio.Event()
        """Set when the daemon has a queue file of its own; nothing can be registered before."""
        self.started = 0
        """Number of reloads that have begun to read."""
        count(OWN_FILE, ReloadResult.REFUSED if own is None else ReloadResult.APPLIED, clock_ns())

    async def run(self) -> None:
        """Reads the files of all policy groups first, then all files each time a reload is requested, forever."""
        await self.first()
        await self._queue_files.read_ahead([DEFAULT_GROUP])
        await super().run()

    async def first(self) -> None:
        """Returns when the daemon's own file is valid, or was at the start. Tries every `RETRY_SECONDS`."""
        told: list[str] = []
        while self._own is None:
            found = await self._read(DEFAULT_GROUP)
            if not isinstance(found, list):
                self._reload_own(found, is_shown=True)
                break
            if found != told:
                log.error("no valid queue file: waiting for one", reasons=found, retry_seconds=RETRY_SECONDS)
                told = found
            await self._until_requested(RETRY_SECONDS)
        self.has_own.set()

    async def until_valid(self, ends: Sequence[asyncio.Future[None]]) -> None:
        """Returns when `first` has, or one of `ends` is done."""
        valid = asyncio.ensure_future(self._valid())
        await asyncio.wait([valid, *ends], return_when=asyncio.FIRST_COMPLETED)
        valid.cancel()

    async def _valid(self) -> None:
        await self.has_own.wait()

    def checksums(self) -> list[tuple[str, str]]:
        """By rmID, the checksum of the queue file that each resource manager uses; also that of the daemon's own."""
        of_rms = [(rm.rm_id, rm.configuration.checksum) for rm in self._resource_managers.values()]
        return of_rms if self._own is None else [(OWN_FILE, self._own.checksum), *of_rms]

    def announce(self) -> None:
        """Logs the daemon's own file as read at the start; each reload logs what it has changed."""
        assert self._own is not None
        log.info("queue file in force", rm_id=OWN_FILE, source=self._own.source, checksum=self._own.checksum)

    def refuse(self, rm_id: str, source: str, reasons: list[str]) -> None:
        """Reports a queue file that cannot be used, and so does not reach the scheduler."""
        log.error("queue file not reloaded: nothing changed", rm_id=rm_id, source=source, reasons=reasons)
        self._count(rm_id, ReloadResult.REFUSED, self._clock_ns())

    async def reload(self) -> None:
        """Reads all files; returns when the scheduler has taken all changes."""
        self.started += 1
        read: dict[str, LoadedQueueFile | list[str]] = {DEFAULT_GROUP: await self._read(DEFAULT_GROUP)}
        living = [
            (rm.rm_id, rm.configuration, rm.configuration.policy_group) for rm in self._resource_managers.values()
        ]
        self._reload_own(read[DEFAULT_GROUP], is_shown=DEFAULT_GROUP not in [group for _, _, group in living])
        for rm_id, configuration, policy_group in living:
            if policy_group is None:
                continue
            if policy_group not in read:
                read[policy_group] = await self._read(policy_group)
            if rm_id in self._resource_managers:
                await self._reload(rm_id, configuration, read[policy_group])
        await self._queue_files.read_ahead(read)

    async def _read(self, policy_group: str) -> LoadedQueueFile | list[str]:
        """The file of the policy group, or why it cannot be used."""
        try:
            return await self._queue_files.of_group(policy_group)
        except (PolicyGroupUnknown, QueueFileInvalid, Busy) as error:
            return reasons_of(error)

    async def _reload(self, rm_id: str, before: ConfigurationText, found: LoadedQueueFile | list[str]) -> None:
        if isinstance(found, list):
            self.refuse(rm_id, before.source, found)
        elif found.configuration.checksum == before.checksum:
            log.info("queue file unchanged", rm_id=rm_id, source=before.source, checksum=before.checksum)
            self._count(rm_id, ReloadResult.UNCHANGED, self._clock_ns())
        else:
            log_warnings(found, rm_id)
            command = UpdateConfiguration(rm_id, found.partitions, found.configuration, instead_of=before)
            await (await self._owner.submit(command, len(found.configuration.text)))

    def _reload_own(self, found: LoadedQueueFile | list[str], *, is_shown: bool) -> None:
        """`is_shown`: no resource manager uses this file, so no other log line reports it."""
        if isinstance(found, list):
            if is_shown:
                self.refuse(OWN_FILE, "" if self._own is None else self._own.source, found)
            else:
                self._count(OWN_FILE, ReloadResult.REFUSED, self._clock_ns())
            return
        is_new = self._own is None or found.configuration.checksum != self._own.checksum
        self._own = found.configuration
        self._count(OWN_FILE, ReloadResult.APPLIED if is_new else ReloadResult.UNCHANGED, self._clock_ns())
        if is_shown:
            log_warnings(found)
            event = "queue file read for later registrations" if is_new else "queue file unchanged"
            log.info(event, rm_id=OWN_FILE, source=self._own.source, checksum=self._own.checksum)
