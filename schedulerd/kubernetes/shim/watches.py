"""What is watched, and how what a watch tells becomes events of the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from schedulerd.kubernetes.api import (
    Deleted,
    EventQueue,
    Reflector,
    Resource,
    Synced,
    Transport,
    Upserted,
    WatchEvent,
    WatchSettings,
    knows,
)
from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.cluster.events import DaemonSetsListed, Event, Gone, Put
from schedulerd.kubernetes.cluster.gangs.model import GangSource
from schedulerd.kubernetes.objects.cluster import (
    BetaPodDisruptionBudget,
    DaemonSet,
    Namespace,
    PodDisruptionBudget,
    PriorityClass,
)
from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.objects.pod_groups import CoschedulingPodGroup, PodGroup, Workload
from schedulerd.kubernetes.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from schedulerd.kubernetes.predicates import demands

NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
"""Of pods: one that ends is told as deleted."""


@dataclass(frozen=True, slots=True)
class Watched:
    resource: Resource
    type_: type[Any]
    field_selector: str = ""
    may_be_absent: bool = False
    """Older servers do not have it, or not in this version."""
    may_be_forbidden: bool = False
    """Less is known without it, but pods are scheduled."""
    metadata_only: bool = False
    """Nothing else of the objects is sent."""


_BUDGETS = Watched(r.POD_DISRUPTION_BUDGETS, PodDisruptionBudget, may_be_absent=True)
_BETA_BUDGETS = Watched(r.BETA_POD_DISRUPTION_BUDGETS, BetaPodDisruptionBudget, may_be_absent=True)
WATCHED = (
    Watched(r.NAMESPACES, Namespace),
    Watched(r.PRIORITY_CLASSES, PriorityClass),
    Watched(r.DAEMON_SETS, DaemonSet, may_be_forbidden=True, metadata_only=True),
    Watched(r.NODES, Node),
    Watched(r.PODS, Pod, NOT_ENDED),
    _BUDGETS,
    Watched(r.PERSISTENT_VOLUMES, PersistentVolume),
    Watched(r.PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim),
    Watched(r.STORAGE_CLASSES, StorageClass),
    Watched(r.CSI_NODES, CSINode, may_be_absent=True),
    Watched(r.CSI_DRIVERS, CSIDriver, may_be_absent=True),
    Watched(r.CSI_STORAGE_CAPACITIES, CSIStorageCapacity, may_be_absent=True),
    Watched(r.VOLUME_ATTACHMENTS, VolumeAttachment, may_be_absent=True),
)

COSCHEDULING = Watched(r.POD_GROUPS, CoschedulingPodGroup, may_be_absent=True)
SCHEDULING_GROUPS = tuple(
    Watched(Resource("scheduling.k8s.io", version, plural, kind), type_, may_be_absent=True)
    for version, plural, kind, type_ in (
        ("v1", "podgroups", "PodGroup", PodGroup),
        ("v1beta1", "podgroups", "PodGroup", PodGroup),
        ("v1alpha3", "podgroups", "PodGroup", PodGroup),
        ("v1alpha2", "podgroups", "PodGroup", PodGroup),
        ("v1alpha1", "workloads", "Workload", Workload),
    )
)
"""By age of the version: the first one that a server has is watched."""


async def watched_by(transport: Transport) -> tuple[Watched, ...]:
    """What is watched of this server: of budgets the version that it has. Raises `ApiError`."""
    if await knows(transport, _BUDGETS.resource) or not await knows(transport, _BETA_BUDGETS.resource):
        return WATCHED
    return tuple(_BETA_BUDGETS if one is _BUDGETS else one for one in WATCHED)


async def gang_sources(transport: Transport, wanted: Collection[GangSource]) -> dict[GangSource, Watched]:
    """Which of these kinds of gangs the server has objects for. Raises `ApiError`."""
    candidates = {GangSource.COSCHEDULING: (COSCHEDULING,), GangSource.KUBERNETES: SCHEDULING_GROUPS}
    found: dict[GangSource, Watched] = {}
    for source in wanted:
        for one in candidates[source]:
            if await knows(transport, one.resource):
                found[source] = one
                break
    return found


def reflectors(
    transport: Transport,
    queue: EventQueue,
    settings: WatchSettings | None = None,
    watched: Iterable[Watched] = WATCHED,
) -> list[Reflector[Any]]:
    """One per resource; each is to be run as a task."""
    return [
        Reflector(
            transport,
            one.resource,
            one.type_,
            queue.put,
            field_selector=one.field_selector,
            may_be_absent=one.may_be_absent,
            may_be_forbidden=one.may_be_forbidden,
            metadata_only=one.metadata_only,
            settings=settings,
        )
        for one in watched
    ]


def unlisted(watches: Iterable[Reflector[Any]]) -> str:
    """The resources that are not listed yet, by why they are not, if that is known; empty if all are."""
    causes = _by_cause(one for one in watches if not one.is_synced)
    return "; ".join(f"{names}: {cause}" if cause else names for cause, names in causes.items())


def watch_notes(watches: Iterable[Reflector[Any]]) -> list[str]:
    """Of what nothing new comes, and why: each cause once, as an API server that is away is one for all resources."""
    causes = _by_cause(one for one in watches if one.problem is not None)
    return [f"nothing new of {names}: {cause}" for cause, names in causes.items()]


def _by_cause(watches: Iterable[Reflector[Any]]) -> dict[str, str]:
    """The names of the resources by what keeps them back; empty if nothing is known."""
    found: dict[str, list[str]] = {}
    for one in watches:
        found.setdefault("" if one.problem is None else one.problem.problem, []).append(str(one.resource))
    return {cause: ", ".join(names) for cause, names in found.items()}


def watch_problems(watches: Iterable[Reflector[Any]]) -> dict[str, str]:
    """By plural name of a resource: why nothing new of it comes; empty while all is well."""
    return {one.resource.plural: "" if one.problem is None else str(one.problem) for one in watches}


def cluster_events(resource: Resource, told: list[WatchEvent]) -> Iterator[Event]:
    for event in told:
        if isinstance(event, Upserted):
            yield Put(event.object)
        elif isinstance(event, Deleted):
            yield Gone(event.object)
        elif resource == r.DAEMON_SETS:
            yield DaemonSetsListed(is_allowed=not event.is_forbidden)


def in_parts(events: list[Event], work_max: int) -> Iterator[list[Event]]:
    """The events in their order, in parts that cost no more than this, or have one event. An event costs 1, and that of
    a pod more if the pod says much of nodes."""
    part: list[Event] = []
    left = work_max
    for event in events:
        cost = demands.work(event.object.spec) if isinstance(event, Put) and isinstance(event.object, Pod) else 1
        if part and cost > left:
            yield part
            part, left = [], work_max
        part.append(event)
        left -= cost
    if part:
        yield part


def is_synced(told: list[WatchEvent]) -> bool:
    """A complete list was told."""
    return any(isinstance(event, Synced) for event in told)
