"""The placement constraint of an ask as a value: equal constraints compare equal, so such asks share a request
class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from schedulerd.core.language.commands import AllocationAffinity, Expression, NewAsk, PlacementConstraint
from schedulerd.core.state.constraints.expressions import all_hold, canonical
from schedulerd.core.state.constraints.node_selector import (
    NODE_SELECTOR_TAG,
    TEXTS_MAX,
    SelectorMistake,
    node_expressions,
    parse,
)
from schedulerd.core.state.model.dismantle import clear_stepwise

SENT_MAX = 1_024
"""Maximum number of sent constraints that are remembered. The wire codec shares the same number."""
SENT_BYTES_MAX = 4_096
"""Larger constraints (approximate size) are not remembered: the wire codec makes a new object of each."""
_TEXT_BYTES = 64
"""Approximate memory of a string, without its characters."""


class Constraint:
    """An immutable placement constraint in canonical form: equal if it allows the same placements, in whatever order
    the RM sent its expressions."""

    __slots__ = ("_hash", "affinity", "counts_itself", "node")

    def __init__(
        self, node: tuple[Expression, ...], affinity: AllocationAffinity | None, *, counts_itself: bool
    ) -> None:
        self.node = node
        """Expressions about node attributes; all must hold."""
        self.affinity = affinity
        self.counts_itself = counts_itself
        """Whether the affinity counts an allocation of such an ask itself."""
        self._hash = hash((node, affinity, counts_itself))
        """Cached: it is needed several times for each ask, and computing it visits all expressions."""

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Constraint)
            and self._hash == other._hash
            and self.node == other.node
            and self.affinity == other.affinity
            and self.counts_itself is other.counts_itself
        )


class _Known:
    """A constraint as sent, with its canonical form."""

    __slots__ = ("affinity", "counted", "node", "other", "sent")

    def __init__(self, sent: PlacementConstraint) -> None:
        self.sent = sent
        self.node = canonical(sent.node)
        affinity = sent.allocations
        if affinity is not None:
            expressions = canonical(affinity.expressions)
            if expressions is not affinity.expressions:
                affinity = replace(affinity, expressions=expressions)
        self.affinity = affinity
        self.counted: Constraint | None = None
        """The constraint of asks without a selector whose own allocations the affinity counts."""
        self.other: Constraint | None = None
        """The constraint of all other asks without a selector."""

    def of(self, tags: Mapping[str, str]) -> Constraint | None:
        """The constraint of an ask with these tags and without a selector; None if it demands nothing."""
        affinity = self.affinity
        if affinity is not None and all_hold(affinity.expressions, tags):
            if self.counted is None:
                self.counted = Constraint(self.node, affinity, counts_itself=True)
            return self.counted
        if self.other is None and (self.node or affinity is not None):
            self.other = Constraint(self.node, affinity, counts_itself=False)
        return self.other


class SentConstraints:
    """Cache of sent constraints with their canonical form, by object identity.

    The wire codec makes equal constraints one object, so identity is enough to find them. A constraint in this cache
    has been checked. Each entry holds a reference to the sent object, so no other object can have its `id` meanwhile.
    When the cache is full, all entries are dropped.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}

    def __len__(self) -> int:
        return len(self._known)

    def knows(self, sent: PlacementConstraint) -> bool:
        """Whether this object is in the cache."""
        known = self._known.get(id(sent))
        return known is not None and known.sent is sent

    def take(self, spec: NewAsk) -> Constraint | None:
        """The constraint of a checked ask, from its `constraint` field and the selector in its tags; None if it demands
        nothing."""
        sent = spec.constraint
        if sent is None or (spec.tags and NODE_SELECTOR_TAG in spec.tags):
            return constraint_of(spec)
        known = self._known.get(id(sent))
        if known is None or known.sent is not sent:
            known = _Known(sent)
            if _size_bytes(sent) <= SENT_BYTES_MAX:
                if len(self._known) >= SENT_MAX:
                    self._known.clear()
                self._known[id(sent)] = known
        return known.of(spec.tags)

    def dismantle(self) -> Iterator[None]:
        return clear_stepwise(self._known)


def _size_bytes(sent: PlacementConstraint) -> int:
    """Approximate memory of the constraint."""
    size, expressions = 0, sent.node
    if sent.allocations is not None:
        size = len(sent.allocations.scope)
        expressions = (*expressions, *sent.allocations.expressions)
    for one in expressions:
        size += _TEXT_BYTES * (1 + len(one.values)) + len(one.key) + sum(map(len, one.values))
    return size


def constraint_of(spec: NewAsk) -> Constraint | None:
    """The constraint of an ask, from its `constraint` field and the selector in its tags; None if it demands nothing.

    An unreadable selector demands nothing. An ask with one is rejected earlier; an existing allocation with one is
    taken over as it is.
    """
    sent = spec.constraint
    if not spec.tags or NODE_SELECTOR_TAG not in spec.tags:
        return None if sent is None else _Known(sent).of(spec.tags)
    if sent is None:
        try:
            return _of_selector(spec.tags[NODE_SELECTOR_TAG])
        except SelectorMistake:
            return None
    with suppress(SelectorMistake):
        sent = replace(sent, node=(*node_expressions(spec.tags), *sent.node))
    return _Known(sent).of(spec.tags)


@lru_cache(TEXTS_MAX)
def _of_selector(text: str) -> Constraint | None:
    """The constraint of an ask that has only a selector; None if it demands nothing. Raises SelectorMistake."""
    node = parse(text)
    return Constraint(node, None, counts_itself=False) if node else None
