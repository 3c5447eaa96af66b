"""The invariants of trials are shown to bite: the state is corrupted on purpose, and it is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schedulerd.core.invariants import violations
from schedulerd.core.model import callbacks
from schedulerd.core.model.allocation import Ask
from schedulerd.core.model.trial import Hearing, Trial
from schedulerd.core.resources import Resources
from tests.unit.core.builders import a_node, an_app, an_ask
from tests.unit.core.judges import Judge


class Scene(Judge):
    """`a` is on trial on n2; `down` was refused on n1, the only node when it came."""

    def __init__(self) -> None:
        super().__init__(lambda one: "tainted" if one.node_id == "n1" else "")
        self.begin()
        self.nodes(a_node("n1", {"memory": 10}))
        self.apps(an_app())
        self.asks(an_ask("down"))
        self.schedule()
        self.is_silent = True
        self.nodes(a_node("n2", {"memory": 5}))
        self.asks(an_ask("a", 5))
        self.schedule()
        for trial in list(self.model().callbacks.open_trials.values()):
            if trial.node.node_id == "n1":
                self.give(self.verdict(self.asked[-1]))
                self.schedule()

    @property
    def trial(self) -> Trial:
        [trial] = self.model().callbacks.open_trials.values()
        return trial

    def ask(self, key: str) -> Ask:
        return self.model().applications["app"].asks[key]

    def hearing(self, key: str) -> Hearing:
        hearing = self.ask(key).hearing
        assert hearing is not None
        return hearing


def test_the_scene_is_sound() -> None:
    scene = Scene()
    assert violations(scene.scheduler) == []
    assert (scene.trial.ask.key, scene.trial.node.node_id) == ("a", "n2")
    assert [ask.key for _, ask in scene.model().turned_down] == ["down"]


CORRUPTIONS: dict[str, tuple[Callable[[Scene], Any], str]] = {
    "no alarm": (lambda s: s.scheduler.cluster.alarms.cancel(s.trial.alarm), "would never end"),
    "nobody answers": (lambda s: setattr(s.model().callbacks, "predicates", False), "nobody answers it"),
    "another id": (lambda s: setattr(s.trial, "call_id", 77), "is not where it should be"),
    "the ask forgets": (lambda s: s.hearing("a").trials.clear(), "of an ask that does not wait for it"),
    "the node forgets": (lambda s: s.trial.node.trials.clear(), "calls that nodes know of"),
    "the node is gone": (lambda s: s.model().nodes.pop("n2"), "of a node that is gone"),
    "held too little": (lambda s: s.trial.node.kept.clear(), "wrong account of what is kept"),
    "claimed too much": (lambda s: s.model().root.claimed.add([("memory", 1)]), "claimed in root is"),
    "on trial twice": (lambda s: s.model().root.on_trial.add([("memory", 5)]), "on trial in root is"),
    "counted twice": (lambda s: setattr(s.hearing("a"), "on_trial", 2), "has 2 on trial of 1 pending"),
    "stands in line": (lambda s: s.ask("a").group.come_back(s.ask("a")), "stands in line while all of it is on trial"),  # type: ignore[union-attr]
    "nothing to rest for": (lambda s: s.model().turned_down.due.discard(s.ask("down")), "waits for nothing"),
    "rests for ever": (lambda s: s.scheduler.cluster.alarms.cancel(s.model().turned_down.alarm), "rest for ever"),
    "set aside unknown": (lambda s: s.model().turned_down._levels.clear(), "is set aside and nobody knows"),
    "remembers too much": (lambda s: setattr(s.model().turned_down, "remembered", 5), "count as remembered"),
    "never asked": (lambda s: setattr(s.ask("down"), "hearing", None), "nobody ever asked"),
    "nobody is awaited": (lambda s: setattr(s.hearing("down"), "awaits", s.trial), "a call that does not know"),
    "remembered for nothing": (lambda s: setattr(s.ask("down"), "pending", 0), "what was refused is remembered"),
    "scored by what is free": (
        lambda s: s.trial.node.on_trial.update(Resources(memory=1)),
        "score of node n2 is stale",
    ),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_it_bites(name: str) -> None:
    corrupt, sentence = CORRUPTIONS[name]
    scene = Scene()
    corrupt(scene)
    assert any(sentence in one for one in violations(scene.scheduler)), violations(scene.scheduler)


def test_too_many_calls_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    monkeypatch.setattr("schedulerd.core.invariants_trials.OPEN_MAX", 0)
    assert callbacks.OPEN_MAX > 0
    assert any("1 calls are open" in one for one in violations(scene.scheduler))
