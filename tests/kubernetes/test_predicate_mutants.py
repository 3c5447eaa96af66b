"""The random histories are shown to find what they are for: a branch is broken on purpose, and a seed shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schedulerd.kubernetes.predicates import inter_pod_affinity, pod_topology_spread, topology_counts
from schedulerd.kubernetes.predicates.anti_affinity_index import AntiAffinityIndex
from schedulerd.kubernetes.predicates.cluster_state import Gone
from schedulerd.kubernetes.predicates.counters import Counters, PodGroup
from schedulerd.kubernetes.predicates.selector_index import SelectorIndex
from schedulerd.kubernetes.predicates.terms import NamespaceScope
from schedulerd.kubernetes.predicates.topology_counts import Domains, SpreadCounter, TopologyCounter
from tests.kubernetes import test_inter_pod_affinity
from tests.kubernetes.test_counters_property import play

pytestmark = pytest.mark.interpreted

SEEDS = 12


def nothing(*_: Any) -> None:
    return None


def counts_any_node(eligibility: Any, facts: Any) -> bool:
    return all(key in facts.labels for key in eligibility.nodes.topology_keys)


def only_live(self: PodGroup, counter: Any) -> Any:
    return iter(self.live.items())


def without_namespaces(self: Any, namespace: str, labels: Any) -> Any:
    yield from self._entries.get((), ())
    for key, value in labels.items():
        yield from self._entries.get((key, value), ())


def stale_minimum(self: Any) -> int:
    if self._lowest is None and self._levels:
        self._lowest = min(self._levels)
    return self._lowest or 0


def names_only(self: NamespaceScope, namespace: str, labels: Any) -> bool:
    return namespace in self.names


def counts_terminating(self: Any, counter: Any, pod: Any) -> int:
    if counter.key is None:
        return int(pod.anti_affinity.count(counter.term))
    return int(self._cluster.counters.selects(counter.key.filters, pod))


MUTANTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "labels of nodes do not move counts": (TopologyCounter, "node_changed", nothing),
    "labels of nodes do not move terms of others": (AntiAffinityIndex, "node_changed", nothing),
    "labels of nodes do not change domains": (Domains, "node_changed", nothing),
    "namespaces keep their pods": (Counters, "namespace_changed", nothing),
    "namespace selectors are not read": (NamespaceScope, "covers", names_only),
    "values without pods do not count for the minimum": (SpreadCounter, "minimum", stale_minimum),
    "taints and affinity of nodes are not honoured": (topology_counts, "counts_node", counts_any_node),
    "new counters miss pods that are being deleted": (PodGroup, "counted_by", only_live),
    "pods with unusual labels find no counters": (SelectorIndex, "candidates", without_namespaces),
    "victims still count": (Gone, "counted", lambda self, counter: {}),
    "victims that are being deleted are taken off twice": (Gone, "_times", counts_terminating),
    "victims keep their ports": (Gone, "ports_on", lambda self, node: {}),
    "every pod is the first of its group": (inter_pod_affinity, "_is_first_of_group", lambda *_: True),
    "no pod is the first of its group": (inter_pod_affinity, "_is_first_of_group", lambda *_: False),
    "victims do not lower the minimum": (
        pod_topology_spread,
        "_counts",
        lambda constraint, counter, value, gone: (
            counter.by_value.get(value, 0)
            + constraint.counts_itself
            - (gone.counted(counter).get(value, 0) if gone is not None else 0),
            counter.minimum() if len(counter.values) >= constraint.min_domains else 0,
        ),
    ),
}


def histories() -> None:
    for seed in range(SEEDS):
        play(seed)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_deliberate_break_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, broken = MUTANTS[name]
    monkeypatch.setattr(owner, attribute, broken)
    with pytest.raises((AssertionError, KeyError)):
        histories()


def test_what_is_against_a_pod_has_to_be_renewed_when_labels_of_its_namespace_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AntiAffinityIndex, "namespace_changed", nothing)
    with pytest.raises(AssertionError):
        test_inter_pod_affinity.test_namespaces_by_selector_in_terms_of_others()
