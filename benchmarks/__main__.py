"""The command line of the benchmarks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import click

from benchmarks.full_clusters import FULL_CLUSTERS
from benchmarks.growth import GROWTH
from benchmarks.kubernetes import workloads as kubernetes
from benchmarks.measurement import WrongResult
from benchmarks.recovery import RECOVERIES, RecoverySummary
from benchmarks.report import DecisionSummary, Summary, as_data, machine, table
from benchmarks.runs import decisions, decisions_over_grpc, in_process, over_grpc, recovery, repeat
from benchmarks.workloads import GROUPS, IN_PROCESS_ONLY, THROUGH_GRPC_ONLY, WORKLOADS
from schedulerd.client import SchedulerError
from schedulerd.simulate.demo import DemoFailed

AnySummary: TypeAlias = Summary | DecisionSummary | RecoverySummary | kubernetes.KubernetesSummary

IN_PROCESS, GRPC, GROWING, KUBERNETES = "in-process", "grpc", "growth", "kubernetes"


@click.command()
@click.argument("names", metavar="[WORKLOAD]...", nargs=-1)
@click.option("--grpc", "through_grpc", is_flag=True, help="Through gRPC to a daemon in another process.")
@click.option("--growth", is_flag=True, help="How the cost grows with one thing at a time, instead of workloads.")
@click.option("--everything", is_flag=True, help="All workloads in-process, through gRPC, and growth.")
@click.option("--repeat", "times", type=click.IntRange(min=1), default=3, show_default=True, help="Runs of each.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write the numbers here as well.")
def main(
    names: tuple[str, ...], through_grpc: bool, growth: bool, everything: bool, times: int, file: Path | None
) -> None:
    """Measure WORKLOADs, or all that there are; each checks its own result, and exit code 1 says one was wrong.

    Workloads are u500 u1000 u2000 u5000 and the same with -bulk, a2000 a10000, m2000, b, c, d, dn, dn1024, dn10000, e,
    e2, f, g, h, r, t, x, x-many, a2000-unasked and a2000-asked (g, h, r and these two with --grpc only, x and x-many
    without), and p-even p-dense p-mixed p-dense-mixed p-none p-many p-daemons; u, a, m and p stand for all of their
    kind. Those of the Kubernetes shim are k, k-gangs, k-cost, k-large, which are meant by kubernetes, k-200 and k-1000;
    k and k-gangs need the variable KUBEBUILDER_ASSETS. They run by their names alone, and are not among everything.
    benchmarks/README.md says what they are.
    """
    if (growth or everything) and (names or through_grpc or (growth and everything)):
        raise click.UsageError("--growth and --everything say all by themselves: give neither names nor another mode")
    modes = [IN_PROCESS, GRPC, GROWING] if everything else [GROWING if growth else GRPC if through_grpc else IN_PROCESS]
    if {KUBERNETES, *kubernetes.NAMES} & {*names}:
        if through_grpc:
            raise click.UsageError("those of the Kubernetes shim run without --grpc")
        modes = [KUBERNETES]
    click.echo(", ".join(f"{key} {value}" for key, value in machine().items()), err=True)
    results: dict[str, list[AnySummary]] = {}
    try:
        for mode in modes:
            results[mode] = _measure(mode, _expand(names, mode), times)
            click.echo("\n\n".join([f"{mode}:", *_tables(results[mode])]) + "\n")
    except (WrongResult, SchedulerError, DemoFailed) as error:
        raise click.ClickException(str(error)) from error
    if file is not None:
        file.write_text(json.dumps(as_data(results), indent=2) + "\n", encoding="utf-8")


def _measure(mode: str, names: Iterable[str], times: int) -> list[AnySummary]:
    """Raises what a run raises."""
    if mode == KUBERNETES:
        return [*kubernetes.measure(names, times, lambda name: click.echo(f"{name}: done", err=True))]
    measure, decide = (over_grpc, decisions_over_grpc) if mode == GRPC else (in_process, decisions)
    workloads = GROWTH if mode == GROWING else WORKLOADS
    summaries: list[AnySummary] = []
    for name in names:
        if name in FULL_CLUSTERS:
            summaries.append(DecisionSummary.of(name, list(repeat(partial(decide, FULL_CLUSTERS[name]), times))))
        elif name in RECOVERIES:
            summaries.append(RecoverySummary.of(name, list(repeat(partial(recovery, RECOVERIES[name]), times))))
        else:
            summaries.append(Summary.of(name, list(repeat(partial(measure, workloads[name]), times))))
        click.echo(f"{name}: done", err=True)
    return summaries


def _tables(summaries: Sequence[AnySummary]) -> list[str]:
    """One for each kind of summary, and one of work."""
    work = [row for one in summaries if isinstance(one, Summary) and (row := one.work_row())]
    rows = [[one.row() for one in summaries if isinstance(one, kind)] for kind in (Summary, DecisionSummary)]
    recoveries = [one.row() for one in summaries if isinstance(one, RecoverySummary)]
    tables: list[Sequence[Mapping[str, str]]] = [rows[0], work, rows[1], recoveries, *kubernetes.rows(summaries)]
    return [table(some) for some in tables if some]


def _expand(names: Iterable[str], mode: str) -> list[str]:
    """What to run, in the order of the tables."""
    if mode == GROWING:
        return list(GROWTH)
    if mode == KUBERNETES:
        groups: Mapping[str, tuple[str, ...]] = {KUBERNETES: kubernetes.USUAL}
        known = [*kubernetes.NAMES]
    else:
        groups = {**GROUPS, "p": tuple(FULL_CLUSTERS)}
        known = [*WORKLOADS, *FULL_CLUSTERS, *RECOVERIES]
    wanted = {name for given in names for name in groups.get(given, (given,))}
    if unknown := wanted - set(known):
        there_are = ", ".join([*groups, *known])
        raise click.UsageError(f"unknown workload {', '.join(sorted(unknown))}; there are {there_are}")
    if mode == KUBERNETES:
        return [name for name in known if name in wanted]
    unfit = IN_PROCESS_ONLY if mode == GRPC else THROUGH_GRPC_ONLY | RECOVERIES.keys()
    if misplaced := wanted & unfit:
        needed = (
            "asks for what v1 has no field for: run it without" if mode == GRPC else "is about the daemon: it needs"
        )
        raise click.UsageError(f"{', '.join(sorted(misplaced))} {needed} --grpc")
    return [name for name in known if name in (wanted or set(known) - unfit)]


if __name__ == "__main__":
    main()
