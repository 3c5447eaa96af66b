"""What is wrong with an item is said with its field, its value and what would be right."""

from __future__ import annotations

import pytest

from schedulerd.core.language import checks
from schedulerd.core.language.facts.fact import RejectCode


def test_an_id_has_to_be_there() -> None:
    assert checks.identifier("nodeID", "n") is None
    mistake = checks.identifier("nodeID", "")
    assert mistake == (RejectCode.EMPTY_ID, "nodeID is empty; it must be set")


def test_an_id_has_a_greatest_length() -> None:
    assert checks.identifier("nodeID", "x" * checks.ID_LENGTH_MAX) is None
    mistake = checks.identifier("nodeID", "x" * (checks.ID_LENGTH_MAX + 1))
    assert mistake is not None
    assert mistake.code is RejectCode.INVALID_FIELD
    assert f"({checks.ID_LENGTH_MAX + 1} characters)" in mistake.reason
    assert len(mistake.reason) < 250


def test_a_shown_value_is_quoted_and_cut() -> None:
    assert checks.shown("a'b\n") == repr("a'b\n")
    assert checks.shown("y" * 81) == f"{'y' * 80!r}... (81 characters)"


@pytest.mark.parametrize("resources", [{}, {"memory": 0}, {"memory": 2**63 - 1}])
def test_nothing_negative_is_fine(resources: dict[str, int]) -> None:
    assert checks.not_negative("schedulableResource", resources) is None


def test_a_negative_amount_is_named() -> None:
    mistake = checks.not_negative("schedulableResource", {"vcore": -2, "memory": -1})
    assert mistake is not None
    assert mistake.code is RejectCode.INVALID_RESOURCES
    assert mistake.reason == "schedulableResource['memory'] is -1; it must be 0 or more"


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        ({}, "resourceAsk is empty"),
        ({"memory": 0}, "resourceAsk is {'memory': 0}"),
        ({"memory": 1, "vcore": -5}, "resourceAsk['vcore'] is -5"),
    ],
)
def test_a_request_asks_for_something_and_nothing_negative(resources: dict[str, int], said: str) -> None:
    mistake = checks.request("resourceAsk", resources)
    assert mistake is not None
    assert mistake.code is RejectCode.INVALID_RESOURCES
    assert said in mistake.reason


def test_a_request_may_have_zeros_beside_something() -> None:
    assert checks.request("resourceAsk", {"memory": 1, "gpu": 0}) is None


def test_an_unknown_partition_names_those_that_are_known() -> None:
    mistake = checks.unknown_partition("gpuu", {"default": 1, "gpu": 2})
    assert mistake.code is RejectCode.UNKNOWN_PARTITION
    assert "'gpuu'" in mistake.reason
    assert "known: default, gpu" in mistake.reason


@pytest.mark.parametrize(("count", "rest"), [(checks.LISTED_MAX, ""), (checks.LISTED_MAX + 3, " and 3 more")])
def test_a_sentence_lists_so_many_names(count: int, rest: str) -> None:
    names = [f"p{number}" for number in range(count)]
    assert checks.some(names, "; ") == "; ".join(names[: checks.LISTED_MAX]) + rest
    assert checks.unknown_partition("none", names).reason.endswith(", ".join(names[: checks.LISTED_MAX]) + rest)


def test_tags_may_be_as_long_as_labels_are_and_not_more() -> None:
    assert checks.tags("tags", {"k": "x" * (checks.TAGS_LENGTH_MAX - 1)}) is None
    mistake = checks.tags("tags", {"k": "x" * checks.TAGS_LENGTH_MAX})
    assert mistake is not None
    assert f"tags have {checks.TAGS_LENGTH_MAX + 1} characters in all" in mistake.reason


def test_a_reason_does_not_repeat_what_is_far_too_long() -> None:
    mistake = checks.request("resourceAsk", {"x" * 1_000_000: 0})
    assert mistake is not None
    assert len(mistake.reason) < 300
