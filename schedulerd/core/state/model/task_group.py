"""The interchangeable members of a gang (gang design; SEMANTICS G)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from schedulerd.core.language.facts.fact import ReleaseCause
from schedulerd.core.language.resources import Items, Resources
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.dismantle import clear_stepwise
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.request_class import RequestClass


class TaskGroup:
    """The interchangeable members of a gang, with counts of their placeholders."""

    __slots__ = (
        "_idle",
        "awaiting_placeholder",
        "gave_back",
        "members",
        "name",
        "placed",
        "placeholder_resources",
        "preempted",
        "replaced",
        "timed_out",
        "unused",
        "waiting",
        "wanted",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.placeholder_resources = Resources()
        """Amounts of its first placeholder; the others have the same as a rule."""
        self.wanted = 0
        """Placeholders asked for and not withdrawn."""
        self.placed = 0
        """Placeholders allocated so far, including those that are gone."""
        self.awaiting_placeholder = 0
        """Placeholders being released for a real ask that awaits their room."""
        self.members = 0
        """Real allocations of it; only of a gang that declares it."""
        self.replaced = 0
        self.timed_out = 0
        """Placeholders released, or withdrawn while pending, because the time of the gang was over."""
        self.unused = 0
        """Placeholders released because they were too small for their ask, or no longer needed
        (`ReleaseCause.UNUSED`)."""
        self.gave_back = 0
        """Placeholders released for an earlier gang, to be allocated again."""
        self.preempted = 0
        """Placeholders preempted for entitled asks."""
        self.waiting: dict[AskGroup, None] = {}
        """The groups of its pending real asks."""
        self._idle: dict[Items, dict[Allocation, None]] = {}
        """Idle placeholders by size, oldest first; no empty sizes."""

    @property
    def idle(self) -> int:
        """Number of idle placeholders."""
        return sum(map(len, self._idle.values()))

    @property
    def has_idle(self) -> bool:
        return bool(self._idle)

    def count_release(self, cause: ReleaseCause) -> None:
        """Counts a release request for a placeholder."""
        match cause:
            case ReleaseCause.REPLACED:
                pass  # counted later, when its ask has the room
            case ReleaseCause.TIMED_OUT:
                self.timed_out += 1
            case ReleaseCause.TOO_SMALL | ReleaseCause.UNUSED:
                self.unused += 1
            case ReleaseCause.GAVE_WAY:
                self.gave_back += 1
            case ReleaseCause.PREEMPTED:
                self.preempted += 1

    def count_timed_out(self, count: int) -> None:
        """`count` pending placeholders were withdrawn because their time was over. They still count as wanted."""
        self.wanted += count
        self.timed_out += count

    def add_idle(self, placeholder: Allocation) -> None:
        self._idle.setdefault(placeholder.request_class.items, {})[placeholder] = None

    def is_idle(self, placeholder: Allocation) -> bool:
        return placeholder in self._idle.get(placeholder.request_class.items, {})

    def drop_idle(self, placeholder: Allocation) -> None:
        """The placeholder is being released or is gone; it need not be idle."""
        of_size = self._idle.get(placeholder.request_class.items)
        if of_size is None or placeholder not in of_size:
            return
        del of_size[placeholder]
        if not of_size:
            del self._idle[placeholder.request_class.items]

    def move_last(self, placeholder: Allocation) -> None:
        """Moves an idle placeholder behind the others of its size, because an ask is being tried for it."""
        of_size = self._idle[placeholder.request_class.items]
        del of_size[placeholder]
        of_size[placeholder] = None

    def fitting(self, request_class: RequestClass) -> Allocation | None:
        """The first placeholder of `all_fitting`, or None."""
        return next(self.all_fitting(request_class), None)

    def all_fitting(self, request_class: RequestClass) -> Iterator[Allocation]:
        """The idle placeholders with room for the request class: those of exactly its size first, then size by size,
        oldest first.

        Own size first, because another size would leave a placeholder of its own size unused, and take room that is
        meant for a larger ask.
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

    def dismantle(self) -> Iterator[None]:
        for placeholders in self._idle.values():
            yield from clear_stepwise(placeholders)
        yield from clear_stepwise(self._idle, self.waiting)
