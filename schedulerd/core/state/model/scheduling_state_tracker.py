"""What an RM was told about the scheduling states of its asks, and what is still to be checked.

An RM has a tracker only while it asks for scheduling states. What holds for all asks of a pending class in a leaf queue
is computed once for all of them (`Outlook`). Only where it changed are the asks visited one by one, in slices (`Scan`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.language.facts.scheduling_states import SchedulingState
from schedulerd.core.state.model.dismantle import clear_stepwise
from schedulerd.core.state.model.waiting_line import WaitingLine

if TYPE_CHECKING:
    from schedulerd.core.state.model.allocation import Ask
    from schedulerd.core.state.model.application import Application
    from schedulerd.core.state.model.queue import Queue
    from schedulerd.core.state.partition import Partition
    from schedulerd.core.state.pending.ask_group import AskGroup
    from schedulerd.core.state.pending.request_class import PendingClass

Place: TypeAlias = "tuple[Queue, PendingClass]"
"""A leaf queue and a pending class that waits there."""
Measured: TypeAlias = "Place | AskGroup"
"""What may have an outlook with amounts."""
AskName: TypeAlias = tuple[str, str, str]
"""Partition, application id and allocation key."""
Cause: TypeAlias = str
"""Identifies why asks wait, to be compared only: the path of a queue, a rule (`rule_identity`), `turn N` for the length
of the queue before them, a reservation (`reserved_identity`), or a pending state; '' if no node takes them."""


class Told(NamedTuple):
    state: SchedulingState | None
    """None for an ask that waits and has no scheduling state; only its pending reason was told."""
    cause: Cause
    """A change of it is told too."""
    at_ns: int

    def is_news(self, state: SchedulingState | None, cause: Cause) -> bool:
        return (self.state, self.cause) != (state, cause)


class Outlook(NamedTuple):
    """What holds for all asks of one place."""

    cause: Cause
    counts: Mapping[Application | None, int]
    """If no node takes it: how many allocations the quotas would let in, by application; the key None stands for the
    whole place."""
    joined: int
    """The value of `PendingClass.joined` when this was computed, to notice new asks."""
    waits_for_turn: bool = False
    """The asks wait only for others before them."""
    lasts: bool = False
    """With `waits_for_turn`: it was so the last time too, so asks that were told another cause are told this one."""
    amounts: tuple[object, ...] = ()
    """If the RM wants reasons: the rule that blocks, with its amounts when they had not changed for a while. An RM is
    not told each change of a quota's use once for every ask that waits for the quota."""

    @property
    def told_cause(self) -> Cause:
        """The cause as it is remembered for each ask that was told."""
        return f"{self.cause} {self.amounts}" if self.amounts else self.cause


class GroupOutlook(NamedTuple):
    """What holds for all asks of a group that is not in the pending index."""

    cause: Cause
    joined: int
    """The value of `AskGroup.joined` when this was computed: when one ask has left and another has joined, as many are
    pending."""
    state: SchedulingState = SchedulingState.SKIPPED
    amounts: tuple[object, ...] = ()
    """Of members of a gang: the amounts of the rule that blocks its slots, or how far the gang is, when they had not
    changed for a while."""

    @property
    def told_cause(self) -> Cause:
        """The cause as it is remembered for each ask that was told."""
        return f"{self.cause} {self.amounts}" if self.amounts else self.cause


class Scan:
    """Iterates over the asks of one place, application by application. An application's asks are read when its turn
    comes."""

    __slots__ = ("_applications", "_asks", "_groups", "left", "outlook", "partition", "place")

    def __init__(self, partition: Partition, place: Place, outlook: Outlook) -> None:
        self.partition = partition
        self.place = place
        self.outlook = outlook
        self.left = dict(outlook.counts)
        """Of the counts in the outlook, what is left for asks not visited yet."""
        self._applications = deque(place[0].applications.values())
        self._groups: deque[tuple[Application, AskGroup]] = deque()
        self._asks: deque[Ask] = deque()

    @property
    def is_over(self) -> bool:
        return not self._asks and not self._groups and not self._applications

    def invalidate(self, states: SchedulingStateTracker) -> None:
        states.invalidate(self.place)

    def next(self) -> tuple[Application, Ask] | None:
        """Makes one step. Returns the ask that it reached, if the ask still waits in this place."""
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


