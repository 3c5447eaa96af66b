"""What each node says to an ask: one cause of every node, counted, and the nodes that are nearest to fitting.

A survey visits every node. It is a generator that stops after `NODES_A_TURN` nodes, so it never holds the loop; nodes
may come, go and change in between, and each is judged as it is when it is reached.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Generator
from itertools import islice
from typing import NamedTuple

from schedulerd.core.explain.values import Lack, NodeCount, NodeFit, NodeSurvey
from schedulerd.core.language.resources import Items, Resources
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.request_class import RequestClass
from schedulerd.core.views.node_causes import NodeCause, NodeCauseKind, node_cause, room_for

NODES_A_TURN = 50
"""Nodes that are visited without a stop: about a tenth of a millisecond."""
BEST_NODES_MAX = 5
"""Nodes that are named."""
CAUSES_MAX = 50
"""Different causes that are counted; further ones are counted together. A constraint may have one for each node."""

_SHORT: tuple[NodeCauseKind, ...] = ("room", "reserved", "insufficient", "too_small", "refused")
"""Causes of nodes that could take the ask, and may be named."""


class _Near(NamedTuple):
    """A node that may be named, in order of how near it is to fitting."""

    too_small: bool
    """Whether it could not take the ask even if it were empty: what is released there is of no help."""
    shortage: float
    score: float
    node_id: str
    node: Node
    cause: NodeCause


def lacks(request_class: RequestClass, node: Node, ask: Ask | None = None) -> list[Lack]:
    """All resources that the node lacks for the request class, or for this ask of it."""
    return lacks_of(request_class.items, room_for(request_class, node, ask))


def lacks_of(items: Items, room: Resources) -> list[Lack]:
    """The resources of which there is not enough room. Never more is missing than is asked for: room that is below
    zero, because more was promised or used than there is, counts as none."""
    return [Lack(name, amount, free, amount - free) for name, amount in items if (free := max(0, room[name])) < amount]


def survey(
    partition: Partition, request_class: RequestClass, ask: Ask | None = None
) -> Generator[None, None, NodeSurvey]:
    """Visits every node for an ask of the class, or for this `ask`; the result is the value of the generator. Stops
    after each `NODES_A_TURN` nodes."""
    required = request_class.required_node
    if required and required not in partition.nodes:
        return _only_required(partition, request_class)
    counts: dict[NodeCause, int] = {}
    best: list[_Near] = []
    empty = _Empty(request_class.items)
    nodes = iter(list(partition.nodes.values()))
    considered = len(partition.nodes)
    while some := list(islice(nodes, NODES_A_TURN)):
        for node in some:
            empty.count(node)
            cause = node_cause(partition, request_class, node, ask)
            if cause.kind not in _SHORT and len(counts) >= CAUSES_MAX and cause not in counts:
                cause = NodeCause(cause.kind, "")
            counts[cause] = counts.get(cause, 0) + 1
            if cause.kind in _SHORT and (not required or node.node_id == required):
                _note(best, request_class, node, cause, ask)
        yield
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return NodeSurvey(
        considered=considered,
        counts=[NodeCount(cause.kind, cause.detail, count) for cause, count in ordered],
        best=[_fit(request_class, one, ask) for one in best],
        large_enough=empty.large_enough,
        largest=empty.largest,
        too_large=_too_large(partition, request_class) if considered else {},
    )


class _Empty:
    """What schedulable nodes would offer if nothing of ours ran there."""

    __slots__ = ("items", "large_enough", "largest")

    def __init__(self, items: Items) -> None:
        self.items = items
        self.large_enough = 0
        self.largest = dict.fromkeys((name for name, _ in items), 0)

    def count(self, node: Node) -> None:
        if not node.ordered:
            return
        fits = True
        for name, amount in self.items:
            offered = node.capacity[name] - node.occupied[name]
            fits = fits and amount <= offered
            if offered > self.largest[name]:
                self.largest[name] = offered
        self.large_enough += fits


def _only_required(partition: Partition, request_class: RequestClass) -> NodeSurvey:
    return NodeSurvey(
        considered=len(partition.nodes),
        counts=[NodeCount("unregistered", request_class.required_node, 1)],
        best=[],
        large_enough=0,
        largest={},
        too_large={},
    )


def _too_large(partition: Partition, request_class: RequestClass) -> dict[str, int]:
    most = partition.largest()
    return {name: most[name] for name, amount in request_class.items if amount > most[name]}


def _note(best: list[_Near], request_class: RequestClass, node: Node, cause: NodeCause, ask: Ask | None) -> None:
    """Keeps the node if it is one of the best so far."""
    shortage = sum(one.missing / one.asked for one in lacks(request_class, node, ask))
    too_small = cause.kind == "too_small"
    if len(best) == BEST_NODES_MAX and (too_small, shortage) > (best[-1].too_small, best[-1].shortage):
        return
    insort(best, _Near(too_small, shortage, node.score, node.node_id, node, cause), key=lambda one: one[:4])
    del best[BEST_NODES_MAX:]


def _fit(request_class: RequestClass, near: _Near, ask: Ask | None) -> NodeFit:
    node = near.node
    leaving = {name: node.leaving[name] for name, _ in request_class.items if node.leaving[name]}
    return NodeFit(node.node_id, near.cause.kind, near.cause.detail, lacks(request_class, node, ask), leaving)
