"""How fast writes may leave, on average and at once."""

from __future__ import annotations


class TokenBucket:
    """`rate` tokens come in a second, and at most `burst` are kept. Times are those of any monotonic clock."""

    def __init__(self, rate: float, burst: int, now_s: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._at_s = now_s

    def take(self, now_s: float) -> float:
        """Takes a token and gives 0, or gives the seconds until there will be one."""
        self._tokens = min(self._burst, self._tokens + (now_s - self._at_s) * self._rate)
        self._at_s = now_s
        if self._tokens >= 1.0 - 1e-9:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._rate
