"""Pods counted by the value of a node label: how many matching pods run in each zone, on each host.

A count is changed by every pod that comes or goes and by every node whose labels change, so that a question costs one
look-up. The rules are told in `pod_topology_spread` and `inter_pod_affinity`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from schedulerd.kubernetes.predicates.node_state import NodeFacts, change
from schedulerd.kubernetes.predicates.terms import Eligibility, NodesCounted, PodFilters
from schedulerd.kubernetes.predicates.tolerations import first_untolerated


class CounterKey(NamedTuple):
    """What is counted. Equal for all pods of a template, which share the counter."""

    filters: PodFilters
    topology_key: str
    eligibility: Eligibility | None
    """For spread: which nodes count. Pods that are being deleted do not count then."""


class TopologyCounter:
    """Counts by node, and their sums by the nodes' value of the label. Counts of 0 are no entries."""

    __slots__ = ("by_value", "eligibility", "key", "on_change", "on_nodes", "topology_key", "total")

    def __init__(
        self, topology_key: str, eligibility: Eligibility | None = None, key: CounterKey | None = None
    ) -> None:
        self.topology_key = topology_key
        self.eligibility = eligibility
        self.key = key
        self.on_nodes: dict[str, int] = {}
        self.by_value: dict[str, int] = {}
        self.total = 0
        """Sum over all values."""
        self.on_change: Callable[[TopologyCounter, str, int], None] | None = None
        """Called with the value and by how much its count has changed, while pods wait for that."""

    def value_at(self, facts: NodeFacts | None) -> str | None:
        """The value under which pods of the node count; None if they do not count."""
        if facts is None or (self.eligibility is not None and not counts_node(self.eligibility, facts)):
            return None
        return facts.labels.get(self.topology_key)

    def pods_changed(self, name: str, facts: NodeFacts | None, by: int) -> None:
        """So many more (or fewer) matching pods are on the node of this name."""
        change(self.on_nodes, name, by)
        value = self.value_at(facts)
        if value is not None:
            self._change(value, by)

    def node_changed(self, name: str, old: NodeFacts | None, new: NodeFacts | None) -> None:
        pods = self.on_nodes.get(name)
        if not pods:
            return
        before, after = self.value_at(old), self.value_at(new)
        if before == after:
            return
        if before is not None:
            self._change(before, -pods)
        if after is not None:
            self._change(after, pods)

    def _change(self, value: str, by: int) -> None:
        self._sum(value, by)
        if self.on_change is not None:
            self.on_change(self, value, by)

    def _sum(self, value: str, by: int) -> None:
        change(self.by_value, value, by)
        self.total += by


class SpreadCounter(TopologyCounter):
    """Also knows the smallest count over all values that counting nodes have."""

    __slots__ = ("_levels", "_lowest", "domains", "values")

    def __init__(self, key: CounterKey, domains: Domains) -> None:
        super().__init__(key.topology_key, key.eligibility, key)
        self.domains = domains
        self.values = domains.values[key.topology_key]
        """The values that counting nodes have, with the number of these nodes."""
        self._levels: dict[int, int] = {}
        """How many values have a count, by the count."""
        self._lowest: int | None = None
        """The smallest of these counts; None if it is to be looked for."""

    def minimum(self) -> int:
        """0 if a value has no matching pod, or if there is no value at all."""
        if len(self.by_value) < len(self.values) or not self.by_value:
            return 0
        if self._lowest is None:
            self._lowest = min(self._levels)
        return self._lowest

    def _sum(self, value: str, by: int) -> None:
        before = self.by_value.get(value, 0)
        super()._sum(value, by)
        after = before + by
        if before:
            change(self._levels, before, -1)
        if after:
            change(self._levels, after, 1)
        lowest = self._lowest
        if lowest is not None:
            if 0 < after < lowest:
                self._lowest = after
            elif before == lowest and lowest not in self._levels:
                self._lowest = None


class Domains:
    """The values that counting nodes have, by label, with the number of these nodes. Shared by all counters for which
    the same nodes count."""

    __slots__ = ("eligibility", "users", "values")

    def __init__(self, eligibility: Eligibility) -> None:
        self.eligibility = eligibility
        self.values: dict[str, dict[str, int]] = {key: {} for key in eligibility.nodes.topology_keys}
        self.users = 0

    def node_changed(self, old: NodeFacts | None, new: NodeFacts | None) -> None:
        for facts, by in ((old, -1), (new, 1)):
            if facts is not None and counts_node(self.eligibility, facts):
                for key, nodes in self.values.items():
                    change(nodes, facts.labels[key], by)


def counts_node(eligibility: Eligibility, facts: NodeFacts) -> bool:
    """The node has all labels that the pod's spread constraints name, and passes the policies that are honoured. All
    constraints of a pod ask this about one node after the other, or about a node before and after a change."""
    for known, counts in eligibility.latest:
        if known is facts:
            return counts
    counts = _counts_node(eligibility.nodes, facts)
    eligibility.latest = [(facts, counts), *eligibility.latest[:1]]
    return counts


def _counts_node(nodes: NodesCounted, facts: NodeFacts) -> bool:
    labels: Mapping[str, str] = facts.labels
    for key in nodes.topology_keys:
        if key not in labels:
            return False
    requirement, tolerated = nodes.requirement, nodes.tolerations
    if requirement is not None and not requirement.matches(facts.name, labels):
        return False
    return tolerated is None or not facts.taints or first_untolerated(facts.taints, tolerated) is None
