"""How much a pod says about its nodes: what it costs to judge it, and where that ends.

Whatever a pod says is read and judged in time that grows linearly with it, and a pod may say a megabyte. So that one
tenant's pods do not slow down the others', a pod that says more than any workload needs is not judged at all: it waits
until it says less. The bounds are far above what operators and charts write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from schedulerd.kubernetes.objects.affinity import Affinity
from schedulerd.kubernetes.objects.meta import LabelSelector
from schedulerd.kubernetes.objects.pod import PodSpec

TERMS_MAX = 100
"""Required terms of pod affinity, and as many of pod anti-affinity. Of a pod that runs with more, as another scheduler
has placed it, the first ones count."""
NODE_TERMS_MAX = 1_000
CONSTRAINTS_MAX = 32
EXPRESSIONS_MAX = 1_000
"""Of one field (affinity, spread constraints, node selector), a label that is to have one value included."""
VALUES_MAX = 10_000
"""Of one field, names of namespaces included."""
TOLERATIONS_MAX = 1_000
HOST_PORTS_MAX = 2_000
VOLUMES_MAX = 1_000
_PER_WORK = 8
"""So many of these cost as much as a pod that says none."""


class Demand(NamedTuple):
    field: str
    what: str
    number: int
    most: int


def excess(spec: PodSpec) -> str:
    """The first bound that the pod is above: its field, the number there and the bound. Empty if there is none."""
    for one in demands(spec):
        if one.number > one.most:
            return f"{one.field} has {one.number} {one.what}, and at most {one.most} can be considered"
    return ""


def work(spec: PodSpec) -> int:
    """What it costs to judge the pod on one node, where a pod that says nothing of nodes costs 1."""
    return 1 + sum(one.number for one in demands(spec)) // _PER_WORK


def demands(spec: PodSpec) -> Iterator[Demand]:
    """What the pod says of nodes and of other pods, with its bounds; most pods say little."""
    if spec.tolerations:
        yield Demand("spec.tolerations", "tolerations", len(spec.tolerations), TOLERATIONS_MAX)
    if spec.node_selector:
        yield Demand("spec.nodeSelector", "labels", len(spec.node_selector), EXPRESSIONS_MAX)
    if spec.volumes:
        yield Demand("spec.volumes", "volumes", len(spec.volumes), VOLUMES_MAX)
    if spec.affinity is not None:
        yield from _of_affinity(spec.affinity)
    if spec.topology_spread_constraints:
        field, constraints = "spec.topologySpreadConstraints", spec.topology_spread_constraints
        yield Demand(field, "constraints", len(constraints), CONSTRAINTS_MAX)
        selectors = _Size()
        for one in constraints:
            selectors.add(one.label_selector)
            selectors.expressions += len(one.match_label_keys or ())
        yield from selectors.demands(field)
    ports = _host_ports(spec)
    if ports:
        yield Demand("spec.containers.ports", "host ports", ports, HOST_PORTS_MAX)


def _of_affinity(affinity: Affinity) -> Iterator[Demand]:
    selectors = _Size()
    for field, pods in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        terms = pods.required or () if pods is not None else ()
        yield Demand(f"spec.affinity.{field}", "terms", len(terms), TERMS_MAX)
        for term in terms:
            selectors.add(term.label_selector)
            selectors.add(term.namespace_selector)
            selectors.values += len(term.namespaces or ())
    nodes = affinity.node_affinity
    node_terms = (nodes.required.node_selector_terms or ()) if nodes is not None and nodes.required is not None else ()
    yield Demand("spec.affinity.nodeAffinity", "terms", len(node_terms), NODE_TERMS_MAX)
    for node_term in node_terms:
        for one in (*(node_term.match_expressions or ()), *(node_term.match_fields or ())):
            selectors.expressions += 1
            selectors.values += len(one.values or ())
    yield from selectors.demands("spec.affinity")


class _Size:
    """Of selectors."""

    __slots__ = ("expressions", "values")

    def __init__(self) -> None:
        self.expressions = 0
        self.values = 0

    def add(self, selector: LabelSelector | None) -> None:
        if selector is None:
            return
        self.expressions += len(selector.match_labels or ()) + len(selector.match_expressions or ())
        for one in selector.match_expressions or ():
            self.values += len(one.values or ())

    def demands(self, field: str) -> Iterator[Demand]:
        yield Demand(field, "expressions", self.expressions, EXPRESSIONS_MAX)
        yield Demand(field, "values", self.values, VALUES_MAX)


def _host_ports(spec: PodSpec) -> int:
    ports = 0
    for containers in (spec.containers, spec.init_containers):
        for container in containers or ():
            if container.ports:
                ports += sum(port.host_port > 0 for port in container.ports)
    return ports
