"""The live view, drawn to recording consoles of many sizes: nothing sticks out, and the numbers are there."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.cells import cell_len
from rich.console import Console

from schedulerd.simulate.model import QueueLoad
from schedulerd.simulate.queue_file import QueueQuota
from schedulerd.simulate.snapshot import PlacementRate, QueueRow, Snapshot, queue_rows
from schedulerd.simulate.view import (
    ASCII,
    BLOCKS,
    LiveView,
    bar,
    nodes_strip,
    progress_line,
    sparkline,
    use_histogram,
)
from tests.loops import each_row

GIB = 1 << 30


def a_queue(path: str, used: int, pending: int) -> QueueRow:
    load = QueueLoad(used * GIB, used * 250, pending * GIB, pending * 250, used, pending, 1)
    quota = QueueQuota(path, path.count(".") > 0, 100 * GIB, 25_000, 200 * GIB, 50_000)
    return QueueRow(path, quota, 200 * GIB, 50_000, load)


SNAPSHOT = Snapshot(
    elapsed_s=12.3,
    duration_s=30.0,
    phase="arriving",
    queues=(
        a_queue("root", 150, 60),
        a_queue("root.batch", 50, 60),
        a_queue("root.ml", 100, 0),
        a_queue("root.ml.notebooks-of-a-team", 100, 0),
    ),
    node_use=tuple(number / 200 for number in range(200)),
    placements_per_s=tuple(float(number) for number in range(80)),
    placing_s=(0.0021, 0.5, 2.25),
    confirming_s=(0.0011, 0.002, 0.003),
    asks_sent=1_000,
    placed=700,
    pending=250,
    held=321,
    withdrawn=40,
    rejected=10,
    applications=12,
)


def drawn(snapshot: Snapshot, width: int, height: int, encoding: str = "utf-8") -> list[str]:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(
        file=file, width=width, height=height, force_terminal=True, color_system=None, legacy_windows=False
    )
    console.print(LiveView(snapshot, "me -> there"))
    file.flush()
    buffer = file.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(encoding).rstrip("\n").split("\n")


@each_row("width", [20, 40, 50, 64, 80, 84, 100, 132, 200, 300])
@each_row("height", [5, 12, 16, 24, 30, 50, 100])
def test_it_fits(width: int, height: int) -> None:
    lines = drawn(SNAPSHOT, width, height)
    assert max(cell_len(line) for line in lines) <= width
    assert len(lines) <= max(height, 4)


def test_everything_is_there_at_100_by_30() -> None:
    text = "\n".join(drawn(SNAPSHOT, 100, 30))
    for part in (
        "asks 1,000 = 700 placed + 250 pending + 40 released + 10 rejected",
        "321 pods",
        "12.3 / 30 s",
        "me -> there",
        "batch",
        "12 / 50 cores (25)",
        "50 / 200 Gi (100)",
        "50 / 60",
        "79/s now, peak 79/s",
        "2.1 ms",
        "2.25 s",
        "last 40 s",
    ):
        assert part in text


def test_a_low_terminal_shows_fewer_queues_and_says_so() -> None:
    many = replace(SNAPSHOT, queues=tuple(a_queue(f"root.q{number}", number, 0) for number in range(40)))
    text = "\n".join(drawn(many, 100, 24))
    assert "more queues" in text
    assert len(drawn(many, 100, 24)) <= 24
    assert "more queues" not in "\n".join(drawn(many, 100, 120))


def test_a_terminal_without_block_characters_gets_plain_ones() -> None:
    text = "\n".join(drawn(SNAPSHOT, 100, 30, encoding="ascii"))
    assert text.isascii()
    assert "###" in text


def test_nothing_yet_is_drawn_too() -> None:
    nothing = replace(SNAPSHOT, queues=(), node_use=(), placements_per_s=(), placing_s=(0.0,) * 3)
    for width, height in ((20, 5), (100, 30)):
        assert drawn(nothing, width, height)


def test_bar_shows_used_waiting_guaranteed_and_free() -> None:
    assert bar(40, 20, 80, 100, 10, ASCII).plain == "####++..|."
    assert bar(40, 500, None, 100, 10, ASCII).plain == "####++++++"
    assert bar(0, 0, 100, 100, 10, ASCII).plain == ".........|"
    assert bar(5, 5, 5, 0, 10, ASCII).plain == ".........."
    assert bar(200, 0, 500, 100, 10, ASCII).plain == "##########"


def test_bar_colours_tell_above_guaranteed_and_full() -> None:
    def styles(used: int) -> set[str]:
        return {str(span.style) for span in bar(used, 0, 50, 100, 10, BLOCKS).spans}

    assert "green3" in styles(40)
    assert "dodger_blue2" not in styles(40)
    assert {"green3", "dodger_blue2"} <= styles(70)
    assert "red1" in styles(99)


def test_strip_has_a_character_per_node_or_per_few() -> None:
    lines = nodes_strip([0.0, 0.5, 1.0, 1.0, 0.0], 3, 2, BLOCKS)
    assert [line.plain for line in lines] == ["▁▄█", "█▁"]
    (line,) = nodes_strip([0.0, 1.0] * 500, 100, 1, BLOCKS)
    assert line.plain == "▄" * 100


def test_histogram_counts_every_node_once() -> None:
    assert use_histogram([0.0, 0.1, 0.5, 0.7, 0.95, 0.96, 1.0]) == "1 idle, 2 under half, 2 over half, 2 full"


def test_sparkline_is_scaled_to_its_highest() -> None:
    assert sparkline([0.0, 4.0, 8.0], 5, BLOCKS).plain == "   ▄█"
    assert sparkline([1.0, 2.0, 3.0], 2, BLOCKS).plain == "▅█"
    assert sparkline([], 3, BLOCKS).plain == "   "


def test_progress_line_has_the_numbers() -> None:
    line = progress_line(SNAPSHOT)
    assert "asks 1,000, placed 700, pending 250, running 321, 79 placements/s, nodes busy 199 of 200" in line
    assert "\n" not in line


def test_rate_is_placements_over_the_time_that_passed() -> None:
    rate = PlacementRate()
    for now_s, placed in ((0.25, 10), (0.5, 100), (0.75, 100), (1.5, 300)):
        rate.look(now_s, placed)
    assert rate.history() == (200.0, 200.0)


def test_queue_rows_sum_children_and_inherit_limits() -> None:
    quotas = (
        QueueQuota("root", is_leaf=False),
        QueueQuota("root.a", is_leaf=False, max_vcore_milli=500),
        QueueQuota("root.a.b", is_leaf=True, max_vcore_milli=9_000, max_memory_bytes=5),
    )
    loads = {"root.a.b": QueueLoad(running=2, pending=1), "root.ab": QueueLoad(running=5)}
    rows = {row.path: row for row in queue_rows(quotas, loads, memory_bytes=100, vcore_milli=1_000)}
    assert list(rows) == ["root", "root.a", "root.a.b", "root.ab"]
    assert [rows[path].load.running for path in rows] == [7, 2, 2, 5]
    assert [(rows[path].most_memory_bytes, rows[path].most_vcore_milli) for path in rows] == [
        (100, 1_000),
        (100, 500),
        (5, 500),
        (100, 1_000),
    ]
