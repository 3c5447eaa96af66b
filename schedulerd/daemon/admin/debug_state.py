"""The response of `/debug/state`: a query of the scheduler's state with a bounded cost.

By default the endpoint needs no credentials, so it must not trust its clients: it shows the first objects of each kind
and counts the others. The check of the invariants needs all objects, so it runs only if there are few enough of them
and the query does not select a part of the state. A response shows one moment of the state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from schedulerd.core.invariants.all import extent, violations
from schedulerd.core.language.resources import within_int64
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.views import view
from schedulerd.core.views.state_query import StateQuery
from schedulerd.core.views.values import ResourceManagerView
from schedulerd.daemon.runtime.json_stream import JsonWriter, field_names
from schedulerd.instant import Instant, read_clocks

LIMIT_MAX = 500
"""Maximum number of objects of each kind in a response. At this limit a response holds the loop for about 20 ms."""


class StateParameters(BaseModel):
    """The query parameters. An empty id selects everything."""

    model_config = ConfigDict(extra="forbid")

    rm: str = ""
    partition: str = ""
    application: str = ""
    node: str = ""
    limit: int = Field(default=LIMIT_MAX, ge=1, le=LIMIT_MAX)

    @property
    def is_for_a_part(self) -> bool:
        return bool(self.rm or self.partition or self.application or self.node)


@dataclass(frozen=True, slots=True)
class DebugState:
    """The content of a response. Its values are plain, and independent of the scheduler's objects."""

    resource_managers: list[ResourceManagerView]
    left_out: Mapping[str, int]
    """By kind, the number of objects that are not shown although the object that they belong to is."""
    violations: list[str] | None
    """The invariants that do not hold, as sentences; None if they were not checked."""
    not_checked_because: str


def debug_state(
    scheduler: Scheduler, recount_items_max: int, clocks: Callable[[], Instant] = read_clocks
) -> Callable[[StateParameters], DebugState]:
    """Returns a function that queries the state of `scheduler`.

    Times in the result are wall time, by the clocks at the time of the query (`Instant.wall_of`). The invariants are
    checked too, if the query selects no part of the state and there are at most `recount_items_max` items.
    """

    def read(asked: StateParameters) -> DebugState:
        epoch_ns = clocks().epoch_ns
        query = StateQuery(
            asked.rm, asked.partition, asked.application, asked.node, epoch_ns=epoch_ns, limit=asked.limit
        )
        managers = view.resource_managers(scheduler.cluster, query)
        if asked.is_for_a_part:
            return DebugState(
                managers, query.left_out, None, "the query selects a part of the state, and the check needs all of it"
            )
        items = extent(scheduler)
        if items > recount_items_max:
            reason = f"{items} items are more than the {recount_items_max} of the setting recount_items_max"
            return DebugState(managers, query.left_out, None, reason)
        return DebugState(managers, query.left_out, violations(scheduler), "")

    return read


def as_json(value: object) -> str:
    """Encodes dataclasses, mappings and lists of JSON values in one call. Raises `TypeError` for anything else."""
    return _encode(_shown(value))


def _as_dictionary(value: Any) -> dict[str, object]:
    names = field_names(value.__class__)
    if not names:
        raise TypeError(f"{type(value).__name__} cannot be shown as JSON")
    return {name: _shown(getattr(value, name)) for name in names}


def _shown(value: object) -> object:
    """Limits integers, also in dicts, to int64: many JSON readers know no larger ones. Other values are unchanged."""
    if type(value) is int:
        return within_int64(value)
    if type(value) is dict:
        return {name: _shown(one) for name, one in value.items()}
    return value


_encode = json.JSONEncoder(default=_as_dictionary).encode

STATE_JSON = JsonWriter(as_json, ", ", ": ")
