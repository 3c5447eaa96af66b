"""A gang: what an application's task groups asked for, hold, and may be given in exchange (gang design; SEMANTICS G).

Placeholders hold room for the members of a task group until the real asks come. The counts are kept here, so that a
swap is found without looking through the application's allocations or asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import chain, islice

from schedulerd.core.alarms import Alarm
from schedulerd.core.facts import ReleaseCause
from schedulerd.core.model.allocation import Allocation
from schedulerd.core.model.apart import emptied
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.pending_index import Key
from schedulerd.core.model.request_class import RequestClass
from schedulerd.core.resources import Items, Resources


class TaskGroup:
    """The members of a gang that are interchangeable, and what has become of them so far."""

    __slots__ = (
        "_idle",
        "awaiting_placeholder",
        "gave_back",
        "name",
        "placed",
        "preempted",
        "replaced",
        "timed_out",
        "unused",
        "waiting",
        "wanted",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.wanted = 0
        """Placeholders asked for and not taken back."""
        self.placed = 0
        """Placeholders placed so far, whether they are still there or not."""
        self.awaiting_placeholder = 0
        """Placeholders on their way out for whose room a real ask waits."""
        self.replaced = 0
        self.timed_out = 0
        """Placeholders released or never placed because the time for the gang was over."""
        self.unused = 0
        """Placeholders released because they were too small for their ask, or their application completed."""
        self.gave_back = 0
        """Placeholders released for the sake of an earlier gang, to be placed again."""
        self.preempted = 0
        """Placeholders released for the sake of others who have a right to their room."""
        self.waiting: dict[AskGroup, None] = {}
        """The groups of its real asks that are pending."""
        self._idle: dict[Items, dict[Allocation, None]] = {}
        """Placeholders that are placed and not on their way out, by size, oldest first; no empty ones."""

    @property
    def idle(self) -> int:
        """How many placeholders wait to be replaced."""
        return sum(map(len, self._idle.values()))

    @property
    def has_idle(self) -> bool:
        return bool(self._idle)

    def count_release(self, cause: ReleaseCause) -> None:
        """The RM is asked to release a placeholder; a replaced one counts when its ask has the room."""
        match cause:
            case ReleaseCause.TIMED_OUT:
                self.timed_out += 1
            case ReleaseCause.TOO_SMALL | ReleaseCause.UNUSED:
                self.unused += 1
            case ReleaseCause.GAVE_WAY:
                self.gave_back += 1
            case ReleaseCause.PREEMPTED:
                self.preempted += 1

    def count_timed_out(self, count: int) -> None:
        """So many were withdrawn because their time was over: they were wanted all the same."""
        self.wanted += count
        self.timed_out += count

    def add_idle(self, placeholder: Allocation) -> None:
        self._idle.setdefault(placeholder.request_class.items, {})[placeholder] = None

    def drop_idle(self, placeholder: Allocation) -> None:
        """It is on its way out, or gone; fine if that was known."""
        of_size = self._idle.get(placeholder.request_class.items)
        if of_size is None or placeholder not in of_size:
            return
        del of_size[placeholder]
        if not of_size:
            del self._idle[placeholder.request_class.items]

    def put_last(self, placeholder: Allocation) -> None:
        """Somebody is tried for an idle placeholder: the next one looks at the others first."""
        of_size = self._idle[placeholder.request_class.items]
        del of_size[placeholder]
        of_size[placeholder] = None

    def fitting(self, request_class: RequestClass) -> Allocation | None:
        """The oldest idle placeholder of the request class's own size, else of the first size that has room, or
        None."""
        return next(self.all_fitting(request_class), None)

    def all_fitting(self, request_class: RequestClass) -> Iterator[Allocation]:
        """The idle placeholders with room for the request class: those of its own size, then size by size, oldest
        first.

        One of another size would leave its own to nobody, and take room that a larger ask was promised.
        """
        own = self._idle.get(request_class.items, {})
        yield from own
        for placeholders in self._idle.values():
            if (
                placeholders is not own
                and next(iter(placeholders)).request_class.resources.lacks(request_class.items) is None
            ):
                yield from placeholders

    def oldest(self, count: int) -> list[Allocation]:
        """Up to `count` idle placeholders."""
        return list(islice(self.all_idle(), count))

    def all_idle(self) -> Iterator[Allocation]:
        return chain.from_iterable(self._idle.values())

    def take_apart(self) -> Iterator[None]:
        for placeholders in self._idle.values():
            yield from emptied(placeholders)
        yield from emptied(self._idle, self.waiting)


class Gang:
    """The task groups of one application."""

    __slots__ = (
        "_line",
        "_tickets",
        "asked",
        "awaits_full",
        "deadlock_alarm",
        "demands",
        "first_asked_ns",
        "fits",
        "full_ns",
        "has_slot",
        "held",
        "idle_alarm",
        "idle_since_ns",
        "pending",
        "promised",
        "task_groups",
        "was_complete",
    )

    def __init__(self) -> None:
        self.task_groups: dict[str, TaskGroup] = {}
        self.pending = 0
        """Placeholders asked for and not placed; while there are any, real asks wait (SEMANTICS G3)."""
        self.demands = 0
        """How often the number of pending placeholders changed."""
        self.fits: tuple[tuple[int, int, int, int], bool] | None = None
        """For which state of nodes, application and gang it was found whether all pending placeholders would fit on the
        nodes if no other application used them, and the answer (`decide.own_room`)."""
        self.asked = Resources()
        """What those will use."""
        self.held = Resources()
        """What the allocations of its task groups use, placeholders and real ones."""
        self.promised = Resources()
        """Of the whole `placeholderAsk`, what is still to be placed since the gang was let start (SEMANTICS G2)."""
        self.first_asked_ns: int | None = None
        """When its first placeholder was asked for; None if one came with its node, as that is not known then."""
        self.full_ns: int | None = None
        """When the last placeholder that it lacked was placed, as `GangCompleted` says; None if that was not said."""
        self.awaits_full = True
        """Whether that may still be said."""
        self.was_complete = False
        """Whether it ever had none pending and the whole of its `placeholderAsk` (SEMANTICS I8)."""
        self.idle_alarm: Alarm | None = None
        """Rings when its idle placeholders may have been there for long enough, while it is complete and has any."""
        self.idle_since_ns: int | None = None
        """When it became complete, or an ask took one of its placeholders since; None while it is not complete or has
        none that are idle."""
        self._line: list[tuple[Key, int, TaskGroup, AskGroup]] = []
        """Groups of real asks by the place of their first ask; what is no longer true is dropped at the top."""
        self._tickets = 0
        """So that no two entries of the line are equal."""
        self.has_slot = False
        """Whether it was put off to a time of its own, as others were to be considered at the same time."""
        self.deadlock_alarm: Alarm | None = None
        """Rings when it has looked for room for long enough; set again and again for as long as it has its time."""

    def still_to_come(self, whole: Resources) -> Resources:
        """What its task groups do not have yet of the whole `placeholderAsk`."""
        return Resources({name: amount - self.held[name] for name, amount in whole.items() if amount > self.held[name]})

    @property
    def has_idle(self) -> bool:
        return any(group.has_idle for group in self.task_groups.values())

    def idle_placeholders(self) -> Iterator[Allocation]:
        """What it holds that is neither being replaced nor otherwise on its way out."""
        return chain.from_iterable(group.all_idle() for group in self.task_groups.values())

    def task_group(self, name: str) -> TaskGroup:
        """The task group of this name, from now on if not yet."""
        known = self.task_groups.get(name)
        if known is None:
            known = self.task_groups[name] = TaskGroup(name)
        return known

    def next_swap(self) -> tuple[TaskGroup, AskGroup] | None:
        """Whose turn it is to be replaced: the first real ask, by priority and age, of a group with placeholders."""
        if self.pending:
            return None
        line = self._line
        while line:
            key, _, task_group, group = line[0]
            waits = task_group.has_idle and group in task_group.waiting and group.has_ready and not group.denied
            if waits and not group.request_class.refused and group.key() == key:
                return task_group, group
            heappop(line)
        return None

    def wait(self, group: AskGroup) -> None:
        """Real asks of this group are pending."""
        self.task_group(group.task_group).waiting[group] = None
        self.line_up(group)

    def line_up(self, group: AskGroup) -> None:
        """The group has a new place among those that wait, or may be looked at again."""
        task_group = self.task_group(group.task_group)
        if group in task_group.waiting and group.has_ready:
            self._tickets += 1
            heappush(self._line, (group.key(), self._tickets, task_group, group))

    def take_apart(self) -> Iterator[None]:
        self.deadlock_alarm = None
        for task_group in self.task_groups.values():
            yield from task_group.take_apart()
        yield from emptied(self._line, self.task_groups)

    def add_idle(self, placeholder: Allocation) -> None:
        """A placeholder of a task group is placed: with the first, its real asks may be looked at."""
        task_group = self.task_group(placeholder.spec.task_group)
        had_idle = task_group.has_idle
        task_group.add_idle(placeholder)
        if not had_idle:
            for group in task_group.waiting:
                self.line_up(group)
