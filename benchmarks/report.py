"""Measurements as numbers for a table and for a file: medians, and how far the runs were apart."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles

from benchmarks.measurement import Decisions, Measurement
from schedulerd import __version__

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
    node_visits: float | None
    p50_ms: float | None
    """Of the latency of single asks, median over the runs; so is p99."""
    p99_ms: float | None
    peak_rss_mib: float | None
    """The largest of all runs."""
    idle_cpu_percent: float | None
    """Of one core, median."""

    @classmethod
    def of(cls, workload: str, runs: Sequence[Measurement]) -> Summary:
        rates = [run.placements / run.seconds for run in runs]
        percentiles = [quantiles(run.latencies_s, n=100, method="inclusive") for run in runs if run.latencies_s]
        visits = [run.node_visits / run.placements for run in runs if run.node_visits is not None]
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
            node_visits=median(visits) if visits else None,
            p50_ms=median(1e3 * cuts[49] for cuts in percentiles) if percentiles else None,
            p99_ms=median(1e3 * cuts[98] for cuts in percentiles) if percentiles else None,
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
            "visits each": _cell(self.node_visits, 3),
            "p50 ms": _cell(self.p50_ms, 3),
            "p99 ms": _cell(self.p99_ms, 3),
            "peak RSS MiB": _cell(self.peak_rss_mib, 0),
            "idle CPU %": _cell(self.idle_cpu_percent, 2),
        }


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
    longest_step_ms: float
    """The longest that the loop was held at once, over all runs."""
    longest_step_cpu_ms: float
    visits: float
    """Queues, nodes, allocations and choices looked at, per decision; so are the next two."""
    victims: float
    refused: float
    peak_rss_mib: float | None

    @classmethod
    def of(cls, workload: str, runs: Sequence[Decisions]) -> DecisionSummary:
        took = [one for run in runs for one in run.decisions]
        peaks = [run.peak_rss_bytes / MIB for run in runs if run.peak_rss_bytes is not None]
        return cls(
            workload=workload,
            runs=len(runs),
            decisions=len(runs[0].decisions),
            median_ms=1e3 * median(one.seconds for one in took),
            max_ms=1e3 * max(one.seconds for one in took),
            cpu_median_ms=1e3 * median(one.cpu_seconds for one in took),
            cpu_max_ms=1e3 * max(one.cpu_seconds for one in took),
            longest_step_ms=1e3 * max(run.longest.seconds for run in runs),
            longest_step_cpu_ms=1e3 * max(run.longest.cpu_seconds for run in runs),
            visits=sum(run.visits for run in runs) / len(took),
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
            "longest step ms (CPU)": f"{self.longest_step_ms:,.1f} ({self.longest_step_cpu_ms:,.1f})",
            "visits each": _cell(self.visits, 0),
            "victims each": _cell(self.victims, 2),
            "refused": f"{self.refused:.0%}",
            "peak RSS MiB": _cell(self.peak_rss_mib, 0),
        }


def table(summaries: Sequence[Summary] | Sequence[DecisionSummary]) -> str:
    """A Markdown table without the columns in which there is nothing."""
    rows = [summary.row() for summary in summaries]
    headings = [name for name in rows[0] if any(row[name] != UNKNOWN for row in rows)]
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in headings}
    lines = [
        [name.ljust(widths[name]) for name in headings],
        ["-" * (widths[name] - 1) + ":" for name in headings],
        *([row[name].rjust(widths[name]) for name in headings] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_data(mode: str, summaries: Iterable[Summary | DecisionSummary]) -> Mapping[str, object]:
    """Everything for a file: the numbers, and on what they were measured."""
    return {
        "schedulerd": __version__,
        "mode": mode,
        "machine": machine(),
        "results": [asdict(summary) for summary in summaries],
    }


def machine() -> dict[str, str | int | float]:
    """The load is that of the minute before: more than nearly 0 means that others were computing too."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "load_1_min": round(os.getloadavg()[0], 2),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _cell(value: float | None, digits: int) -> str:
    return UNKNOWN if value is None else f"{value:,.{digits}f}"
