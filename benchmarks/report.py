"""Measurements as numbers for a table and for a file: medians, and how far the runs were apart."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

from benchmarks.measurement import Decisions, Looks, Measurement
from benchmarks.work import Work
from schedulerd import __version__
from schedulerd.build import core_build

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MIB = 1024 * 1024
UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class Summary:
    """The runs of one workload. What a workload does not have, or the system does not tell, is None."""

    workload: str
    runs: int
    allocations: int
    per_second_median: float
    per_second_min: float
    per_second_max: float
    wall_us: float
    """Per allocation, median; so are the next two."""
    cpu_us: float
    work: Work | None
    intake_per_second: float | None
    """Asks taken in while nothing was placed, median."""
    p50_ms: float | None
    """Of the latency of single asks, median over the runs; so is p99."""
    p99_ms: float | None
    step_p99_ms: float | None
    """Of the time a step of the scheduler took, median over the runs."""
    longest_step_ms: float | None
    """Of all runs."""
    looks: Looks | None
    """Of the last run."""
    peak_rss_mib: float | None
    """The largest of all runs."""
    idle_cpu_percent: float | None
    """Of one core, median."""

    @classmethod
    def of(cls, workload: str, runs: Sequence[Measurement]) -> Summary:
        rates = [run.placements / run.seconds for run in runs]
        percentiles = [quantiles(run.latencies_s, n=100, method="inclusive") for run in runs if run.latencies_s]
        intakes = [run.intake.asks / run.intake.seconds for run in runs if run.intake is not None]
        works = [run.work.per(run.placements) for run in runs if run.work is not None]
        peaks = [run.peak_rss_bytes / MIB for run in runs if run.peak_rss_bytes is not None]
        idle = [100 * run.idle_cpu_share for run in runs if run.idle_cpu_share is not None]
        return cls(
            workload=workload,
            runs=len(runs),
            allocations=runs[0].placements,
            per_second_median=median(rates),
            per_second_min=min(rates),
            per_second_max=max(rates),
            wall_us=median(1e6 * run.seconds / run.placements for run in runs),
            cpu_us=median(1e6 * run.cpu_seconds / run.placements for run in runs),
            work=Work.median(works) if works else None,
            intake_per_second=median(intakes) if intakes else None,
            p50_ms=median(1e3 * cuts[49] for cuts in percentiles) if percentiles else None,
            p99_ms=median(1e3 * cuts[98] for cuts in percentiles) if percentiles else None,
            step_p99_ms=median(1e3 * _p99(run.steps_s) for run in runs) if runs[0].steps_s else None,
            longest_step_ms=max((1e3 * step_s for run in runs for step_s in run.steps_s), default=None),
            looks=runs[-1].looks,
            peak_rss_mib=max(peaks, default=None),
            idle_cpu_percent=median(idle) if idle else None,
        )

    def row(self) -> dict[str, str]:
        """The cells of its line in the table, by heading."""
        rates = f"{self.per_second_median:,.0f} ({self.per_second_min:,.0f}, {self.per_second_max:,.0f})"
        return {
            "workload": self.workload,
            "allocations": f"{self.allocations:,}",
            "allocations/s (min, max)": rates if self.idle_cpu_percent is None else UNKNOWN,
            "wall us each": _cell(self.wall_us, 1) if self.idle_cpu_percent is None else UNKNOWN,
            "CPU us each": _cell(self.cpu_us, 1) if self.idle_cpu_percent is None else UNKNOWN,
            "intake/s": _cell(self.intake_per_second, 0),
            "p50 ms": _cell(self.p50_ms, 3),
            "p99 ms": _cell(self.p99_ms, 3),
            "p99, longest step ms": UNKNOWN
            if self.step_p99_ms is None
            else f"{self.step_p99_ms:,.1f}, {self.longest_step_ms:,.1f}",
            "scrapes, dumps (longest ms)": UNKNOWN if self.looks is None else _looks(self.looks),
            "peak RSS MiB": _cell(self.peak_rss_mib, 0),
            "idle CPU %": _cell(self.idle_cpu_percent, 2),
        }

    def work_row(self) -> dict[str, str]:
        """The cells of its line in the table of what was done per allocation, by heading; {} if that was not seen."""
        if self.work is None:
            return {}
        counts = ((field.name, getattr(self.work, field.name)) for field in fields(self.work))
        return {"workload": self.workload, **{name.replace("_", " "): f"{count:,.3f}" for name, count in counts}}


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """The runs of one workload that is about who ends for whom."""

    workload: str
    runs: int
    decisions: int
    """Of one run."""
    median_ms: float
    """By the clock, all steps of a decision together; over all runs, and so are the next three."""
    max_ms: float
    cpu_median_ms: float
    cpu_max_ms: float
    longest_step_ms: float | None
    """The longest that the loop was held at once, over all runs; None, as are visits, where that cannot be seen."""
    longest_step_cpu_ms: float | None
    visits: float | None
    """Queues, nodes, allocations and choices visited, per decision. The next two are per decision too."""
    victims: float
    refused: float
    peak_rss_mib: float | None

    @classmethod
    def of(cls, workload: str, runs: Sequence[Decisions]) -> DecisionSummary:
        took = [one for run in runs for one in run.decisions]
        peaks = [run.peak_rss_bytes / MIB for run in runs if run.peak_rss_bytes is not None]
        longest = [run.longest for run in runs if run.longest is not None]
        visits = [run.visits for run in runs if run.visits is not None]
        return cls(
            workload=workload,
            runs=len(runs),
            decisions=len(runs[0].decisions),
            median_ms=1e3 * median(one.seconds for one in took),
            max_ms=1e3 * max(one.seconds for one in took),
            cpu_median_ms=1e3 * median(one.cpu_seconds for one in took),
            cpu_max_ms=1e3 * max(one.cpu_seconds for one in took),
            longest_step_ms=max((1e3 * one.seconds for one in longest), default=None),
            longest_step_cpu_ms=max((1e3 * one.cpu_seconds for one in longest), default=None),
            visits=sum(visits) / len(took) if visits else None,
            victims=sum(run.victims for run in runs) / len(took),
            refused=sum(run.refused for run in runs) / len(took),
            peak_rss_mib=max(peaks, default=None),
        )

    def row(self) -> dict[str, str]:
        """The cells of its line in the table, by heading."""
        return {
            "workload": self.workload,
            "decisions": f"{self.decisions:,}",
            "ms each (max)": f"{self.median_ms:,.1f} ({self.max_ms:,.1f})",
            "CPU ms each (max)": f"{self.cpu_median_ms:,.1f} ({self.cpu_max_ms:,.1f})",
            "longest step ms (CPU)": self._longest_step(),
            "visits each": _cell(self.visits, 0),
            "victims each": _cell(self.victims, 2),
            "refused": f"{self.refused:.0%}",
            "peak RSS MiB": _cell(self.peak_rss_mib, 0),
        }

    def _longest_step(self) -> str:
        if self.longest_step_ms is None:
            return UNKNOWN
        return f"{self.longest_step_ms:,.1f} ({_cell(self.longest_step_cpu_ms, 1)})"


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """A Markdown table without the columns in which there is nothing."""
    headings = [name for name in rows[0] if any(row[name] != UNKNOWN for row in rows)]
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in headings}
    lines = [
        [name.ljust(widths[name]) for name in headings],
        ["-" * (widths[name] - 1) + ":" for name in headings],
        *([row[name].rjust(widths[name]) for name in headings] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_data(results: Mapping[str, Iterable[DataclassInstance]]) -> Mapping[str, object]:
    """Everything for a file: the numbers by the mode in which they were measured, and on what."""
    return {
        "schedulerd": __version__,
        "machine": machine(),
        "results": [asdict(one) | {"mode": mode} for mode, summaries in results.items() for one in summaries],
    }


def machine() -> dict[str, str | int | float]:
    """The load is that of the minute before: more than nearly 0 means that others were computing too."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "core": core_build(),
        "load_1_min": round(os.getloadavg()[0], 2),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _looks(looks: Looks) -> str:
    scrapes = f"{looks.scrapes:,} ({1e3 * looks.longest_scrape_s:,.0f})"
    return f"{scrapes}, {looks.dumps:,} ({1e3 * looks.longest_dump_s:,.0f})"


def _p99(seconds: Sequence[float]) -> float:
    return quantiles(seconds, n=100, method="inclusive")[98] if len(seconds) > 1 else seconds[0]


def _cell(value: float | None, digits: int) -> str:
    return UNKNOWN if value is None else f"{value:,.{digits}f}"
