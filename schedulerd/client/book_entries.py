"""What the books of a client have noted of nodes, applications, asks and allocations.

Messages are kept as bytes: they are small that way, and keep no larger message alive that they came in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client.unclaimed_entries import UnclaimedEntries


@dataclass(slots=True)
class Node:
    created: bytes
    accepted: bool = False
    draining: bool = False
    leaving: bool = False
    held: int = 0
    """Number of allocations on the node."""


@dataclass(slots=True)
class Ask:
    message: bytes
    wanted: int
    """Allocations still to come."""
    count: int = 1
    """`maxAllocations` as it was asked for last."""
    placed: int = 0
    """Number of allocations received, including those that are gone."""
    held: int = 0
    """Allocations that are there."""
    released: int = 0
    """Of these, those that the resource manager has released, and whose release is not confirmed."""
    before: bytes = b""
    """The message before this one, if an allocation was there when this one was sent; it holds if this is rejected."""
    sizes: bool = False
    """Whether its amounts are those of its allocation, if there is one only: they resize it."""
    opted_out: bool = False
    """Whether its allocations may not be preempted for others (`allowPreemptSelf: false`)."""
    is_anew: bool = False
    """It was sent behind releases of all its allocations, with which the scheduler forgets the ask before it."""


@dataclass(slots=True)
class Held:
    """An allocation that exists, or whose release is not confirmed yet."""

    message: bytes
    key: str
    node_id: str
    release: bytes = b""
    """The release that the resource manager sent; empty if none."""
    wanted_back: bool = False
    """The scheduler waits for the resource manager to confirm its end."""
    opted_out: bool = False
    """Whether it may not be preempted for others (`allowPreemptSelf: false` of its ask)."""
    found: bool = False
    """Whether it was reported with an update of its node, which may be rejected."""


@dataclass(slots=True)
class Application:
    added: bytes
    before: bytes = b""
    """What was sent before it was sent with other tags that may change; it holds if these are rejected."""
    accepted: bool = False
    reported: bytes = b""
    """As it was reported last to a scheduler that had lost the state."""
    leaving: bool = False
    removal_due: bool = False
    """It was reported again, and its removal was not."""
    asks: dict[str, Ask] = field(default_factory=dict)
    """By allocation key, as long as any of it is to come or there."""
    held: dict[str, Held] = field(default_factory=dict)
    """By UUID."""


@dataclass(slots=True)
class Entries:
    """Everything that is noted.

    Applications are told apart by their id alone, as in the scheduler's answers, which name no partition.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    applications: dict[str, Application] = field(default_factory=dict)
    unanswered: dict[str, int] = field(default_factory=dict)
    """By application id: how many submissions are not answered; only the answer to the last one counts."""

    unclaimed: UnclaimedEntries = field(default_factory=UnclaimedEntries)

    def allocations(self) -> Iterator[si_pb2.Allocation]:
        """The existing allocations."""
        yield from (one.allocation() for one in self.unclaimed)
        for application in self.applications.values():
            for held in application.held.values():
                yield as_it_is(application, held)

    def drop(self, application_id: str, uuid: str) -> None:
        """Notes that the allocation is gone, if it is known."""
        self.unclaimed.drop(application_id, uuid)
        application = self.applications.get(application_id)
        held = None if application is None else application.held.pop(uuid, None)
        if application is None or held is None:
            return
        ask = application.asks.get(held.key)
        if ask is not None:
            ask.held -= 1
            ask.released -= bool(held.release)
            ask.is_anew = ask.is_anew and ask.released > 0
            if not ask.held and not ask.wanted:
                del application.asks[held.key]
        if application.leaving and not application.held:
            del self.applications[application_id]
        node = self.nodes.get(held.node_id)
        if node is not None:
            node.held -= 1
            self.forget_node_if_left(held.node_id)

    def forget_node_if_left(self, node_id: str) -> None:
        node = self.nodes[node_id]
        if node.leaving and not node.held:
            del self.nodes[node_id]


def as_it_is(application: Application, held: Held) -> si_pb2.Allocation:
    """The allocation with the amounts that it was resized to, if it was."""
    allocation = si_pb2.Allocation.FromString(held.message)
    ask = application.asks[held.key]
    if ask.sizes and ask.held == 1 and not held.release:
        allocation.resourcePerAlloc.CopyFrom(si_pb2.AllocationAsk.FromString(ask.message).resourceAsk)
    return allocation
