"""Priority classes and placement constraints, which only asks of 2021-02 have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from schedulerd._generated.si.v2021_02 import si_pb2
from schedulerd.core.language.checks import shown
from schedulerd.core.language.commands import AllocationAffinity, Expression, Operator, PlacementConstraint

_OPERATORS = {number: Operator(name) for name, number in si_pb2.AffinityTargetExpression.AffinityTargetOperator.items()}

_SIMPLE = "placementConstraint.simpleConstraint"
_KNOWN_OPERATORS = "IN (0), NOT_IN (1), EXIST (2) or NOT_EXIST (3)"


class Unreadable(ValueError):
    """A field that no command can express; the text names it, its value, and what would be right."""


def priority(message: si_pb2.Priority, classes: Mapping[str, int]) -> int:
    """The number that is given, or that of the class that is named; 0 for neither. Raises `Unreadable`."""
    name = message.priorityClassName
    if not name:
        return message.priorityValue
    value = classes.get(name)
    if value is not None:
        return value
    known = f"known are {', '.join(sorted(classes))}" if classes else "no class is"
    raise Unreadable(
        f"priority.priorityClassName is {shown(name)}, which is not configured (priority_classes): {known}"
    )


def placement_constraint(message: si_pb2.PlacementConstraint) -> PlacementConstraint | None:
    """The placement constraint of an ask; None if it constrains nothing. Raises `Unreadable`."""
    simple = message.simpleConstraint
    constraint = PlacementConstraint(
        node=_expressions(
            simple.nodeAffinityConstraint.targetExpressions, f"{_SIMPLE}.nodeAffinityConstraint.targetExpressions"
        ),
        allocations=(
            _affinity(simple.allocationAffinityAttribute) if simple.HasField("allocationAffinityAttribute") else None
        ),
    )
    return None if constraint == PlacementConstraint() else constraint


def _affinity(message: si_pb2.AllocationAffinityConstraints) -> AllocationAffinity:
    return AllocationAffinity(
        scope=message.scope,
        expressions=_expressions(message.tragetExpressions, f"{_SIMPLE}.allocationAffinityAttribute.tragetExpressions"),
        min_cardinality=message.minCardinality,
        max_cardinality=message.maxCardinality,
        required=message.required,
    )


def _expressions(messages: Iterable[si_pb2.AffinityTargetExpression], field: str) -> tuple[Expression, ...]:
    return tuple(_expression(message, f"{field}[{at}]") for at, message in enumerate(messages))


def _expression(message: si_pb2.AffinityTargetExpression, field: str) -> Expression:
    operator = _OPERATORS.get(message.targetOperator)
    if operator is None:
        raise Unreadable(f"{field}.targetOperator is {message.targetOperator}; it must be {_KNOWN_OPERATORS}")
    return Expression(message.targetKey, operator, tuple(sorted(set(message.targetValues))))
