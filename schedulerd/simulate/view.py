"""The live view: a snapshot of the run drawn for a terminal of any size, with rich.

It is a function of the snapshot and the size alone. A small terminal gets fewer things rather than broken ones, and
one that cannot show block characters gets plain ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from schedulerd.simulate.snapshot import HISTORY_SLOT_S, QueueRow, Snapshot
from schedulerd.simulate.summary import duration_text
from schedulerd.simulate.workload import GIB

WIDE_COLUMNS = 84
SMALL_COLUMNS, SMALL_LINES = 50, 15
FULL_SHARE = 0.98
"""A queue that uses this much of what it may use is drawn as full: the next pod hardly fits."""
_HEAT = ("grey35", "deep_sky_blue4", "dodger_blue2", "green3", "yellow3", "orange1", "red1")


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters to draw with; `levels` go from empty to full."""

    full: str
    waiting: str
    free: str
    guaranteed: str
    levels: str
    dot: str


BLOCKS = Glyphs("█", "▒", "·", "┃", " ▁▂▃▄▅▆▇█", "·")
ASCII = Glyphs("#", "+", ".", "|", " .:-=+*#@", "-")


class LiveView:
    """A snapshot as something rich can print; it fits the width it is given and the height of the console."""

    def __init__(self, snapshot: Snapshot, title: str) -> None:
        self._snapshot = snapshot
        self._title = title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = options.max_width, options.height or options.size.height
        glyphs = ASCII if options.ascii_only else BLOCKS
        if width < SMALL_COLUMNS or height < SMALL_LINES:
            yield Text("\n").join(Text(line, no_wrap=True, overflow="crop") for line in small_lines(self._snapshot))
            return
        yield Group(*self._parts(width, height, glyphs))

    def _parts(self, width: int, height: int, glyphs: Glyphs) -> Iterator[RenderableType]:
        """From top to bottom; the queues get the lines that the rest, of known height, leaves them."""
        inner = width - 4
        nodes = nodes_strip(
            self._snapshot.node_use, inner, _node_rows(height, len(self._snapshot.node_use), inner), glyphs
        )
        speed = speed_lines(self._snapshot, inner, glyphs)
        below = len(nodes) + 2 + len(speed) + 2
        yield header(self._snapshot, self._title, glyphs)
        yield _panel("queues", queue_table(self._snapshot, inner, height - 2 - below - 2, glyphs), _legend(glyphs))
        yield _panel("nodes", Group(*nodes), use_histogram(self._snapshot.node_use))
        yield _panel("placements", Group(*speed), f"last {len(self._snapshot.placements_per_s) * HISTORY_SLOT_S:.0f} s")


def header(snapshot: Snapshot, title: str, glyphs: Glyphs) -> RenderableType:
    """Which RM runs against which daemon, and how far it is; then the count of asks, which must add up at any time."""
    top = Table.grid(expand=True)
    top.add_column(no_wrap=True, overflow="crop")
    top.add_column(justify="right", no_wrap=True)
    clock = Text(f"{snapshot.applications:,} apps {glyphs.dot} {snapshot.held:,} pods {glyphs.dot} ", style="dim")
    clock.append(f"{snapshot.phase} ", style="bold not dim cyan")
    clock.append(f"{snapshot.elapsed_s:5.1f} / {snapshot.duration_s:.0f} s", style="bold not dim")
    top.add_row(Text(f" {title}", style="bold"), clock)
    counts = Text(" asks ", no_wrap=True, overflow="crop")
    counts.append(f"{snapshot.asks_sent:,}", style="bold")
    for label, value, style in (
        ("placed", snapshot.placed, "green"),
        ("pending", snapshot.pending, "yellow"),
        ("released", snapshot.withdrawn, "cyan"),
        ("rejected", snapshot.rejected, "red" if snapshot.rejected else "dim"),
    ):
        counts.append(" = " if label == "placed" else " + ").append(f"{value:,} {label}", style=style)
    return Group(top, counts)


