"""Demands on keys and their values: of node attributes and of allocation tags (SI 2021-02 `AffinityTargetExpression`).

All expressions of a list are to be met. What is not there at all is in no list: NOT_IN holds for a key that is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from schedulerd.core.commands import Expression, Operator

Lookup: TypeAlias = Callable[[str], str | None]
"""The value of a key, None if it is not there."""

_NAMED_MAX = 3
"""How many values a phrase for people names."""


def first_unmet(expressions: Iterable[Expression], value_of: Lookup) -> Expression | None:
    """The first of them that does not hold; None if all do."""
    for one in expressions:
        if not _holds(one, value_of(one.key)):
            return one
    return None


def all_hold(expressions: Iterable[Expression], values: Mapping[str, str]) -> bool:
    return first_unmet(expressions, values.get) is None


def _holds(one: Expression, value: str | None) -> bool:
    match one.operator:
        case Operator.IN:
            return value is not None and value in one.values
        case Operator.NOT_IN:
            return value is None or value not in one.values
        case Operator.EXIST:
            return value is not None
        case Operator.NOT_EXIST:
            return value is None


def canonical(expressions: Iterable[Expression]) -> tuple[Expression, ...]:
    """Equal for lists that demand the same in another order."""
    plain = {
        Expression(one.key, one.operator, _listed(one.values) if one.operator in (Operator.IN, Operator.NOT_IN) else ())
        for one in expressions
    }
    return tuple(sorted(plain, key=lambda one: (one.key, one.operator.value, one.values)))


def _listed(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))


def why_unmet(one: Expression) -> str:
    """What is wrong where the expression does not hold, as a phrase that is the same for all such places."""
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
