"""What the plugins need to know of a pod, read once: as one that occupies a node, and as one that looks for a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from schedulerd.kubernetes.objects.pod import Container, Pod, PodSpec
from schedulerd.kubernetes.objects.volumes import Volume
from schedulerd.kubernetes.predicates import demands, node_requirement, tolerations
from schedulerd.kubernetes.predicates.node_requirement import NodeRequirement
from schedulerd.kubernetes.predicates.selectors import MalformedSelector
from schedulerd.kubernetes.predicates.terms import (
    AffinityTerm,
    PodFilters,
    SpreadConstraint,
    affinity_terms,
    pod_filters,
    readable_terms,
    spread_constraints,
)
from schedulerd.kubernetes.predicates.tolerations import Tolerated
from schedulerd.kubernetes.quantity import MalformedQuantity
from schedulerd.kubernetes.resources import is_sidecar, pod_requests

ANY_ADDRESS = "0.0.0.0"
_NO_LABELS: Mapping[str, str] = {}


class HostPort(NamedTuple):
    protocol: str
    port: int
    address: str


class ClaimUse(NamedTuple):
    """A volume of the pod that is a persistent volume claim."""

    name: str
    is_ephemeral: bool
    """The claim is made for the pod, and has to be owned by it."""


class Disk(NamedTuple):
    """A disk that two pods of a node may not share, unless all of them only read it."""

    key: tuple[str, ...]
    """Kind and name; with RBD also the monitor, one of several."""
    volume: str
    """Its name in the pod."""
    is_written: bool


class PodInfo(msgspec.Struct, eq=False, gc=False):
    """A pod in the form in which others are held against it."""

    uid: str
    name: str
    namespace: str
    labels: Mapping[str, str]
    is_terminating: bool
    requests: Mapping[str, int]
    ports: tuple[HostPort, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    claims: tuple[ClaimUse, ...]
    disks: tuple[Disk, ...]
    """Each once."""
    problem: tuple[str, str] | None = None
    """Its requests cannot be read: the field, and why."""


class PendingPod(msgspec.Struct, eq=False, gc=False):
    """A pod in the form in which it is judged."""

    info: PodInfo
    node_name: str
    """The one node it may run on; empty for any."""
    requirement: NodeRequirement
    tolerations: tuple[Tolerated, ...]
    affinity: tuple[AffinityTerm, ...]
    spread: tuple[SpreadConstraint, ...]
    has_device_claims: bool
    problem: tuple[str, str] | None
    """Field that cannot be read, and why."""
    work: int
    """What it costs to judge it on one node, in pods that say nothing of nodes."""
    affinity_filters: PodFilters | None = None
    """What a pod has to match to meet all affinity terms; None without any."""

    @property
    def is_plain(self) -> bool:
        """It has no host ports, volumes that matter, spread constraints or claims of devices, as most pods."""
        info = self.info
        return not (info.ports or info.claims or info.disks or self.spread or self.has_device_claims)


def read_info(pod: Pod) -> PodInfo:
    """The pod as one that occupies a node; what cannot be read counts as nothing."""
    meta, spec = pod.metadata, pod.spec
    affinity = spec.affinity
    problem = None
    try:
        requests = pod_requests(pod)
    except MalformedQuantity as error:
        requests, problem = {"pods": 1}, ("spec.containers.resources.requests", str(error))
    return PodInfo(
        uid=meta.uid,
        name=meta.name,
        namespace=meta.namespace,
        labels=meta.labels or _NO_LABELS,
        is_terminating=meta.deletion_timestamp is not None,
        requests=requests,
        ports=_host_ports(spec),
        anti_affinity=() if affinity is None else readable_terms(pod, affinity.pod_anti_affinity),
        claims=_claims(pod) if spec.volumes else (),
        disks=_disks(spec.volumes) if spec.volumes else (),
        problem=problem,
    )


def read_pending(pod: Pod, info: PodInfo) -> PendingPod:
    """The pod as one that looks for a node; what cannot be read becomes its problem, which refuses every node."""
    spec, affinity = pod.spec, pod.spec.affinity
    requirement = node_requirement.of_pod(spec)
    tolerated = tolerations.compiled(spec.tolerations)
    problem = info.problem
    wanted: tuple[AffinityTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    reading = "spec.affinity"
    try:
        if affinity is not None:
            affinity_terms(pod, affinity.pod_anti_affinity)
            wanted = affinity_terms(pod, affinity.pod_affinity)
        reading = "spec.topologySpreadConstraints"
        spread = spread_constraints(pod, requirement, tolerated)
    except MalformedSelector as error:
        problem = (reading, str(error))
    return PendingPod(
        info=info,
        node_name=spec.node_name,
        requirement=requirement,
        tolerations=tolerated,
        affinity=wanted,
        spread=spread,
        has_device_claims=bool(spec.resource_claims),
        problem=problem,
        work=demands.work(spec),
        affinity_filters=pod_filters(term.pods for term in wanted) if wanted else None,
    )


def ephemeral_claim(pod_name: str, volume_name: str) -> str:
    """Name of the claim that is made for a generic ephemeral volume."""
    return f"{pod_name}-{volume_name}"


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Of containers and sidecars; each once."""
    found: dict[HostPort, None] = {}
    for container in spec.containers or ():
        if container.ports:
            found.update(dict.fromkeys(_ports(container)))
    for container in spec.init_containers or ():
        if container.ports and is_sidecar(container):
            found.update(dict.fromkeys(_ports(container)))
    return tuple(found)


def _ports(container: Container) -> list[HostPort]:
    return [
        HostPort(port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)
        for port in container.ports or ()
        if port.host_port > 0
    ]


def _claims(pod: Pod) -> tuple[ClaimUse, ...]:
    found: dict[ClaimUse, None] = {}
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            found[ClaimUse(volume.persistent_volume_claim.claim_name, False)] = None
        elif volume.ephemeral is not None:
            found[ClaimUse(ephemeral_claim(pod.metadata.name, volume.name), True)] = None
    return tuple(found)


def _disks(volumes: Iterable[Volume]) -> tuple[Disk, ...]:
    found: dict[tuple[str, ...], Disk] = {}
    for disk in (disk for volume in volumes for disk in _disks_of(volume)):
        known = found.get(disk.key)
        if known is None or (disk.is_written and not known.is_written):
            found[disk.key] = disk
    return tuple(found.values())


def _disks_of(volume: Volume) -> Iterator[Disk]:
    gce, ebs, iscsi, rbd = volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.iscsi, volume.rbd
    if gce is not None:
        yield Disk(("gce", gce.pd_name), volume.name, not gce.read_only)
    if ebs is not None:
        yield Disk(("ebs", ebs.volume_id), volume.name, True)
    if iscsi is not None:
        yield Disk(("iscsi", iscsi.iqn), volume.name, not iscsi.read_only)
    if rbd is not None:
        for monitor in rbd.monitors or ():
            yield Disk(("rbd", rbd.pool, rbd.image, monitor), volume.name, not rbd.read_only)
