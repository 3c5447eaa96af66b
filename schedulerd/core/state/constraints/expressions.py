"""Expressions about keys and values of node attributes or allocation tags (SI 2021-02 `AffinityTargetExpression`).

All expressions of a list must hold. NOT_IN holds for a missing key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_
from typing import TypeAlias

from schedulerd.core.language.commands import Expression, Operator
from schedulerd.core.state.constraints.node_class_attributes import is_node_class, reason_attribute

Lookup: TypeAlias = Callable[[str], str | None]
"""Returns the value of a key; None if the key is missing."""

_IN, _NOT_IN, _EXIST = Operator.IN, Operator.NOT_IN, Operator.EXIST

_NAMED_MAX = 3
"""Maximum number of values that a phrase names."""


def first_unmet(expressions: Iterable[Expression], value_of: Lookup) -> Expression | None:
    """The first expression that does not hold; None if all hold."""
    for one in expressions:
        if not _holds(one, value_of(one.key)):
            return one
    return None


def all_hold(expressions: Iterable[Expression], values: Mapping[str, str]) -> bool:
    return first_unmet(expressions, values.get) is None


def _holds(one: Expression, value: str | None) -> bool:
    operator = one.operator
    if operator is _IN:
        return value is not None and value in one.values
    if operator is _NOT_IN:
        return value is None or value not in one.values
    return (value is not None) is (operator is _EXIST)


def canonical(expressions: Iterable[Expression]) -> tuple[Expression, ...]:
    """The expressions sorted and without duplicates, so lists with equal demands become equal. Returns the same object
    for a tuple that is canonical already."""
    given = tuple(expressions)
    plain = [_canonical(one) for one in given]
    if len(plain) > 1:
        plain.sort(key=_order)
        plain = [one for at, one in enumerate(plain) if not at or one != plain[at - 1]]
    if len(plain) == len(given) and all(map(is_, plain, given)):
        return given
    return tuple(plain)


def _order(one: Expression) -> tuple[str, str, tuple[str, ...]]:
    return one.key, one.operator, one.values


def _canonical(one: Expression) -> Expression:
    """The expression with sorted, distinct values, or without values if its operator has none. The same object if
    nothing changes."""
    values = one.values
    if one.operator is _IN or one.operator is _NOT_IN:
        if len(values) == 1:
            return one
        listed = tuple(sorted(set(values)))
    else:
        listed = ()
    return one if listed == values else Expression(one.key, one.operator, listed)


def why_unmet(one: Expression, value_of: Lookup) -> str:
    """Why the expression does not hold of a node with these attributes, as a phrase. Phrases can be counted: nodes
    that do not meet it for the same reason have equal ones."""
    if is_node_class(one.key):
        return value_of(reason_attribute(one.key)) or "not admitted by its resource manager"
    match one.operator:
        case Operator.IN:
            return f"{one.key} is not {_named(one.values)}"
        case Operator.NOT_IN:
            return f"{one.key} is {_named(one.values)}"
        case Operator.EXIST:
            return f"no {one.key}"
        case Operator.NOT_EXIST:
            return f"{one.key} is set"


def _named(values: Sequence[str]) -> str:
    if len(values) == 1:
        return values[0]
    more = f" or {len(values) - _NAMED_MAX} more" if len(values) > _NAMED_MAX else ""
    return f"({','.join(values[:_NAMED_MAX])}{more})"
