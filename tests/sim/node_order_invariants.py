"""Who is placed goes to the first node with room in the order that the queue file says (`nodesortpolicy`)."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.language.commands import RunCycle
from schedulerd.core.language.facts.fact import Allocated, Fact
from schedulerd.core.language.facts.reservations import ReservationEnded
from schedulerd.core.language.specs import NodeOrder, PartitionSpec
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from schedulerd.core.views.values import NodeView
from tests.sim.moment import Moment
from tests.sim.room_books import Place

ROUNDING = 1e-9
"""Scores that differ by less are equal."""


def judged(moment: Moment, fact: Fact) -> Iterator[str]:
    """Nodes that come before the one it was placed on, and had room; where that was not kept for it until then."""
    spec, book = moment.book.spec, moment.book
    if not isinstance(fact, Allocated) or not isinstance(moment.command, RunCycle) or spec is None:
        return
    if fact.recovered or fact.replaces or fact.tags.get(REQUIRED_NODE_TAG) or _had_room_kept(moment, fact):
        return
    nodes = {node.node_id: node for node in moment.after.nodes}
    taken = _score(moment, spec, nodes[fact.node_id])
    for node in nodes.values():
        free = book.available(node.node_id).minus(book.kept_on(node.node_id))
        takes_it = node.schedulable and node.ready and free.lacks(fact.resources.items()) is None
        if takes_it and _score(moment, spec, node) < taken - ROUNDING:
            yield f"{node.node_id} comes first, and has room: {dict(free)}"


def _had_room_kept(moment: Moment, fact: Allocated) -> bool:
    """Whether some was kept for the ask anywhere until this step."""
    mine = (fact.application_id, fact.allocation_key)
    return any(isinstance(one, ReservationEnded) and Place.of(one)[:2] == mine for one in moment.earlier)


def _score(moment: Moment, spec: PartitionSpec, node: NodeView) -> float:
    """Lowest first: the weighted mean of the used shares of what the node offers, or of the free ones."""
    available = moment.book.available(node.node_id)
    weights = [(weight, name) for name, weight in spec.node_weights.items() if weight and node.capacity.get(name)]
    used = sum(weight * (1 - available[name] / node.capacity[name]) for weight, name in weights)
    mean = used / sum(weight for weight, _ in weights) if weights else 0.0
    return mean if spec.node_order is NodeOrder.FAIR else 1 - mean
