"""Which part of the state is looked at, and how much of it.

Whoever looks holds up the scheduler, so what a look costs must not grow with what there is to see: a bounded one takes
the first few things of each kind, in the order in which they came, and counts those that it leaves out.
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
    """One look at the state. An id of '' stands for all of that kind."""

    rm_id: str = ""
    partition: str = ""
    application_id: str = ""
    node_id: str = ""
    epoch_ns: int = 0
    """Added to every time that is shown: the wall time of time 0 of the scheduler's clock, or 0 for its own times."""
    limit: int | None = None
    """How many things of each kind are taken in all; None takes everything."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Of each kind, how many there were beyond that in what was looked at."""
    _taken: Counter[str] = field(default_factory=Counter)

    def take(self, kind: str, things: Iterable[ThingT], count: int) -> list[ThingT]:
        """As many of `things` as there is room for; `count` is how many they are."""
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
        """A time of the scheduler's clock as it is shown; None if there is none."""
        return None if at_ns is None else self.epoch_ns + at_ns

    def take_named(self, kind: str, things: Mapping[str, ThingT], name: str) -> list[tuple[str, ThingT]]:
        """The thing of this name, if there is one, or with '' those there is room for; with their names, sorted."""
        if name:
            return [(name, things[name])] if name in things else []
        return sorted(self.take(kind, things.items(), len(things)), key=lambda item: item[0])
