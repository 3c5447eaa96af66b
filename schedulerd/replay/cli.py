"""The command `schedulerd replay`."""

from __future__ import annotations

import importlib
import json
import reprlib
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import click

from schedulerd import __version__
from schedulerd.config import QueueFile, QueueFileInvalid, load_queue_file, matches
from schedulerd.core.invariants.all import violations
from schedulerd.core.language.specs import ConfigurationText
from schedulerd.core.views import view
from schedulerd.core.views.state_query import StateQuery
from schedulerd.daemon.admin.debug_state import DebugState, as_json
from schedulerd.instant import Instant
from schedulerd.journal import Journal, JournalUnreadable, NotReproduced
from schedulerd.replay.comparison import ResourceManagerNotChosen, compare
from schedulerd.replay.moment import MomentInvalid, parse_end, time_text
from schedulerd.replay.names import printable
from schedulerd.replay.playback import Playback
from schedulerd.replay.progress import with_progress
from schedulerd.replay.story import Story

DIFFERENT = 1
UNREADABLE = 2
INVALID = 3


@click.command()
@click.argument("journal", type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Only check that the replay equals the record.")
@click.option(
    "--explain",
    "subject",
    metavar="ID",
    help="Print all that happened to ID: an application, an ask or allocation (key or UUID), a node or a queue.",
)
@click.option(
    "--config",
    "queue_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What if: play the recorded load under this queue file, and compare waiting times and use of the queues.",
)
@click.option(
    "--rm",
    "rm_id",
    default="",
    metavar="RMID",
    help="With --config: the resource manager that gets FILE. Required if they had different queue files.",
)
@click.option(
    "--until",
    metavar="T",
    help="Stop before the first command after T: seconds since the start of the journal, like 12.5, or an ISO 8601 "
    "time, like 2026-11-21T09:30:00Z.",
)
@click.option("--json", "is_json", is_flag=True, help="Print JSON. The state is always JSON.")
def replay(
    journal: Path,
    *,
    check: bool,
    subject: str | None,
    queue_file: Path | None,
    rm_id: str,
    until: str | None,
    is_json: bool,
) -> None:
    """Replay a journal: check it, explain it, ask what if.

    JOURNAL is the directory that `serve --journal` wrote. Its commands are given to a scheduler in this process; no
    daemon is needed. Without --check, --explain and --config, the state at the end is printed, in the format of
    /debug/state. In each case the replay is compared with the digests in the journal.

    Exit codes: 0 the replay equals the record; 1 it does not, or ID does not occur, or wrong usage; 2 the journal or
    the queue file cannot be read; 3 the queue file is not valid.
    """
    if sum([check, subject is not None, queue_file is not None]) > 1:
        raise click.UsageError("--check, --explain and --config exclude each other: choose one")
    if rm_id and queue_file is None:
        raise click.UsageError("--rm needs --config: it names the resource manager that gets that queue file")
    if subject == "":
        raise click.UsageError("--explain needs an id")
    new_file = None if queue_file is None else _read_queue_file(queue_file)
    with _failures(journal):
        recorded = Journal.open(journal)
        records = with_progress(recorded, recorded.header.started)
        playback = Playback(records, recorded.header.scheduler(matches), _end(until, recorded))
        began_s = time.perf_counter()
        if check:
            _check(playback, recorded, is_json=is_json)
        elif subject is not None:
            _explain(playback, recorded, subject, is_json=is_json)
        elif new_file is not None:
            _what_if(playback, recorded, *new_file, rm_id, is_json=is_json)
        else:
            for _ in playback:
                pass
            state = view.resource_managers(playback.scheduler.cluster, StateQuery(epoch_ns=playback.now.epoch_ns))
            click.echo(as_json(DebugState(state, {}, violations(playback.scheduler), "")))
        _say_how_it_ends(recorded, playback)
        if not check and not is_json:
            _say_what_was_played(playback, time.perf_counter() - began_s, queue_file)


@contextmanager
def _failures(path: Path) -> Iterator[None]:
    """Ends the command with a message and an exit code if the journal cannot be read or replayed."""
    try:
        yield
    except (JournalUnreadable, OSError) as error:
        _fail(str(error), UNREADABLE)
    except NotReproduced as error:
        writer = Journal.open(path).header.version
        hint = "" if writer == __version__ else f"; the journal is of schedulerd {writer}, and this is {__version__}"
        _fail(f"not reproduced: {error}{hint}", DIFFERENT)
    except ResourceManagerNotChosen as error:
        raise click.UsageError(f"{error}; choose one with --rm") from error


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    sys.exit(code)


def _end(until: str | None, journal: Journal) -> Callable[[Instant], bool] | None:
    if until is None:
        return None
    try:
        return parse_end(until, journal.header.started)
    except MomentInvalid as error:
        raise click.BadParameter(str(error), param_hint="--until") from error


def _read_queue_file(path: Path) -> tuple[QueueFile, ConfigurationText]:
    try:
        text = path.read_text(encoding="utf-8")
        file = load_queue_file(text, str(path))
    except QueueFileInvalid as error:
        click.echo(str(error), err=True)
        sys.exit(INVALID)
    except (OSError, UnicodeDecodeError) as error:
        click.echo(f"{path}: cannot be read: {error}", err=True)
        sys.exit(UNREADABLE)
    return file, ConfigurationText(text, str(path), file.checksum)


def _check(playback: Playback, journal: Journal, *, is_json: bool) -> None:
    began_s = time.perf_counter()
    for _ in playback:
        pass
    elapsed_s = time.perf_counter() - began_s
    per_s = playback.commands / elapsed_s
    if is_json:
        click.echo(
            json.dumps(
                {
                    "commands": playback.commands,
                    "facts": playback.facts,
                    "digests": playback.proof.digests,
                    "proven_commands": playback.proof.proved,
                    "commands_per_s": round(per_s),
                    "end": journal.end,
                }
            )
        )
        return
    header = journal.header
    click.echo(f"journal {header.instance} of schedulerd {header.version}, begun {time_text(header.started.wall_ns)}")
    click.echo(
        f"{playback.commands:,} commands, {playback.facts:,} facts, {playback.proof.digests:,} digests: all the same"
    )
    if playback.proof.proved < playback.commands:
        click.echo(f"{playback.commands - playback.proof.proved:,} commands at the end have no digest behind them")
    click.echo(f"{elapsed_s:.2f} s, {per_s:,.0f} commands/s")


def _explain(playback: Playback, journal: Journal, subject: str, *, is_json: bool) -> None:
    tables = None if is_json else _tables()
    story = Story(subject, playback.scheduler)
    for step in playback:
        story.observe(step, playback.now)
    story.finish(playback.now)
    if not story.rows:
        near = ", ".join(story.nearest())
        _fail(printable(f"{subject} does not occur" + (f"; there are {near}" if near else "")), DIFFERENT)
    start = journal.header.started
    if tables is None:
        rows = [{"at": time_text(row.now.wall_ns), "event": row.event, **row.values} for row in story.rows]
        click.echo(as_json({"id": subject, "kinds": story.kinds, "start": time_text(start.wall_ns), "rows": rows}))
    else:
        tables.print_story(story, start)


def _what_if(
    playback: Playback,
    journal: Journal,
    file: QueueFile,
    configuration: ConfigurationText,
    rm_id: str,
    *,
    is_json: bool,
) -> None:
    tables = None if is_json else _tables()
    comparison = compare(playback, journal.header, file.partitions, configuration, rm_id)
    if tables is None:
        click.echo(json.dumps(comparison.as_json()))
    else:
        tables.print_comparison(comparison)


def _tables() -> ModuleType:
    """What draws, which takes a while to import."""
    return importlib.import_module("schedulerd.replay.tables")


def _say_what_was_played(playback: Playback, seconds: float, queue_file: Path | None) -> None:
    """The last line, on standard error."""
    same = "the same as the record" if playback.proof.proved else "with nothing in the record to compare it with"
    what_if = f"; the same load was played under {queue_file}" if queue_file is not None else ""
    click.echo(f"{playback.commands:,} commands were replayed in {seconds:.1f} s, {same}{what_if}.", err=True)


def _say_how_it_ends(journal: Journal, playback: Playback) -> None:
    """On standard error; a command that makes the scheduler fail is said with all there is to find out why."""
    if playback.failed_at is not None:
        at, command = time_text(playback.failed_at.now.wall_ns), playback.failed_at.command
        click.echo("".join(traceback.format_exception(playback.failure)), err=True)
        _fail(f"command {playback.commands + 1:,} at {at} makes the scheduler fail: {_SHORT.repr(command)}", DIFFERENT)
    if journal.end:
        click.echo(f"the journal ends after {playback.commands:,} commands: {journal.end}", err=True)


_SHORT = reprlib.Repr()
_SHORT.maxother = 400
