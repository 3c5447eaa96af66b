"""The cluster of a shim, recorded if that is wanted. A journal that cannot go on ends, and the shim does not."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from schedulerd.ids import random_seed, uuid_source
from schedulerd.instant import read_clocks
from schedulerd.journal_files.writer import CONSEQUENCE, RecordingEnd
from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.settings import ClusterSettings
from schedulerd.kubernetes.journal.header import Header
from schedulerd.kubernetes.journal.recorded_cluster import RecordedCluster
from schedulerd.kubernetes.journal.recorder import EventRecorder

LOG = logging.getLogger(__name__)


@dataclass
class Recording:
    """The journal that a process was asked for, with its bounds; `directory` is None if it was asked for none."""

    directory: Path | None
    file_max_bytes: int
    max_bytes: int
    journal: EventRecorder | None = field(default=None, init=False)
    """Once it is begun, also after its end."""
    error: str = field(default="", init=False)
    """Why it could not be begun."""

    @property
    def state(self) -> str:
        """For the operator; '' if none was asked for or the shim has not come to it yet."""
        if self.error:
            return f"not recording: it could not be begun: {self.error}"
        return "" if self.journal is None else self.journal.state

    @contextmanager
    def cluster(self, settings: ClusterSettings) -> Iterator[Cluster]:
        """A cluster with these settings, recorded until the end of the context."""
        journal = self.journal = self._begun(settings)
        if journal is None:
            yield Cluster(settings)
            return
        LOG.info("journal: %s", journal.directory)
        try:
            yield RecordedCluster(settings, journal)
        finally:
            if not journal.close("the shim has ended"):
                LOG.error("journal was not written to its end: the disk is too slow")

    def _begun(self, settings: ClusterSettings) -> EventRecorder | None:
        if self.directory is None:
            return None
        try:
            return EventRecorder.begin(
                self.directory,
                Header(settings, instance=uuid_source(random_seed())()),
                read_clocks().wall_ns,
                _log_end,
                file_max_bytes=self.file_max_bytes,
                max_bytes=self.max_bytes,
            )
        except OSError as error:
            self.error = str(error)
            LOG.error("journal cannot be written: %s; %s", error, CONSEQUENCE)
            return None


def _log_end(ending: RecordingEnd) -> None:
    """Called by the thread that writes the journal."""
    lacks = f"; the end mark cannot be written: {ending.mark_error}" if ending.mark_error else ""
    fields = {"fields": {"entries": ending.entries, "bytes": ending.bytes}}
    if ending.is_orderly:
        LOG.info("journal closed: %s%s", ending.reason, lacks, extra=fields)
    else:
        LOG.error("journal ended: %s%s; %s", ending.reason, lacks, CONSEQUENCE, extra=fields)
