"""A story and a comparison as tables for a terminal: the only module here that needs the library to draw with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import partial
from itertools import groupby, islice

from rich.console import Console
from rich.table import Table

from schedulerd.amounts import amount_text
from schedulerd.instant import Instant
from schedulerd.replay.comparison import Comparison
from schedulerd.replay.moment import duration_text, offset_text, time_text
from schedulerd.replay.names import printable
from schedulerd.replay.outcome import Outcome, QueueOutcome, Share
from schedulerd.replay.story import Row, Story

_WHOSE = ("rm_id", "partition")
"""Fields that are printed only if several resource managers or partitions use the id."""
_REASONS_MAX = 20
"""Maximum number of reasons for rejections that are printed, each with one application."""
_CAUSES = ("cause", "reason", "message", "why")
"""Sentences, which come last."""

_Cell = Callable[[QueueOutcome], str]


def print_story(story: Story, start: Instant) -> None:
    """To standard output. Times are counted from `start`."""
    _console().print(story_table(story, start))


def print_comparison(comparison: Comparison) -> None:
    """To standard output."""
    console = _console()
    for table in comparison_tables(comparison):
        console.print(table)
    for line in comparison_lines(comparison):
        console.print(printable(line))


def _console() -> Console:
    """One that leaves texts as they are."""
    return Console(markup=False, highlight=False, emoji=False)


def story_table(story: Story, start: Instant) -> Table:
    """One line for each row; those that differ in nothing but the ask are one. Times are counted from `start`."""
    kinds = " and ".join(story.kinds)
    title = f"{printable(story.subject)}: {kinds}; seconds since {time_text(start.wall_ns)}"
    table = Table(title=title, title_justify="left")
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("what", no_wrap=True)
    table.add_column("details", overflow="fold")
    plain = [name for name in _WHOSE if len({row.values[name] for row in story.rows if row.values.get(name)}) <= 1]
    queue: object = None
    for (time, event, _), group in groupby(story.rows, partial(_likeness, start)):
        first, *others = group
        values = {name: value for name, value in first.values.items() if name not in plain}
        if others:
            values["allocation_key"] = f"{values['allocation_key']} and {len(others)} more"
        if "queue" in values and values["queue"] == queue:
            del values["queue"]
        queue = values.get("queue", queue)
        table.add_row(time, event, printable(details(values, first.now.wall_ns, story.subject)))
    return table


def _likeness(start: Instant, row: Row) -> tuple[str, str, object]:
    """What rows have in common that are told as one; a row that is about no ask is like no other."""
    others = {name: value for name, value in row.values.items() if name != "allocation_key"}
    return (
        offset_text(row.now.monotonic_ns, start.monotonic_ns),
        row.event,
        others if "allocation_key" in row.values else id(row),
    )


def details(values: Mapping[str, object], wall_ns: int, subject: str) -> str:
    """The values of a row in words, without those that say nothing or only whose story it is.

    The row is of `wall_ns`, in nanoseconds since the Unix epoch.
    """
    shown = []
    for name, value in values.items():
        if name in ("at_ns", *_CAUSES) or value is None or value is False or value in ("", (), {}, subject):
            continue
        if value is True:
            shown.append(_words(name))
        elif name == "asked_at_ns" and isinstance(value, int):
            shown.append(f"waited {duration_text(wall_ns - value)}")
        elif name.endswith("_ns") and isinstance(value, int):
            shown.append(f"{_words(name.removesuffix('_ns'))} {duration_text(value)}")
        else:
            shown.append(f"{_words(name)} {_text(value)}")
    causes = [str(values[name]) for name in _CAUSES if values.get(name)]
    return ": ".join(part for part in (", ".join(shown), "; ".join(causes)) if part)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _text(value: object) -> str:
    match value:
        case Mapping():
            return "(" + ", ".join(f"{name} {_amount(name, amount)}" for name, amount in value.items()) + ")"
        case tuple() | list():
            return "(" + ", ".join(map(_text, value)) + ")"
        case Enum():
            return str(value.value)
        case _:
            return str(value)


def _amount(name: object, amount: object) -> str:
    return amount_text(str(name), amount) if isinstance(amount, int) else str(amount)


def comparison_tables(comparison: Comparison) -> Iterator[Table]:
    """How long asks waited, and how full queues were and who ended early; a line for each world in each queue."""
    yield _queues_table(
        "How long asks waited",
        comparison,
        lambda one: one.waits is not None or one.never_placed > 0,
        {
            "placed": lambda one: f"{one.waits.count if one.waits is not None else 0:,}",
            "never placed": lambda one: f"{one.never_placed:,}",
            "median": lambda one: duration_text(one.waits.median_ns) if one.waits is not None else "",
            "p95": lambda one: duration_text(one.waits.p95_ns) if one.waits is not None else "",
            "max": lambda one: duration_text(one.waits.max_ns) if one.waits is not None else "",
        },
    )
    yield _queues_table(
        "How full queues were, and what was preempted there",
        comparison,
        lambda one: any(share is not None and share.peak > 0 for share in (one.of_max, one.of_guaranteed)),
        {
            "mean of max": lambda one: _percent(one.of_max, "mean"),
            "peak": lambda one: _percent(one.of_max, "peak"),
            "mean of guaranteed": lambda one: _percent(one.of_guaranteed, "mean"),
            "peak ": lambda one: _percent(one.of_guaranteed, "peak"),
            "preempted": lambda one: f"{one.preempted:,}",
            "time lost": lambda one: duration_text(one.lost_ns) if one.lost_ns else "",
        },
    )


def _queues_table(
    title: str, comparison: Comparison, is_shown: Callable[[QueueOutcome], bool], columns: Mapping[str, _Cell]
) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("queue", no_wrap=True)
    table.add_column("", no_wrap=True)
    for name in columns:
        table.add_column(name.strip(), justify="right")
    for queue in comparison.queues():
        lines = [(world, outcome.queues.get(queue)) for world, outcome in comparison.worlds.items()]
        if not any(one is not None and is_shown(one) for _, one in lines):
            continue
        for number, (world, one) in enumerate(lines):
            cells = [cell(one) for cell in columns.values()] if one is not None else ["no such queue"]
            table.add_row("" if number else printable(comparison.queue_text(queue)), world, *cells)
        table.add_section()
    return table


def _percent(share: Share | None, name: str) -> str:
    return f"{getattr(share, name):.0%}" if share is not None else ""


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """Lines that are printed beside the tables."""
    ends = (f"{world} {_over(outcome, comparison.start.monotonic_ns)}" for world, outcome in comparison.worlds.items())
    yield f"The last pod was placed or ended after: {', '.join(ends)}"
    asks = (f"{world} {outcome.rejected_asks:,}" for world, outcome in comparison.worlds.items())
    if any(outcome.rejected_asks for outcome in comparison.worlds.values()):
        yield f"Asks rejected: {', '.join(asks)}"
    yield from _rejections("Rejected under the new file only", comparison.newly_rejected())
    yield from _rejections("Rejected in the record only", comparison.no_longer_rejected())


def _rejections(what: str, rejected: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """A line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for (_, application_id), reason in rejected.items():
        by_reason.setdefault(reason, []).append(application_id)
    for reason, (first, *others) in islice(by_reason.items(), _REASONS_MAX):
        more = f" and {len(others):,} more" if others else ""
        yield f"{what}: application {first}{more}: {reason}"
    if len(by_reason) > _REASONS_MAX:
        yield f"{what}: others for {len(by_reason) - _REASONS_MAX:,} more reasons; --json has all"


def _over(outcome: Outcome, start_ns: int) -> str:
    return f"{offset_text(outcome.last_ns, start_ns)} s" if outcome.last_ns else "never"
