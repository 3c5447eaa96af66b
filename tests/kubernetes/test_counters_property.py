"""Counters that events keep up to date, held against a naive recount after every few moves of random histories."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates import counters as counters_module
from schedulerd.kubernetes.predicates.cluster_cache import ClusterCache
from schedulerd.kubernetes.predicates.plugins import ALL
from schedulerd.kubernetes.predicates.pod_info import PodInfo
from schedulerd.kubernetes.predicates.predicates import Predicates
from schedulerd.kubernetes.predicates.refusal import Code, Refusal, Refusals
from schedulerd.kubernetes.predicates.topology_counts import SpreadCounter, TopologyCounter, counts_node
from tests.kubernetes import builders
from tests.kubernetes.naive import AFFINITY, PORTS, SPREAD, NaiveCluster
from tests.kubernetes.story import UIDS, Story
from tests.loops import each_seed

COMPARED = tuple(plugin for plugin in ALL if plugin.name in (SPREAD, AFFINITY, PORTS))
MOVES = 120
CHECK_EVERY = 6
SEEDS = 40


class Twins:
    """A view and a naive cluster that are told the same."""

    def __init__(self) -> None:
        self.view = Predicates(ClusterCache())
        self.naive = NaiveCluster()
        self.known: dict[str, Pod] = {}
        self.seen: Counter[Code] = Counter()
        """Refusals by code."""

    def play(self, move: tuple[Any, ...]) -> None:
        match move:
            case ("node", node):
                self.view.cache.put_node(node)
                self.naive.nodes[node.metadata.name] = node
            case ("remove node", name):
                self.view.cache.remove_node(name)
                self.naive.nodes.pop(name, None)
            case ("namespace", name, team):
                self.view.cache.put_namespace(builders.namespace(name, team=team))
                self.naive.namespaces[name] = {"team": team}
            case ("remove", uid):
                self.view.cache.remove_pod(uid)
                self._lose(uid)
            case ("forget", uid):
                self.view.cache.forget_assumed(uid)
                if uid in self.known and not self.known[uid].spec.node_name:
                    self.naive.placed.pop(uid, None)
            case ("assume", pod, node_name):
                pod = self.known.setdefault(pod.metadata.uid, pod)
                self.view.cache.assume(pod, node_name)
                self.naive.placed[pod.metadata.uid] = (pod, node_name)
            case ("ended", pod):
                uid = pod.metadata.uid
                self.view.cache.put_pod(convert(Pod, {"metadata": {"uid": uid}, "status": {"phase": "Failed"}}))
                self._lose(uid)
            case (kind, pod, *rest):
                self._tell(kind, pod, *rest)

    def _lose(self, uid: str) -> None:
        self.known.pop(uid, None)
        self.naive.placed.pop(uid, None)

    def _tell(self, kind: str, pod: Pod, node_name: str = "") -> None:
        uid = pod.metadata.uid
        told = builders.placed(pod, node_name)
        if kind == "terminating":
            told = builders.terminating(told)
        self.view.cache.put_pod(told)
        self.known[uid] = told
        where = node_name or (self.naive.placed[uid][1] if uid in self.naive.placed else "")
        if where:
            self.naive.placed[uid] = (told, where)

    def check(self, asked: Pod, gone: list[str]) -> None:
        left = self.naive.without([*gone, asked.metadata.uid])
        for name, node in self.naive.nodes.items():
            given = self.view.judge(asked, name, COMPARED, gone)
            expected = left.judge(asked, node)
            assert _own(given) == _own(expected), name
            assert _foreign(given) <= _foreign(expected), name
            assert bool(_foreign(given)) == bool(_foreign(expected)), name
            self.seen.update(one.code for one in given)


def _own(refusals: Refusals) -> list[Refusal]:
    return [one for one in refusals if one.code is not Code.EXISTING_ANTI_AFFINITY]


def _foreign(refusals: Refusals) -> set[Refusal]:
    """Of several terms of other pods that are broken any may be named."""
    return {one for one in refusals if one.code is Code.EXISTING_ANTI_AFFINITY}


def check_counters(view: Predicates) -> None:
    """Every counter says what a walk over all pods and nodes says."""
    for counter in view.cache.state.counters.all():
        on_nodes, sums = _recount(view, counter)
        assert counter.on_nodes == +on_nodes
        assert counter.by_value == +sums
        assert counter.total == sums.total()
        if isinstance(counter, SpreadCounter):
            assert counter.eligibility is not None
            facts = [node.facts for node in view.cache.state.nodes.values() if node.facts is not None]
            values = {one.labels[counter.topology_key] for one in facts if counts_node(counter.eligibility, one)}
            assert counter.minimum() == min((sums[value] for value in values), default=0)
            assert set(counter.values) == values


def _counts(view: Predicates, counter: TopologyCounter, pod: PodInfo) -> bool:
    if pod.is_terminating and counter.eligibility is not None:
        return False
    return counter.key is not None and view.cache.state.counters.selects(counter.key.filters, pod)


def _recount(view: Predicates, counter: TopologyCounter) -> tuple[Counter[str], Counter[str]]:
    on_nodes: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for node in view.cache.state.nodes.values():
        matching = sum(_counts(view, counter, pod) for pod in node.pods.values())
        on_nodes[node.name] = matching
        value = counter.value_at(node.facts)
        if value is not None:
            sums[value] += matching
    return on_nodes, sums


def play(seed: int, moves: int = MOVES) -> Counter[Code]:
    """Plays a history with checks; what was refused, by code."""
    story, twins = Story(seed), Twins()
    for number, move in enumerate(story.moves(moves)):
        twins.play(move)
        if number % CHECK_EVERY == 0:
            check_counters(twins.view)
            asked = story.pod()
            known = [*twins.known.values()][:2]
            gone = story.random.sample(UIDS, 3)
            for pod in (asked, *known):
                twins.check(pod, [])
                twins.check(pod, gone)
    return twins.seen


@each_seed(range(SEEDS))
def test_counters_say_what_a_recount_says(seed: int) -> None:
    play(seed)


@each_seed(range(SEEDS, SEEDS + 15))
def test_counters_that_were_dropped_come_back_right(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters_module, "_IDLE_COUNTERS_MAX", 1)
    play(seed)


def test_the_histories_have_every_kind_of_refusal() -> None:
    seen = sum((play(seed) for seed in range(1_000, 1_005)), Counter[Code]())
    assert {code.name: count for code, count in seen.items() if count >= 20}.keys() == {
        "HOST_PORT",
        "SPREAD_SKEW",
        "SPREAD_LABEL_MISSING",
        "POD_AFFINITY",
        "POD_ANTI_AFFINITY",
        "EXISTING_ANTI_AFFINITY",
    }, seen


def test_nothing_is_left_of_a_cluster_that_is_gone() -> None:
    twins = Twins()
    for move in Story(7).moves(MOVES):
        twins.play(move)
    for uid in UIDS:
        twins.view.cache.remove_pod(uid)
    for name in twins.view.cache.node_names:
        twins.view.cache.remove_node(name)
    state = twins.view.cache.state
    assert not state.nodes
    assert not state.claim_users
    assert all(not counter.on_nodes and not counter.by_value for counter in state.counters.all())
    assert state.anti_affinity.is_empty
    assert state.counters.groups == 0
    assert state.counters.in_use == 0
