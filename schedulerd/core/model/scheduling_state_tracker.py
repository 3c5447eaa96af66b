"""How far asks have come as their resource manager was told, and what is still to be looked at for that.

A resource manager has this only while it wants to hear of it. What holds for all asks of a pending class in a leaf is
found out for all of them at once (`Outlook`); only where that is not what it was, they are gone through one by one,
some in each step (`Scan`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from schedulerd.core.alarms import Alarm
from schedulerd.core.callback_facts import SchedulingState
from schedulerd.core.model.apart import emptied

if TYPE_CHECKING:
    from schedulerd.core.model.allocation import Ask
    from schedulerd.core.model.application import Application
    from schedulerd.core.model.ask_group import AskGroup
    from schedulerd.core.model.partition import Partition
    from schedulerd.core.model.queue import Queue
    from schedulerd.core.model.request_class import PendingClass

Place: TypeAlias = "tuple[Queue, PendingClass]"
"""Where equal asks wait: in which leaf, as which pending class."""
AskName: TypeAlias = tuple[str, str, str]
"""Partition, application, allocation key."""


class Told(NamedTuple):
    state: SchedulingState
    at: str
    """The path of the queue that lets it not in, if one does; another one is news as well."""
    at_ns: int

    def is_news(self, state: SchedulingState, at: str) -> bool:
        return (self.state, self.at) != (state, at)


class Outlook(NamedTuple):
    """What holds for the asks in one place."""

    at: str
    """The path of the queue whose rules let none of them in; '' if no node takes them."""
    counts: Mapping[Application | None, int]
    """Then, how many quotas and limits would let in: of each application, or (None) of all there."""
    joined: int
    """How often more of the pending class had come by then."""


class Scan:
    """The asks of one place, application by application, each with the asks that it has when its turn comes."""

    __slots__ = ("_applications", "_asks", "_groups", "left", "outlook", "partition", "place")

    def __init__(self, partition: Partition, place: Place, outlook: Outlook) -> None:
        self.partition = partition
        self.place = place
        self.outlook = outlook
        self.left = dict(outlook.counts)
        """How many of those that quotas would let in have not been met yet."""
        self._applications = deque(place[0].applications.values())
        self._groups: deque[tuple[Application, AskGroup]] = deque()
        self._asks: deque[Ask] = deque()

    @property
    def is_over(self) -> bool:
        return not self._asks and not self._groups and not self._applications

    def next(self) -> tuple[Application, Ask] | None:
        """Looks at one thing more; gives the ask it came to, if it still waits there."""
        pending_class = self.place[1]
        if self._asks:
            ask = self._asks.popleft()
            application, group = self._groups[0]
            if not self._asks:
                self._groups.popleft()
            return (
                (application, ask) if group.counted and group.pending_class is pending_class and ask in group else None
            )
        if self._groups:
            self._asks.extend(self._groups[0][1])
            if not self._asks:
                self._groups.popleft()
            return None
        application = self._applications.popleft()
        groups = (
            group for group in application.groups.values() if group.counted and group.pending_class is pending_class
        )
        self._groups.extend((application, group) for group in groups)
        return None


class SchedulingStateTracker:
    __slots__ = ("alarm", "looked_at", "looks_again", "scans", "told")

    def __init__(self) -> None:
        self.told: dict[AskName, Told] = {}
        """Of asks that wait, what was said last."""
        self.looked_at: dict[Place, tuple[Outlook | None, int]] = {}
        """What was found there last, and when; None if that is not to be trusted any longer."""
        self.scans: deque[Scan] = deque()
        self.looks_again = False
        """Whether more is to be looked at when these are done: something happened since they were found, or somebody
        could not be told yet, as it was told something else a moment ago."""
        self.alarm: Alarm | None = None
        """Rings when it is time to look."""

    def distrust(self, place: Place) -> None:
        """Something was said there that does not hold for all: they are gone through again, whatever is found then."""
        known = self.looked_at.get(place)
        if known is not None:
            self.looked_at[place] = None, known[1]

    def forget_old(self, before_ns: int, places: Mapping[Place, object]) -> None:
        """Forgets what was found before that in all but these places."""
        for place, (_, at_ns) in list(self.looked_at.items()):
            if at_ns <= before_ns and place not in places:
                del self.looked_at[place]

    def take_apart(self) -> Iterator[None]:
        return emptied(self.told, self.looked_at, self.scans)


def waiting_places(partition: Partition) -> Iterator[Place]:
    """Everywhere that asks are looked at."""
    return (
        (leaf, pending_class)
        for pending_class in partition.request_classes.known()
        for leaf in pending_class.pending_by_leaf
    )
