"""Nodes without room, or that do not suit an ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from schedulerd.amounts import amount, amount_text, amounts, resource
from schedulerd.sentences.words import listed

NO_NODES = "there are no nodes"


def too_large(name: str, asked: int, largest: int) -> str:
    """More is asked for than any node has when it is empty."""
    return f"no node can ever fit {amount(name, asked)}; the largest has {amount_text(name, largest)}"


def insufficient(lacking: Mapping[str, int], closed: int) -> str:
    """How many nodes lack each resource, in the words of kube-scheduler, and how many take nothing; '' if none does."""
    said = [f"{count:,} Insufficient {resource(name)}" for name, count in lacking.items()]
    return ", ".join([*said, *([f"{closed:,} draining or not ready"] if closed else [])])


def no_room(counted: str) -> str:
    """`counted`: what the nodes lack."""
    return f"no node has room: {counted}" if counted else "no node has room"


def none_suits(counted: str) -> str:
    """The placement constraint of the ask allows only nodes without room."""
    said = "no node both has room and is allowed by its placement constraint"
    return f"{said}: {counted}" if counted else said


def required(node_id: str, cause: str = "", detail: str = "") -> str:
    """The one node that the ask may run on, with its cause; without one it has no room."""
    if not cause:
        return f"the node that it requires, {node_id}, has no room"
    return f"the node that it requires, {node_id}, {node(cause, detail, 1).removeprefix('1 ')}"


def required_is_missing(node_id: str) -> str:
    """That node is not there."""
    return f"the node that it requires, {node_id}, is not registered"


def node(cause: str, detail: str, count: int) -> str:
    """So many nodes with this one cause (`NodeCauseKind`): `3 have too little memory`."""
    verb, have, they = ("is", "has", "it") if count == 1 else ("are", "have", "they")
    match cause:
        case "room":
            return f"{count:,} {have} room now"
        case "insufficient":
            return f"{count:,} {have} too little {resource(detail)}"
        case "too_small":
            return f"{count:,} would have too little {resource(detail)} even if {they} were empty"
        case "reserved":
            return f"{count:,} {have} room only for others, for which it is reserved"
        case "state":
            return f"{count:,} {verb} {detail}"
        case "constraint":
            return f"{count:,} {verb} ruled out: {detail or 'its placement constraint'}"
        case "not_required":
            return f"{count:,} {verb} not the required node"
        case "refused":
            return f"{count:,} {verb} refused by its resource manager"
    return f"the required node {detail} is not registered"


def considered(nodes: int, counted: Sequence[str], others: int = 0) -> str:
    """Each node once, by its cause; `others` for causes that are not named."""
    if not nodes:
        return NO_NODES
    more = [f"{others:,} for other reasons"] if others else []
    return f"{nodes:,} {'node is' if nodes == 1 else 'nodes are'} considered, {', '.join([*counted, *more])}"


def refused(objections: Iterable[tuple[str, int, str]]) -> str:
    """The resource manager refuses the nodes: each reason, how often it was given, and the last node."""
    said = [
        f"{reason} (node {node})" if times == 1 else f"{reason} ({times} times, last node {node})"
        for reason, times, node in objections
    ]
    return "its resource manager refuses every node that has room" + (f": {'; '.join(said)}" if said else "")


def predicate(node_id: str = "", since: str = "") -> str:
    """An answer about a node is awaited."""
    asked = f", asked {since} ago" if since else ""
    return f"it waits for the answer of its resource manager about {f'node {node_id}' if node_id else 'a node'}{asked}"


def lacks(missing: Mapping[str, int]) -> str:
    """`2 cpu and 1Gi memory`."""
    return listed([amount(name, value) for name, value in missing.items()])


def largest(resources: Mapping[str, int]) -> str:
    """No node is large enough in all resources."""
    return f"no node is large enough, even if it were empty: the largest have {amounts(resources)}"
