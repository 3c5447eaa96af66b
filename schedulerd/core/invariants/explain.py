"""What must hold of explanations: they count what waits, by state, as a count of every ask does."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.explain.rules.reasons import Tallies
from schedulerd.core.state.pending.rules.states import PendingState, states_of
from schedulerd.core.state.step_context import ResourceManager


def explanations(rm: ResourceManager) -> Iterator[str]:
    """An explanation of the root queue counts all that waits but slots, though it visits neither asks nor most ask
    groups."""
    for partition in rm.partitions.values():
        counted = dict.fromkeys(PendingState, 0)
        applications: dict[PendingState, set[str]] = {state: set() for state in PendingState}
        for app in partition.applications.values():
            for ask in app.asks.values():
                for one in states_of(partition, rm.state, app, ask) if not ask.spec.slot else ():
                    counted[one.state] += one.allocations
                    applications[one.state].add(app.application_id)
        tallies = Tallies(rm, partition)
        for _ in tallies.count_queue(partition.root):
            pass
        found = tallies.by_state()
        if {state: number for state, (number, _) in found.items()} != {state: n for state, n in counted.items() if n}:
            yield f"{partition.wire_name}: an explanation of the root counts {found}, asks {counted}"
        for state, (_, number) in found.items():
            if number < len(applications[state]):
                there = len(applications[state])
                yield f"{partition.wire_name}: by an explanation {number} applications are {state}, there are {there}"
