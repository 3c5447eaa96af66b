"""Where a pod may run: node and pod affinity, tolerations, topology spread constraints (core/v1)."""

from __future__ import annotations

import msgspec

from schedulerd.kubernetes.objects.meta import LabelSelector, NodeSelector


class NodeAffinity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Preferences are left out: they rank nodes and refuse none."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class PodAffinityTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """`matchLabelKeys` and `mismatchLabelKeys` are merged into the selector by the API server (1.29 and later)."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None


class PodAffinity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Serves `podAffinity` and `podAntiAffinity` alike."""

    required: tuple[PodAffinityTerm, ...] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    key: str = ""
    operator: str = ""
    """Equal (also if empty), Exists, Lt, Gt."""
    value: str = ""
    effect: str = ""
    """Empty tolerates all effects."""


class TopologySpreadConstraint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    """DoNotSchedule refuses nodes; ScheduleAnyway is a preference."""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    """Honor (default) or Ignore."""
    node_taints_policy: str | None = None
    """Honor or Ignore (default)."""
    match_label_keys: tuple[str, ...] | None = None
