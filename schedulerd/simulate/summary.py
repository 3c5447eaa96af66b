"""The end of a run in numbers: does everything add up, how fast was it, how full did the cluster get."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from schedulerd.client import Client
from schedulerd.simulate.resource_manager import SimulatedResourceManager
from schedulerd.simulate.workload import NODE_VCORE_MILLI


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a run; times in seconds, percentiles as (p50, p90, p99)."""

    elapsed_s: float
    asks_sent: int
    placed: int
    pending: int
    released_asks: int
    rejected: int
    placements_per_s: float
    """From the first ask sent to the last allocation received."""
    placements_per_s_peak: float
    placing_s: tuple[float, ...]
    confirming_s: tuple[float, ...]
    releases_sent: int
    releases_confirmed: int
    stopped_by_scheduler: int
    held: int
    nodes: int
    nodes_used_peak: int
    vcore_used_peak_share: float
    """Of all cores, 0 to 1."""
    applications_sent: int
    applications_accepted: int
    applications_rejected: int
    messages_sent: int
    messages_received: int
    reconnects: int
    discrepancies: tuple[str, ...]
    """Sums that do not add up; empty if all do."""
    late: str
    """What had not ended when the time for it was over; '' if everything had. The sums may add up all the same."""
    rejections: tuple[str, ...]
    """The first reasons for rejections, as the scheduler gave them."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def summarise(
    rm: SimulatedResourceManager,
    client: Client,
    *,
    elapsed_s: float,
    placing_span_s: float,
    placements_per_s_peak: float,
) -> Summary:
    """Closes the books of a run. `placing_span_s` is the time from the first ask sent to the last allocation."""
    books = rm.books
    discrepancies = books.discrepancies(pending=rm.pending, held=rm.held)
    late = ""
    if rm.pending or rm.held:
        late = (
            f"the cluster did not drain in time: {rm.pending} asks still pending, "
            f"{rm.held} allocations not confirmed released"
        )
    return Summary(
        elapsed_s=elapsed_s,
        asks_sent=books.asks_sent,
        placed=books.allocations,
        pending=rm.pending,
        released_asks=books.asks_withdrawn,
        rejected=books.asks_rejected,
        placements_per_s=books.allocations / placing_span_s if placing_span_s > 0 else 0.0,
        placements_per_s_peak=placements_per_s_peak,
        placing_s=books.placing.percentiles_s(50, 90, 99),
        confirming_s=books.confirming.percentiles_s(50, 90, 99),
        releases_sent=books.releases_sent,
        releases_confirmed=books.releases_confirmed,
        stopped_by_scheduler=books.stopped_by_scheduler,
        held=rm.held,
        nodes=len(rm.nodes),
        nodes_used_peak=rm.nodes_busy_peak,
        vcore_used_peak_share=rm.vcore_milli_used_peak / (len(rm.nodes) * NODE_VCORE_MILLI),
        applications_sent=books.applications_sent,
        applications_accepted=books.applications_accepted,
        applications_rejected=books.applications_rejected,
        messages_sent=client.requests_sent,
        messages_received=client.responses_received,
        reconnects=client.times_resumed + client.times_resynced,
        discrepancies=tuple(discrepancies),
        late=late,
        rejections=tuple(books.rejection_texts),
    )


def summary_rows(summary: Summary) -> Iterator[tuple[str, str]]:
    """The summary as (name, value) pairs to print."""
    yield "asks sent", f"{summary.asks_sent:,}"
    yield (
        "= placed + pending + released + rejected",
        f"{summary.placed:,} + {summary.pending:,} + {summary.released_asks:,} + {summary.rejected:,}",
    )
    yield "placements per second", f"{summary.placements_per_s:,.0f} mean, {summary.placements_per_s_peak:,.0f} peak"
    yield "ask to allocation, with the wait for room", percentiles_text(summary.placing_s)
    yield "release to confirmation", percentiles_text(summary.confirming_s)
    yield "releases confirmed", f"{summary.releases_confirmed:,} of {summary.releases_sent:,}"
    if summary.stopped_by_scheduler:
        yield "stopped by the scheduler", f"{summary.stopped_by_scheduler:,}"
    applications = f"{summary.applications_accepted:,} accepted of {summary.applications_sent:,}"
    yield "applications", applications
    yield "nodes used at peak", f"{summary.nodes_used_peak:,} of {summary.nodes:,}"
    yield "cores used at peak", f"{summary.vcore_used_peak_share:.1%}"
    yield "messages", f"{summary.messages_sent:,} sent, {summary.messages_received:,} received"
    if summary.reconnects:
        yield "reconnects", f"{summary.reconnects:,}"
    yield "elapsed", f"{summary.elapsed_s:.1f} s"


def percentiles_text(durations_s: tuple[float, ...]) -> str:
    p50, p90, p99 = durations_s
    return f"{duration_text(p50)} / {duration_text(p90)} / {duration_text(p99)}"


def duration_text(duration_s: float) -> str:
    if duration_s < 0.0995:
        return f"{duration_s * 1e3:.1f} ms"
    return f"{duration_s * 1e3:.0f} ms" if duration_s < 0.9995 else f"{duration_s:.2f} s"
