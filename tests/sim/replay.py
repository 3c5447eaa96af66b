"""`python -m tests.sim.replay FILE`: judges a history again that was written down when it failed.

With `--facts` it prints what every step says instead, one line a step.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.sim import history_file
from tests.sim.simulation import History, new_scheduler, replay


def main(arguments: list[str]) -> int:
    """Returns 1 if the history still fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.replay", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--facts", action="store_true", help="what every step says, and no result")
    options = parser.parse_args(arguments)
    history, judge = history_file.read(options.file)
    if options.facts:
        sys.stdout.write(facts_of(history))
        return 0
    failure = replay(history, judge)
    if failure is None:
        print(f"{len(history)} commands: nothing wrong")
        return 0
    print(f"after command {failure.step} of {len(history)}:", *failure.problems, sep="\n  ")
    return 1


def facts_of(history: History) -> str:
    """The repr of what every step says, in order."""
    scheduler = new_scheduler()
    return "".join(f"{scheduler.step(now_ns, command)!r}\n" for now_ns, command in history)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
