"""Why a node does not take an ask now, as one cause."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from schedulerd.core.language.resources import Resources
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.request_class import RequestClass

NodeCauseKind: TypeAlias = Literal[
    "room", "insufficient", "reserved", "state", "too_small", "constraint", "not_required", "refused", "unregistered"
]


class NodeCause(NamedTuple):
    """The cause for which a node does not take an ask now; `room` if it does."""

    kind: NodeCauseKind
    detail: str = ""


def node_cause(partition: Partition, request_class: RequestClass, node: Node, ask: Ask | None = None) -> NodeCause:
    """Why no ask of the request class may be allocated on the node now, by the same rules as `Partition.refusal`; with
    `ask`, also whether room is reserved for that ask there, and whether the resource manager refused it.

    Of several causes one is taken that stays whatever is released: only nodes without such a cause are worth waiting
    for.
    """
    required = request_class.required_node
    if required and required != node.node_id:
        return NodeCause("not_required")
    if request_class.constraint is not None:
        reason = partition.constraints.refusal(request_class, node)
        if reason is not None:
            return NodeCause("constraint", reason)
    name = _too_small_by(request_class, node)
    if name is not None:
        return NodeCause("too_small", name)
    if not node.ordered and not (required and node.ready):
        return NodeCause("state", node.state.value.replace("_", " "))
    name = room_for(request_class, node, ask).lacks(request_class.items)
    if name is not None:
        if node.available.lacks(request_class.items) is None:
            return NodeCause("reserved")
        return NodeCause("insufficient", name)
    history = ask.predicate_history if ask is not None else None
    if history is not None and history.is_refused_with_room(node):
        return NodeCause("refused")
    return NodeCause("room")


def _too_small_by(request_class: RequestClass, node: Node) -> str | None:
    """The first resource of which even the empty node has too little; None if it is large enough."""
    capacity, occupied = node.capacity, node.occupied
    return next((name for name, amount in request_class.items if amount > capacity[name] - occupied[name]), None)


def reserved_before(one: Reservation) -> Resources:
    """What reservations that are served before this one hold on its node: entitled ones first, and of each kind the
    earlier one first."""
    before = Resources()
    is_later = False
    for other in one.node.reservations:
        is_later = is_later or other is one
        if other is not one and (not is_later if other.is_entitled == one.is_entitled else other.is_entitled):
            before.add(other.items)
    return before


def room_for(request_class: RequestClass, node: Node, ask: Ask | None) -> Resources:
    """What an ask of the request class may have on the node now: what is reserved for the ask itself is not taken from
    it, and a required node ignores aging reservations."""
    own = next((one for one in node.reservations if one.ask is ask), None)
    if own is not None:
        return node.available.minus(reserved_before(own))
    if request_class.required_node and node.reserved:
        return node.available.minus(node.entitled_reserved)
    return node.free
