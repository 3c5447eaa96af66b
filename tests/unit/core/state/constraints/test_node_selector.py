"""Node attribute selectors in tags: what they say, and what is wrong with those that say nothing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulerd.core.language.commands import Expression, Operator
from schedulerd.core.state.constraints.checks import EXPRESSIONS_MAX, constraint
from schedulerd.core.state.constraints.expressions import canonical
from schedulerd.core.state.constraints.node_selector import (
    _REQUIREMENT,
    NODE_SELECTOR_TAG,
    SELECTOR_LENGTH_MAX,
    SelectorMistake,
    parse,
    selector,
)
from tests.loops import each_row
from tests.unit.core.builders import an_ask
from tests.unit.core.constraint_builders import has, lacks, none_of, one_of

GOOD = {
    "gpu": (has("gpu"),),
    "!spot": (lacks("spot"),),
    " ! spot ": (lacks("spot"),),
    "arch=arm64": (one_of("arch", "arm64"),),
    "arch == arm64": (one_of("arch", "arm64"),),
    "tier!=test": (none_of("tier", "test"),),
    "zone in (eu-2, eu-1,eu-2)": (one_of("zone", "eu-1", "eu-2"),),
    "zone notin(eu-1)": (none_of("zone", "eu-1"),),
    "kubernetes.io/os=linux,in in (in)": (one_of("in", "in"), one_of("kubernetes.io/os", "linux")),
    "zone in (eu-1,eu-2),gpu,!spot,arch=arm64,tier!=test": (
        one_of("arch", "arm64"),
        has("gpu"),
        lacks("spot"),
        none_of("tier", "test"),
        one_of("zone", "eu-1", "eu-2"),
    ),
    "": (),
    "  ": (),
}


@each_row("text", GOOD)
def test_a_selector_is_a_list_of_expressions(text: str) -> None:
    assert parse(text) == GOOD[text]


@each_row(
    ("text", "wrong"),
    [
        ("zone in eu-1", "'zone in eu-1' is no requirement"),
        ("zone in (eu-1", "'zone in (eu-1' is no requirement"),
        ("gpu,", "'' is no requirement"),
        (",gpu", "',gpu' is no requirement"),
        ("a,,b", "',b' is no requirement"),
        ("cores>4", "'cores>4' is no requirement"),
        ("!a=b", "'!a=b' is no requirement"),
        ("arch=", "'arch=' has an empty value; write !arch"),
        ("zone in ()", "'zone in ()' has an empty value; write !zone"),
        ("gpu,zone in (a,)", "'zone in (a,)' has an empty value; write !zone"),
    ],
)
def test_what_is_no_selector_is_refused_with_the_place(text: str, wrong: str) -> None:
    with pytest.raises(SelectorMistake) as raised:
        parse(text)
    assert str(raised.value).startswith(wrong)


def test_a_long_text_is_cut_where_it_is_repeated() -> None:
    with pytest.raises(SelectorMistake) as raised:
        parse("gpu, " + "x" * 10_000 + ">1")
    assert len(str(raised.value)) < 300


names = st.text("abz019./_-", min_size=1, max_size=5)
expressions = st.builds(
    Expression, names, st.sampled_from(list(Operator)), st.lists(names, min_size=1, max_size=3).map(tuple)
)


@given(st.lists(expressions, max_size=4))
def test_what_is_said_again_means_the_same(demanded: list[Expression]) -> None:
    said = canonical(demanded)
    assert parse(selector(said)) == said


def test_no_part_of_the_pattern_is_tried_twice() -> None:
    """Repetitions are possessive: a text of spaces or letters takes time in proportion to its length."""
    pattern = re.sub(r"\[[^]]*\]", "", _REQUIREMENT.pattern)
    assert set(re.findall(r"[*+]+", pattern)) == {"*+", "++"}


def test_a_selector_has_so_many_characters_and_expressions_at_most() -> None:
    longest = "a=" + " " * (SELECTOR_LENGTH_MAX - 3) + "b"
    assert parse(longest) == parse("a=b")
    with pytest.raises(SelectorMistake, match="at most 16384 are allowed"):
        parse(longest + " ")
    most = ",".join(f"k{number}" for number in range(EXPRESSIONS_MAX))
    assert constraint(an_ask(tags={NODE_SELECTOR_TAG: most})) is None
    mistake = constraint(an_ask(tags={NODE_SELECTOR_TAG: f"{most},more"}))
    assert mistake is not None
    assert mistake.reason == f"tags[{NODE_SELECTOR_TAG}] has 101 expressions; at most 100 are allowed"
