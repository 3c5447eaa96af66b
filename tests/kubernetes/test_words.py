"""Refusals in words: those of today for people, those of 1.20 for comparison."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.predicates.refusal import Code, Kind, Refusal
from schedulerd.kubernetes.predicates.words import reasons, sentence, todays_words, words_of_1_20
from tests.loops import each_row

DATA = ("one", "two", "three", "four")


def refusal(code: Code, *data: str | int) -> Refusal:
    return Refusal("Plugin", Kind.UNRESOLVABLE, code, data)


@each_row("code", Code)
def test_every_code_has_words(code: Code) -> None:
    for words in (todays_words, words_of_1_20):
        said = words(refusal(code, *DATA))
        assert said
        assert not any("{0}" in one or "{1}" in one for one in said)


@pytest.mark.parametrize(
    ("one", "today", "then"),
    [
        (
            refusal(Code.TAINT, "k", "v", "NoSchedule"),
            "node(s) had untolerated taint(s)",
            ("node(s) had taint {k: v}, that the pod didn't tolerate",),
        ),
        (
            refusal(Code.NODE_AFFINITY),
            "node(s) didn't match Pod's node affinity/selector",
            ("node(s) didn't match Pod's node affinity",),
        ),
        (
            refusal(Code.NODE_NAME),
            "node(s) didn't match the requested node name",
            ("node(s) didn't match the requested hostname",),
        ),
        (refusal(Code.INSUFFICIENT, "cpu"), "Insufficient cpu", ("Insufficient cpu",)),
        (
            refusal(Code.POD_AFFINITY, "zone"),
            "node(s) didn't match pod affinity rules",
            ("node(s) didn't match pod affinity/anti-affinity", "node(s) didn't match pod affinity rules"),
        ),
        (
            refusal(Code.VOLUME_AFFINITY, "v"),
            "node(s) didn't match PersistentVolume's node affinity",
            ("node(s) had volume node affinity conflict",),
        ),
        (
            refusal(Code.CLAIM_LOST, "c", "v"),
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
            None,
        ),
    ],
)
def test_words(one: Refusal, today: str, then: tuple[str, ...] | None) -> None:
    assert todays_words(one) == (today,)
    assert words_of_1_20(one) == (then or (today,))


def test_the_sentence_counts_reasons_and_sorts_them_as_text() -> None:
    cpu, taint = refusal(Code.INSUFFICIENT, "cpu"), refusal(Code.TAINT, "k", "v", "NoExecute")
    other_taint, memory = refusal(Code.TAINT, "k", "w", "NoExecute"), refusal(Code.INSUFFICIENT, "memory")
    refused = {"a": (cpu, memory), "b": (cpu,), "c": (taint,), "d": (other_taint,), "e": (taint, other_taint)}
    assert sentence(refused, 5) == (
        "0/5 nodes are available: 1 Insufficient memory, 2 Insufficient cpu, 3 node(s) had untolerated taint(s)."
    )
    assert sentence({"a": (cpu,)}, 3) == "2/3 nodes are available: 1 Insufficient cpu."
    assert sentence({}, 0) == "0/0 nodes are available."


def test_a_reason_is_said_once() -> None:
    both = [refusal(Code.POD_AFFINITY, "a"), refusal(Code.POD_ANTI_AFFINITY, "a")]
    assert len(reasons(both, words_of_1_20)) == 3
