"""The reason why a gang timed out, as a sentence for people (SEMANTICS I16)."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from schedulerd.amounts import amounts, part_of
from schedulerd.core.language.lifecycles import GangState, ResourceManagerState
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.language.task_groups import DeclaredGroup
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.gang import Gang, TaskGroup
from schedulerd.core.state.nodes.own_room import domain_fits
from schedulerd.core.state.partition import Partition
from schedulerd.core.views.explanation import Explanation
from schedulerd.core.views.gang_progress import gang_progress
from schedulerd.core.views.state_query import StateQuery
from schedulerd.sentences.gangs import forming

GANG_TIMEOUT = "ResourceReservationTimeout"
"""Prefix of the sentence, by which an RM can recognize this reason."""
BELOW_MIN = "GangBelowMin"
"""As `GANG_TIMEOUT`, for a gang that was complete and has lost members."""
TASK_GROUPS_SAID_MAX = 3
"""Maximum number of task groups that are named; the others are counted."""
NODES_LOOKED_AT_MAX = 1_000
"""Maximum number of nodes considered for the reason why there is no room."""


def timed_out(partition: Partition, application: Application, after_ns: int) -> str:
    """Which task groups lack how many placeholders, or room for how many members, after `after_ns`, the timeout of the
    gang, and why.

    Call this before the pending placeholders are withdrawn.
    """
    gang = application.gang
    assert gang is not None
    after = f"{GANG_TIMEOUT}: after {after_ns / SECOND_NS:g} s"
    if gang.state is GangState.FORMING:
        progress = gang_progress(application)
        return f"{after} {forming(progress.asked, progress.wanted, progress.task_group, progress.lacks)}"
    held = Counter(one.spec.task_group for one in application.allocations.values() if one.placeholder)
    lacking = [group for group in gang.task_groups.values() if held[group.name] < _wanted(gang, group)]
    if not lacking:
        return f"{after} {_not_asked_for(application, gang)}"
    said = "; ".join(
        _group(partition, application, group, held[group.name]) for group in lacking[:TASK_GROUPS_SAID_MAX]
    )
    more = len(lacking) - TASK_GROUPS_SAID_MAX
    what = "room" if gang.declared else "placeholders"
    return f"{after} {said}" + (f"; and {more} more task groups lack {what}" if more > 0 else "")


def _wanted(gang: Gang, group: TaskGroup) -> int:
    declared = gang.declared.get(group.name)
    return group.wanted if declared is None else declared.min


def _group(partition: Partition, application: Application, group: TaskGroup, held: int) -> str:
    assert application.gang is not None
    wanted = _wanted(application.gang, group)
    has = f"task group {group.name} has {held} of {wanted} placeholders"
    if application.declares_gang:
        has = f"task group {group.name} has room for {held} of {wanted} members"
    pending = [one for one in application.groups.values() if one.placeholder and one.task_group == group.name]
    ask = next((ask for one in pending for ask in islice(one, 1)), None)
    if ask is None:
        return f"{has}: the others are gone, and were not asked for again"
    look = StateQuery(limit=NODES_LOOKED_AT_MAX)
    why = Explanation(partition, ResourceManagerState.RUNNING, look).waiting(application, ask)
    needs = amounts(dict(ask.request_class.items))
    return f"{has}: the next one needs {needs}" + (f": {why}" if why else ", and its turn did not come")


def below_min(partition: Partition, application: Application, after_ns: int) -> str:
    """Which task groups have had how many of the members that they need for `after_ns`, and which of them have a domain
    that cannot hold the others."""
    gang = application.gang
    assert gang is not None
    short = [one for one in gang.declared.values() if gang.lacking(one) > 0]
    said = "; ".join(_below_min(partition, application, gang, one) for one in short[:TASK_GROUPS_SAID_MAX])
    more = len(short) - TASK_GROUPS_SAID_MAX
    rest = f"; and {more} more task groups lack members" if more > 0 else ""
    return f"for {after_ns / SECOND_NS:g} s {said}{rest}"


def _below_min(partition: Partition, application: Application, gang: Gang, group: DeclaredGroup) -> str:
    has = f"task group {group.name} has had {group.min - gang.lacking(group)} of the {group.min} members that it needs"
    if group.name not in gang.domains or domain_fits(partition, application, group.name):
        return has
    return f"{has}, and the {group.required_topology} that it has to be in can no longer hold them"


def _not_asked_for(application: Application, gang: Gang) -> str:
    """All placeholders that were asked for are allocated, but they are less than the `placeholderAsk`."""
    short = gang.still_to_come(application.gang_total)
    held = ", ".join(part_of(name, gang.held[name], gang.held[name] + short[name]) for name in short)
    return f"all placeholders that were asked for are placed, but they are less than placeholderAsk: {held}"
