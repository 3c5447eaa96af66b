"""Times of the scheduler's clock as wall times."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

ValueT = TypeVar("ValueT")


def with_wall_times(value: ValueT, epoch_ns: int) -> ValueT:
    """The explanation with times since the Unix epoch: every field that ends with `_ns` is a time."""
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed: dict[str, Any] = {}
    for field in fields(value):
        old = getattr(value, field.name)
        if field.name.endswith("_ns"):
            changed[field.name] = None if old is None else epoch_ns + old
        elif is_dataclass(old):
            changed[field.name] = with_wall_times(old, epoch_ns)
        elif isinstance(old, list) and old and is_dataclass(old[0]):
            changed[field.name] = [with_wall_times(one, epoch_ns) for one in old]
    return replace(value, **changed) if changed else value
