"""Tolerations and the taints they are for.

Source: Kubernetes' documentation "Taints and Tolerations"; component-helpers `scheduling/corev1`; KEP 5471 (Lt, Gt).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from schedulerd.kubernetes.objects.affinity import Toleration
from schedulerd.kubernetes.objects.node import Taint
from schedulerd.kubernetes.predicates.selectors import integer

NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"

UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)
"""What a cordoned node is taken to have."""


class Tolerated(NamedTuple):
    """A toleration, compiled: equal for equal tolerations."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        match self.operator:
            case "" | "Equal":
                return self.value == taint.value
            case "Exists":
                return True
            case "Lt" | "Gt":
                return self._compares(taint.value)
            case _:
                return False

    def _compares(self, value: str) -> bool:
        """The taint's value is less (Lt) or greater (Gt) than the toleration's; both are decimal integers."""
        found, bound = decimal(value), decimal(self.value)
        if found is None or bound is None:
            return False
        return found < bound if self.operator == "Lt" else found > bound


def compiled(tolerations: tuple[Toleration, ...] | None) -> tuple[Tolerated, ...]:
    """In canonical order, each once."""
    return _all_compiled(tolerations) if tolerations else ()


@lru_cache(4_096)
def _all_compiled(tolerations: tuple[Toleration, ...]) -> tuple[Tolerated, ...]:
    """Pods of one template have equal ones, and every pod has those that the API server adds."""
    return tuple(sorted({_compiled(one) for one in tolerations}))


def _compiled(one: Toleration) -> Tolerated:
    operator = "" if one.operator == "Equal" else one.operator
    return Tolerated(one.key, operator, "" if operator == "Exists" else one.value, one.effect)


def decimal(text: str) -> int | None:
    """An integer without plus sign or leading zeros, as comparing tolerations need it; None for all else."""
    number = integer(text)
    return number if number is not None and str(number) == text else None


def hard_taints(taints: Iterable[Taint] | None) -> tuple[Taint, ...]:
    """The taints that refuse pods, in the node's order."""
    return tuple(taint for taint in taints or () if taint.effect in (NO_SCHEDULE, NO_EXECUTE))


def first_untolerated(taints: Iterable[Taint], tolerations: tuple[Tolerated, ...]) -> Taint | None:
    for taint in taints:
        if not is_tolerated(taint, tolerations):
            return taint
    return None


def is_tolerated(taint: Taint, tolerations: tuple[Tolerated, ...]) -> bool:
    for toleration in tolerations:  # noqa: SIM110 (a generator doubles the time)
        if toleration.tolerates(taint):
            return True
    return False
