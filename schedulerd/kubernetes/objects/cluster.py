"""Objects that say how pods are to be treated: namespaces, priority classes, disruption budgets."""

from __future__ import annotations

import msgspec

from schedulerd.kubernetes.objects.meta import LabelSelector, ObjectMeta


class NamespaceStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    phase: str = ""


class Namespace(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """core/v1."""

    metadata: ObjectMeta = ObjectMeta()
    status: NamespaceStatus = NamespaceStatus()


class DaemonSet(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """apps/v1; its metadata alone is read."""

    metadata: ObjectMeta = ObjectMeta()


class PriorityClass(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """scheduling.k8s.io/v1."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class PodDisruptionBudgetSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str | None] | None = None
    """Names of pods whose eviction the API server has counted already, with the time."""


class PodDisruptionBudget(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """policy/v1."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class BetaPodDisruptionBudget(PodDisruptionBudget, frozen=True, gc=False, rename="camel"):
    """policy/v1beta1, of servers before 1.21: an empty selector covers no pods, and not all."""
