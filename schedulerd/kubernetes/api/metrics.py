"""Counts of what the API client does: plain numbers, read when metrics are exposed."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable

REQUEST_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
WAIT_SECONDS = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0)


class Histogram:
    """Counts per bucket; bucket i holds what is above bound i-1 and at most bound i, the last one all the rest."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        """Sum of all observations."""

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def observations(self) -> int:
        return sum(self.counts)


def _none() -> float:
    return 0.0


class ApiMetrics:
    """All numbers of one client. Labels are the keys of the dictionaries, in the order that their comments give."""

    def __init__(self) -> None:
        self.requests: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        """Method, resource, HTTP status or `unreachable`."""
        self.request_seconds: defaultdict[tuple[str, str], Histogram] = defaultdict(lambda: Histogram(REQUEST_SECONDS))
        """Method, resource; without watches."""
        self.unauthorized = 0
        """Answers with 401, each of which makes the client read its credentials again."""

        self.watch_events: defaultdict[tuple[str, str], int] = defaultdict(int)
        """Resource, type of the event: ADDED, MODIFIED, DELETED, BOOKMARK, ERROR."""
        self.watch_bytes: defaultdict[str, int] = defaultdict(int)
        """Resource."""
        self.watches: defaultdict[tuple[str, str], int] = defaultdict(int)
        """Resource, how the watch ended: closed, expired, stalled, short, refused, cut, unusable."""
        self.lists: defaultdict[tuple[str, str], int] = defaultdict(int)
        """Resource, why: start, expired, future, unusable, absent."""
        self.replaced: defaultdict[str, int] = defaultdict(int)
        """Resource: objects reported as deleted because a list no longer had them."""
        self.undecodable: defaultdict[str, int] = defaultdict(int)
        """Resource: objects that were passed over."""
        self.objects: dict[str, int] = {}
        """Resource: objects in the cache."""
        self.last_contact: dict[str, float] = {}
        """Resource: when the server last said anything, in seconds of the loop's clock."""

        self.writes: defaultdict[tuple[str, str], int] = defaultdict(int)
        """Kind of write, result."""
        self.write_retries: defaultdict[tuple[str, str], int] = defaultdict(int)
        """Kind of write, cause."""
        self.write_wait_seconds: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(WAIT_SECONDS))
        """Kind of write: from its submission until it first left."""
        self.lost_answers: defaultdict[tuple[str, str], int] = defaultdict(int)
        """Kind of write, what was found: performed, not_performed, unknown."""
        self.write_bugs: defaultdict[str, int] = defaultdict(int)
        """Kind of write: attempts that ended with an exception that nobody expects."""
        self.events_dropped = 0
        self.reasons_written: Callable[[], int] = lambda: 0
        """Conditions and events that say why pods wait; set by the shim, as is the next one."""
        self.reasons_waiting: Callable[[], int] = lambda: 0
        """Those that the rate of such writes has not let leave yet."""
        self.queued: Callable[[str], int] = lambda kind: 0
        """Writes that wait, by the name of their urgency; set by the pool."""
        self.in_flight: Callable[[], int] = lambda: 0
