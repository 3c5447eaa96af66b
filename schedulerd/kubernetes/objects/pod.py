"""Pods: what is asked for, where the pod may run, what it mounts, and what the kubelet says of it (core/v1)."""

from __future__ import annotations

import msgspec

from schedulerd.kubernetes.objects.affinity import Affinity, Toleration, TopologySpreadConstraint
from schedulerd.kubernetes.objects.meta import ObjectMeta
from schedulerd.kubernetes.objects.volumes import Volume

Quantities = dict[str, str | int]
"""Amounts by resource name, as Kubernetes quantities (`quantity.py` reads them)."""


class ResourceRequirements(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerPort(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    host_port: int = 0
    """0 is none."""
    protocol: str = ""
    """Empty is TCP."""
    host_ip: str = msgspec.field(default="", name="hostIP")
    """Empty is 0.0.0.0, all addresses of the node."""


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] | None = None
    restart_policy: str | None = None
    """`Always` makes an init container a sidecar: it goes on running beside the containers."""


class LocalObjectReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""


class PodSchedulingGate(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""


class PodResourceClaim(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A claim on devices (dynamic resource allocation)."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    pod_group_name: str | None = None


class WorkloadReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A group of a Workload (Kubernetes 1.35)."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""
    scheduler_name: str = ""
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    overhead: Quantities | None = None
    resources: ResourceRequirements | None = None
    """Requests of the pod as a whole (Kubernetes 1.32)."""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] | None = None
    volumes: tuple[Volume, ...] | None = None
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] | None = None
    scheduling_group: PodSchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None
    resource_claims: tuple[PodResourceClaim, ...] | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] | None = None
    service_account_name: str = ""
    termination_grace_period_seconds: int | None = None


class PodCondition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What the kubelet has set up for a container: differs from the spec while a resize is under way."""

    name: str = ""
    allocated_resources: Quantities | None = None
    resources: ResourceRequirements | None = None


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    phase: str = ""
    """Pending, Running, Succeeded, Failed, Unknown."""
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    conditions: tuple[PodCondition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    resize: str = ""
    """State of a resize up to Kubernetes 1.32; later the condition PodResizePending."""


class Pod(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


def is_terminal(pod: Pod) -> bool:
    """The pod has ended: it uses nothing of its node any longer."""
    return pod.status.phase in ("Succeeded", "Failed")
