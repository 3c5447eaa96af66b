"""Whatever happens in random histories: a pod that was refused is woken before a node that refused it would take it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates import counters as counters_module
from schedulerd.kubernetes.predicates.refusal import Refusals
from schedulerd.kubernetes.predicates.refused_pods import RefusedPods
from tests.kubernetes.story import Story
from tests.kubernetes.test_counters_property import Twins
from tests.loops import each_seed

MOVES = 150
WAITING = 5
SEEDS = 40


class Waiting:
    """Pods that some nodes have refused. Half of them are in the view, the others are asked about only."""

    def __init__(self, seed: int) -> None:
        self.story, self.twins = Story(seed), Twins()
        self.pods: dict[str, tuple[Pod, set[str]]] = {}
        """By uid, with the nodes that have refused it."""
        self.in_vain: Counter[bool] = Counter()
        """How often a pod was woken, by whether all nodes still refuse it."""

    @property
    def refused(self) -> RefusedPods:
        return self.twins.view.cache.refused

    def ask(self, uid: str, number: int) -> None:
        view, one = self.twins.view, self.story.pod()
        asked = replace(one, metadata=replace(one.metadata, uid=uid, name=uid))
        if number % 2:
            view.cache.put_pod(asked)
        refusals = view.judge_all(asked)
        for name, found in refusals.items():
            view.note_refused(uid, asked, name, found)
        self.pods[uid] = asked, set(refusals)

    def play(self, move: tuple[Any, ...]) -> None:
        self.twins.play(move)
        self.refused.settle()
        woken = set(self.refused.take_woken(WAITING))
        for uid, (asked, nodes) in list(self.pods.items()):
            nodes &= set(self.twins.view.cache.node_names)
            refused = self.twins.view.judge_all(asked)
            if uid in woken:
                self.in_vain[nodes <= set(refused)] += 1
                del self.pods[uid]
                self.twins.view.cache.remove_pod(uid)
                continue
            if move[0] == "node":
                self._ask_about(move[1].metadata.name, uid, refused)
            assert nodes <= set(refused), (uid, nodes - set(refused), move)

    def _ask_about(self, name: str, uid: str, refused: dict[str, Refusals]) -> None:
        """The daemon asks again about a node that has changed."""
        asked, nodes = self.pods[uid]
        if name in refused:
            self.twins.view.note_refused(uid, asked, name, refused[name])
            nodes.add(name)
        else:
            nodes.discard(name)


def play(seed: int) -> Waiting:
    waiting = Waiting(seed)
    for number, move in enumerate(waiting.story.moves(MOVES)):
        waiting.play(move)
        for uid in [f"waits{index}" for index in range(WAITING)]:
            if uid not in waiting.pods:
                waiting.ask(uid, number)
    return waiting


@each_seed(range(SEEDS))
def test_a_pod_is_woken_when_what_refused_it_has_gone(seed: int) -> None:
    play(seed)


@each_seed(range(SEEDS, SEEDS + 10))
def test_counters_are_kept_for_pods_that_wait(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters_module, "_IDLE_COUNTERS_MAX", 0)
    waiting = play(seed)
    for uid in list(waiting.pods):
        waiting.twins.view.cache.remove_pod(uid)
    assert not waiting.refused.has_waiting
    assert all(counter.on_change is None for counter in waiting.twins.view.cache.state.counters.all())


def test_many_pods_are_woken_for_a_reason() -> None:
    in_vain = sum((play(seed).in_vain for seed in range(1_000, 1_010)), Counter[bool]())
    assert 4 * in_vain[False] > in_vain[True], in_vain
