"""The command `schedulerd kubernetes-replay`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from schedulerd import __version__
from schedulerd.journal_files.digest import NotReproduced
from schedulerd.journal_files.reader import JournalUnreadable
from schedulerd.kubernetes.journal.codec import Entry, Step, result_text
from schedulerd.kubernetes.journal.replay import replay

DIFFERENT = 1
UNREADABLE = 2


@click.command("kubernetes-replay")
@click.argument("journal", type=click.Path(path_type=Path))
@click.option("--effects", is_flag=True, help="Print what came of every step, as JSON, one step a line.")
def kubernetes_replay(journal: Path, effects: bool) -> None:
    """Replay a journal of `schedulerd kubernetes --journal`: its directory, or a directory with a single journal.

    Plays what the shim was told by the API server and the daemon, and compares what it wanted to be done: bindings,
    asks, releases, conditions. Exit codes: 0 the same, 1 something else, 2 the journal cannot be read.
    """
    try:
        found = replay(journal, _print if effects else lambda entry: None)
    except JournalUnreadable as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(UNREADABLE)
    except NotReproduced as error:
        click.echo(f"Error: {error}. Only the same build of schedulerd has the same effects.", err=True)
        sys.exit(DIFFERENT)
    click.echo(f"{found.steps} steps, of which {found.proved} are proved; written by schedulerd {found.schedulerd}")
    if found.schedulerd != __version__:
        click.echo(f"this is schedulerd {__version__}")
    for what, counts in (("events", found.events), ("effects", found.effects)):
        click.echo(f"{what}: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    click.echo(f"digest of the effects: {found.digest}")
    click.echo(f"the journal ends: {found.end}")


def _print(entry: Entry) -> None:
    at = f"{entry.now_ns / 1e9:.6f}" if isinstance(entry, Step) else "question"
    click.echo(f"{at} {result_text(entry).decode()}")
