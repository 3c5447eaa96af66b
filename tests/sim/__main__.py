"""`python -m tests.sim --seed N --steps N`: simulated histories with faults, judged after every step.

With `--resume DIR` what was found clean is remembered there, for these very sources and options, and a run that
was interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from tests.sim import history_file
from tests.sim.clusters import PARTITIONS
from tests.sim.faults import KINDS
from tests.sim.observations import EXPECTED, Observations
from tests.sim.shorten import shorten
from tests.sim.simulation import SOAKED_WORLDS, Failure, simulate

COMMANDS_SHOWN = 40
ROOT = Path(__file__).parents[2]
SOURCES = ("schedulerd/core", "tests/sim")


def main(arguments: list[str]) -> int:
    """Returns 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, one after the other")
    parser.add_argument("--steps", type=int, default=2_000, help="moves of each")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the seeds; 0 for one per processor")
    parser.add_argument("--output", type=Path, default=Path(), help="directory for histories that failed")
    parser.add_argument("--resume", type=Path, help="directory where clean seeds are remembered")
    parser.add_argument(
        "--look-at-all-every",
        type=int,
        default=1,
        metavar="STEPS",
        help="in so many steps all is judged, after the others what they may have changed; 1 for all after every step",
    )
    options = parser.parse_args(arguments)
    every = options.look_at_all_every
    seeds = range(options.seed, options.seed + options.seeds)
    clean = _Clean(options.resume, f"{options.steps}-{every}")
    observations = Observations()
    for seed in seeds:
        observations.join(clean.seen.get(seed, Observations()))
    todo = [seed for seed in seeds if seed not in clean.seen]
    failures = 0
    with ProcessPoolExecutor(options.jobs or os.cpu_count()) as pool:
        for seed, text, seen in pool.map(partial(_run, options.steps, every, options.output), todo):
            observations.join(seen)
            failures += text is not None
            if text is None:
                clean.note(seed, seen)
            else:
                print(text, flush=True)
    print(*figures(observations), sep="\n")
    result = f"{failures} failed" if failures else "nothing wrong"
    print(f"seeds {seeds[0]} to {seeds[-1]}, {options.steps} moves each: {result}")
    return 1 if failures else 0


def figures(observations: Observations) -> Iterator[str]:
    """How often each fault was injected and each state reached, as lines."""
    yield "faults injected:"
    yield from _table(observations.faults, KINDS)
    yield "states reached:"
    yield from _table(observations, EXPECTED)


def _table(counts: Mapping[str, int], expected: Iterable[str]) -> Iterator[str]:
    names = sorted(counts.keys() | set(expected))
    width = max(map(len, names))
    yield from (f"  {name:<{width}} {counts.get(name, 0):>9}" for name in names)


class _Clean:
    """The seeds in which nothing was wrong, with what was seen; one line of a file each, if there is one."""

    def __init__(self, directory: Path | None, kind: str) -> None:
        """The file is that of these sources: whatever they change, all seeds have to be played again."""
        self.seen: dict[int, Observations] = {}
        self._path = directory / f"{_digest()}-{kind}.jsonl" if directory is not None else None
        if self._path is not None and self._path.exists():
            for line in self._path.read_text().splitlines():
                seed, seen, faults = json.loads(line)
                self.seen[seed] = Observations(seen, faults)

    def note(self, seed: int, seen: Observations) -> None:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps([seed, seen, seen.faults]) + "\n")


def _digest() -> str:
    digest = hashlib.sha256()
    for path in sorted(path for source in SOURCES for path in (ROOT / source).rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _run(steps: int, look_at_all_every: int, directory: Path, seed: int) -> tuple[int, str | None, Observations]:
    observations = Observations()
    _, failure = simulate(seed, steps, observations, SOAKED_WORLDS, is_faulty=True, look_at_all_every=look_at_all_every)
    if failure is None:
        return seed, None, observations
    path = directory / f"sim-seed-{seed}.json"
    return seed, report(seed, failure, path), observations


def report(seed: int, failure: Failure, path: Path | None = None) -> str:
    """The seed, the step, and the fewest commands found that go wrong too; those are written to the path as well."""
    short = shorten(failure)
    lines = [f"seed {seed} fails at command {failure.step}:", *(f"  {problem}" for problem in failure.problems)]
    lines.append(f"{len(short.history)} commands are enough; the last of them:")
    lines += [f"  {now_ns}: {_shown(command)}" for now_ns, command in short.history[-COMMANDS_SHOWN:]]
    lines += ["then:", *(f"  {problem}" for problem in short.problems)]
    if path is not None:
        history_file.write(path, short)
        lines.append(f"written to {path}; python -m tests.sim.replay {path} judges it again")
    return "\n".join(lines)


def _shown(command: object) -> str:
    """The command as one could paste it, but for the partitions, which have a name."""
    text = repr(command)
    for rm_id, partitions in PARTITIONS.items():
        text = text.replace(repr(partitions), f"PARTITIONS[{rm_id!r}]")
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
