"""NodeResourcesFit: what the pods on the node request, and this one, is at most what the node has to give.

Only what the pod requests is compared: a node that is overcommitted in processors takes a pod that requests memory
only. Names that are no resource of nodes are left out. Source: kube-scheduler's plugin of this name.
"""

from __future__ import annotations

from schedulerd.kubernetes.predicates.cluster_state import ClusterState, Gone
from schedulerd.kubernetes.predicates.known_pod import JudgedPod
from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState
from schedulerd.kubernetes.predicates.refusal import NONE, Code, Kind, Refusal, Refusals
from schedulerd.kubernetes.resources import CPU, MEMORY, PODS

NAME = "NodeResourcesFit"
EPHEMERAL_STORAGE = "ephemeral-storage"
_FIRST = (CPU, MEMORY, EPHEMERAL_STORAGE)
_TOO_MANY_PODS = Refusal(NAME, Kind.UNSCHEDULABLE, Code.TOO_MANY_PODS)


def judge(pod: JudgedPod, facts: NodeFacts, node: NodeState, cluster: ClusterState, gone: Gone | None) -> Refusals:
    wanted, has, requested = pod.info.requests, facts.allocatable, node.requested
    lacking = [
        name
        for name, amount in wanted.items()
        if amount > 0 and amount + requested.get(name, 0) > has.get(name, 0) and is_counted(name)
    ]
    if lacking and gone is not None:
        freed = _freed(node, gone)
        lacking = [
            name for name in lacking if wanted[name] + requested.get(name, 0) - freed.get(name, 0) > has.get(name, 0)
        ]
    if not lacking:
        return NONE
    return tuple(
        _TOO_MANY_PODS if name == PODS else Refusal(NAME, Kind.UNSCHEDULABLE, Code.INSUFFICIENT, (name,))
        for name in sorted(lacking, key=_position)
    )


def is_counted(name: str) -> bool:
    """Kubernetes counts its own few resources, and the scalar ones. Other names are no resources of nodes."""
    return name in _FIRST or name == PODS or is_scalar(name)


def is_scalar(name: str) -> bool:
    """Extended resources (`example.com/gpu`), huge pages, attachable volumes, and all of *kubernetes.io.

    `requests.example.com/gpu` is a name of resource quotas, and none of these.
    """
    if name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name:
        return True
    return "/" in name and not name.startswith("requests.")


def _position(name: str) -> tuple[int, str]:
    """Pods first, then cpu, memory, ephemeral storage, then the others by name."""
    if name == PODS:
        return (0, "")
    return (1 + _FIRST.index(name), "") if name in _FIRST else (1 + len(_FIRST), name)


def _freed(node: NodeState, gone: Gone) -> dict[str, int]:
    freed: dict[str, int] = {}
    for leaving in gone.on(node):
        for name, amount in leaving.requests.items():
            freed[name] = freed.get(name, 0) + amount
    return freed
