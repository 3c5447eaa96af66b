"""What a node should offer if workloads use it that the scheduler does not know (SI 2021-02 `NodeRecommendation`)."""

from __future__ import annotations

from typing import NamedTuple

from schedulerd.core.language.resources import Resources
from schedulerd.core.state.model.node import Node


class Recommendation(NamedTuple):
    own: Resources
    """What the node offers when it does not follow a recommendation."""
    schedulable: Resources
    message: str


def recommendation(node: Node) -> Recommendation:
    """For a node whose use was reported: what it offers on its own minus what unknown workloads use, never below 0.

    A node that offers what was recommended last follows the recommendation; one that still offers what it did at that
    time may yet follow. Both are judged by what they offered on their own, so that the same use does not lower the
    recommendation again and again.
    """
    last = node.recommended
    own = node.capacity if last is None or node.capacity not in (last.schedulable, last.offered) else last.own
    known = node.allocated.plus(node.occupied)
    used = node.used or Resources()
    excess = {name: used[name] - known[name] for name in sorted(own) if used[name] > known[name]}
    schedulable = Resources({name: max(0, amount - excess.get(name, 0)) for name, amount in own.items()})
    parts = [
        f"{name} {used[name]} used, {node.allocated[name]} allocated + {node.occupied[name]} occupied, so "
        f"{schedulable[name]} of {own[name]} should be offered"
        for name in excess
    ]
    message = "; ".join(parts) or "no other workload uses the node, so it may offer all it has"
    return Recommendation(own, schedulable, message)
