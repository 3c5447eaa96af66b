"""A place where contenders wait and that waits itself at the place above: queues and applications.

What cannot be placed is closed where the reason is: at the queue whose quota is short, or at the root if no node has
room. That takes the shape out of sight for everybody above, and everybody below is not even looked at for its sake.
Only if somebody below is looked at for another shape and this one turns up, the closing is repeated there, once, and
remembered, so that all of it opens again together. Closing and opening cost the same however many asks wait.
"""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum, auto

from schedulerd.core.model.line import Contender, Key, Lines
from schedulerd.core.model.shape import Shape


class ClosedFor(Enum):
    """For want of what a shape cannot be placed."""

    QUOTA = auto()
    """The quota of the queue where it is closed has no room for it."""
    NODE = auto()
    """No node has room for it; it is closed at the root."""


class Closing:
    """Why a shape may not be placed at a host: a reason there (`origin`), which may have been repeated further down."""

    __slots__ = ("origin", "reason", "repeated")

    def __init__(self, origin: Host, reason: ClosedFor) -> None:
        self.origin = origin
        self.reason = reason
        self.repeated: dict[Lines, None] = {}
        """Where further down; a place that loses sight of the shape takes itself out."""


class Host(Contender):  # no ABC: that would make each isinstance of a queue or application ten times as dear
    """Something contenders wait at, and that is a contender at the host above."""

    __slots__ = ("host", "lines", "priorities")

    def __init__(self, host: Host | None) -> None:
        super().__init__()
        self.host = host
        """The host above; None at the top."""
        self.lines = Lines()
        self.priorities: dict[int, int] = {}
        """Of the contenders with anything pending: how many show which priority."""

    @property
    def passes_on(self) -> bool:
        """Whether what is needed here is asked for above."""
        return True

    @abstractmethod
    def key(self) -> Key:
        """Its place among the contenders at its host."""

    def rekey(self) -> None:
        """Its order may have changed: give it its new place."""
        if self.entry is not None and self.host is not None:
            self.host.lines.rekey(self, self.key())

    def shown_priority(self, highest: int) -> int:
        """What the host above sees if `highest` is the highest priority here."""
        return highest

    def show_priority(self, contender: Contender, priority: int | None) -> None:
        """`contender` now has this priority here, None for nothing pending; passed on upwards as far as it matters.

        Whoever changed what is pending gives the places anew afterwards: priority is only a part of the keys.
        """
        old = contender.priority
        if old == priority:
            return
        contender.priority = priority
        counts = self.priorities
        is_news = False
        if priority is not None:
            counts[priority] = shown = counts.get(priority, 0) + 1
            is_news = shown == 1
        if old is not None:
            counts[old] -= 1
            if not counts[old]:
                del counts[old]
                is_news = True
        if is_news and self.host is not None:
            self.host.show_priority(self, self.shown_priority(max(counts)) if counts else None)

    def start_anew(self) -> None:
        """Nobody stands in line here, and this host stands in none."""
        for closing in self.lines.closed.values():
            closing.repeated.clear()  # it refers to places that refer to it
        self.lines = Lines()
        self.priorities = {}
        self.priority = None
        self.forget_place()

    def offer(self, contender: Contender, key: Key, shape: Shape) -> None:
        """`contender` now needs `shape` here."""
        is_new = shape not in self.lines
        self.lines.need(contender, key, shape)
        if is_new and self.passes_on and self.host is not None:
            self.host.offer(self, self.key(), shape)

    def withdraw(self, contender: Contender, shape: Shape) -> None:
        """`contender` does not need `shape` here any longer."""
        self.lines.unneed(contender, shape)
        if shape not in self.lines and shape in self.needs and self.host is not None:
            self.host.withdraw(self, shape)

    def close(self, shape: Shape, reason: ClosedFor) -> None:
        """There is a reason here why the shape cannot be placed: nobody above looks here for it any longer."""
        self.lines.close(shape, Closing(self, reason))
        if shape in self.needs and self.host is not None:
            self.host.withdraw(self, shape)

    def repeat(self, shape: Shape, closing: Closing) -> None:
        """The shape is closed further up: do not look for it here either."""
        self.lines.close(shape, closing)
        closing.repeated[self.lines] = None

    def reopen(self, shape: Shape) -> None:
        """The reason is gone: the shape may be placed again here, and wherever the closing was repeated."""
        closing = self.lines.closed[shape]
        self.lines.reopen(shape)
        for lower in list(closing.repeated):
            lower.reopen(shape)
        if self.passes_on and self.host is not None:
            self.host.offer(self, self.key(), shape)
