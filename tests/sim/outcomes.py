"""A few seeds of some worlds, each played once however many tests look at it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from tests.sim.observations import Observations
from tests.sim.simulation import Failure, simulate
from tests.sim.world import World


class Outcomes:
    """Of worlds, seed by seed. No test depends on another one having run."""

    def __init__(self, worlds: Sequence[type[World]], steps: int, seeds: Iterable[int]) -> None:
        self.seeds = tuple(seeds)
        self._worlds = tuple(worlds)
        self._steps = steps
        self._of = cache(self._play)

    def problems(self, seed: int) -> list[str]:
        """None if nothing went wrong."""
        failure, _ = self._of(seed)
        return [] if failure is None else failure.problems

    def never_seen(self, expected: Iterable[str]) -> list[str]:
        """Which of these sights no seed has."""
        seen = Observations()
        for seed in self.seeds:
            seen.update(self._of(seed)[1])
        return [sight for sight in expected if not seen[sight]]

    def is_found_now(self) -> bool:
        """Whether a seed, played again by the code as it is now, comes to a failure."""
        return any(self._play(seed)[0] for seed in self.seeds)

    def _play(self, seed: int) -> tuple[Failure | None, Observations]:
        seen = Observations()
        _, failure = simulate(seed, self._steps, seen, self._worlds)
        return failure, seen
