"""Room that is kept for an ask, and others that are preempted for it."""

from __future__ import annotations

from collections.abc import Mapping

from schedulerd.amounts import amount, part_of, resource
from schedulerd.sentences.nodes import lacks
from schedulerd.sentences.words import many, sentence

OFF = "preemption is off in this partition"
NOT_ALLOWED = "it may not preempt others (allowPreemptOther is false)"
NO_GUARANTEE = "its queues have no guarantee"
NO_GUARANTEE_OF_THIS = "its queues have no guarantee of what it asks for"

NOT_ENTITLED = "none of its queues, up to a fence or a max that is reached, is guaranteed what it asks for"
NO_VICTIMS = "no queue that it may take from uses more than it is guaranteed"


def no_guarantee(*, of_others: bool) -> str:
    """No queue of the ask is guaranteed what it asks for; `of_others`: but other resources."""
    return NO_GUARANTEE_OF_THIS if of_others else NO_GUARANTEE


def none(why: str, name: str = "it") -> str:
    """Nothing is preempted for the ask; `name` is its name."""
    for_ever = why in (NO_GUARANTEE, NO_GUARANTEE_OF_THIS)
    return f"nothing {'will be' if for_ever else 'is'} preempted for {name}: {why}"


def too_young(left: str = "") -> str:
    """The first attempt is made after `preemption.delay`."""
    return "it has not waited for preemption.delay yet" + (f", which ends in {left}" if left else "")


def below_guarantee(queue: str, name: str, used: int, guaranteed: int) -> str:
    """What entitles the ask to victims in other queues."""
    return f"queue {queue} is below its guarantee ({part_of(name, used, guaranteed)})"


def above_guarantee(queue: str, name: str, used: int, guaranteed: int) -> str:
    """Why the ask has no right to victims: `used` with it."""
    return f"queue {queue} would use {part_of(name, used, guaranteed)} guaranteed"


def protected(queue: str, name: str, above: int) -> str:
    """Why nothing is taken from a queue: it uses so much more than its guarantee."""
    if above > 0:
        return f"queue {queue} is only {amount(name, above)} above its guarantee"
    return f"queue {queue} is {'at' if above == 0 else 'below'} its guarantee of {resource(name)}"


def priority(queue: str, own: int) -> str:
    """What entitles it to victims in its own queue."""
    return f"its priority {own} is above theirs in queue {queue} (preemption.within-queue)"


def only_there(node: str) -> str:
    """What entitles it to victims on the node that it requires."""
    return f"it may run on node {node} only"


def victim(name: str, why: str) -> str:
    """Why an allocation is preempted, as a sentence; `name` is that of the ask that gets its room."""
    return sentence(f"preempted for {name}: {why}")


def victims(count: int, node: str, why: str) -> str:
    """The same, of the ask that gets the room."""
    return f"{many(count, 'allocation')} on node {node} {'is' if count == 1 else 'are'} preempted for it: {why}"


KEPT = "room of a node is kept for it"
"""Of many asks, with nodes of their own."""


def kept(node: str, since: str = "", *, victims: int = 0) -> str:
    """Room of a node is reserved for the ask. `victims` are preempted allocations that are still there."""
    said = f"{node} is kept for it" + (f" since {since}" if since else "")
    if not victims:
        return said
    return f"{said}, where {many(victims, 'preempted allocation')} {'has' if victims == 1 else 'have'} to end first"


def kept_no_longer(node: str, end: str) -> str:
    """A reservation has ended, for this reason (`ReservationEnd`)."""
    return f"{node} is no longer kept for it: {end.replace('_', ' ')}"


def still_lacks(missing: Mapping[str, int]) -> str:
    """What has to be freed before that room is there."""
    return f"{lacks(missing)} must still be freed; nobody knows when"
