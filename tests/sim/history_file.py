"""A history as a file: JSON with one command a line, as journals write them, so that lines can be left out by hand.

The scenario files of the recordings cannot say it: they know one resource manager with one partition, and no instants.
"""

from __future__ import annotations

import json
from pathlib import Path

from schedulerd.instant import Instant
from schedulerd.journal.decode import CommandReader
from schedulerd.journal.encode import entry_text
from schedulerd.journal.schema import schema
from tests.sim import judge
from tests.sim.judge import Judge
from tests.sim.simulation import Failure, History


def write(path: Path, failure: Failure) -> None:
    """The file says what failed as well, for people, and how fields are called."""
    head = {"judge": failure.judge.__name__, "problems": failure.problems, "fields": schema()}
    lines = ",\n".join(entry_text(Instant(now_ns, now_ns), command) for now_ns, command in failure.history)
    path.write_text(f'{{"failure": {json.dumps(head, indent=1)},\n"history": [\n{lines}\n]}}\n')


def read(path: Path) -> tuple[History, type[Judge]]:
    """The history, and who judges it. Raises ValueError, TypeError or LookupError if it is not such a file."""
    said = json.loads(path.read_text())
    commands = CommandReader(said["failure"]["fields"])
    history = [(now_ns, commands.command(name, values)) for now_ns, _, name, values in said["history"]]
    return history, getattr(judge, said["failure"]["judge"])