def queue_table(snapshot: Snapshot, width: int, lines: int, glyphs: Glyphs) -> RenderableType:
    """One line per queue and resource if there is room for it, else vcore alone; queues that do not fit are counted."""
    rows = snapshot.queues
    both = len(rows) * 2 <= lines - 1
    shown = rows if len(rows) <= lines - 1 or both else rows[: max(1, lines - 2)]
    table = Table.grid(padding=(0, 1))
    name_width = min(22, max((cell_len(_indented(row)) for row in shown), default=5))
    figures_width = 27 if width >= WIDE_COLUMNS else 19
    counts_width = 13
    bar_width = max(8, width - name_width - figures_width - counts_width - 3)
    for each in (name_width, bar_width, figures_width):
        table.add_column(width=each, no_wrap=True, overflow="crop")
    table.add_column(width=counts_width, no_wrap=True, overflow="crop", justify="right")
    figures_head = "used / max (guaranteed)" if width >= WIDE_COLUMNS else "used / max"
    table.add_row(*(Text(text, style="dim") for text in ("queue", "", figures_head, "run / wait")))
    wide = width >= WIDE_COLUMNS
    for row in shown:
        counts = Text(f"{row.load.running:,} / ", justify="right").append(
            f"{row.load.pending:,}", style="yellow" if row.load.pending else "dim"
        )
        name = Text(_indented(row), style="bold" if not row.quota.is_leaf else "")
        table.add_row(name, *_vcore_cells(row, bar_width, wide, glyphs), counts)
        if both:
            table.add_row("", *_memory_cells(row, bar_width, wide, glyphs), "")
    if len(shown) < len(rows):
        table.add_row("", Text(f"and {len(rows) - len(shown)} more queues", style="dim"))
    return table


def bar(used: int, waiting: int, guaranteed: int | None, whole: int, width: int, glyphs: Glyphs) -> Text:
    """What is used of `whole`, what waits to use the rest (it may be more than fits), and where the guarantee ends."""
    cells = [(glyphs.free, "grey35")] * width
    scale = width / whole if whole > 0 else 0.0
    end_used = min(width, round(used * scale))
    end_waiting = min(width, round((used + waiting) * scale))
    end_guaranteed = width if guaranteed is None else round(guaranteed * scale)
    is_full = whole > 0 and used >= FULL_SHARE * whole
    for index in range(end_used):
        colour = "green3" if index < end_guaranteed else "dodger_blue2"
        cells[index] = (glyphs.full, "red1" if is_full else colour)
    for index in range(end_used, end_waiting):
        cells[index] = (glyphs.waiting, "yellow3")
    if guaranteed is not None and 0 < guaranteed * scale <= width:
        cells[min(width - 1, round(guaranteed * scale))] = (glyphs.guaranteed, "bold white")
    return Text.assemble(*cells, no_wrap=True)


