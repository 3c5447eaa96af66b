"""What a node had better offer, if it is used by others than those we know of (SI 2021-02 `NodeRecommendation`)."""

from __future__ import annotations

from typing import NamedTuple

from schedulerd.core.model.node import Node
from schedulerd.core.resources import Resources


class Recommendation(NamedTuple):
    own: Resources
    """What the node offers when it does not follow a recommendation."""
    schedulable: Resources
    message: str


def recommendation(node: Node) -> Recommendation:
    """For a node whose use was reported: what it offers of its own less what others use, never below 0.

    A node that offers what was recommended last follows that; one that offers what it did then may yet follow. Both are
    judged by what they offered of their own, so that they are not recommended less again and again for one reason.
    """
    last = node.recommended
    own = node.capacity if last is None or node.capacity not in (last.schedulable, last.offered) else last.own
    known = node.allocated.plus(node.occupied)
    used = node.used or Resources()
    excess = {name: used[name] - known[name] for name in sorted(own) if used[name] > known[name]}
    schedulable = Resources({name: max(0, amount - excess.get(name, 0)) for name, amount in own.items()})
    parts = [
        f"{name} {used[name]} used, {node.allocated[name]} allocated + {node.occupied[name]} occupied, so "
        f"{schedulable[name]} of {own[name]} had better be offered"
        for name in excess
    ]
    message = "; ".join(parts) or "nobody but those we know of uses it, so it may offer all it has"
    return Recommendation(own, schedulable, message)
