"""NodePorts: a host port can be used by one pod of a node for each address.

Ports of containers and sidecars count. The address 0.0.0.0, which is the default, is all addresses of the node.
"""

from __future__ import annotations

from schedulerd.kubernetes.predicates.cluster_state import ClusterState, Gone, JudgedPod
from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState
from schedulerd.kubernetes.predicates.pod_info import ANY_ADDRESS, HostPort
from schedulerd.kubernetes.predicates.refusal import NONE, Code, Kind, Refusal, Refusals

NAME = "NodePorts"


def judge(pod: JudgedPod, facts: NodeFacts, node: NodeState, cluster: ClusterState, gone: Gone | None) -> Refusals:
    for port in pod.info.ports:
        used = node.ports.get((port.protocol, port.port))
        if used and _conflicts(port, used, _freed(port, node, gone)):
            return (Refusal(NAME, Kind.UNSCHEDULABLE, Code.HOST_PORT, (port.protocol, port.port, port.address)),)
    return NONE


def _conflicts(port: HostPort, used: dict[str, int], freed: dict[str, int]) -> bool:
    for address, pods in used.items():
        overlaps = ANY_ADDRESS in (port.address, address) or address == port.address
        if overlaps and pods > freed.get(address, 0):
            return True
    return False


def _freed(port: HostPort, node: NodeState, gone: Gone | None) -> dict[str, int]:
    """How many pods leave the port, by address."""
    freed: dict[str, int] = {}
    for leaving in gone.on(node) if gone is not None else ():
        for one in leaving.ports:
            if (one.protocol, one.port) == (port.protocol, port.port):
                freed[one.address] = freed.get(one.address, 0) + 1
    return freed
