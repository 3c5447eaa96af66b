from __future__ import annotations

import io
import re
from dataclasses import fields
from typing import get_args

import pytest
from rich.console import Console
from rich.table import Table

from schedulerd.core.commands import TerminationType
from schedulerd.core.facts import Fact, ReleaseCause
from schedulerd.core.resources import Resources
from schedulerd.core.specs import SECOND_NS
from schedulerd.replay.comparison import NEW, RECORDED, SAME, Comparison
from schedulerd.replay.names import QueueName
from schedulerd.replay.outcome import Outcome, QueueOutcome, Share, Waits
from schedulerd.replay.story import Story
from schedulerd.replay.tables import comparison_lines, comparison_tables, details, story_table
from tests.unit.replay.recorded import START_NS, a_header, a_history, played


def printed(table: Table, width: int = 120) -> str:
    text = io.StringIO()
    Console(file=text, width=width, markup=False, highlight=False).print(table)
    return text.getvalue()


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"rm_id": "rm", "partition": "default", "at_ns": 5}, ""),
        ({"allocation_key": "me", "node_id": "n1"}, "node id n1"),
        ({"count": 0, "placeholder": False, "message": "", "uuid": None}, "count 0"),
        ({"confirm": True, "message": "as it was told"}, "confirm: as it was told"),
        ({"resources": Resources(vcore=500, memory=1)}, "resources (vcore 500, memory 1)"),
        ({"asked_at_ns": 2 * SECOND_NS}, "waited 5.00 s"),
        ({"kept_ns": 1_500_000}, "kept 1.5 ms"),
        ({"cause": ReleaseCause.TOO_SMALL, "message": "it wants more"}, "too_small; it wants more"),
        ({"termination": TerminationType.TIMEOUT.name.lower()}, "termination timeout"),
        ({"victims": (("root.a", "u1"), ("root.b", "u2"))}, "victims ((root.a, u1), (root.b, u2))"),
    ],
)
def test_values_are_told_in_words_and_causes_last(values: dict[str, object], text: str) -> None:
    assert details(values, 7 * SECOND_NS, "me") == text


def test_every_fact_with_an_id_says_whose_it_is() -> None:
    """What a story takes for granted."""
    for fact_type in get_args(Fact):
        names = {field.name for field in fields(fact_type)}
        if names & {"application_id", "allocation_key"}:
            assert {"rm_id", "partition", "application_id"} <= names, fact_type
        if names & {"uuid", "node_id", "queue", "object_id"}:
            assert "rm_id" in names, fact_type


@pytest.mark.parametrize("subject", ["root.batch", "node-00003", "spark-00050", "spark-00050-0003"])
def test_any_story_can_be_printed_in_a_narrow_window(subject: str) -> None:
    scheduler = a_header().scheduler()
    story = Story(subject, scheduler)
    for step in played(a_history(), scheduler):
        story.observe(step)
    story.finish(a_history()[-1][0])
    text = printed(story_table(story, START_NS), width=60)
    assert text.startswith(f"{subject}: ")
    times = [float(found) for found in re.findall(r"^│ +(\d+\.\d+) │", text, re.M)]
    assert times == sorted(times)
    assert len(times) > 3


def an_outcome(placed: int, **rejected: str) -> Outcome:
    waits = Waits(placed, 1_000_000, SECOND_NS, 2 * SECOND_NS)
    queue = QueueOutcome(waits, 3, Share(0.5, 1.0), None, preempted=2, lost_ns=90 * SECOND_NS)
    idle = QueueOutcome(None, 0, Share(0.0, 0.0), None, preempted=0, lost_ns=0)
    queues = {QueueName("rm", "default", "root.a"): queue, QueueName("rm", "default", "root.idle"): idle}
    return Outcome(queues, {("rm", name): reason for name, reason in rejected.items()}, 0, START_NS + SECOND_NS)


def test_queues_with_nothing_in_them_are_left_out() -> None:
    worlds = {RECORDED: an_outcome(1_000), SAME: an_outcome(1_001), NEW: an_outcome(1_002)}
    waits, use = map(printed, comparison_tables(Comparison(worlds, START_NS, START_NS)))
    assert "root.idle" not in waits + use
    assert re.search(r"root.a │ recorded +│ +1,000 │ +3 │ +1 ms │ +1.00 s │ +2.00 s", waits)
    assert re.search(r"new file +│ +50% │ +100% │ +│ +│ +2 │ +90.00 s", use)


def test_lines_say_who_is_rejected_in_one_world_only() -> None:
    worlds = {RECORDED: an_outcome(1, both="x", old="a"), SAME: an_outcome(1), NEW: an_outcome(1, both="x", new="b")}
    assert list(comparison_lines(Comparison(worlds, START_NS, START_NS))) == [
        "The last pod was placed or ended after: recorded 1.000 s, same file 1.000 s, new file 1.000 s",
        "Rejected under the new file only: application new: b",
        "Rejected in the record only: application old: a",
    ]


def test_queues_are_told_apart_where_there_are_several_partitions() -> None:
    other = Outcome(
        {QueueName("rm", "gpu", "root.a"): an_outcome(1).queues[QueueName("rm", "default", "root.a")]}, {}, 4, 0
    )
    comparison = Comparison({RECORDED: an_outcome(1), SAME: other, NEW: other}, START_NS, START_NS)
    text = printed(next(iter(comparison_tables(comparison))))
    assert "[rm]default root.a" in text
    assert "[rm]gpu root.a" in text
    assert "no such queue" in text
    lines = list(comparison_lines(comparison))
    assert lines[0].endswith("same file never, new file never")
    assert lines[1] == "Asks rejected: recorded 0, same file 4, new file 4"
