"""Objects that make pods a gang: PodGroups of coscheduling, PodGroups and Workloads of Kubernetes itself."""

from __future__ import annotations

from typing import Any

import msgspec

from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.meta import ObjectMeta


class CoschedulingSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    min_member: int = 0
    schedule_timeout_seconds: int | None = None


class CoschedulingPodGroup(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """scheduling.x-k8s.io/v1alpha1, kind PodGroup."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Any = msgspec.field(default_factory=dict)
    """As it is: a custom resource has what its definition lets in, which may be anything. A group that was left out for
    that would be none to its pods."""

    def read_spec(self) -> CoschedulingSpec:
        """Raises MalformedObject."""
        return convert(_WithSpec, {"spec": self.spec}).spec


class _WithSpec(msgspec.Struct, frozen=True, gc=False):
    """For an error that names the field from the object on."""

    spec: CoschedulingSpec


class GangPolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    min_count: int = 0


class SchedulingPolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """No gang: each pod for itself."""

    gang: GangPolicy | None = None


class TopologyConstraint(msgspec.Struct, frozen=True, gc=False):
    key: str = ""


class SchedulingConstraints(msgspec.Struct, frozen=True, gc=False):
    topology: tuple[TopologyConstraint, ...] | None = None


class PodGroupSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Fields whose feature gate is off are not there."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: Any = None
    """`PodGroup` or `Pod`."""
    priority: int | None = None


class GroupCondition(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    status: str = ""


class PodGroupStatus(msgspec.Struct, frozen=True, gc=False):
    conditions: tuple[GroupCondition, ...] | None = None


class PodGroup(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """scheduling.k8s.io, from v1alpha2 on."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class WorkloadGroup(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    policy: SchedulingPolicy = SchedulingPolicy()


class WorkloadSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    pod_groups: tuple[WorkloadGroup, ...] | None = None


class Workload(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """scheduling.k8s.io/v1alpha1, whose pods name a group of the Workload; later versions have PodGroups for that."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
