"""Label selectors, compiled: what is compared for every pod and node is read once.

Equal selectors compile to equal objects, whatever the order they were written in, so that pods of one template share
their counters. Source: Kubernetes' documentation "Labels and Selectors"; apimachinery `labels.Requirement`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, Protocol

from schedulerd.kubernetes.objects.meta import LabelSelector

IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GREATER, LESS = "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1

_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_NAMES_MAX = 16_384


class MalformedSelector(ValueError):
    """The API server would not take the selector."""


class RequirementSource(Protocol):
    """What requirements on labels of pods and of nodes have in common."""

    @property
    def key(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def values(self) -> tuple[str, ...] | None: ...


class Requirement(NamedTuple):
    key: str
    operator: str
    values: tuple[str, ...] = ()
    """Sorted, each once."""

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case _:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        """Gt and Lt: both sides have to be integers."""
        found, bound = integer(value), integer(self.values[0])
        if found is None or bound is None:
            return False
        return found > bound if self.operator == GREATER else found < bound


class Selector(NamedTuple):
    """All requirements are to be met."""

    requirements: tuple[Requirement, ...] = ()
    matches_nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.matches_nothing:
            return False
        for requirement in self.requirements:  # noqa: SIM110 (a generator doubles the time)
            if not requirement.holds(labels):
                return False
        return True


NOTHING = Selector((), matches_nothing=True)
"""What no selector at all means for pods."""


def compiled(selector: LabelSelector | None, more: Iterable[Requirement] = ()) -> Selector:
    """The selector with further requirements. Raises MalformedSelector."""
    if selector is None:
        return NOTHING
    found = {Requirement(key, IN, (label_value(value),)) for key, value in (selector.match_labels or {}).items()}
    for one in found:
        label_key(one.key)
    found.update(requirement(one) for one in selector.match_expressions or ())
    found.update(more)
    return Selector(tuple(sorted(found)))


def requirement(source: RequirementSource) -> Requirement:
    """A requirement that can be met by labels. Raises MalformedSelector."""
    if source.operator in (GREATER, LESS):
        raise MalformedSelector(f"operator {source.operator!r} is not for labels of pods")
    return node_requirement(source)


def node_requirement(source: RequirementSource) -> Requirement:
    """As `requirement`, also with Gt and Lt. Raises MalformedSelector."""
    values = tuple(sorted(set(source.values or ())))
    label_key(source.key)
    for value in values:
        label_value(value)
    match source.operator:
        case "In" | "NotIn":
            fits = bool(values)
        case "Exists" | "DoesNotExist":
            fits = not values
        case "Gt" | "Lt":
            fits = len(source.values or ()) == 1 and integer(values[0]) is not None
        case _:
            raise MalformedSelector(f"operator {source.operator[:30]!r} is unknown")
    if not fits:
        raise MalformedSelector(f"operator {source.operator} has {len(values)} values, or of the wrong kind")
    return Requirement(source.key, source.operator, values)


@lru_cache(_NAMES_MAX)
def label_key(key: str) -> str:
    """The key, if it is one: `name` or `prefix/name`. Raises MalformedSelector."""
    prefix, slash, name = key.rpartition("/")
    is_good = bool(name) and _VALUE.fullmatch(name) is not None and (not slash or _PREFIX.fullmatch(prefix) is not None)
    if not is_good:
        raise MalformedSelector(f"{key[:80]!r} is no label key")
    return key


@lru_cache(_NAMES_MAX)
def label_value(value: str) -> str:
    """The value, if it is one: at most 63 letters, digits, `-`, `_`, `.`. Raises MalformedSelector."""
    if _VALUE.fullmatch(value) is None:
        raise MalformedSelector(f"{value[:80]!r} is no label value")
    return value


def integer(text: str | None) -> int | None:
    """As Go reads a decimal int64; None for all else."""
    if text is None or _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if _INT64_MIN <= number <= _INT64_MAX else None
