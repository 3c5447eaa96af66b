"""What a queue can spare of its guarantee."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from schedulerd.core.language.resources import Items


class Budget:
    """What a queue can spare of the resources that its guarantee names, beside the victims taken so far.

    A guarantee speaks of the resources that it names. A victim must not be one that its queue could ask back with this
    same guarantee: with all victims gone, the queue would be above its guarantee with this one again, in a resource
    that the victim uses. Of what the ask is short of, the queue keeps its guarantee.
    """

    __slots__ = ("left", "taken")

    def __init__(self, left: dict[str, int]) -> None:
        self.left = left
        """What is used above the guarantee, for each resource with a guarantee; negative below it."""
        self.taken: Counter[Items] = Counter()
        """How many allocations of each size are taken."""

    def times(self, items: Items, short: Collection[str]) -> int | None:
        """How many more times `items` may be taken for an ask that is short of these resources; None if unlimited."""
        times: int | None = None
        for name, amount in items:
            if name in self.left and name in short:
                spare = max(0, self.left[name]) // amount
                times = spare if times is None else min(times, spare)
        for one in (items, *self.taken):
            until = self._times_until_asked_back(items, one)
            times = until if times is None or (until is not None and until < times) else times
        return times

    def _times_until_asked_back(self, items: Items, one: Items) -> int | None:
        """How many times `items` may be taken before a victim of the size `one` could be asked back; None if that does
        not end it."""
        left, amounts, times = self.left, dict(items), None
        for name, amount in one:
            if name in left:
                above = left[name] + amount
                if above > 0 and name not in amounts:
                    return None
                times = max(times or 0, (above - 1) // amounts[name] if above > 0 else 0)
        return times

    def admits_whole(self, items: Items, short: Collection[str]) -> bool:
        """Whether a gang that uses `items` together, and is disrupted as a whole, may be taken: the queue must be above
        its guarantee before, and may be below it after that."""
        named = [name for name, _ in items if name in self.left]
        if any(self.left[name] <= 0 for name in named if name in short):
            return False
        return not named or any(self.left[name] > 0 for name in named)

    def take(self, items: Items, times: int) -> None:
        is_named = False
        for name, amount in items:
            if name in self.left:
                self.left[name] -= amount * times
                is_named = True
        if is_named and times:
            self.taken[items] += times
            if not self.taken[items]:
                del self.taken[items]

    def protects(self, items: Items, short: Collection[str]) -> str | None:
        """The resource with the guarantee that keeps an allocation of this size; None if it may be taken."""
        if self.times(items, short) != 0:
            return None
        named = [(name, amount) for name, amount in items if name in self.left]
        kept = (name for name, amount in named if name in short and self.left[name] < amount)
        return next(kept, named[0][0])
