"""Which part of the state is wanted, and how much of it.

A view holds up the scheduler, so its cost must not grow with the state. A bounded query takes the first things of each
kind, in their order in the state, and counts the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar, overload

ThingT = TypeVar("ThingT")


@dataclass(slots=True)
class StateQuery:
    """A query of the state. An id of '' means all of that kind."""

    rm_id: str = ""
    partition: str = ""
    application_id: str = ""
    node_id: str = ""
    epoch_ns: int = 0
    """Added to all times in the view: the wall time of time 0 of the scheduler's clock, or 0 for the scheduler's own
    times."""
    limit: int | None = None
    """Maximum number of things of each kind in total; None for no maximum."""
    left_out: Counter[str] = field(default_factory=Counter)
    """By kind, how many of the things queried were left out."""
    _taken: Counter[str] = field(default_factory=Counter)

    def take(self, kind: str, things: Iterable[ThingT], count: int) -> list[ThingT]:
        """As many of `things` as the limit still allows. `count` is their total number."""
        if self.limit is None:
            return list(things)
        taken = list(islice(things, self.limit - self._taken[kind]))
        self._taken[kind] += len(taken)
        if len(taken) < count:
            self.left_out[kind] += count - len(taken)
        return taken

    @overload
    def time(self, at_ns: int) -> int: ...

    @overload
    def time(self, at_ns: int | None) -> int | None: ...

    def time(self, at_ns: int | None) -> int | None:
        """A time of the scheduler's clock as shown; None stays None."""
        return None if at_ns is None else self.epoch_ns + at_ns

    def take_named(self, kind: str, things: Mapping[str, ThingT], name: str) -> list[tuple[str, ThingT]]:
        """The named thing if it exists; with '' as many things as the limit allows, sorted by name. Each with its
        name."""
        if name:
            return [(name, things[name])] if name in things else []
        return sorted(self.take(kind, things.items(), len(things)), key=lambda item: item[0])
