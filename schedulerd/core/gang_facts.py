"""What can be said about gangs as a whole.

What becomes of each placeholder is said by the facts about asks and allocations. These are part of `Fact` too, and have
a module of their own because no count of asks, allocations or resources depends on them.
"""

from __future__ import annotations

from dataclasses import dataclass

from schedulerd.core.lifecycles import ApplicationState


@dataclass(slots=True)
class GangCompleted:
    """The last placeholder that an application lacked was placed, and it has the whole of its `placeholderAsk`.

    Said once of an application at most: not after its placeholders timed out, nor if some of them came with their node,
    as nobody knows then when the first was asked for, nor again for placeholders that it asks for later.
    """

    rm_id: str
    partition: str
    queue: str
    application_id: str
    placeholders: int
    """How many it has."""
    waited_ns: int
    """Since it asked for the first of them."""


@dataclass(slots=True)
class GangTimedOut:
    """The time for a gang is over: the RM is asked to release the placeholders that are left, and gets no more."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    state: ApplicationState
    """What it is now: Failing or Resuming if it waited for its gang; else it goes on with what it has."""
    wanted: int
    """Placeholders it asked for and did not take back; all counts are over its task groups."""
    placed: int
    """Of them, so far, whether they are still there or not."""
    replaced: int
    timed_out: int
    """Not replaced, and not on their way out for another reason: to be released now, or never placed."""


@dataclass(slots=True)
class SwapRefused:
    """A real ask does not fit in any placeholder of its task group, and goes on as an ordinary one (SEMANTICS G4)."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    allocation_key: str
    task_group: str
    placeholders: int
    """How many the RM is asked to release for that, as it has no use for them."""
    reason: str
    """What the ask wants and what the placeholder has."""


@dataclass(slots=True)
class GangGaveWay:
    """An incomplete gang gives its placeholders back, so that an earlier one can be complete; it starts anew later."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    placeholders: int
    """How many it is asked to release."""
    in_favour_of: str
    """The application whose gang they make room for."""
