"""The order `fair` as the peer had it when the scenarios were recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import ApplicationOrder, QueueOrder
from schedulerd.core.state.pending.sort_keys import APPLICATION_ORDERS, QUEUE_ORDERS, SortOrder


def recorded_share(used: Resources, guaranteed: Resources, _max: Limits, _capacity: Resources) -> tuple[float, ...]:
    """Usage over guarantee by type, largest first; where nothing is guaranteed, the amount itself."""
    found = [amount / ((name in guaranteed and guaranteed[name]) or 1) for name, amount in used.items() if amount]
    return tuple(sorted(found, reverse=True))


@contextmanager
def recorded_order() -> Iterator[None]:
    """Meanwhile `fair` queues and applications are ordered as the peer ordered them."""
    queues, applications = cast("dict[Any, Any]", QUEUE_ORDERS), cast("dict[Any, Any]", APPLICATION_ORDERS)
    own = queues[QueueOrder.FAIR], applications[ApplicationOrder.FAIR]
    queues[QueueOrder.FAIR] = recorded_share
    applications[ApplicationOrder.FAIR] = SortOrder(recorded_share, admits_gangs=False)
    try:
        yield
    finally:
        queues[QueueOrder.FAIR], applications[ApplicationOrder.FAIR] = own
