"""The answer of `/debug/state`: a look at the scheduler's state that cannot hold it up for long, whoever asks.

The endpoint needs no credentials, so its cost is bounded, not trusted: it shows the first things of each kind and says
how many it leaves out. To check the invariants it needs everything, so it does that only while everything is little
enough, and not for who asks for a part. What is shown is one moment of one state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from schedulerd.core import view
from schedulerd.core.invariants import extent, violations
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.state_query import StateQuery
from schedulerd.core.views import ResourceManagerView
from schedulerd.instant import Instant, read_clocks

LIMIT_MAX = 500
"""Things of one kind in one answer. At this limit an answer holds the loop for about 20 ms."""


class StateParameters(BaseModel):
    """The query parameters. An id that is not given stands for all."""

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
    """What is shown; all of it plain values, apart from the state."""

    resource_managers: list[ResourceManagerView]
    left_out: Mapping[str, int]
    """How many things of a kind are not shown, of those that belong to something that is."""
    violations: list[str] | None
    """The invariants that do not hold, as sentences; None if they were not checked."""
    not_checked_because: str


def debug_state(
    scheduler: Scheduler, recount_items_max: int, clocks: Callable[[], Instant] = read_clocks
) -> Callable[[StateParameters], DebugState]:
    """A function that looks at `scheduler`.

    Times are wall time, by the clocks as they stand at the look (`Instant.wall_of`). If the look is not for a part of
    it, it checks the invariants as well, while there are no more than so many items.
    """

    def look_at(query: StateParameters) -> DebugState:
        epoch_ns = clocks().epoch_ns
        look = StateQuery(
            query.rm, query.partition, query.application, query.node, epoch_ns=epoch_ns, limit=query.limit
        )
        managers = view.resource_managers(scheduler, look)
        if query.is_for_a_part:
            return DebugState(managers, look.left_out, None, "only a part was asked for, and all is needed for that")
        items = extent(scheduler)
        if items > recount_items_max:
            reason = f"{items} items are more than the {recount_items_max} of the setting recount_items_max"
            return DebugState(managers, look.left_out, None, reason)
        return DebugState(managers, look.left_out, violations(scheduler), "")

    return look_at
