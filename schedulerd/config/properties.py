"""The `properties` of a queue: which names are known, and what each may be.

In the file they are an open mapping of texts, so that a misspelt name cannot be told from one that a newer version
knows. It is a warning and not an error, but never passed over in silence (SEMANTICS H).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from schedulerd.config import quantities
from schedulerd.config.problems import Finding, Path
from schedulerd.core.specs import ApplicationOrder

SORT_POLICY = "application.sort.policy"
STATE_AWARE = "stateaware"
"""An older name: applications are taken in the order in which they came, like `fifo`."""


def parse_application_order(text: str) -> ApplicationOrder:
    """The order that a value of `application.sort.policy` stands for. Raises ValueError for any other value."""
    _one_of(*ApplicationOrder, STATE_AWARE)(text)
    return ApplicationOrder.FIFO if text.lower() == STATE_AWARE else ApplicationOrder(text.lower())


def _one_of(*names: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        if text.lower() not in names:
            raise ValueError(f"must be one of {', '.join(names)}")

    return check


def _whole_number(least: int, most: int) -> Callable[[str], None]:
    def check(text: str) -> None:
        if not re.fullmatch(r"[+-]?[0-9]{1,20}", text) or not least <= int(text) <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")

    return check


def _duration(least_ns: int) -> Callable[[str], None]:
    def check(text: str) -> None:
        if quantities.parse_duration_ns(text) < least_ns:
            raise ValueError(f"must be a duration {'of 0 or more' if least_ns == 0 else 'of more than 0'}, like 30s")

    return check


CHECKS: Mapping[str, Callable[[str], object]] = MappingProxyType(
    {
        SORT_POLICY: parse_application_order,
        "application.sort.priority": _one_of("enabled", "disabled"),
        "priority.policy": _one_of("default", "fence"),
        "priority.offset": _whole_number(-(2**31), 2**31 - 1),
        "preemption.policy": _one_of("default", "fence", "disabled"),
        "preemption.delay": _duration(1),
        "quota.preemption.delay": _duration(0),
        "application.unschedasks.backoff": _whole_number(0, 2**64 - 1),
        "application.unschedasks.backoff.delay": _duration(1),
    }
)
"""The known names; a check raises ValueError with what would be right."""

ENFORCED = frozenset({SORT_POLICY})
"""The properties that this version acts on."""


def check_properties(values: Mapping[str, str], at: Path) -> Iterator[Finding]:
    """Every known property has a value that it may have."""
    for name, text in values.items():
        try:
            CHECKS.get(name, str)(text)
        except ValueError as error:
            yield (*at, name), str(error)
