"""The commands `schedulerd simulate` and `schedulerd demo`."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import uvloop
from rich.console import Console
from rich.live import Live
from rich.table import Table

from schedulerd.address import Target
from schedulerd.client import SchedulerError
from schedulerd.simulate.demo import (
    Daemon,
    DemoFailed,
    free_port,
    interrupt_on_signals,
    run_resource_manager,
    shipped_queue_file,
)
from schedulerd.simulate.queue_file import QUEUES_MAX, QueueFileUnreadable, QueueQuota, many_queues, read_quotas
from schedulerd.simulate.session import Session
from schedulerd.simulate.snapshot import Snapshot
from schedulerd.simulate.summary import Summary, summary_rows
from schedulerd.simulate.view import LiveView, progress_line
from schedulerd.simulate.workload import Workload, queues_for_kinds

EXIT_INTERRUPTED = 130
EXIT_LATE = os.EX_TEMPFAIL
PROGRESS_EVERY_S = 3.0

_POSITIVE = click.FloatRange(min=0, min_open=True)
_PORT = click.IntRange(1, 65535)
_FILE_TO_WRITE = click.Path(path_type=Path, dir_okay=False, writable=True)
_FILE_TO_READ = click.Path(path_type=Path, dir_okay=False, exists=True)
_DIRECTORY = click.Path(path_type=Path, file_okay=False, exists=True)


class SchedulerUnusable(click.ClickException):
    """The scheduler cannot be reached, or not be used; its numbers say nothing then."""

    exit_code = os.EX_UNAVAILABLE


class Late(click.ClickException):
    """The run took longer than it had time; its sums add up."""

    exit_code = EXIT_LATE


def _shared_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same load."),
        click.option(
            "--duration",
            type=_POSITIVE,
            default=30.0,
            show_default=True,
            help="Seconds from the start until all work is done. No applications arrive in the last part of it.",
        ),
        click.option(
            "--nodes", type=click.IntRange(min=1), default=200, show_default=True, help="Number of simulated nodes."
        ),
        click.option("--json", "json_file", type=_FILE_TO_WRITE, help="Also write the summary to FILE, as JSON."),
        click.option("--no-view", is_flag=True, help="Print progress lines, also in a terminal, not the live view."),
    ):
        command = option(command)
    return command


@click.command()
@click.option("--target", required=True, type=Target(), help="gRPC address of the daemon.")
@_shared_options
@click.option("--rate", type=_POSITIVE, help="Applications per second. Default: more than fit.")
@click.option("--rm-id", default="simulated-rm", show_default=True, help="rmID to register with.")
@click.option("--policy-group", default="", help="policyGroup to register with: selects the daemon's queue file.")
@click.option(
    "--queues",
    "queue_file",
    type=_FILE_TO_READ,
    help="The queue file of the daemon, to submit to its leaf queues and show their quotas. Default: the queues of the "
    "shipped queue file.",
)
@click.option(
    "--connect-timeout",
    type=_POSITIVE,
    default=10.0,
    show_default=True,
    help="Seconds to wait for the daemon, at the start and after a lost connection.",
)
@click.option("--stay-registered", is_flag=True, help="Do not unregister at the end: the daemon keeps the nodes.")
def simulate(
    target: str,
    nodes: int,
    duration: float,
    seed: int,
    rate: float | None,
    rm_id: str,
    policy_group: str,
    queue_file: Path | None,
    connect_timeout: float,
    stay_registered: bool,
    no_view: bool,
    json_file: Path | None,
) -> None:
    """Simulate a resource manager: load for a running daemon.

    Registers nodes, submits applications, pretends to run their pods, and prints a summary. Nothing real is started.

    Exit codes: 0 all numbers add up, 1 they do not or an option is wrong, 69 the daemon does not answer or cannot be
    used, 75 the cluster did not drain in time, 130 after Ctrl-C.
    """
    quotas = _read_quotas(queue_file)
    workload = Workload(nodes, duration, seed, rate, queues_for_kinds([each.path for each in quotas if each.is_leaf]))
    session_options: dict[str, Any] = {
        "target": target,
        "rm_id": rm_id,
        "policy_group": policy_group,
        "connect_timeout_s": connect_timeout,
        "stay_registered": stay_registered,
        "quotas": quotas,
    }
    console = Console()
    try:
        summary, interrupted = uvloop.run(
            _simulate(
                workload, session_options, console, f"{rm_id} -> {target}", live=console.is_terminal and not no_view
            )
        )
    except SchedulerError as error:
        raise SchedulerUnusable(str(error)) from error
    _print_summary(console, summary)
    if json_file is not None:
        _write_json(json_file, summary)
    if summary.discrepancies:
        raise click.ClickException(
            "the numbers do not add up:\n" + "\n".join(f"  {each}" for each in summary.discrepancies)
        )
    if interrupted:
        raise click.exceptions.Exit(EXIT_INTERRUPTED)
    if summary.late:
        raise Late(summary.late)


async def _simulate(
    workload: Workload, session_options: dict[str, Any], console: Console, title: str, *, live: bool
) -> tuple[Summary, bool]:
    """Runs a session until it ends by itself or a signal ends it; tells whether one did."""
    loop = asyncio.get_running_loop()
    this = asyncio.current_task()
    assert this is not None, "a coroutine runs in a task"
    interrupted = False

    def interrupt(number: int) -> None:
        nonlocal interrupted
        # The second Ctrl-C does not wait for the drain, and before the first ask there is nothing to drain.
        if not session.playing or (interrupted and number == signal.SIGINT):
            this.cancel()
        interrupted = True
        session.stop()

    with _display(console, title, live=live) as show:
        session = Session(workload, **session_options, show=show)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, interrupt, number)
        try:
            summary = await session.run()
        except asyncio.CancelledError:
            raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    return summary, interrupted


@contextmanager
def _display(console: Console, title: str, *, live: bool) -> Iterator[Callable[[Snapshot], None]]:
    """What is to be called with each snapshot: the live view's update, or progress lines for a log or a pipe."""
    if live:
        with Live(console=console, screen=True, auto_refresh=False) as view:
            yield lambda snapshot: view.update(LiveView(snapshot, title), refresh=True)
        return
    printed_s = -PROGRESS_EVERY_S

    def show(snapshot: Snapshot) -> None:
        nonlocal printed_s
        if snapshot.elapsed_s - printed_s >= PROGRESS_EVERY_S:
            printed_s = snapshot.elapsed_s
            click.echo(progress_line(snapshot))

    yield show


