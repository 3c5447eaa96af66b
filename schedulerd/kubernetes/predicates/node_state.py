"""A node, and what the pods on it use: kept up to date by every pod that comes or goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from schedulerd.kubernetes.objects.node import Node, Taint
from schedulerd.kubernetes.predicates.pod_info import PodInfo
from schedulerd.kubernetes.predicates.tolerations import hard_taints
from schedulerd.kubernetes.quantity import MalformedQuantity
from schedulerd.kubernetes.resources import read_quantities

_Key = TypeVar("_Key")


class NodeFacts(NamedTuple):
    """What the predicates read of a node object. A node whose facts are equal need not be judged again."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    """Those that refuse pods."""
    unschedulable: bool
    allocatable: Mapping[str, int]
    """Cpu in thousandths, all else in units; what cannot be read is missing."""


class NodeState:
    """A node by its name; pods can be there before the node object is known, and after it is deleted."""

    __slots__ = ("claims", "disks", "facts", "name", "pods", "ports", "requested")

    def __init__(self, name: str) -> None:
        self.name = name
        self.facts: NodeFacts | None = None
        """None while the node object is not known."""
        self.pods: dict[str, PodInfo] = {}
        self.requested: dict[str, int] = {}
        self.ports: dict[tuple[str, int], dict[str, int]] = {}
        """By protocol and port: how many pods use it on which address."""
        self.disks: dict[tuple[str, ...], dict[str, bool]] = {}
        """Disks that cannot be shared, by what they are: uids of the pods that have them, and whether they write."""
        self.claims: dict[tuple[str, str], int] = {}
        """By namespace and claim: how many pods use it."""

    @property
    def is_unused(self) -> bool:
        return self.facts is None and not self.pods

    def add(self, pod: PodInfo) -> None:
        self.pods[pod.uid] = pod
        self._count(pod, 1)
        for disk in pod.disks:
            self.disks.setdefault(disk.key, {})[pod.uid] = disk.is_written

    def remove(self, pod: PodInfo) -> None:
        del self.pods[pod.uid]
        self._count(pod, -1)
        for disk in pod.disks:
            users = self.disks[disk.key]
            del users[pod.uid]
            if not users:
                del self.disks[disk.key]

    def _count(self, pod: PodInfo, by: int) -> None:
        requested = self.requested
        for name, amount in pod.requests.items():
            requested[name] = requested.get(name, 0) + amount * by
        for port in pod.ports:
            addresses = self.ports.setdefault((port.protocol, port.port), {})
            change(addresses, port.address, by)
            if not addresses:
                del self.ports[port.protocol, port.port]
        for claim in pod.claims:
            change(self.claims, (pod.namespace, claim.name), by)


def change(counts: dict[_Key, int], key: _Key, by: int) -> None:
    """Adds to a count; a count of 0 is no entry."""
    left = counts.get(key, 0) + by
    if left:
        counts[key] = left
    else:
        del counts[key]


def read_facts(node: Node) -> NodeFacts:
    """The facts of a node object; an amount that cannot be read counts as nothing."""
    allocatable: dict[str, int] = {}
    for name, quantity in (node.status.allocatable or {}).items():
        try:
            allocatable.update(read_quantities({name: quantity}))
        except MalformedQuantity:
            continue
    return NodeFacts(
        name=node.metadata.name,
        labels=node.metadata.labels or {},
        taints=hard_taints(node.spec.taints),
        unschedulable=node.spec.unschedulable,
        allocatable=allocatable,
    )
