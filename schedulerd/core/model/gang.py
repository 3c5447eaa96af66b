"""A gang: what an application's task groups asked for, hold, and may be given in exchange (gang design; SEMANTICS G).

Placeholders hold room for the members of a task group until the real asks come. The counts are kept here, so that a
swap is found without looking through the application's allocations or asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from schedulerd.core.alarms import Alarm
from schedulerd.core.model.allocation import Allocation
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.shape import Shape
from schedulerd.core.resources import Resources


class TaskGroup:
    """The members of a gang that are interchangeable, and what has become of them so far."""

    __slots__ = ("_idle", "gave_back", "name", "placed", "replaced", "timed_out", "waiting", "wanted")

    def __init__(self, name: str) -> None:
        self.name = name
        self.wanted = 0
        """Placeholders asked for and not taken back."""
        self.placed = 0
        """Placeholders placed so far, whether they are still there or not."""
        self.replaced = 0
        self.timed_out = 0
        self.gave_back = 0
        """Placeholders released for the sake of an earlier gang, to be placed again."""
        self.waiting: dict[AskGroup, None] = {}
        """The groups of its real asks that are pending."""
        self._idle: dict[Shape, dict[Allocation, None]] = {}
        """Placeholders that are placed and not on their way out, by shape, oldest first; no empty ones."""

    @property
    def idle(self) -> int:
        """How many placeholders wait to be replaced."""
        return sum(map(len, self._idle.values()))

    @property
    def has_idle(self) -> bool:
        return bool(self._idle)

    def add_idle(self, placeholder: Allocation) -> None:
        self._idle.setdefault(placeholder.shape, {})[placeholder] = None

    def drop_idle(self, placeholder: Allocation) -> None:
        """It is on its way out, or gone; fine if that was known."""
        of_shape = self._idle.get(placeholder.shape)
        if of_shape is not None and of_shape.pop(placeholder, self) is None and not of_shape:
            del self._idle[placeholder.shape]

    def fitting(self, shape: Shape) -> Allocation | None:
        """The oldest idle placeholder of the first size that has room for the shape, or None."""
        return next(self.all_fitting(shape), None)

    def all_fitting(self, shape: Shape) -> Iterator[Allocation]:
        """The idle placeholders with room for the shape, size by size, the oldest of each first."""
        for size, placeholders in self._idle.items():
            if size is shape or size.resources.lacks(shape.items) is None:
                yield from placeholders

    def oldest(self, count: int) -> list[Allocation]:
        """Up to `count` idle placeholders."""
        return list(islice(self.all_idle(), count))

    def all_idle(self) -> Iterator[Allocation]:
        return chain.from_iterable(self._idle.values())


class Gang:
    """The task groups of one application."""

    __slots__ = ("first_asked_ns", "patience", "pending", "promised", "task_groups")

    def __init__(self) -> None:
        self.task_groups: dict[str, TaskGroup] = {}
        self.pending = 0
        """Placeholders asked for and not placed; while there are any, real asks wait (SEMANTICS G3)."""
        self.promised = Resources()
        """Of the whole `placeholderAsk`, what is still to be placed since the gang was let start (SEMANTICS G2)."""
        self.first_asked_ns = 0
        self.patience: Alarm | None = None
        """Rings when it has looked for room for long enough; set again and again for as long as it has its time."""

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
        best: tuple[TaskGroup, AskGroup] | None = None
        for task_group in self.task_groups.values():
            if task_group.has_idle:
                for group in task_group.waiting:
                    if group.denied:
                        continue
                    if best is None or group.key() < best[1].key():
                        best = task_group, group
        return best
