"""Which pods a topology constraint is about: label selector and namespaces, compiled.

Equal terms compile to equal objects, so that the pods of one template share counters. Source: Kubernetes'
documentation "Inter-pod affinity and anti-affinity", "Pod Topology Spread Constraints".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from weakref import WeakValueDictionary

from schedulerd.kubernetes.objects.affinity import PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates.demands import TERMS_MAX
from schedulerd.kubernetes.predicates.node_requirement import NodeRequirement
from schedulerd.kubernetes.predicates.selectors import IN, MalformedSelector, Requirement, Selector, compiled
from schedulerd.kubernetes.predicates.tolerations import Tolerated

DO_NOT_SCHEDULE = "DoNotSchedule"
_HONOR, _IGNORE = "Honor", "Ignore"


class NamespaceScope(NamedTuple):
    """The namespaces of these names, and those whose labels match the selector, if there is one."""

    names: tuple[str, ...]
    selector: Selector | None = None

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace in self.names or (self.selector is not None and self.selector.matches(labels))


class PodFilter(NamedTuple):
    """Pods in the namespaces whose labels match."""

    scope: NamespaceScope
    selector: Selector

    def matches(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        return self.scope.covers(namespace, namespace_labels) and self.selector.matches(labels)


class PodFilters:
    """Pods that all of these filters match. Made by `pod_filters`, which gives the same object for equal filters: it is
    part of the keys of counters, of which a pod with many terms has many."""

    __slots__ = ("__weakref__", "_filters")

    def __init__(self, filters: tuple[PodFilter, ...]) -> None:
        self._filters = filters

    def __iter__(self) -> Iterator[PodFilter]:
        return iter(self._filters)


def pod_filters(filters: Iterable[PodFilter]) -> PodFilters:
    """In canonical order; there has to be one."""
    key = tuple(filters)
    if len(key) > 1:
        key = tuple(sorted(set(key), key=repr))
    found = _FILTERS.get(key)
    if found is None:
        found = _FILTERS[key] = PodFilters(key)
    return found


_FILTERS: WeakValueDictionary[tuple[PodFilter, ...], PodFilters] = WeakValueDictionary()


class AffinityTerm(NamedTuple):
    topology_key: str
    pods: PodFilter


class NodesCounted(NamedTuple):
    """Which nodes count for a spread constraint: with all these labels, and by the policies that are honoured."""

    topology_keys: tuple[str, ...]
    requirement: NodeRequirement | None
    """None: nodes that the pod's node affinity refuses count as well."""
    tolerations: tuple[Tolerated, ...] | None
    """None: nodes with taints that the pod does not tolerate count as well."""


class Eligibility:
    """Which nodes count for a spread constraint. Made by `eligibility`, which gives the same object for equal ones: all
    constraints of a pod ask it about the same nodes."""

    __slots__ = ("__weakref__", "latest", "nodes")

    def __init__(self, nodes: NodesCounted) -> None:
        self.nodes = nodes
        self.latest: list[tuple[object, bool]] = []
        """What was found last, of two nodes at most."""


def eligibility(nodes: NodesCounted) -> Eligibility:
    found = _ELIGIBILITIES.get(nodes)
    if found is None:
        found = _ELIGIBILITIES[nodes] = Eligibility(nodes)
    return found


_ELIGIBILITIES: WeakValueDictionary[NodesCounted, Eligibility] = WeakValueDictionary()


class SpreadConstraint(NamedTuple):
    topology_key: str
    pods: PodFilter
    max_skew: int
    min_domains: int
    counts_itself: bool
    """The pod matches its own constraint."""
    eligibility: Eligibility


def affinity_terms(pod: Pod, affinity: PodAffinity | None) -> tuple[AffinityTerm, ...]:
    """Required terms in their order. Raises MalformedSelector."""
    if affinity is None or not affinity.required:
        return ()
    return tuple(_affinity_term(pod, term) for term in affinity.required)


def readable_terms(pod: Pod, affinity: PodAffinity | None) -> tuple[AffinityTerm, ...]:
    """As `affinity_terms`; none if one cannot be read, as kube-scheduler has it for pods that run already. At most as
    many as a pod may have that is placed from here."""
    if affinity is None or not affinity.required:
        return ()
    try:
        return tuple(_affinity_term(pod, term) for term in affinity.required[:TERMS_MAX])
    except MalformedSelector:
        return ()


def _affinity_term(pod: Pod, term: PodAffinityTerm) -> AffinityTerm:
    names = tuple(sorted(set(term.namespaces or ())))
    if term.namespace_selector is None:
        scope = NamespaceScope(names or (pod.metadata.namespace,))
    else:
        scope = NamespaceScope(names, compiled(term.namespace_selector))
    return AffinityTerm(term.topology_key, PodFilter(scope, compiled(term.label_selector)))


def spread_constraints(
    pod: Pod, requirement: NodeRequirement, tolerations: tuple[Tolerated, ...]
) -> tuple[SpreadConstraint, ...]:
    """The constraints that can refuse a node, in their order. Raises MalformedSelector."""
    if not pod.spec.topology_spread_constraints:
        return ()
    hard = [one for one in pod.spec.topology_spread_constraints if one.when_unsatisfiable == DO_NOT_SCHEDULE]
    keys = tuple(sorted({one.topology_key for one in hard}))
    return tuple(_spread_constraint(pod, one, keys, requirement, tolerations) for one in hard)


def _spread_constraint(
    pod: Pod,
    source: TopologySpreadConstraint,
    keys: tuple[str, ...],
    requirement: NodeRequirement,
    tolerations: tuple[Tolerated, ...],
) -> SpreadConstraint:
    labels = pod.metadata.labels or {}
    selector = compiled(source.label_selector, _of_own_labels(labels, source.match_label_keys or ()))
    return SpreadConstraint(
        source.topology_key,
        PodFilter(NamespaceScope((pod.metadata.namespace,)), selector),
        source.max_skew,
        1 if source.min_domains is None else source.min_domains,
        selector.matches(labels),
        eligibility(
            NodesCounted(
                keys,
                requirement if (source.node_affinity_policy or _HONOR) == _HONOR else None,
                tolerations if (source.node_taints_policy or _IGNORE) == _HONOR else None,
            )
        ),
    )


def _of_own_labels(labels: Mapping[str, str], keys: Iterable[str]) -> Iterable[Requirement]:
    """`matchLabelKeys`: the values that the pod itself has."""
    return (Requirement(key, IN, (labels[key],)) for key in keys if key in labels)
