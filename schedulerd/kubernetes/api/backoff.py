"""Waits that grow while something keeps failing, with jitter so that many clients do not come back together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Random = Callable[[], float]
"""As `random.random`: a number from 0 up to 1."""


@dataclass(frozen=True, slots=True)
class BackoffSettings:
    """A wait is drawn between its base and (1 + `jitter`) times that; bases double from `first_s` to `most_s`."""

    first_s: float = 0.8
    factor: float = 2.0
    most_s: float = 30.0
    jitter: float = 1.0
    forgotten_after_s: float = 120.0
    """Without a failure for so long, the next wait is a first one again."""


class Backoff:
    """Failures in a row and the wait after each."""

    def __init__(self, settings: BackoffSettings, random: Random) -> None:
        self._settings = settings
        self._random = random
        self._base_s = 0.0
        self._failed_at_s: float | None = None

    def failed(self, now_s: float) -> float:
        """How many seconds to wait after a failure now."""
        settings = self._settings
        last_s = self._failed_at_s
        if last_s is None or now_s - last_s > settings.forgotten_after_s or self._base_s == 0.0:
            self._base_s = settings.first_s
        else:
            self._base_s = min(self._base_s * settings.factor, settings.most_s)
        wait_s = self._base_s * (1.0 + settings.jitter * self._random())
        self._failed_at_s = now_s + wait_s
        return wait_s
