"""The answer of `/debug/state`: a look at the scheduler's state that cannot hold it up for long, whoever asks.

The endpoint needs no credentials, so its cost is bounded, not trusted: it shows the first things of each kind and says
how many it leaves out, and it checks the invariants, which needs everything, only while everything is little enough.
What is shown is one moment of one state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass

from pydantic import BaseModel, ConfigDict, Field

from schedulerd.core import view
from schedulerd.core.invariants import extent, violations
from schedulerd.core.look import Look
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.views import ResourceManagerView

LIMIT_MAX = 500
"""Things of one kind in one answer. At this limit an answer holds the loop for about 20 ms."""


class StateQuery(BaseModel):
    """The query parameters. An id that is not given stands for all."""

    model_config = ConfigDict(extra="forbid")

    rm: str = ""
    partition: str = ""
    application: str = ""
    node: str = ""
    limit: int = Field(default=LIMIT_MAX, ge=1, le=LIMIT_MAX)


@dataclass(frozen=True, slots=True)
class DebugState:
    """What is shown; all of it plain values, apart from the state."""

    resource_managers: list[ResourceManagerView]
    left_out: Mapping[str, int]
    """How many things of a kind are not shown, of those that belong to something that is."""
    violations: list[str] | None
    """The invariants that do not hold, as sentences; None if they were not checked."""
    not_checked_because: str


def debug_state(scheduler: Scheduler, recount_items_max: int) -> Callable[[StateQuery], DebugState]:
    """A function that looks at `scheduler`, and checks its invariants while it holds no more than so many items."""

    def look_at(query: StateQuery) -> DebugState:
        look = Look(query.rm, query.partition, query.application, query.node, query.limit)
        managers = view.resource_managers(scheduler, look)
        items = extent(scheduler)
        if items > recount_items_max:
            reason = f"{items} items are more than the {recount_items_max} of the setting recount_items_max"
            return DebugState(managers, look.left_out, None, reason)
        return DebugState(managers, look.left_out, violations(scheduler), "")

    return look_at


def as_json(state: object) -> str:
    """Dataclasses, mappings and lists of what JSON can hold as JSON text; takes a while, so not for the loop."""
    return json.dumps(state, default=_as_dictionary)


def _as_dictionary(value: object) -> dict[str, object]:
    if not is_dataclass(value):
        raise TypeError(f"{type(value).__name__} cannot be shown as JSON")
    return {field.name: getattr(value, field.name) for field in fields(value)}
