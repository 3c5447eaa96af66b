"""`python -m tests.sim --seed N --steps N`: one simulated history, judged after every step."""

from __future__ import annotations

import argparse
import sys

from schedulerd.core.commands import Command
from tests.sim.clusters import PARTITIONS
from tests.sim.sightings import EXPECTED, Sightings
from tests.sim.simulation import Failure, shorten, simulate

COMMANDS_SHOWN = 40


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=2_000)
    options = parser.parse_args(arguments)
    sightings = Sightings()
    history, failure = simulate(options.seed, options.steps, sightings)
    if failure is not None:
        print(report(options.seed, failure))
        return 1
    width = max(len(sight) for sight in EXPECTED)
    for sight in sorted(sightings.keys() | set(EXPECTED)):
        print(f"{sight:<{width}} {sightings[sight]:>8}")
    print(f"seed {options.seed}: {options.steps} moves, {len(history)} commands, nothing wrong")
    return 0


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
