"""The command line of the benchmarks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import click

from benchmarks.measurement import WrongResult
from benchmarks.report import Summary, as_data, machine, table
from benchmarks.runs import repeat
from benchmarks.workloads import GROUPS, GROWTH, WORKLOADS
from schedulerd.simulate.client import SchedulerError
from schedulerd.simulate.demo import DemoFailed


@click.command()
@click.argument("names", metavar="[WORKLOAD]...", nargs=-1)
@click.option("--grpc", "over_grpc", is_flag=True, help="Through gRPC to a daemon in another process.")
@click.option("--growth", is_flag=True, help="How the cost grows with asks and with nodes, instead of workloads.")
@click.option("--repeat", "times", type=click.IntRange(min=1), default=3, show_default=True, help="Runs of each.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write the numbers here as well.")
def main(names: tuple[str, ...], over_grpc: bool, growth: bool, times: int, file: Path | None) -> None:
    """Measure WORKLOADs, or all that there are; each checks its own result, and exit code 1 says one was wrong.

    Workloads are u500 u1000 u2000 u5000 and the same with -bulk, a2000 a10000, m2000, b, c, d, e, e2, and idle (with
    --grpc only); u, a and m stand for all sizes. benchmarks/README.md says what they are.
    """
    if growth and (names or over_grpc):
        raise click.UsageError("--growth is measured in-process on workloads of its own: give neither names nor --grpc")
    chosen = GROWTH if growth else {name: WORKLOADS[name] for name in _expand(names, over_grpc)}
    click.echo(", ".join(f"{key} {value}" for key, value in machine().items()), err=True)
    summaries = []
    try:
        for name, build in chosen.items():
            summaries.append(Summary.of(name, list(repeat(build, times, over_grpc=over_grpc))))
            click.echo(f"{name}: done", err=True)
    except (WrongResult, SchedulerError, DemoFailed) as error:
        raise click.ClickException(str(error)) from error
    click.echo(table(summaries))
    if file is not None:
        mode = "grpc" if over_grpc else "in-process"
        file.write_text(json.dumps(as_data(mode, summaries), indent=2) + "\n", encoding="utf-8")


def _expand(names: Iterable[str], over_grpc: bool) -> list[str]:
    """The workloads to run, in the order of the table."""
    wanted = {name for given in names for name in GROUPS.get(given, (given,))} or set(WORKLOADS)
    if unknown := wanted - WORKLOADS.keys():
        known = ", ".join([*GROUPS, *WORKLOADS])
        raise click.UsageError(f"unknown workload {', '.join(sorted(unknown))}; there are {known}")
    if not over_grpc and "idle" in wanted:
        if names:
            raise click.UsageError("idle is about the daemon: it needs --grpc")
        wanted.remove("idle")
    return [name for name in WORKLOADS if name in wanted]


if __name__ == "__main__":
    main()
