"""A histogram as a plain list of counts, because observing one must cost a fraction of a microsecond."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate

from prometheus_client.utils import floatToGoString


class Histogram:
    """Counts of observations per bucket; bucket i has the values above bound i-1 and up to bound i."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        """Sum of all observations."""

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """(upper bound, how many observations are at most that) per bucket, the last one `+Inf`."""
        bounds = (*map(floatToGoString, self._bounds), "+Inf")
        return list(zip(bounds, map(float, accumulate(self._counts)), strict=True))

    def buckets_at(self, bounds: tuple[float, ...]) -> list[tuple[str, float]]:
        """As `buckets`, for other bounds. A bound that is none of its own has the count of its next own bound below."""
        sums = (0, *accumulate(self._counts))
        counts = [float(sums[bisect_right(self._bounds, bound)]) for bound in bounds]
        return list(zip((*map(floatToGoString, bounds), "+Inf"), (*counts, float(sums[-1])), strict=True))
