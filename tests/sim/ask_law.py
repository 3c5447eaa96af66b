"""No more is ever pending of an ask than it asks for and does not have, however often it comes (SEMANTICS E1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from schedulerd.core.commands import Command, UpdateAllocations
from schedulerd.core.facts import AskAdded, Fact
from schedulerd.core.views import ResourceManagerView
from tests.sim.rm_memory import plain_name

Name = tuple[str, str, str, str]
"""Resource manager, partition, application and key."""


class AskLaw:
    """Judges the steps of one history in their order."""

    def __init__(self) -> None:
        self._before: Sequence[ResourceManagerView] = ()

    def after(self, command: Command, facts: Sequence[Fact], state: Sequence[ResourceManagerView]) -> Iterator[str]:
        """Of what too much is pending, as sentences; `state` is the one after the step."""
        if isinstance(command, UpdateAllocations):
            wanted: dict[Name, int] = {}
            held: Counter[Name] | None = None
            for ask in command.asks:
                name = command.rm_id, plain_name(ask.partition), ask.application_id, ask.allocation_key
                wanted[name] = max(ask.max_allocations, wanted.get(name, 0))
            for fact in facts:
                if isinstance(fact, AskAdded) and not fact.was_parked:
                    name = fact.rm_id, fact.partition, fact.application_id, fact.allocation_key
                    held = held if held is not None else _held(self._before)
                    if fact.count + held[name] > wanted.get(name, fact.count + held[name]):
                        yield f"{fact.count} of {name} are pending and {held[name]} there, of {wanted[name]}"
        self._before = state


def _held(state: Sequence[ResourceManagerView]) -> Counter[Name]:
    """How many allocations of each ask there are."""
    return Counter(
        (rm.rm_id, partition.name, one.application_id, one.allocation_key)
        for rm in state
        for partition in rm.partitions
        for node in partition.nodes
        for one in node.allocations
    )
