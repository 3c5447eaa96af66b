"""Sort keys in a leaf."""

from __future__ import annotations

from itertools import product

from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import ApplicationOrder, QueueProperties
from schedulerd.core.state.pending.sort_keys import application_key, short_gang_key
from tests.loops import each_row


@each_row(("order", "priority_sort"), product(ApplicationOrder, (True, False)))
def test_a_gang_that_is_short_comes_before_all_that_are_not(order: ApplicationOrder, priority_sort: bool) -> None:
    properties = QueueProperties(application_order=order, priority_sort=priority_sort)
    nothing, cluster = Resources(), Resources(memory=100)
    first = application_key(properties, 2**31 - 1, nothing, nothing, Limits(), cluster, (0, "a"))
    older, younger = short_gang_key(properties, (5, "b")), short_gang_key(properties, (5, "c"))
    assert older < younger < first
