"""Pods with more labels than the daemon takes as tags of an ask."""

from __future__ import annotations

from schedulerd.core.language import checks
from schedulerd.kubernetes.cluster.asking import TAGS_LENGTH_MAX
from schedulerd.kubernetes.cluster.effects import PatchPodCondition, RecordEvent
from schedulerd.kubernetes.cluster.events import AskRejected
from tests.kubernetes.builders import app, node
from tests.kubernetes.cluster.play import Play, of, own

APP = app("yunikorn-ns-autogen")
LABELS = {f"{number:03}{'k' * 250}/l": "v" * 63 for number in range(200)}


def test_the_pod_is_told_of_labels_and_not_of_tags() -> None:
    play = Play()
    play.start(node("n"), own("p", meta={"labels": LABELS}))
    reason = f"tags have 69000 characters in all; at most {TAGS_LENGTH_MAX} are allowed"
    effects = play.all(AskRejected(APP, "p", reason))
    (condition,), (event,) = of(effects, PatchPodCondition), of(effects, RecordEvent)
    assert condition.message == event.note
    assert event.reason == "TaskRejected"
    assert event.note == (
        "the ask was rejected: the pod has 200 labels with 63600 characters in all, which are too many for the "
        "scheduler (65536 with what it adds to each): the pod needs fewer or shorter labels"
    )


def test_another_reason_is_told_as_it_is() -> None:
    play = Play()
    play.start(node("n"), own("p", meta={"labels": dict(list(LABELS.items())[:100])}))
    (event,) = of(play.all(AskRejected(APP, "p", "no such thing")), RecordEvent)
    assert event.note == "the ask was rejected: no such thing"


def test_the_most_characters_are_those_of_the_daemon() -> None:
    assert checks.TAGS_LENGTH_MAX == TAGS_LENGTH_MAX
