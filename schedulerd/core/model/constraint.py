"""Where asks of one request class may run, beside the room they need: as a value, so that asks alike are one request
class."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from schedulerd.core.commands import AllocationAffinity, Expression, NewAsk
from schedulerd.core.expressions import all_hold, canonical
from schedulerd.core.node_selector import NODE_SELECTOR_TAG, SelectorMistake, node_expressions


class Constraint(NamedTuple):
    """Equal for asks that may run in the same places, whatever the order of what they demand."""

    node: tuple[Expression, ...]
    """About node attributes, all to be met."""
    affinity: AllocationAffinity | None
    counts_itself: bool
    """Whether an allocation of such an ask is one of those that the affinity counts."""


def constraint_of(spec: NewAsk) -> Constraint | None:
    """What the ask demands with its constraint and the selector among its tags; None if nothing.

    A selector that cannot be read demands nothing: an ask with one is rejected before, and what runs already is taken
    over as it is.
    """
    has_selector = bool(spec.tags) and NODE_SELECTOR_TAG in spec.tags
    if spec.constraint is None and not has_selector:
        return None
    node: tuple[Expression, ...] = ()
    if has_selector:
        with suppress(SelectorMistake):
            node = node_expressions(spec.tags)
    affinity = None
    if spec.constraint is not None:
        node = canonical((*node, *spec.constraint.node))
        affinity = spec.constraint.allocations
    if affinity is None:
        return Constraint(node, None, counts_itself=False) if node else None
    affinity = replace(affinity, expressions=canonical(affinity.expressions))
    return Constraint(node, affinity, counts_itself=all_hold(affinity.expressions, spec.tags))
