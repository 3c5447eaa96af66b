"""PodDisruptionBudgets: whether a set of victims is more than the budgets allow.

A pod that the API server has counted as disrupted already is not counted again. An empty selector matches all pods of
the namespace, no selector none. Source: Kubernetes' documentation "Specifying a Disruption Budget" (policy/v1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from schedulerd.kubernetes.objects.cluster import PodDisruptionBudget
from schedulerd.kubernetes.predicates.pod_info import PodInfo
from schedulerd.kubernetes.predicates.selector_index import SelectorIndex
from schedulerd.kubernetes.predicates.selectors import NOTHING, MalformedSelector, compiled
from schedulerd.kubernetes.predicates.terms import NamespaceScope, PodFilter

BudgetKey = tuple[str, str]
"""Namespace and name."""


class Exceeded(NamedTuple):
    namespace: str
    name: str
    victims: int
    """Pods of the set that the budget covers."""
    allowed: int


class DisruptionBudgets:
    def __init__(self) -> None:
        self._budgets: dict[BudgetKey, tuple[PodDisruptionBudget, PodFilter]] = {}
        self._index: SelectorIndex[BudgetKey] = SelectorIndex()

    def put(self, budget: PodDisruptionBudget) -> None:
        namespace, name = budget.metadata.namespace, budget.metadata.name
        self.remove(namespace, name)
        try:
            selector = compiled(budget.spec.selector)
        except MalformedSelector:
            selector = NOTHING
        covers = PodFilter(NamespaceScope((namespace,)), selector)
        self._budgets[namespace, name] = (budget, covers)
        self._index.add((namespace, name), (covers,))

    def remove(self, namespace: str, name: str) -> None:
        found = self._budgets.pop((namespace, name), None)
        if found is not None:
            self._index.remove((namespace, name), (found[1],))

    def exceeded(self, victims: Iterable[PodInfo]) -> tuple[Exceeded, ...]:
        """The budgets that allow fewer disruptions than these would be, in order of name."""
        victims_of = Counter(key for pod in victims for key in self._covering(pod))
        found = (
            Exceeded(*key, pods, self._budgets[key][0].status.disruptions_allowed) for key, pods in victims_of.items()
        )
        return tuple(sorted(one for one in found if one.victims > one.allowed))

    def _covering(self, pod: PodInfo) -> Iterable[BudgetKey]:
        for key in self._index.candidates(pod.namespace, pod.labels):
            budget, covers = self._budgets[key]
            is_counted = pod.name in (budget.status.disrupted_pods or {})
            if not is_counted and covers.matches(pod.namespace, {}, pod.labels):
                yield key
