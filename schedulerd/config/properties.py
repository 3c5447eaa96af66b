"""The `properties` of a queue: which names are known, what each may be, and what a child takes over.

In the file they are an open mapping of texts, so that a misspelt name cannot be told from one that a newer version
knows. It is a warning and not an error, but never passed over in silence (SEMANTICS H). A known name with a value that
it may not have is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from schedulerd.config.choices import one_of
from schedulerd.core.language import reading
from schedulerd.core.language.specs import (
    ApplicationOrder,
    OnBelowMin,
    PreemptionPolicy,
    PriorityPolicy,
    QueueOrder,
    QueueProperties,
    WithinQueue,
)
from schedulerd.settings.problems import Finding, Path


class Switch(StrEnum):
    """On and off, as this file spells it."""

    ENABLED = "enabled"
    DISABLED = "disabled"


def _is_enabled(text: str) -> bool:
    return one_of(Switch)(text) is Switch.ENABLED


def _whole_number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        return reading.whole_number(text, least, most)

    return parse


def _duration_ns(least_ns: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        duration_ns = reading.duration_ns(text)
        if duration_ns < least_ns:
            raise ValueError(f"must be a duration {'of 0 or more' if least_ns == 0 else 'of more than 0'}, like 30s")
        return duration_ns

    return parse


@dataclass(frozen=True, slots=True)
class Property:
    """A name that is known."""

    parse: Callable[[str], Any]
    """Raises ValueError with a sentence that says what is allowed."""
    default: str
    field: str = ""
    """Of `QueueProperties`; empty if this version does not act on the property."""


PROPERTIES: Mapping[str, Property] = MappingProxyType(
    {
        "application.sort.policy": Property(one_of(ApplicationOrder), "fifo", "application_order"),
        "queue.sort.policy": Property(one_of(QueueOrder), "fair", "queue_order"),
        "application.sort.priority": Property(_is_enabled, "enabled", "priority_sort"),
        "priority.policy": Property(one_of(PriorityPolicy), "default", "priority_policy"),
        "priority.offset": Property(_whole_number(-(2**31), 2**31 - 1), "0", "priority_offset"),
        "preemption.policy": Property(one_of(PreemptionPolicy), "default", "preemption_policy"),
        "preemption.delay": Property(_duration_ns(1), "30s", "preemption_delay_ns"),
        "preemption.within-queue": Property(one_of(WithinQueue), "off", "preemption_within_queue"),
        "quota.preemption.delay": Property(_duration_ns(0), "0", "quota_preemption_delay_ns"),
        "gang.placeholder.idle.timeout": Property(_duration_ns(0), "15m", "gang_placeholder_idle_timeout_ns"),
        "gang.on-below-min": Property(one_of(OnBelowMin), "continue", "gang_on_below_min"),
        "gang.below-min.timeout": Property(_duration_ns(0), "15m", "gang_below_min_timeout_ns"),
        "stateaware.timeout": Property(_duration_ns(1), "30s", "stateaware_timeout_ns"),
        "application.unschedasks.backoff": Property(_whole_number(0, 2**64 - 1), "0"),
        "application.unschedasks.backoff.delay": Property(_duration_ns(1), "30s"),
    }
)


def check_properties(values: Mapping[str, str], at: Path) -> Iterator[Finding]:
    """Checks the values of all known properties."""
    for name, text in values.items():
        if name in PROPERTIES:
            try:
                PROPERTIES[name].parse(text)
            except ValueError as error:
                yield (*at, name), str(error)


def queue_properties(written: Mapping[str, str], inherited: QueueProperties) -> QueueProperties:
    """The effective properties of a queue: `inherited`, changed by `written`, which has passed `check_properties`."""
    known = ((PROPERTIES[name], text) for name, text in written.items() if name in PROPERTIES)
    return replace(inherited, **{item.field: item.parse(text) for item, text in known if item.field})
