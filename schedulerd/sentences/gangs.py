"""Gangs whose members wait for each other."""

from __future__ import annotations

from collections.abc import Mapping

from schedulerd.amounts import amounts

NOT_COMPLETE = "gang: not all of it has room yet"


def progress(
    placed: int, wanted: int, needs: Mapping[str, int], state: str, rule: str, *, is_restricted: bool = False
) -> str:
    """How many have room, what the next one needs, and why it waits: its pending state, and the `rule` that blocks it.
    `is_restricted`: it may not use every node."""
    said = f"{placed:,} of {wanted:,} have room"
    if not needs:
        return said
    said += f"; the next needs {amounts(needs)}"
    if rule:
        return f"{said}: {rule}"
    if state == "unschedulable":
        return f"{said}, and no node{' that it may use' if is_restricted else ''} has it"
    return f"{said}, and waits for its turn" if state == "ready" else said


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