class GroupScan:
    """Iterates over the asks of a group that is not in the pending index."""

    __slots__ = ("_asks", "_group", "application", "outlook", "partition")

    def __init__(self, partition: Partition, application: Application, group: AskGroup, outlook: GroupOutlook) -> None:
        self.partition = partition
        self.application = application
        self.outlook = outlook
        self._group = group
        self._asks = deque(group)

    @property
    def is_over(self) -> bool:
        return not self._asks

    def next(self) -> tuple[Application, Ask] | None:
        """Makes one step. Returns the ask that it reached, if the ask still waits in the group."""
        ask = self._asks.popleft()
        return (self.application, ask) if not self._group.counted and ask in self._group else None

    def invalidate(self, states: SchedulingStateTracker) -> None:
        states.group_outlooks.pop(self._group, None)


class SchedulingStateTracker:
    __slots__ = (
        "alarm",
        "amounts",
        "group_outlooks",
        "needs_another_round",
        "outlooks",
        "scans",
        "tells_reasons",
        "tells_states",
        "told",
        "waiting_line",
        "wanted_states",
    )

    def __init__(
        self, *, tells_states: bool = True, tells_reasons: bool = False, wanted_states: Collection[int] = ()
    ) -> None:
        self.tells_states = tells_states
        """The RM wants the scheduling states."""
        self.wanted_states = frozenset(wanted_states or SchedulingState)
        """Those of them that it is told."""
        self.tells_reasons = tells_reasons
        """The RM wants to know as data why asks wait, also of those that have no scheduling state."""
        self.group_outlooks: dict[AskGroup, tuple[GroupOutlook, int]] = {}
        """With `tells_reasons`: as `outlooks`, of the groups that are not in the pending index."""
        self.waiting_line = WaitingLine()
        """Of the scans that are under way."""
        self.told: dict[AskName, Told] = {}
        """What the RM was told last about each waiting ask."""
        self.outlooks: dict[Place, tuple[Outlook | None, int]] = {}
        """The last outlook of each place, and when it was computed; None instead of the outlook if it must not be
        trusted."""
        self.amounts: dict[Measured, tuple[tuple[object, ...], int]] = {}
        """Amounts that differ from those of the outlook of the place or group, and since when they are so."""
        self.scans: deque[Scan | GroupScan] = deque()
        self.needs_another_round = False
        """Whether another round is needed after these scans: something happened since they began, or an ask could not
        be told its state because the last one was told too recently."""
        self.alarm: Alarm | None = None
        """Rings when the next round or slice is due."""

    def wants(self, state: SchedulingState) -> bool:
        """Whether the RM is told this state."""
        return self.tells_states and state in self.wanted_states

    def invalidate(self, place: Place) -> None:
        """An ask of the place was told a state of its own: the place is scanned again, even if its outlook is the
        same."""
        known = self.outlooks.get(place)
        if known is not None:
            self.outlooks[place] = None, known[1]

    def forget_old(self, before_ns: int, places: Mapping[Place, object]) -> None:
        """Forgets outlooks computed at `before_ns` or earlier, except those of `places`."""
        for place, (_, at_ns) in list(self.outlooks.items()):
            if at_ns <= before_ns and place not in places:
                del self.outlooks[place]
                self.amounts.pop(place, None)

    def dismantle(self) -> Iterator[None]:
        return clear_stepwise(self.told, self.outlooks, self.amounts, self.scans, self.group_outlooks)


def waiting_places(partition: Partition) -> Iterator[Place]:
    """All places of the partition where asks wait."""
    return (
        (leaf, pending_class)
        for pending_class in partition.request_classes.known()
        for leaf in partition.pending_counts.of(pending_class)
    )
