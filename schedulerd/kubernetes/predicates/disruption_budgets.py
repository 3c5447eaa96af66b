"""PodDisruptionBudgets: which sets of victims are more than they allow.

A budget covers the pods of its namespace that its selector matches; without a selector it covers none. Pods whose
eviction is counted in `disruptionsAllowed` already do not count again. Victims that its status cannot know of yet do:
those that the daemon was just allowed to preempt, until the status changes after their deletion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from schedulerd.kubernetes.objects.cluster import PodDisruptionBudget
from schedulerd.kubernetes.predicates.pod_info import PodInfo
from schedulerd.kubernetes.predicates.selector_index import SelectorIndex
from schedulerd.kubernetes.predicates.selectors import NOTHING, MalformedSelector, compiled
from schedulerd.kubernetes.predicates.terms import NamespaceScope, PodFilter

BudgetKey = tuple[str, str]
"""Namespace and name."""

EXPECTED_NS = 10_000_000_000
"""How long a victim counts at most, from when it was chosen or wanted: the status is behind by less."""


class Exceeded(NamedTuple):
    namespace: str
    name: str
    victims: int
    """Pods that the budget covers: of the set, and those that are expected to end."""
    allowed: int


@dataclass(slots=True)
class _Expected:
    """A victim that the status of a budget does not know of yet."""

    until_ns: int
    is_ending: bool = False


class DisruptionBudgets:
    def __init__(self) -> None:
        self._budgets: dict[BudgetKey, tuple[PodDisruptionBudget, PodFilter]] = {}
        self._index: SelectorIndex[BudgetKey] = SelectorIndex()
        self._expected: dict[str, dict[BudgetKey, _Expected]] = {}
        """By uid of the victim, for each budget that covers it."""

    def put(self, budget: PodDisruptionBudget) -> bool:
        """The budget is new or has changed; whether it may allow more than before."""
        namespace, name = key = budget.metadata.namespace, budget.metadata.name
        before = self.remove(namespace, name)
        try:
            selector = compiled(budget.spec.selector)
        except MalformedSelector:
            selector = NOTHING
        covers = PodFilter(NamespaceScope((namespace,)), selector)
        self._budgets[key] = (budget, covers)
        self._index.add(key, (covers,))
        ending = [uid for uid, expected in self._expected.items() if key in expected and expected[key].is_ending]
        for uid in ending:
            self._drop(uid, key)
        return before is not None and (
            before.spec != budget.spec
            or before.status.disruptions_allowed < budget.status.disruptions_allowed + len(ending)
        )

    def remove(self, namespace: str, name: str) -> PodDisruptionBudget | None:
        """The budget as it was; None if there was none."""
        found = self._budgets.pop((namespace, name), None)
        if found is None:
            return None
        self._index.remove((namespace, name), (found[1],))
        return found[0]

    def expect(self, victims: Iterable[PodInfo], now_ns: int) -> None:
        """These pods will end, or are to end: they count until the status of their budgets does."""
        for pod in victims:
            for key in self._covering(pod):
                expected = self._expected.setdefault(pod.uid, {})
                known = expected.setdefault(key, _Expected(0))
                known.until_ns = now_ns + EXPECTED_NS

    def ends(self, uid: str) -> None:
        """The pod is being deleted, or gone: the next status of its budgets counts it."""
        for known in self._expected.get(uid, {}).values():
            known.is_ending = True

    def exceeded(self, victims: Iterable[PodInfo], now_ns: int = 0) -> tuple[Exceeded, ...]:
        """The budgets that allow fewer disruptions than these would be, in order of name."""
        chosen = {pod.uid: pod for pod in victims}
        victims_of = Counter(key for pod in chosen.values() for key in self._covering(pod))
        self._forget_late(now_ns)
        for uid, expected in self._expected.items():
            if uid not in chosen:
                victims_of.update(key for key in expected if key in victims_of)
        found = (
            Exceeded(*key, pods, self._budgets[key][0].status.disruptions_allowed) for key, pods in victims_of.items()
        )
        return tuple(sorted(one for one in found if one.victims > one.allowed))

    def _forget_late(self, now_ns: int) -> None:
        for uid, expected in list(self._expected.items()):
            for key in [key for key, known in expected.items() if known.until_ns <= now_ns]:
                self._drop(uid, key)

    def _drop(self, uid: str, key: BudgetKey) -> None:
        del self._expected[uid][key]
        if not self._expected[uid]:
            del self._expected[uid]

    def _covering(self, pod: PodInfo) -> Iterable[BudgetKey]:
        for key in self._index.candidates(pod.namespace, pod.labels):
            budget, covers = self._budgets[key]
            is_counted = pod.name in (budget.status.disrupted_pods or {})
            if not is_counted and covers.matches(pod.namespace, {}, pod.labels):
                yield key
