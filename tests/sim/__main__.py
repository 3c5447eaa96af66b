"""`python -m tests.sim --seed N --steps N`: simulated histories, judged after every step."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor

from schedulerd.core.commands import Command
from tests.sim.clusters import PARTITIONS
from tests.sim.sightings import EXPECTED, Sightings
from tests.sim.simulation import Failure, shorten, simulate

COMMANDS_SHOWN = 40


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, one after the other")
    parser.add_argument("--steps", type=int, default=2_000, help="moves of each")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the seeds")
    options = parser.parse_args(arguments)
    seeds = range(options.seed, options.seed + options.seeds)
    sightings = Sightings()
    failures = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for text, seen in pool.map(_run, seeds, [options.steps] * len(seeds)):
            sightings.update(seen)
            failures += text is not None
            if text is not None:
                print(text, flush=True)
    width = max(len(sight) for sight in EXPECTED)
    for sight in sorted(sightings.keys() | set(EXPECTED)):
        print(f"{sight:<{width}} {sightings[sight]:>8}")
    verdict = f"{failures} failed" if failures else "nothing wrong"
    print(f"seeds {seeds[0]} to {seeds[-1]}, {options.steps} moves each: {verdict}")
    return 1 if failures else 0


def _run(seed: int, steps: int) -> tuple[str | None, Sightings]:
    sightings = Sightings()
    _, failure = simulate(seed, steps, sightings)
    return report(seed, failure) if failure is not None else None, sightings


def report(seed: int, failure: Failure) -> str:
    """The seed, the step, and the fewest commands found that go wrong too."""
    short = shorten(failure)
    lines = [f"seed {seed} fails at command {failure.step}:", *(f"  {problem}" for problem in failure.problems)]
    lines.append(f"{len(short.history)} commands are enough; the last of them:")
    lines += [f"  {now_ns}: {_shown(command)}" for now_ns, command in short.history[-COMMANDS_SHOWN:]]
    lines += ["then:", *(f"  {problem}" for problem in short.problems)]
    return "\n".join(lines)


def _shown(command: Command) -> str:
    """The command as one could paste it, but for the partitions, which have a name."""
    text = repr(command)
    for rm_id, partitions in PARTITIONS.items():
        text = text.replace(repr(partitions), f"PARTITIONS[{rm_id!r}]")
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
