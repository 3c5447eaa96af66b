"""The cluster grows for whatever lacks room, and nobody disturbs that: then nothing lacks room any longer.

What nobody can serve is left out: a gang some members of which are not asked for, as an autoscaler sees asks and no
slots; and asks that no new node is large enough for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from schedulerd.core.language.commands import Command, ConnectCallbacks, RingAlarms, UpdateAllocations, UpdateNodes
from schedulerd.core.language.lifecycles import GangState
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.state.model.application import Application
from schedulerd.core.views.gang_progress import asked_of
from tests.sim.autoscaler import Autoscaler
from tests.sim.calm import confirmed, cycles, known_of
from tests.sim.observations import Observations
from tests.sim.rm_memory import ResourceManagerMemory

LOOKS_MAX = 30
"""More than enough for all that is asked for, as each makes room for all of it."""
LOOK_NS = 25 * SECOND_NS
"""Longer than it takes until a state is told."""


def growing(
    scheduler: Scheduler,
    memories: Mapping[str, ResourceManagerMemory],
    autoscalers: Mapping[str, Autoscaler],
    seen: Observations,
    now_ns: int,
) -> Iterator[tuple[int, Command]]:
    known = known_of(memories)
    for memory in known:
        yield now_ns, ConnectCallbacks(memory.rm_id, scheduling_states=True)
    for _ in range(LOOKS_MAX):
        yield from _passing(scheduler, known, now_ns, now_ns + LOOK_NS)
        now_ns += LOOK_NS
        is_grown = False
        for memory in known:
            added = list(autoscalers[memory.rm_id].look())
            is_grown |= bool(added)
            gangs = {one for (_, one, _) in autoscalers[memory.rm_id].unschedulable if one.startswith("declared")}
            seen["cluster grown for a gang"] += bool(added and gangs)
            yield now_ns, UpdateNodes(memory.rm_id, added)
        if not is_grown:
            return


def _passing(
    scheduler: Scheduler, known: list[ResourceManagerMemory], now_ns: int, end_ns: int
) -> Iterator[tuple[int, Command]]:
    """So much time goes by; resource managers confirm what they are asked for."""
    while True:
        for memory in known:
            yield now_ns, UpdateAllocations(memory.rm_id, releases=confirmed(memory))
        yield from cycles(scheduler, now_ns)
        deadline_ns = scheduler.next_deadline_ns()
        if any(memory.to_confirm for memory in known):
            continue
        now_ns = max(now_ns, min(deadline_ns or end_ns, end_ns))
        yield now_ns, RingAlarms()
        if now_ns >= end_ns and not scheduler.wants_cycle():
            return


def unserved(scheduler: Scheduler, autoscalers: Mapping[str, Autoscaler]) -> list[str]:
    found = []
    for partition in scheduler.cluster.partitions():
        wanted = autoscalers[partition.rm_id].wanted()
        for application in partition.applications.values():
            sizes = wanted.get((partition.name, application.application_id))
            if sizes and _is_whole(application):
                found.append(f"{application.application_id} lacks room for {dict(sizes)}, whatever nodes are added")
    return found


def _is_whole(application: Application) -> bool:
    """Whether all that it waits for is asked for."""
    gang = application.gang
    if gang is None or gang.state is not GangState.GATHERING:
        return True
    return all(asked_of(gang, name) >= group.min for name, group in gang.declared.items())
