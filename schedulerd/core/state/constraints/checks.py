"""Validates the placement constraint of a new ask (SI 2021-02 `PlacementConstraint`)."""

from __future__ import annotations

from collections.abc import Sequence

from schedulerd.core.language.checks import TAGS_LENGTH_MAX, Mistake, shown, text
from schedulerd.core.language.commands import AllocationAffinity, Expression, NewAsk, Operator
from schedulerd.core.language.facts.fact import RejectCode
from schedulerd.core.state.constraints.node_selector import NODE_SELECTOR_TAG, SelectorMistake, node_expressions

EXPRESSIONS_MAX = 100
"""Maximum number of expressions about nodes, and of expressions about allocations: each is evaluated for every node or
allocation."""

_NODE_FIELD = "placementConstraint.nodeAffinityConstraint"
_AFFINITY_FIELD = "placementConstraint.allocationAffinityAttribute"


def constraint(spec: NewAsk, *, is_known: bool = False) -> Mistake | None:
    """The first mistake in the selector or the constraint of an ask; None if there is none. With `is_known` the
    constraint has been checked before, and only the selector is checked."""
    if spec.tags and NODE_SELECTOR_TAG in spec.tags:
        field = f"tags[{NODE_SELECTOR_TAG}]"
        try:
            expressions = node_expressions(spec.tags)
        except SelectorMistake as unreadable:
            return _invalid(f"{field} is {shown(spec.tags[NODE_SELECTOR_TAG])}: {unreadable}")
        if len(expressions) > EXPRESSIONS_MAX:  # a readable selector can have no other mistake
            return _too_many(field, expressions)
    if spec.constraint is None or is_known:
        return None
    mistake = _expressions(f"{_NODE_FIELD}.targetExpressions", spec.constraint.node)
    if mistake is None and spec.constraint.allocations is not None:
        return _affinity(spec.constraint.allocations)
    return mistake


def _affinity(one: AllocationAffinity) -> Mistake | None:
    mistake = text(f"{_AFFINITY_FIELD}.scope", one.scope)
    if mistake is not None:
        return mistake
    if not one.scope:
        return _invalid(
            f"{_AFFINITY_FIELD}.scope is empty; it must be the node attribute that makes nodes a group, as si/hostname"
        )
    for name, value in (("minCardinality", one.min_cardinality), ("maxCardinality", one.max_cardinality)):
        if value < 0:
            return _invalid(f"{_AFFINITY_FIELD}.{name} is {value}; it must be 0 or more")
    if one.max_cardinality and one.min_cardinality > one.max_cardinality:
        return _invalid(
            f"{_AFFINITY_FIELD}.minCardinality is {one.min_cardinality}; it must not be above maxCardinality, which is "
            f"{one.max_cardinality} (0 there is no upper bound)"
        )
    return _expressions(f"{_AFFINITY_FIELD}.tragetExpressions", one.expressions)


def _expressions(field: str, expressions: Sequence[Expression]) -> Mistake | None:
    if len(expressions) > EXPRESSIONS_MAX:
        return _too_many(field, expressions)
    length = 0
    for one in expressions:
        length += len(one.key)
        for value in one.values:
            length += len(value)
    if length > TAGS_LENGTH_MAX:
        return _invalid(f"{field} have {length} characters in all; at most {TAGS_LENGTH_MAX} are allowed")
    for at, one in enumerate(expressions):
        if not one.key:
            return _invalid(f"{field}[{at}].targetKey is empty; it must name an attribute or a tag")
        if one.operator in (Operator.IN, Operator.NOT_IN) and not one.values:
            return _invalid(f"{field}[{at}].targetValues is empty; {one.operator} needs at least one value")
    return None


def _too_many(field: str, expressions: Sequence[Expression]) -> Mistake:
    return _invalid(f"{field} has {len(expressions)} expressions; at most {EXPRESSIONS_MAX} are allowed")


def _invalid(reason: str) -> Mistake:
    return Mistake(RejectCode.INVALID_FIELD, reason)
