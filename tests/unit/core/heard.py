"""What a resource manager is told of the facts of one step, read back from the bytes of its responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts.fact import Fact
from schedulerd.instant import Instant
from schedulerd.wire.dialect import Stream
from schedulerd.wire.encode import ResponseEncoder


def responses(facts: Sequence[Fact]) -> dict[Stream, Any]:
    """The response on each stream; facts that make more than one on a stream are no single update."""
    encoder = ResponseEncoder()
    encoder.add(facts, Instant(0, 0))
    kinds: dict[Stream, Any] = {
        Stream.ALLOCATION: si_pb2.AllocationResponse,
        Stream.APPLICATION: si_pb2.ApplicationResponse,
        Stream.NODE: si_pb2.NodeResponse,
    }
    found: dict[Stream, Any] = {}
    for one in encoder.drain():
        assert one.stream not in found
        found[one.stream] = kinds[one.stream].FromString(one.payload)
    return found


def updated(facts: Sequence[Fact]) -> list[tuple[str, str, int, str]]:
    """(application, state, time, message) of each UpdatedApplication, in order."""
    response = responses(facts).get(Stream.APPLICATION)
    if response is None:
        return []
    return [(one.applicationID, one.state, one.stateTransitionTimestamp, one.message) for one in response.updated]


def released(facts: Sequence[Fact]) -> list[tuple[str, str]]:
    """(key, termination) of each AllocationRelease, in order: those to confirm, and confirmations."""
    response = responses(facts).get(Stream.ALLOCATION)
    return [] if response is None else [_named(one) for one in response.released]


def released_asks(facts: Sequence[Fact]) -> list[tuple[str, str]]:
    """(key, termination) of each AllocationAskRelease, in order."""
    response = responses(facts).get(Stream.ALLOCATION)
    return [] if response is None else [_named(one) for one in response.releasedAsks]


def allocated(facts: Sequence[Fact]) -> list[tuple[str, str, bool]]:
    """(key, node, placeholder) of each new Allocation, in order."""
    response = responses(facts).get(Stream.ALLOCATION)
    return [] if response is None else [(one.allocationKey, one.nodeID, one.placeholder) for one in response.new]


def _named(item: Any) -> tuple[str, str]:
    return item.allocationKey, TerminationType(item.terminationType).name