def nodes_strip(node_use: Sequence[float], width: int, rows: int, glyphs: Glyphs) -> list[Text]:
    """A character per node, or per few nodes if there are too many, as high and as hot as it is used."""
    per_cell = max(1, -(-len(node_use) // max(1, width * rows)))
    use = [
        sum(node_use[at : at + per_cell]) / len(node_use[at : at + per_cell])
        for at in range(0, len(node_use), per_cell)
    ]
    lines = []
    for start in range(0, len(use), width):
        line = Text(no_wrap=True)
        for value in use[start : start + width]:
            level = max(1, round(value * (len(glyphs.levels) - 1)))
            line.append(glyphs.levels[level], style=_HEAT[min(len(_HEAT) - 1, int(value * len(_HEAT)))])
        lines.append(line)
    return lines or [Text("no nodes")]


def use_histogram(node_use: Sequence[float]) -> str:
    """How many nodes are idle, in each third, and full."""
    bounds = (("idle", 0.0), ("under half", 0.5), ("over half", 0.95))
    left, parts = len(node_use), []
    for label, bound in bounds:
        count = sum(1 for use in node_use if use <= bound) - (len(node_use) - left)
        left -= count
        parts.append(f"{count} {label}")
    return ", ".join([*parts, f"{left} full"])


def speed_lines(snapshot: Snapshot, width: int, glyphs: Glyphs) -> list[Text]:
    """Placements per second over time and now, and the latencies of the last placements and releases."""
    history = snapshot.placements_per_s
    now, peak = (history[-1], max(history)) if history else (0.0, 0.0)
    figures = f" {now:,.0f}/s now, peak {peak:,.0f}/s"
    spark = sparkline(history, max(10, width - len(figures)), glyphs)
    lines = [Text.assemble(spark, (figures, "bold"), no_wrap=True, overflow="crop")]
    for label, values in (("ask to allocation", snapshot.placing_s), ("release confirmed", snapshot.confirming_s)):
        line = Text(f"{label}  ", style="dim", no_wrap=True, overflow="crop")
        for rank, value in zip(("p50", "p90", "p99"), values, strict=True):
            line.append(f" {rank} ", style="dim").append(f"{duration_text(value):>8}", style="bold not dim")
        if label == "ask to allocation" and width >= WIDE_COLUMNS:
            line.append("   waiting for room included", style="dim italic")
        lines.append(line)
    return lines


def sparkline(values: Sequence[float], width: int, glyphs: Glyphs) -> Text:
    """The newest `width` values, each as high as its share of the highest."""
    shown = values[-width:]
    highest = max(shown, default=0.0) or 1.0
    steps = len(glyphs.levels) - 1
    text = "".join(glyphs.levels[max(1, round(value / highest * steps)) if value else 0] for value in shown)
    return Text(text.rjust(width), style="green3", no_wrap=True)


def small_lines(snapshot: Snapshot) -> list[str]:
    """The same in a few short lines, for a terminal that holds no more."""
    rate = snapshot.placements_per_s[-1] if snapshot.placements_per_s else 0.0
    return [
        f"{snapshot.phase} {snapshot.elapsed_s:.0f}/{snapshot.duration_s:.0f} s",
        f"asks {snapshot.asks_sent:,} placed {snapshot.placed:,}",
        f"wait {snapshot.pending:,} run {snapshot.held:,}",
        f"{rate:,.0f}/s p50 {duration_text(snapshot.placing_s[0])}",
    ]


def progress_line(snapshot: Snapshot) -> str:
    """One line of the run for a log or a pipe."""
    busy = sum(1 for use in snapshot.node_use if use > 0)
    rate = snapshot.placements_per_s[-1] if snapshot.placements_per_s else 0.0
    return (
        f"{snapshot.elapsed_s:5.1f} s  {snapshot.phase:8}  asks {snapshot.asks_sent:,}, placed {snapshot.placed:,},"
        f" pending {snapshot.pending:,}, running {snapshot.held:,}, {rate:,.0f} placements/s,"
        f" nodes busy {busy} of {len(snapshot.node_use)}"
    )


def _panel(title: str, body: RenderableType, note: str | Text) -> Panel:
    return Panel(
        body,
        title=f"[bold]{title}[/]",
        title_align="left",
        subtitle=note,
        subtitle_align="right",
        border_style="grey50",
    )


def _legend(glyphs: Glyphs) -> Text:
    return Text.assemble(
        (glyphs.full, "green3"), " used  ", (glyphs.full, "dodger_blue2"), " above guaranteed  ",
        (glyphs.full, "red1"), " full  ", (glyphs.waiting, "yellow3"), " waiting  ",
        (glyphs.guaranteed, "bold white"), " guaranteed",
    )  # fmt: skip


def _node_rows(height: int, nodes: int, width: int) -> int:
    """Lines for the strip of nodes: as many as they need, up to a tenth of the height."""
    return max(1, min(-(-nodes // max(1, width)), height // 10))


def _indented(row: QueueRow) -> str:
    return "  " * row.path.count(".") + row.path.rpartition(".")[2]


def _vcore_cells(row: QueueRow, width: int, wide: bool, glyphs: Glyphs) -> tuple[Text, Text]:
    load, quota = row.load, row.quota
    used, guaranteed, most = load.allocated_vcore_milli, quota.guaranteed_vcore_milli, row.most_vcore_milli
    drawn = bar(used, load.pending_vcore_milli, guaranteed, most, width, glyphs)
    return drawn, _figures(used, guaranteed, most, 1000, "cores", own_max=quota.max_vcore_milli == most, wide=wide)


def _memory_cells(row: QueueRow, width: int, wide: bool, glyphs: Glyphs) -> tuple[Text, Text]:
    load, quota = row.load, row.quota
    used, guaranteed, most = load.allocated_memory_bytes, quota.guaranteed_memory_bytes, row.most_memory_bytes
    drawn = bar(used, load.pending_memory_bytes, guaranteed, most, width, glyphs)
    return drawn, _figures(used, guaranteed, most, GIB, "Gi", own_max=quota.max_memory_bytes == most, wide=wide)


def _figures(used: int, guaranteed: int | None, most: int, unit: int, name: str, *, own_max: bool, wide: bool) -> Text:
    """The numbers beside a bar; a bound that is not the queue's own max, but its parent's or the cluster's, is dim."""
    text = Text(f"{used / unit:,.0f} / ", no_wrap=True, overflow="crop")
    text.append(f"{most / unit:,.0f}", style="" if own_max else "dim")
    text.append(f" {name}", style="dim")
    if wide and guaranteed is not None:
        text.append(f" ({guaranteed / unit:,.0f})", style="dim")
    return text
