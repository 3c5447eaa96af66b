"""Which pods the daemon has to ask about: those that a plugin may refuse for more than the node's own properties.

All others are decided by node selector and class (`node_class`), and by the amounts, which the daemon compares.
"""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.kubernetes.predicates import (
    dynamic_resources,
    inter_pod_affinity,
    node_ports,
    node_volume_limits,
    pod_topology_spread,
    volume_binding,
    volume_restrictions,
)
from schedulerd.kubernetes.predicates.cluster_state import ClusterState
from schedulerd.kubernetes.predicates.pod_info import PendingPod
from schedulerd.kubernetes.predicates.storage import is_bound
from schedulerd.kubernetes.predicates.volume_restrictions import READ_WRITE_ONCE_POD

UNREADABLE = "Pod"


def callback_plugins(pod: PendingPod, cluster: ClusterState) -> tuple[str, ...]:
    """Plugins that make a callback necessary, each once; empty if the pod needs none.

    Anti-affinity of any known pod that matches this one counts, also of pods that have no node yet. The answer changes
    with the pods, claims and volumes that are known.
    """
    return tuple(dict.fromkeys(_plugins(pod, cluster)))


def _plugins(pod: PendingPod, cluster: ClusterState) -> Iterator[str]:
    info = pod.info
    if pod.problem is not None:
        yield UNREADABLE
    if info.ports:
        yield node_ports.NAME
    if pod.spread:
        yield pod_topology_spread.NAME
    if pod.affinity or info.anti_affinity or cluster.anti_affinity.against(info):
        yield inter_pod_affinity.NAME
    if info.disks:
        yield volume_restrictions.NAME
    if pod.has_device_claims:
        yield dynamic_resources.NAME
    for use in info.claims:
        yield from _of_claim(info.namespace, use.name, cluster)


def _of_claim(namespace: str, name: str, cluster: ClusterState) -> Iterator[str]:
    storage = cluster.storage
    claim = storage.claims.get((namespace, name))
    if claim is None or not is_bound(claim) or claim.spec.volume_name not in storage.volumes:
        yield volume_binding.NAME
        return
    if claim.metadata.deletion_timestamp is not None or claim.status.phase == "Lost":
        yield volume_binding.NAME
    if READ_WRITE_ONCE_POD in (claim.spec.access_modes or ()):
        yield volume_restrictions.NAME
    handle = storage.handle(claim)
    if handle is not None and handle.driver in storage.limited_drivers:
        yield node_volume_limits.NAME
