"""How far a gang is, and what its next placeholder or slot waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from schedulerd.core.language.lifecycles import GangState
from schedulerd.core.language.task_groups import DeclaredGroup
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.gang import Gang
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.rules.states import class_state
from schedulerd.core.state.quotas.rules import Blocked


class GangProgress(NamedTuple):
    placed: int
    """Placeholders allocated so far; of a gang that declares its task groups, members that have room, or that had room
    when all of them were tried together."""
    wanted: int
    """Placeholders, or members that the gang needs."""
    needs: Mapping[str, int]
    """What the next placeholder or slot asks for; empty if none is pending."""
    needs_state: str
    """The pending state of that one, apart from its gang; '' if none is pending."""
    needs_rule: Blocked | None
    """The quota or limit that blocks it."""
    is_restricted: bool
    """Whether it may not run on every node."""
    gang_state: str = ""
    """A value of `GangState`. This and the rest are of a gang that declares its task groups."""
    asked: int = 0
    """Members that are asked for or allocated, of those that it needs."""
    task_group: str = ""
    """The task group of the next slot, or the first one of which too few members are asked for, or that is short; ''
    if there is none."""
    lacks: int = 0
    """How many members of that task group lack room, or are not asked for, or are not allocated."""
    level: str = ""
    """The topology level that the task group requires."""
    domain: str = ""
    """The domain of that level in which its slots are held; '' if none is chosen."""
    gathers_ns: int | None = None
    """When it gathers again, as its time was over."""

    @property
    def is_requeued(self) -> bool:
        return self.gathers_ns is not None


def gang_progress(application: Application) -> GangProgress:
    """Of an application with a gang. The cost is that of its task groups and ask groups."""
    gang = application.gang
    if gang is not None and gang.state is not None:
        return _declared(application, gang, gang.state)
    groups = gang.task_groups.values() if gang is not None else ()
    placed, wanted = sum(one.placed for one in groups), sum(one.wanted for one in groups)
    group = next((one for one in application.groups.values() if one.placeholder and one.pending), None)
    found = GangProgress(placed, wanted, {}, "", None, is_restricted=False)
    return found if group is None else _with_next(found, application, group)


def _with_next(found: GangProgress, application: Application, group: AskGroup) -> GangProgress:
    state, cause = class_state(application.queue, group.pending_class)
    request_class = group.pending_class.request_class
    return found._replace(
        needs=dict(request_class.items),
        needs_state=state.value,
        needs_rule=cause if isinstance(cause, Blocked) else None,
        is_restricted=request_class.constraint is not None or bool(request_class.required_node),
    )


def _declared(application: Application, gang: Gang, state: GangState) -> GangProgress:
    asked = {name: asked_of(gang, name) for name in gang.declared}
    needed = sum(group.min for group in gang.declared.values())
    found = GangProgress(
        0 if state is GangState.FORMING else needed - _without_room(gang),
        needed,
        {},
        "",
        None,
        is_restricted=False,
        gang_state=state.value,
        asked=sum(min(asked[name], group.min) for name, group in gang.declared.items()),
        gathers_ns=gang.times.requeue_alarm.deadline_ns if gang.times.requeue_alarm is not None else None,
    )
    slots = next(iter(gang.slot_groups), None)
    if slots is not None:
        group = gang.declared[slots.task_group]
        level, domain = domain_of(gang, group)
        lacks = sum(one.pending for one in gang.slot_groups if one.task_group == group.name)
        return _with_next(
            found._replace(task_group=group.name, lacks=lacks, level=level, domain=domain), application, slots
        )
    for name, group in gang.declared.items():
        task_group = gang.task_groups.get(name)
        here = task_group.members + task_group.idle if task_group is not None else 0
        lacks = 0
        if state is GangState.FORMING and group.resources is None:
            lacks = group.min - asked[name]
        elif state is GangState.SHORT and asked[name] > here:
            lacks = group.min - here
        if lacks > 0:
            return found._replace(task_group=name, lacks=lacks)
    return found


def _without_room(gang: Gang) -> int:
    """How many of the members that the gang needs have no room; while it is tried as a whole, had none then."""
    if gang.pending:
        return gang.pending - gang.gathering.found_room
    groups = ((group.min, gang.task_groups.get(name)) for name, group in gang.declared.items())
    return sum(max(0, least - (one.members + one.idle if one is not None else 0)) for least, one in groups)


def asked_of(gang: Gang, name: str) -> int:
    """How many members of the task group are asked for or allocated."""
    known = gang.task_groups.get(name)
    return known.members + sum(group.pending for group in known.waiting) if known is not None else 0


def domain_of(gang: Gang, group: DeclaredGroup) -> tuple[str, str]:
    """The topology level that the task group requires, and the domain that was chosen; each '' without one."""
    chosen = gang.domains.get(group.name)
    return group.required_topology, chosen.node[-1].values[0] if chosen is not None else ""
