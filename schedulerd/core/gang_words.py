"""Why a gang is given up, as a sentence for people (SEMANTICS I16)."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from schedulerd.core.explanation import Explanation
from schedulerd.core.lifecycles import ResourceManagerState
from schedulerd.core.model.application import Application
from schedulerd.core.model.gang import Gang, TaskGroup
from schedulerd.core.specs import SECOND_NS
from schedulerd.core.state_query import StateQuery

GANG_TIMEOUT = "ResourceReservationTimeout"
"""How the sentence begins, so that a resource manager can tell this reason from others."""
TASK_GROUPS_SAID_MAX = 3
"""Task groups that are named; of the others only the number is said."""
NODES_LOOKED_AT_MAX = 1_000
"""Nodes that are asked why they have no room."""


def timed_out(application: Application, after_ns: int) -> str:
    """Which task groups lack how many of how many placeholders after this time, and for want of what.

    To be asked before the pending placeholders are withdrawn; `after_ns` is the time that the gang had.
    """
    gang = application.gang
    assert gang is not None
    held = Counter(one.spec.task_group for one in application.allocations.values() if one.placeholder)
    lacking = [group for group in gang.task_groups.values() if held[group.name] < group.wanted]
    after = f"{GANG_TIMEOUT}: after {after_ns / SECOND_NS:g} s"
    if not lacking:
        return f"{after} {_not_asked_for(application, gang)}"
    said = "; ".join(_group(application, group, held[group.name]) for group in lacking[:TASK_GROUPS_SAID_MAX])
    more = len(lacking) - TASK_GROUPS_SAID_MAX
    return f"{after} {said}" + (f"; and {more} more task groups lack placeholders" if more > 0 else "")


def _group(application: Application, group: TaskGroup, held: int) -> str:
    has = f"task group {group.name} has {held} of {group.wanted} placeholders"
    pending = [one for one in application.groups.values() if one.placeholder and one.task_group == group.name]
    ask = next((ask for one in pending for ask in islice(one, 1)), None)
    if ask is None:
        return f"{has}: the others are gone, and were not asked for again"
    look = StateQuery(limit=NODES_LOOKED_AT_MAX)
    why = Explanation(application.partition, ResourceManagerState.RUNNING, look).waiting(application, ask)
    size = ", ".join(f"{name} {amount}" for name, amount in ask.request_class.items)
    return f"{has}: the next one wants {size}" + (f", {why}" if why else ", and its turn did not come")


def _not_asked_for(application: Application, gang: Gang) -> str:
    """All that was asked for is there: so less was asked for than was announced."""
    short = gang.still_to_come(application.spec.placeholder_ask)
    amounts = ", ".join(f"{name} {gang.held[name]} of {gang.held[name] + short[name]}" for name in short)
    return f"all placeholders that were asked for are placed, but they are less than placeholderAsk: {amounts}"
