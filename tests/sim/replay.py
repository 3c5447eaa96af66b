"""`python -m tests.sim.replay FILE`: prints the facts of a pickled history, one line a step."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from tests.sim.simulation import History, new_scheduler


def facts_of(history: History) -> str:
    """The repr of what every step says, in order."""
    scheduler = new_scheduler()
    return "".join(f"{scheduler.step(now_ns, command)!r}\n" for now_ns, command in history)


if __name__ == "__main__":
    sys.stdout.write(facts_of(pickle.loads(Path(sys.argv[1]).read_bytes())))