@click.command()
@_shared_options
@click.option(
    "--queues",
    "queues",
    metavar="FILE|N",
    default="",
    help="Queue file of the daemon, or a number: so many leaf queues without quotas. Default: the shipped queue file.",
)
@click.option("--grpc-port", type=_PORT, help="gRPC port of the daemon. Default: any free port.")
@click.option("--http-port", type=_PORT, help="HTTP port of the daemon (/metrics). Default: any free port.")
@click.option("--keep", is_flag=True, help="Repeat the load, with another seed each time, until Ctrl-C.")
@click.option("--journal", type=_DIRECTORY, help="Write a journal into this directory, for `schedulerd replay`.")
def demo(
    nodes: int,
    duration: float,
    seed: int,
    queues: str,
    grpc_port: int | None,
    http_port: int | None,
    keep: bool,
    journal: Path | None,
    no_view: bool,
    json_file: Path | None,
) -> None:
    """Run a daemon with a simulated cluster.

    Starts a daemon and, as a second process, a simulated resource manager: the cluster fills, asks queue, and the
    cluster drains. Then both processes are stopped, and a summary is printed. With --keep the load begins again
    instead, so that the page and the commands have something to show.

    Exit codes: 0 all numbers add up, 1 they do not or the daemon fails, 130 after Ctrl-C.
    """
    interrupt_on_signals()
    chosen = _queue_file(queues)
    flags = () if journal is None else ("--journal", str(journal))
    daemon = Daemon(chosen, grpc_port=grpc_port or free_port(), http_port=http_port or free_port(), flags=flags)
    arguments = ["--target", daemon.target, "--queues", str(chosen), "--rm-id", "demo", "--connect-timeout", "3"]
    arguments += ["--nodes", str(nodes), "--duration", str(duration)]
    arguments += ["--no-view"] if no_view else []
    arguments += ["--stay-registered"] if keep else []
    arguments += ["--json", str(json_file)] if json_file is not None else []
    try:
        with daemon:
            daemon.wait_until_ready()
            click.echo(f"The cluster in a browser: {daemon.http_url}/ui/")
            click.echo(f"Why its asks wait: schedulerd explain queue root --server {daemon.http_url}")
            for each in itertools.count(seed) if keep else (seed,):
                code = run_resource_manager([*arguments, "--seed", str(each)])
                if code == EXIT_INTERRUPTED:
                    raise KeyboardInterrupt
                if code == EXIT_LATE and keep:
                    click.echo("The round took longer than it had time, as on a busy machine; the next one begins.")
                elif code != 0:
                    raise daemon.failure(f"the simulated resource manager ended with exit code {code}")
    except DemoFailed as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None


def _queue_file(queues: str) -> Path:
    """The file that is named, one with so many leaf queues, or the shipped one."""
    if not queues:
        return shipped_queue_file()
    if queues.isascii() and queues.isdigit():
        count = int(queues)
        if not 1 <= count <= QUEUES_MAX:
            raise click.BadParameter(f"{count} queues; 1 to {QUEUES_MAX} are possible", param_hint="--queues")
        file = Path(tempfile.mkdtemp(prefix="schedulerd-demo-")) / "queues.yaml"
        file.write_text(many_queues(count), encoding="utf-8")
        atexit.register(shutil.rmtree, file.parent, ignore_errors=True)
        return file
    file = Path(queues)
    if not file.is_file():
        raise click.BadParameter(f"{queues} is no file, and no number of queues", param_hint="--queues")
    return file


def _read_quotas(queue_file: Path | None) -> Sequence[QueueQuota]:
    if queue_file is None:
        return ()
    try:
        return read_quotas(queue_file)
    except QueueFileUnreadable as error:
        raise click.BadParameter(str(error), param_hint="--queues") from error


def _write_json(file: Path, summary: Summary) -> None:
    try:
        file.write_text(json.dumps(summary.as_json(), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write the summary to {file}: {error}") from error


def _print_summary(console: Console, summary: Summary) -> None:
    table = Table(title="Simulation; latencies as p50 / p90 / p99", title_justify="left", show_header=False)
    table.add_column("name")
    table.add_column("value", justify="right")
    for name, value in summary_rows(summary):
        table.add_row(name, value)
    console.print(table)
    for rejection in summary.rejections:
        console.print(f"rejected: {rejection}", markup=False, highlight=False)
