"""One request, and what handlers use of the rest of the daemon."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.state.step_context import Cluster, ResourceManager
from schedulerd.daemon.files.queue_files import Load
from schedulerd.daemon.runtime.event_feed import EventFeed
from schedulerd.daemon.runtime.shares import Shared
from schedulerd.daemon.yunikorn.configurations import Configurations
from schedulerd.daemon.yunikorn.errors import PeerError
from schedulerd.daemon.yunikorn.health import RecentFailures
from schedulerd.daemon.yunikorn.history import History
from schedulerd.daemon.yunikorn.pacing import Work
from schedulerd.daemon.yunikorn.resource_histories import ResourceHistories
from schedulerd.instant import Instant


@dataclass(frozen=True, slots=True)
class RestSources:
    """What the REST API uses of the rest of the daemon. All functions are called on the loop."""

    cluster: Cluster
    """The state of the scheduler, which is only read."""
    clocks: Callable[[], Instant]
    started_at_ns: int
    """Wall time of the daemon's start, in nanoseconds since the Unix epoch."""
    events: EventFeed
    history: History
    failures: RecentFailures
    resource_histories: ResourceHistories
    configurations: Configurations
    validate: Load
    """Reads a text that is only validated, in the process for that."""
    metrics: Callable[[Request], Awaitable[Response]]
    log_level: Callable[[], str]
    check_access: Callable[[str, Request], None]
    """Checks the access to what a setting guards. Raises `HTTPException`."""
    items_max: int
    """Most objects that an answer may have (`rest_items_max`)."""
    cors_origins: tuple[str, ...] = ()
    """Web sites whose scripts may read answers; `*` for all."""

    def observe(self, facts: Sequence[Fact], now: Instant) -> None:
        """A sink of the owner: notes what the state does not remember."""
        self.failures.observe(facts, now)
        self.resource_histories.observe(facts, now)


@dataclass(slots=True)
class Call:
    """One request for a route. `rest` is for all calls."""

    rest: RestSources
    request: Request
    variables: Mapping[str, str]
    """Names in the path, decoded once."""
    work: Work
    streams: Shared
    """The event streams that are open."""
    bodies: Shared
    """The bodies that are being received."""
    epoch_ns: int
    """The wall time of time 0 of the scheduler's clock."""

    def query(self, name: str) -> str:
        """The first value of a query key; an empty one is as if it were not there."""
        return next(iter(self.request.query_params.getlist(name)), "")

    def time(self, at_ns: int) -> int:
        """A time of the scheduler as nanoseconds since the Unix epoch."""
        return self.epoch_ns + at_ns

    def check_size(self, items: int, instead: str) -> None:
        """Raises `PeerError` if an answer would have more objects than allowed: nothing is ever cut silently."""
        if items > self.rest.items_max:
            raise PeerError(
                503,
                f"the answer would have {items} objects, and rest_items_max allows {self.rest.items_max}; "
                f"{instead} answers page by page",
            )

    def resource_managers(self) -> list[ResourceManager]:
        """The one that `rm` of the query names, or all."""
        known = self.rest.cluster.resource_managers
        asked = self.query("rm")
        return [rm for rm in known.values() if asked in ("", rm.rm_id)]
