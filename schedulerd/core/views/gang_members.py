"""The task groups that an application declares, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from schedulerd.core.state.model.application import Application
from schedulerd.core.views.gang_progress import domain_of


@dataclass(frozen=True, slots=True)
class TaskGroupMembers:
    """A task group of a gang that declares its task groups. All counts are members."""

    name: str
    min: int
    """How many the gang needs before any of them is allocated."""
    max: int | None
    """How many may be allocated at a time; None: any number."""
    asked: int
    """Asked for and not allocated."""
    held: int
    """For which room is held on nodes, whether they are asked for or not."""
    allocated: int
    level: str
    """The level of the topology of which one domain has, or should have, all of them; '' for none."""
    required: bool
    """Whether all of them have to be in one domain of the level, and not only should be."""
    domain: str
    """The domain in which they have to be; '' if none is chosen yet."""


def members_of(application: Application) -> list[TaskGroupMembers]:
    """Empty if the application declares no task groups."""
    gang = application.gang
    if gang is None:
        return []
    found = []
    for name, group in gang.declared.items():
        known = gang.task_groups.get(name)
        found.append(
            TaskGroupMembers(
                name=name,
                min=group.min,
                max=group.max,
                asked=sum(one.pending for one in known.waiting) if known is not None else 0,
                held=known.idle if known is not None else 0,
                allocated=known.members if known is not None else 0,
                level=group.level,
                required=bool(group.required_topology),
                domain=domain_of(gang, group)[1],
            )
        )
    return found
