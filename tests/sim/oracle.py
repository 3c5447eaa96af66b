"""The slow and obvious way to tell whether an ask could be placed, to hold the fast way against.

It looks at every ask, node and quota. Where over-commit makes the answer a matter of taste (a negative amount that the
ask does not mention), it stays silent.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedulerd.core.facts import Allocated, Fact
from schedulerd.core.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.views import Amounts, AskView, PartitionView, ResourceManagerView

PLACEABLE_STATES = {ApplicationState.ACCEPTED, ApplicationState.STARTING, ApplicationState.RUNNING}


def overlooked(state: Iterable[ResourceManagerView]) -> list[str]:
    """Asks that could be placed now: there must be none while the scheduler wants no cycle."""
    found = []
    for rm in state:
        if rm.state == ResourceManagerState.RUNNING:
            for partition in rm.partitions:
                found += _overlooked(partition)
    return found


def misplaced(state: Iterable[ResourceManagerView], facts: Iterable[Fact]) -> list[str]:
    """Placements of one step that a node or a quota had no room for; `state` is the one after the step."""
    partitions = {(rm.rm_id, partition.name): partition for rm in state for partition in rm.partitions}
    found = []
    for fact in facts:
        if isinstance(fact, Allocated) and not fact.recovered:
            found += _misplaced(partitions[fact.rm_id, fact.partition], fact)
    return found


def _overlooked(partition: PartitionView) -> list[str]:
    queues = {queue.path: queue for queue in partition.queues}
    found = []
    for item in partition.applications:
        if item.state not in PLACEABLE_STATES:
            continue
        headroom = queues[item.queue].headroom
        for ask in item.asks:
            if not _within(ask.resources, headroom) or _is_limited(ask):
                continue
            for node in partition.nodes:
                if node.schedulable and node.ready and _fits(ask.resources, node.available):
                    where = f"[{partition.rm_id}]{partition.name}"
                    found.append(f"{where}: {item.application_id}|{ask.allocation_key} fits {node.node_id} and sleeps")
                    break
    return found


def _is_limited(ask: AskView) -> bool:
    """Whether a limit on users, groups or running applications holds it: that the limit does is for the invariants."""
    return ask.waiting_for.startswith("limit of") or "maxapplications" in ask.waiting_for


def _within(size: Amounts, headroom: Amounts) -> bool:
    return all(left >= 0 for left in headroom.values()) and all(
        amount <= headroom.get(name, amount) for name, amount in size.items()
    )


def _fits(size: Amounts, available: Amounts) -> bool:
    return all(left >= 0 for left in available.values()) and all(
        amount <= available.get(name, 0) for name, amount in size.items()
    )


def _misplaced(partition: PartitionView, fact: Allocated) -> list[str]:
    found = []
    node = next((node for node in partition.nodes if node.node_id == fact.node_id), None)
    if node is None or not node.schedulable or not node.ready:
        found.append(f"{fact.uuid} is placed on {fact.node_id}, which takes nothing new")
    else:
        found += [f"{fact.uuid} over-commits {name} of {node.node_id}" for name in _negative(fact, node.available)]
    for queue in partition.queues:
        if f"{fact.queue}.".startswith(f"{queue.path}."):
            left = {name: limit - queue.allocated.get(name, 0) for name, limit in queue.max.items()}
            found += [f"{fact.uuid} is over the {name} of {queue.path}" for name in _negative(fact, left)]
    return found


def _negative(fact: Allocated, left: Amounts) -> list[str]:
    return [name for name, amount in fact.resources.items() if amount and left.get(name, 0) < 0]
