"""The invariants of predicate checks are shown to bite: the state is corrupted on purpose, and it is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schedulerd.core.invariants.all import violations
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.model import callbacks
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.predicate_check import PredicateCheck, PredicateHistory
from tests.loops import each_row
from tests.unit.core.answering_rm import AnsweringRM
from tests.unit.core.builders import a_node, an_app, an_ask


class Scene(AnsweringRM):
    """`a` is on predicate check on n2; `down` was refused on n1, the only node when it came."""

    def __init__(self) -> None:
        super().__init__(lambda one: "tainted" if one.node_id == "n1" else "")
        self.begin()
        self.nodes(a_node("n1", {"memory": 10}))
        self.apps(an_app())
        self.asks(an_ask("down"))
        self.schedule()
        self.withholds_answers = True
        self.nodes(a_node("n2", {"memory": 5}))
        self.asks(an_ask("a", 5))
        self.schedule()
        for predicate_check in list(self.model().callbacks.open_predicate_checks.values()):
            if predicate_check.node.node_id == "n1":
                self.give(self.result(self.asked[-1]))
                self.schedule()

    @property
    def predicate_check(self) -> PredicateCheck:
        [predicate_check] = self.model().callbacks.open_predicate_checks.values()
        return predicate_check

    def ask(self, key: str) -> Ask:
        return self.model().applications["app"].asks[key]

    def predicate_history(self, key: str) -> PredicateHistory:
        predicate_history = self.ask(key).predicate_history
        assert predicate_history is not None
        return predicate_history


def test_the_scene_is_sound() -> None:
    scene = Scene()
    assert violations(scene.scheduler) == []
    assert (scene.predicate_check.ask.key, scene.predicate_check.node.node_id) == ("a", "n2")
    assert [ask.key for _, ask in scene.model().refused_asks] == ["down"]


CORRUPTIONS: dict[str, tuple[Callable[[Scene], Any], str]] = {
    "no alarm": (lambda s: s.scheduler.cluster.alarms.cancel(s.predicate_check.alarm), "has no alarm"),
    "nobody answers": (lambda s: setattr(s.model().callbacks, "predicates", False), "has no callback stream for it"),
    "another id": (lambda s: setattr(s.predicate_check, "call_id", 77), "has another id than it is known by"),
    "the ask forgets": (
        lambda s: s.predicate_history("a").predicate_checks.clear(),
        "its ask does not await it",
    ),
    "the node forgets": (
        lambda s: s.predicate_check.node.predicate_checks.clear(),
        "the predicate checks of nodes are not the open ones",
    ),
    "the node is gone": (lambda s: s.model().nodes.pop("n2"), "its node is not in the partition"),
    "held too little": (lambda s: s.predicate_check.node.reserved.clear(), "reserved on node n2 is"),
    "too much quota reserved": (lambda s: s.model().root.quota_reserved.add([("memory", 1)]), "reserved in root is"),
    "on predicate check twice": (
        lambda s: s.model().root.predicate_reserved.add([("memory", 5)]),
        "on predicate check in root is",
    ),
    "counted twice": (
        lambda s: setattr(s.predicate_history("a"), "predicate_reserved", 2),
        "counts 2 on predicate check of 1 pending",
    ),
    "stands in line": (
        lambda s: s.ask("a").group.end_predicate_wait(s.ask("a")),  # type: ignore[union-attr]
        "its group does not count it as awaiting one",
    ),
    "nothing to rest for": (
        lambda s: s.model().refused_asks.due.discard(s.ask("down")),
        "neither a time nor a predicate check lets it be retried",
    ),
    "rests for ever": (lambda s: s.scheduler.cluster.alarms.cancel(s.model().refused_asks.alarm), "no alarm ends it"),
    "set aside unknown": (
        lambda s: s.model().refused_asks._levels.clear(),
        "is refused, and the refused asks of the partition differ",
    ),
    "remembers too much": (lambda s: setattr(s.model().refused_asks, "remembered", 5), "5 refusals are counted"),
    "never asked": (lambda s: setattr(s.ask("down"), "predicate_history", None), "has no history of predicate checks"),
    "nobody is awaited": (
        lambda s: setattr(s.predicate_history("down"), "awaits", s.predicate_check),
        "a predicate check that does not have it",
    ),
    "remembered for nothing": (lambda s: setattr(s.ask("down"), "pending", 0), "nothing pending and still a history"),
    "scored by what is free": (
        lambda s: s.predicate_check.node.predicate_reserved.update(Resources(memory=1)),
        "the score of node n2 is not that of its resources",
    ),
}


@each_row("name", CORRUPTIONS)
def test_it_bites(name: str) -> None:
    corrupt, sentence = CORRUPTIONS[name]
    scene = Scene()
    corrupt(scene)
    assert any(sentence in one for one in violations(scene.scheduler)), violations(scene.scheduler)


def test_too_many_calls_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    monkeypatch.setattr("schedulerd.core.invariants.predicates.OPEN_MAX", 0)
    assert callbacks.OPEN_MAX > 0
    assert any("1 calls are open" in one for one in violations(scene.scheduler))
