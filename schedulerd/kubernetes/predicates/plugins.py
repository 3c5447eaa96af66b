"""All plugins, in the order in which kube-scheduler's default profile asks them.

Source: kube-scheduler 1.36, default plugins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from schedulerd.kubernetes.predicates import (
    dynamic_resources,
    inter_pod_affinity,
    node_affinity,
    node_name,
    node_ports,
    node_resources_fit,
    node_unschedulable,
    node_volume_limits,
    pod_topology_spread,
    taint_toleration,
    volume_binding,
    volume_restrictions,
    volume_zone,
)
from schedulerd.kubernetes.predicates.cluster_state import ClusterState, Gone
from schedulerd.kubernetes.predicates.known_pod import JudgedPod
from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState
from schedulerd.kubernetes.predicates.refusal import Refusals

Judge: TypeAlias = Callable[[JudgedPod, NodeFacts, NodeState, ClusterState, Gone | None], Refusals]


class Plugin(NamedTuple):
    name: str
    judge: Judge


ALL = (
    Plugin(node_unschedulable.NAME, node_unschedulable.judge),
    Plugin(node_name.NAME, node_name.judge),
    Plugin(taint_toleration.NAME, taint_toleration.judge),
    Plugin(node_affinity.NAME, node_affinity.judge),
    Plugin(node_ports.NAME, node_ports.judge),
    Plugin(node_resources_fit.NAME, node_resources_fit.judge),
    Plugin(volume_restrictions.NAME, volume_restrictions.judge),
    Plugin(node_volume_limits.NAME, node_volume_limits.judge),
    Plugin(volume_binding.NAME, volume_binding.judge),
    Plugin(volume_zone.NAME, volume_zone.judge),
    Plugin(pod_topology_spread.NAME, pod_topology_spread.judge),
    Plugin(inter_pod_affinity.NAME, inter_pod_affinity.judge),
    Plugin(dynamic_resources.NAME, dynamic_resources.judge),
)
"""For an allocation: everything is judged."""

_NOT_FOR_RESERVING = {
    node_resources_fit.NAME,
    volume_restrictions.NAME,
    node_volume_limits.NAME,
    volume_binding.NAME,
    volume_zone.NAME,
    dynamic_resources.NAME,
}

_FOR_FEW = {
    node_ports.NAME,
    volume_restrictions.NAME,
    node_volume_limits.NAME,
    volume_binding.NAME,
    volume_zone.NAME,
    pod_topology_spread.NAME,
    dynamic_resources.NAME,
}
"""They refuse only pods with what they are about."""

FOR_PLAIN = tuple(plugin for plugin in ALL if plugin.name not in _FOR_FEW)
"""All that can refuse a plain pod (`PendingPod.is_plain`)."""

RESERVE = tuple(plugin for plugin in ALL if plugin.name not in _NOT_FOR_RESERVING)
"""For room that is only kept: amounts and volumes may still change."""

DELEGATED = tuple(plugin for plugin in ALL if plugin.name != node_resources_fit.NAME)
"""For a question of the daemon, which has compared the amounts itself."""


def in_place(plugins: tuple[Plugin, ...]) -> tuple[Plugin, ...]:
    """For a pod that takes the place of one that counts as it does: no topology value has more or fewer pods then,
    while the others may have changed since that pod was placed."""
    return tuple(plugin for plugin in plugins if plugin.name != pod_topology_spread.NAME)


ALL_IN_PLACE, DELEGATED_IN_PLACE = in_place(ALL), in_place(DELEGATED)
