"""Builders for placement constraints."""

from __future__ import annotations

from schedulerd.core.language.commands import AllocationAffinity, Expression, Operator, PlacementConstraint

HOST = "si/hostname"


def one_of(key: str, *values: str) -> Expression:
    return Expression(key, Operator.IN, values)


def none_of(key: str, *values: str) -> Expression:
    return Expression(key, Operator.NOT_IN, values)


def has(key: str) -> Expression:
    return Expression(key, Operator.EXIST)


def lacks(key: str) -> Expression:
    return Expression(key, Operator.NOT_EXIST)


def on(*expressions: Expression) -> PlacementConstraint:
    """On nodes whose attributes are so."""
    return PlacementConstraint(expressions)


def together(
    scope: str, *expressions: Expression, least: int = 0, most: int = 0, required: bool = True
) -> PlacementConstraint:
    """Where so many allocations that are so are together, the ask counted if it is so itself."""
    return PlacementConstraint((), AllocationAffinity(scope, expressions, least, most, required))


WEB = {"app": "web"}
DB = {"app": "db"}
IS_WEB, IS_DB = one_of("app", "web"), one_of("app", "db")
