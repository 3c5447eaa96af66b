"""NodePorts: a host port can be used by one pod of a node for each address.

Ports of containers and sidecars count. The address 0.0.0.0, which is the default, is all addresses of the node.
"""

from __future__ import annotations

from collections.abc import Mapping

from schedulerd.kubernetes.predicates.cluster_state import ClusterState, Gone
from schedulerd.kubernetes.predicates.known_pod import JudgedPod
from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState
from schedulerd.kubernetes.predicates.pod_info import ANY_ADDRESS, HostPort
from schedulerd.kubernetes.predicates.refusal import NONE, Code, Kind, Refusal, Refusals

NAME = "NodePorts"
_NONE: Mapping[str, int] = {}


def judge(pod: JudgedPod, facts: NodeFacts, node: NodeState, cluster: ClusterState, gone: Gone | None) -> Refusals:
    for port in pod.info.ports:
        used = node.ports.get((port.protocol, port.port))
        if used and _conflicts(
            port, used, gone.ports_on(node).get((port.protocol, port.port), {}) if gone is not None else {}
        ):
            return (Refusal(NAME, Kind.UNSCHEDULABLE, Code.HOST_PORT, (port.protocol, port.port, port.address)),)
    return NONE


def _conflicts(port: HostPort, used: Mapping[str, int], freed: Mapping[str, int]) -> bool:
    """Somebody uses the port on an overlapping address, by how many use and leave it on each."""
    if port.address == ANY_ADDRESS:
        return sum(used.values()) > sum(freed.values())
    return any(used.get(one, 0) > freed.get(one, 0) for one in (ANY_ADDRESS, port.address))
