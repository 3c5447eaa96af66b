"""Texts of commands and facts, and what may not be lost when equal columns are written once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from schedulerd.core.language.commands import NewAsk, RingAlarms, RunCycle, UpdateAllocations
from schedulerd.core.language.facts.fact import ApplicationAccepted, CycleRan, Fact
from schedulerd.core.language.facts.queues import QueueChange, QueueChanged
from schedulerd.core.language.resources import Resources
from schedulerd.journal.decode import CommandReader
from schedulerd.journal.encode import entry_text, facts_text
from schedulerd.journal.schema import command_kinds, schema
from tests.instants import at
from tests.loops import each_row

NOW = at(7)
START = f"[7,{NOW.wall_ns},"


def again(text: str) -> Any:
    _, _, name, values = json.loads(text)
    return CommandReader(schema()).command(name, values)


def asks(*resources: Resources) -> UpdateAllocations:
    return UpdateAllocations("rm", [NewAsk("app-1", f"pod-{at}", one) for at, one in enumerate(resources)])


def queue(*amounts: tuple[str, int]) -> QueueChanged:
    return QueueChanged("rm", "default", "root.a", QueueChange.MAX, True, True, dict(amounts))


def test_a_column_that_is_the_same_in_every_row_is_written_once() -> None:
    text = entry_text(NOW, asks(Resources(vcore=1), Resources(vcore=1)))
    assert text.startswith(START + '"UpdateAllocations",["rm",[2,["app-1"],["pod-0","pod-1"],[{"vcore":1}],[""],[1],')
    assert entry_text(NOW, RunCycle(3)) == START + '"RunCycle",[3]]'
    assert entry_text(NOW, RingAlarms()) == START + '"RingAlarms",[]]'


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Resources(gpu=0), Resources()),
        (Resources(), Resources(gpu=0)),
        (Resources(memory=1, vcore=1), Resources(vcore=1, memory=1)),
    ],
)
def test_resources_that_are_equal_and_not_the_same_stay_what_they_are(one: Resources, other: Resources) -> None:
    assert one == other
    read = again(entry_text(NOW, asks(one, other, one)))
    assert [list(ask.resources.items()) for ask in read.asks] == [list(each.items()) for each in (one, other, one)]


def test_equal_resources_are_read_as_one_object() -> None:
    first, second, third = again(entry_text(NOW, asks(Resources(vcore=1), Resources(vcore=2), Resources(vcore=1)))).asks
    assert first.resources is third.resources
    assert first.resources != second.resources
    assert type(first.resources) is Resources


@each_row(
    ("one", "other"),
    [
        (
            [queue(("a", 1), ("b", 2)), queue(("a", 1), ("b", 2))],
            [queue(("a", 1), ("b", 2)), queue(("b", 2), ("a", 1))],
        ),
        ([queue(("a", 0)), queue(("a", 0))], [queue(("a", 0)), queue()]),
        ([queue(), CycleRan(1, 1, False)], [CycleRan(1, 1, False), queue()]),
        ([CycleRan(1, 1, False)] * 2, [CycleRan(1, 1, False)] * 3),
        ([CycleRan(1, 2, False)] * 2, [CycleRan(1, 2, False), CycleRan(1, 1, False)]),
        ([CycleRan(n, 1, False) for n in (1, 1, 1)], [CycleRan(n, 1, False) for n in (1, 2, 1)]),
        ([ApplicationAccepted("a", "b", "c", "d")] * 2, [ApplicationAccepted("a", "b", "d", "c")] * 2),
        ([ApplicationAccepted("a", "b", "c\nd", "e")], [ApplicationAccepted("a", "b", "c", "d\ne")]),
        ([ApplicationAccepted("a", "b\nc", "d", "e")], [ApplicationAccepted("a", "b", "c\nd", "e")]),
    ],
)
def test_facts_that_differ_in_order_or_number_or_zeros_differ_in_text(
    one: Sequence[Fact], other: Sequence[Fact]
) -> None:
    assert facts_text(one) != facts_text(other)


def test_the_text_does_not_depend_on_what_is_shared() -> None:
    amounts = {"a": 1, "b": 2}
    facts = [queue(), queue()]
    for fact in facts:
        fact.amounts = amounts
    assert facts_text(facts) == facts_text([queue(("a", 1), ("b", 2)), queue(("a", 1), ("b", 2))])


def test_no_two_kinds_have_the_same_name() -> None:
    assert len(schema()) == len(command_kinds())
