"""The cluster of a shim, recorded if that is wanted. A journal that cannot go on ends, and the shim does not."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.settings import ClusterSettings
from schedulerd.kubernetes.journal.recorded_cluster import RecordedCluster
from schedulerd.kubernetes.journal.writer import JournalWriter

LOG = logging.getLogger(__name__)
_CONSEQUENCE = "scheduling goes on without a journal; the next one begins with the next start"


@contextmanager
def recorded(settings: ClusterSettings, directory: Path | None, max_bytes: int) -> Iterator[Cluster]:
    """A cluster with these settings, and with a journal in the directory, if there is one."""
    try:
        journal = None if directory is None else JournalWriter(directory, settings, max_bytes, _log_end)
    except OSError as error:
        LOG.error("journal cannot be written: %s; %s", error, _CONSEQUENCE)
        journal = None
    if journal is None:
        yield Cluster(settings)
        return
    LOG.info("journal: %s", journal.path)
    try:
        yield RecordedCluster(settings, journal)
    finally:
        if not journal.close():
            LOG.error("journal was not written to its end: the disk is too slow")


def _log_end(reason: str, is_orderly: bool) -> None:
    if is_orderly:
        LOG.info("journal closed: %s", reason)
    else:
        LOG.error("journal ended: %s; %s", reason, _CONSEQUENCE)
