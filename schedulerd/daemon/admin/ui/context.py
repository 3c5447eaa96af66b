"""What a page is made for: the partition, the parameters of the request, and what was found for it before."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from schedulerd.daemon.admin.api import finding
from schedulerd.daemon.admin.api.finding import Place, Where
from schedulerd.daemon.admin.api.projections import Projection
from schedulerd.daemon.admin.ui.addresses import Addresses
from schedulerd.daemon.admin.ui.counts import Counts, count
from schedulerd.daemon.admin.ui.sources import UiSources
from schedulerd.instant import Instant

_FRESH_NS = 1_000_000_000
"""How old the counts of a partition may be that a page shows."""
_PARTITIONS_KEPT = 100


class CountsCache:
    """The last counts of each partition, for all pages."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], tuple[int, Counts]] = {}

    def counts(self, place: Place, now_ns: int) -> Generator[None, None, Counts]:
        """Counts, unless they were counted a moment ago."""
        key = place.rm.rm_id, place.partition.name
        known = self._found.get(key)
        if known is not None and 0 <= now_ns - known[0] < _FRESH_NS:
            return known[1]
        found = yield from count(place.partition)
        if len(self._found) > _PARTITIONS_KEPT:
            self._found.clear()
        self._found[key] = now_ns, found
        return found


@dataclass(slots=True)
class Context:
    """One view is made."""

    sources: UiSources
    place: Place
    links: Addresses
    params: Mapping[str, str]
    now: Instant
    cache: CountsCache
    memo: dict[str, Any] = field(default_factory=dict)
    """What earlier views of this page found and kept."""

    @property
    def projection(self) -> Projection:
        return Projection(self.place, self.now.epoch_ns)

    def counts(self) -> Generator[None, None, Counts]:
        return self.cache.counts(self.place, self.now.monotonic_ns)

    def is_current(self) -> bool:
        return finding.is_current(self.sources.scheduler, self.place)


def place_of(sources: UiSources, params: Mapping[str, str]) -> tuple[Place, Addresses]:
    """The partition of a request, by default the first one, and links that stay in it. Raises `HTTPException`."""
    known = sources.scheduler.cluster.resource_managers
    partitions = [one for rm in known.values() for one in rm.partitions.values()]
    rm_id, name = params.get("rm", ""), params.get("partition", "")
    if not rm_id and len(known) > 1:
        rm_id = next(iter(known))
    if not name and partitions:
        of_rm = [one.name for one in partitions if rm_id in ("", one.rm_id)]
        name = "default" if "default" in of_rm or not of_rm else of_rm[0]
    found = finding.place(sources.scheduler, Where(rm=rm_id, partition=name or "default"))
    where = {"rm": found.rm.rm_id, "partition": found.partition.name} if len(partitions) > 1 else {}
    return found, Addresses(where)
