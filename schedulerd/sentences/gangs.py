"""Gangs whose members wait for each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from schedulerd.amounts import amounts
from schedulerd.sentences.words import many

NOT_COMPLETE = "gang: not all of it has room yet"
FULL = "its task group has as many members as it may have"


class Progress(Protocol):
    """How far a gang is: the members or placeholders that have room, of those that it needs, and what the next one
    waits for. `gang_state` and what follows are of a gang that declares its task groups; '' else."""

    @property
    def placed(self) -> int: ...
    @property
    def wanted(self) -> int: ...
    @property
    def needs(self) -> Mapping[str, int]: ...
    @property
    def needs_state(self) -> str: ...
    @property
    def is_restricted(self) -> bool: ...
    @property
    def gang_state(self) -> str: ...
    @property
    def is_requeued(self) -> bool: ...
    @property
    def asked(self) -> int: ...
    @property
    def task_group(self) -> str: ...
    @property
    def lacks(self) -> int: ...
    @property
    def level(self) -> str: ...
    @property
    def domain(self) -> str: ...


def progress(found: Progress, rule: str, gathers_in: str = "", nearest: str = "") -> str:
    """How far the gang is, and what holds it back. `rule` blocks the next one; `gathers_in`: until it is tried again,
    after its time was over; `nearest`: the node that lacks least for the next one, with what it has free."""
    match found.gang_state:
        case "forming" if found.is_requeued:
            return requeued(gathers_in)
        case "forming":
            return forming(found.asked, found.wanted, found.task_group, found.lacks)
        case "gathering" if found.level and not found.domain and not rule:
            return no_domain(found)
        case "complete":
            return FULL
        case "short":
            return short(found.task_group, found.lacks)
    return gathering(found, rule, nearest)


def gathering(found: Progress, rule: str, nearest: str = "") -> str:
    """How many have room, what the next one needs, and why it waits: a rule, or no node that it may use has room."""
    said = have_room(found.placed, found.wanted)
    if not found.needs:
        return said
    said += f"; the next needs {amounts(found.needs)}{f' in {found.level} {found.domain}' if found.domain else ''}"
    if rule:
        return f"{said}: {rule}"
    if found.needs_state == "unschedulable":
        if nearest:
            return f"{said}, where {nearest}" if found.domain else f"{said}, and {nearest}"
        where = " there" if found.domain else " that it may use" if found.is_restricted else ""
        return f"{said}, and no node{where} has it{' left' if found.gang_state else ''}"
    if found.needs_state == "predicate_failed":
        return f"{said}, and its resource manager refuses every node that has it"
    return f"{said}, and waits for its turn" if found.needs_state == "ready" else said


def have_room(placed: int, wanted: int) -> str:
    """How many members or placeholders have room, of those that the gang needs."""
    return f"{placed:,} of {wanted:,} have room"


def no_domain(found: Progress) -> str:
    """A task group has to be in one domain of a topology level, and no domain is chosen."""
    all_of_it = f"all {found.lacks:,} of" if found.lacks > 1 else "the one of"
    said = have_room(found.placed, found.wanted)
    return f"{said}; no {found.level} has room for {all_of_it} task group {found.task_group} together"


def state(found: Progress, said: str) -> str:
    """The state of a gang that declares its task groups; `said`: its `progress`."""
    match found.gang_state:
        case "complete":
            return "its gang is complete"
        case "given up":
            return "its gang was given up, and its members are placed one by one"
    return f"its gang is {found.gang_state}: {said}"


def members(
    name: str, counts: tuple[int, int, int], least: int, most: int | None, level: str, domain: str, *, required: bool
) -> str:
    """A task group: how many are asked for, held and allocated, what it needs, and where."""
    asked, held, allocated = counts
    needs = wanted(least, most, level, domain, required=required)
    return f"task group {name}: {asked:,} asked for, {held:,} held, {allocated:,} allocated; {needs}"


def wanted(least: int, most: int | None, level: str, domain: str, *, required: bool) -> str:
    """What a task group needs, and where."""
    said = f"it needs {least:,}" + (f", and has {most:,} at most" if most is not None else "")
    if domain:
        return f"{said}, in {level} {domain}"
    return f"{said}, in one {level}{'' if required else ' if that has room'}" if level else said


def forming(asked: int, needed: int, task_group: str = "", lacks: int = 0) -> str:
    """Members that the gang needs are not asked for."""
    said = f"{asked:,} of {needed:,} members are asked for"
    return f"{said}; task group {task_group} needs {lacks:,} more" if task_group else said


def requeued(left: str) -> str:
    """Its time was over before it was complete; `left`: until it is tried again, '' if that is not told."""
    return f"its time was over before all of it had room, and it gathers again {f'in {left}' if left else 'later'}"


def short(task_group: str, lacks: int) -> str:
    """It was complete, and members are gone and asked for again."""
    return f"task group {task_group} has {many(lacks, 'member')} less than it needs"


def of_it(said: str) -> str:
    """The gang of a pod."""
    return f"its gang: {said}"


def own(said: str, left: str = "") -> str:
    """The gang of the ask itself: what `progress` says, and the time that is left."""
    return f"gang: {said}" + (f". Given up in {left}" if left else "")


def earlier(application: str, said: str = "", left: str = "") -> str:
    """Another gang that came earlier is placed first."""
    first = f"the gang of application {application} came earlier and is placed first"
    return (f"{first}: {said}" if said else first) + (f". Given up in {left}" if left else "")


def placeholder(node: str = "") -> str:
    """A placeholder is being released for the ask."""
    where = f" on node {node}" if node else ""
    return f"it gets the room of a placeholder{where}, which is being released"
