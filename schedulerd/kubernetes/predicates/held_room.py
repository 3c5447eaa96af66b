"""What holds room on a node counts as which pod.

A placeholder holds the room of a member of its gang: for host ports, labels, pod affinity and spread it counts as that
member does, long before the member gets the room. So gangs whose members exclude each other find out in time that they
do not fit, and no other pod takes what a member needs. Amounts, and what the placeholder itself asks of nodes by their
labels and taints, are its own.
"""

from __future__ import annotations

from msgspec.structs import replace

from schedulerd.kubernetes.objects.affinity import Affinity
from schedulerd.kubernetes.objects.pod import Container, ContainerPort, Pod
from schedulerd.kubernetes.resources import is_sidecar


def counts_as(placeholder: Pod, member: Pod | None, *, is_replaced: bool = False) -> Pod:
    """The placeholder as predicates see it. `member` is the pod that it stands for; None: what the placeholder itself
    says counts. `is_replaced`: its room goes to a member, though the placeholder itself is about to go."""
    counted = placeholder if member is None else _like(placeholder, member)
    if is_replaced and counted.metadata.deletion_timestamp is not None:
        counted = replace(counted, metadata=replace(counted.metadata, deletion_timestamp=None))
    return counted


def _like(placeholder: Pod, member: Pod) -> Pod:
    spec, affinity, about = placeholder.spec, placeholder.spec.affinity, member.spec.affinity
    mine = tuple(replace(one, ports=None) if one.ports else one for one in spec.containers or ())
    ports = _host_ports(member)
    return replace(
        placeholder,
        metadata=replace(placeholder.metadata, labels=member.metadata.labels),
        spec=replace(
            spec,
            containers=(*mine, Container(name="held", ports=ports)) if ports else mine,
            affinity=Affinity(
                None if affinity is None else affinity.node_affinity,
                None if about is None else about.pod_affinity,
                None if about is None else about.pod_anti_affinity,
            )
            if affinity is not None or about is not None
            else None,
            topology_spread_constraints=member.spec.topology_spread_constraints,
        ),
    )


def _host_ports(pod: Pod) -> tuple[ContainerPort, ...]:
    sidecars = tuple(one for one in pod.spec.init_containers or () if is_sidecar(one))
    return tuple(
        port
        for container in (*(pod.spec.containers or ()), *sidecars)
        for port in container.ports or ()
        if port.host_port > 0
    )


def counts_alike(one: Pod, other: Pod) -> bool:
    """Placeholders that stand for these two pods count the same."""
    return (
        one.metadata.labels == other.metadata.labels
        and one.spec.affinity == other.spec.affinity
        and one.spec.topology_spread_constraints == other.spec.topology_spread_constraints
        and _host_ports(one) == _host_ports(other)
    )
