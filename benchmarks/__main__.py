"""The command line of the benchmarks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import click

from benchmarks.full_clusters import FULL_CLUSTERS
from benchmarks.measurement import WrongResult
from benchmarks.report import DecisionSummary, Summary, as_data, machine, table
from benchmarks.runs import decisions, in_process, repeat
from benchmarks.runs import over_grpc as through_grpc
from benchmarks.workloads import GROUPS, GROWTH, THROUGH_GRPC_ONLY, WORKLOADS
from schedulerd.client import SchedulerError
from schedulerd.simulate.demo import DemoFailed


@click.command()
@click.argument("names", metavar="[WORKLOAD]...", nargs=-1)
@click.option("--grpc", "over_grpc", is_flag=True, help="Through gRPC to a daemon in another process.")
@click.option("--growth", is_flag=True, help="How the cost grows with asks and with nodes, instead of workloads.")
@click.option("--repeat", "times", type=click.IntRange(min=1), default=3, show_default=True, help="Runs of each.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write the numbers here as well.")
def main(names: tuple[str, ...], over_grpc: bool, growth: bool, times: int, file: Path | None) -> None:
    """Measure WORKLOADs, or all that there are; each checks its own result, and exit code 1 says one was wrong.

    Workloads are u500 u1000 u2000 u5000 and the same with -bulk, a2000 a10000, m2000, b, c, d, e, e2, idle,
    a2000-unasked and a2000-asked (the last three with --grpc only), and p-even p-dense p-mixed p-dense-mixed p-none
    p-many p-daemons (without); u, a, m and p stand for all of their kind. benchmarks/README.md says what they are.
    """
    if growth and (names or over_grpc):
        raise click.UsageError("--growth is measured in-process on workloads of its own: give neither names nor --grpc")
    wanted = [] if growth else _expand(names, over_grpc)
    chosen = GROWTH if growth else {name: WORKLOADS[name] for name in wanted if name in WORKLOADS}
    measure = through_grpc if over_grpc else in_process
    click.echo(", ".join(f"{key} {value}" for key, value in machine().items()), err=True)
    summaries: list[Summary] = []
    about_decisions: list[DecisionSummary] = []
    try:
        for name, build in chosen.items():
            summaries.append(Summary.of(name, list(repeat(partial(measure, build), times))))
            click.echo(f"{name}: done", err=True)
        for name in (name for name in wanted if name in FULL_CLUSTERS):
            runs = list(repeat(partial(decisions, FULL_CLUSTERS[name]), times))
            about_decisions.append(DecisionSummary.of(name, runs))
            click.echo(f"{name}: done", err=True)
    except (WrongResult, SchedulerError, DemoFailed) as error:
        raise click.ClickException(str(error)) from error
    click.echo("\n\n".join(table(some) for some in (summaries, about_decisions) if some))
    if file is not None:
        mode = "grpc" if over_grpc else "in-process"
        file.write_text(json.dumps(as_data(mode, [*summaries, *about_decisions]), indent=2) + "\n", encoding="utf-8")


def _expand(names: Iterable[str], over_grpc: bool) -> list[str]:
    """The workloads to run, in the order of the tables."""
    groups = {**GROUPS, "p": tuple(FULL_CLUSTERS)}
    known = [*WORKLOADS, *FULL_CLUSTERS]
    wanted = {name for given in names for name in groups.get(given, (given,))} or set(known)
    if unknown := wanted - set(known):
        there_are = ", ".join([*groups, *known])
        raise click.UsageError(f"unknown workload {', '.join(sorted(unknown))}; there are {there_are}")
    unfit = wanted & (FULL_CLUSTERS.keys() if over_grpc else THROUGH_GRPC_ONLY)
    if unfit and names:
        only = "are measured in-process: give no --grpc" if over_grpc else "is about the daemon: it needs --grpc"
        raise click.UsageError(f"{', '.join(sorted(unfit))} {only}")
    wanted -= unfit
    return [name for name in known if name in wanted]


if __name__ == "__main__":
    main()
