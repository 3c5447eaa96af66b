"""Gives every resource manager what its queue file says now, when the daemon is told to look (SIGHUP, or a change).

Each file is read once for all who live by it. Who sent its own configuration is left alone (SEMANTICS C1). A file that
cannot be used, or that is the text that holds already, never reaches the scheduler. The daemon's own file is read in
any case: a mistake in it is then told at once, and not when the next resource manager registers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import structlog

from schedulerd.config import DEFAULT_GROUP, PolicyGroupUnknown, QueueFileInvalid
from schedulerd.core.commands import UpdateConfiguration
from schedulerd.core.model.cluster import ResourceManager
from schedulerd.core.specs import ConfigurationText
from schedulerd.daemon.owner import Owner
from schedulerd.daemon.queue_files import LoadedQueueFile, QueueFiles, log_warnings, reasons_of
from schedulerd.daemon.rereading import Reread
from schedulerd.daemon.workers import Busy
from schedulerd.observe.tally import ReloadResult

OWN_FILE = ""
"""In place of an rmID: the daemon's own file, by which those live who register without naming another."""

Count = Callable[[str, ReloadResult, int], None]
"""Counts a reload that the scheduler does not hear of: rmID, what came of it, nanoseconds since the epoch."""

log = structlog.stdlib.get_logger(__name__)


class Reloads(Reread):
    """Reads all queue files anew, one time after the other. `own` is the daemon's file as it was read at the start."""

    def __init__(
        self,
        queue_files: QueueFiles,
        own: ConfigurationText,
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
        self.started = 0
        """How many reloads have begun to read."""
        count(OWN_FILE, ReloadResult.APPLIED, clock_ns())

    def checksums(self) -> list[tuple[str, str]]:
        """The checksum of the queue file that each resource manager lives by, and of the daemon's own."""
        of_rms = [(rm.rm_id, rm.configuration.checksum) for rm in self._resource_managers.values()]
        return [(OWN_FILE, self._own.checksum), *of_rms]

    def refuse(self, rm_id: str, source: str, reasons: list[str]) -> None:
        """Tells of a queue file that cannot be used, which the scheduler does not hear of."""
        log.error("queue file not reloaded: nothing changed", rm_id=rm_id, source=source, reasons=reasons)
        self._count(rm_id, ReloadResult.REFUSED, self._clock_ns())

    async def reload(self) -> None:
        """Returns when the scheduler has taken all that changed."""
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

    async def _read(self, policy_group: str) -> LoadedQueueFile | list[str]:
        """The file, or why it cannot be used."""
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
        """`is_shown` if nobody lives by it, so that no other line tells the same."""
        if isinstance(found, list):
            if is_shown:
                self.refuse(OWN_FILE, self._own.source, found)
            else:
                self._count(OWN_FILE, ReloadResult.REFUSED, self._clock_ns())
            return
        is_new = found.configuration.checksum != self._own.checksum
        self._own = found.configuration
        self._count(OWN_FILE, ReloadResult.APPLIED if is_new else ReloadResult.UNCHANGED, self._clock_ns())
        if is_shown:
            log_warnings(found)
            event = "queue file read for those who will register" if is_new else "queue file unchanged"
            log.info(event, rm_id=OWN_FILE, source=self._own.source, checksum=self._own.checksum)
