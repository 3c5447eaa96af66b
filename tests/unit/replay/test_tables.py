from __future__ import annotations

import io
import re
from dataclasses import fields, replace
from typing import Any, get_args

import pytest
from rich.console import Console
from rich.table import Table

from schedulerd.config import matches
from schedulerd.core.language.commands import Command, TerminationType
from schedulerd.core.language.facts.fact import Fact, ReleaseCause
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.replay.comparison import NEW, RECORDED, SAME, Comparison
from schedulerd.replay.names import QueueName
from schedulerd.replay.outcome import Outcome, QueueOutcome, Share, Waits
from schedulerd.replay.story import Story
from schedulerd.replay.tables import comparison_lines, comparison_tables, details, story_table
from tests.instants import at
from tests.loops import each_row
from tests.unit.replay.commands import CONNECT, CYCLE, ask, queue_file, submit
from tests.unit.replay.recorded import RM, START_NS, a_header, a_history, played, registration, timed


def printed(table: Table, width: int = 120) -> str:
    text = io.StringIO()
    Console(file=text, width=width, markup=False, highlight=False).print(table)
    return text.getvalue()


@each_row(
    ("values", "text"),
    [
        ({"at_ns": 5}, ""),
        ({"allocation_key": "me", "node_id": "n1"}, "node id n1"),
        ({"count": 0, "placeholder": False, "message": "", "uuid": None}, "count 0"),
        ({"confirm": True, "message": "as it was told"}, "confirm: as it was told"),
        ({"resources": Resources(vcore=500, memory=1)}, "resources (vcore 500m, memory 1)"),
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


@pytest.mark.parametrize(
    "subject", [pytest.param("root.batch", marks=pytest.mark.slow), "node-00003", "spark-00050", "spark-00050-0003"]
)
def test_any_story_can_be_printed_in_a_narrow_window(subject: str) -> None:
    scheduler = a_header().scheduler(matches)
    story = Story(subject, scheduler)
    history = a_history()
    for step in played(history, scheduler):
        story.observe(step, at(step.now_ns))
    story.finish(at(history[-1][0]))
    text = printed(story_table(story, at(START_NS)), width=60)
    assert text.startswith(f"{subject}: ")
    times = [float(found) for found in re.findall(r"^│ +(\d+\.\d+) │", text, re.M)]
    assert times == sorted(times)
    assert len(times) > 3


def a_small_story(*subjects: tuple[str, str], rm_ids: tuple[str, ...] = (RM,)) -> str:
    """The table of the first subject, where each is (application id, ask) of every resource manager."""
    scheduler = a_header().scheduler(matches)
    story = Story(subjects[0][0], scheduler)
    moves: list[tuple[float, Command]] = []
    for rm_id in rm_ids:
        said: list[Any] = [registration(queue_file()), CONNECT]
        said += [submit(application_id) for application_id, _ in subjects]
        said += [ask(key, application_id=application_id) for application_id, key in subjects]
        moves += [(0.0, replace(command, rm_id=rm_id)) for command in said]
    for step in played(timed(*moves, (1, CYCLE)), scheduler):
        story.observe(step, at(step.now_ns))
    story.finish(at(START_NS + SECOND_NS))
    return printed(story_table(story, at(START_NS)))


def test_two_of_the_same_name_are_told_apart_and_one_is_not_told_whose_it_is() -> None:
    assert "rm id" not in a_small_story(("app", "k1"))
    both = a_small_story(("app", "k1"), rm_ids=(RM, "second"))
    for rm_id in (RM, "second"):
        assert re.search(rf"application accepted │ rm id {rm_id}", both)
        assert re.search(rf"waits +│ rm id {rm_id}, allocation key k1, asks 1", both)
    assert "partition default" not in both


def test_why_it_waits_at_the_end_is_told_once() -> None:
    assert a_small_story(("app", "k1")).count("waits") == 1


def test_a_terminal_gets_no_control_characters() -> None:
    text = a_small_story(("app\x1b[31m\a\u202e€", "k\x1b]0;title\a"))
    assert text.startswith(r"app\x1b[31m\x07\u202e€: application")
    assert r"allocation key k\x1b]0;title\x07" in text
    assert all(one.isprintable() for line in text.splitlines() for one in line)


def an_outcome(placed: int, **rejected: str) -> Outcome:
    waits = Waits(placed, 1_000_000, SECOND_NS, 2 * SECOND_NS)
    queue = QueueOutcome(waits, 3, Share(0.5, 1.0), None, preempted=2, lost_ns=90 * SECOND_NS)
    idle = QueueOutcome(None, 0, Share(0.0, 0.0), None, preempted=0, lost_ns=0)
    queues = {QueueName("rm", "default", "root.a"): queue, QueueName("rm", "default", "root.idle"): idle}
    return Outcome(queues, {("rm", name): reason for name, reason in rejected.items()}, 0, START_NS + SECOND_NS)


def test_queues_with_nothing_in_them_are_left_out() -> None:
    worlds = {RECORDED: an_outcome(1_000), SAME: an_outcome(1_001), NEW: an_outcome(1_002)}
    waits, use = map(printed, comparison_tables(Comparison(worlds, at(START_NS), START_NS)))
    assert "root.idle" not in waits + use
    assert re.search(r"root.a │ recorded +│ +1,000 │ +3 │ +1 ms │ +1.00 s │ +2.00 s", waits)
    assert re.search(r"new file +│ +50% │ +100% │ +│ +│ +2 │ +90.00 s", use)


def test_lines_name_items_that_are_rejected_in_one_world_only() -> None:
    worlds = {RECORDED: an_outcome(1, both="x", old="a"), SAME: an_outcome(1), NEW: an_outcome(1, both="x", new="b")}
    assert list(comparison_lines(Comparison(worlds, at(START_NS), START_NS))) == [
        "The last pod was placed or ended after: recorded 1.000 s, same file 1.000 s, new file 1.000 s",
        "Rejected under the new file only: application new: b",
        "Rejected in the record only: application old: a",
    ]


def test_many_rejections_are_a_line_for_each_reason_and_not_too_many() -> None:
    many = {f"app-{number}": "no such queue" for number in range(1_200)}
    worlds = {RECORDED: an_outcome(1), SAME: an_outcome(1), NEW: an_outcome(1, **many, last="another reason")}
    assert list(comparison_lines(Comparison(worlds, at(START_NS), START_NS)))[1:] == [
        "Rejected under the new file only: application app-0 and 1,199 more: no such queue",
        "Rejected under the new file only: application last: another reason",
    ]
    various = {f"app-{number}": f"reason {number}" for number in range(25)}
    worlds = {RECORDED: an_outcome(1), SAME: an_outcome(1), NEW: an_outcome(1, **various)}
    lines = list(comparison_lines(Comparison(worlds, at(START_NS), START_NS)))[1:]
    assert lines[19:] == [
        "Rejected under the new file only: application app-19: reason 19",
        "Rejected under the new file only: others for 5 more reasons; --json has all",
    ]


def test_queues_are_told_apart_where_there_are_several_partitions() -> None:
    other = Outcome(
        {QueueName("rm", "gpu", "root.a"): an_outcome(1).queues[QueueName("rm", "default", "root.a")]}, {}, 4, 0
    )
    comparison = Comparison({RECORDED: an_outcome(1), SAME: other, NEW: other}, at(START_NS), START_NS)
    text = printed(next(iter(comparison_tables(comparison))))
    assert "[rm]default root.a" in text
    assert "[rm]gpu root.a" in text
    assert "no such queue" in text
    lines = list(comparison_lines(comparison))
    assert lines[0].endswith("same file never, new file never")
    assert lines[1] == "Asks rejected: recorded 0, same file 4, new file 4"
