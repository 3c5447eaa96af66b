"""The page for users has every message, in the very words."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedulerd.kubernetes.predicates.refusal import Code, Kind, Refusal
from schedulerd.kubernetes.predicates.words import todays_words
from schedulerd.kubernetes.reasons.sentences import KEPT, NO_NODES
from schedulerd.kubernetes.reasons.waiting import Rule, State, Waiting
from tests.kubernetes.reasons.test_sentences import EXAMPLES
from tests.loops import each_row

PAGE = (Path(__file__).parents[3] / "docs" / "pending-pods.md").read_text(encoding="utf-8")
NEVER_SAID = {State.HELD, State.PREDICATE_FAILED, State.AWAITING_PREDICATE}
"""HELD has a text of its own, PREDICATE_FAILED is told as counts of nodes, AWAITING_PREDICATE is over at once."""


@each_row(("waiting", "why"), EXAMPLES)
def test_every_reason_is_on_the_page(waiting: Waiting, why: str) -> None:
    assert f"`{why}`" in PAGE


def test_the_examples_are_complete() -> None:
    by_rule = {State.QUOTA_BLOCKED, State.USER_LIMIT_BLOCKED, State.MAX_APPLICATIONS_BLOCKED}
    assert {waiting.state for waiting, _ in EXAMPLES} | NEVER_SAID == set(State)
    assert by_rule <= {waiting.state for waiting, _ in EXAMPLES}
    assert {waiting.rule for waiting, _ in EXAMPLES} == {*Rule, None}


@pytest.mark.parametrize(
    "code",
    [Code.TOO_MANY_PODS, Code.TAINT, Code.NODE_UNSCHEDULABLE, Code.NODE_AFFINITY, Code.POD_AFFINITY, Code.HOST_PORT],
)
def test_usual_words_of_nodes_are_on_the_page(code: Code) -> None:
    (words,) = todays_words(Refusal("", Kind.UNSCHEDULABLE, code))
    assert words in PAGE
    assert KEPT in PAGE
    assert NO_NODES in PAGE
