"""Which of two gangs is served before the other."""

from __future__ import annotations

from dataclasses import replace

from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import QueueProperties
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.pending.gang_order import are_equal, is_ahead
from tests.loops import each_row
from tests.unit.core.builders import a_conversation, a_placeholder, a_queue_spec, a_root, an_app
from tests.unit.core.gangs.test_declared_gangs import declares


def gangs(first: int, second: int, *, priority_sort: bool) -> tuple[Application, Application]:
    """Two gangs of these priorities in one leaf, the older one first."""
    leaf = replace(a_queue_spec("a"), properties=QueueProperties(priority_sort=priority_sort))
    talk = a_conversation(root=a_root(leaf))
    for name, priority in (("older", first), ("younger", second)):
        gang = declares({"name": "w", "min": 2, "resources": {"memory": 10}, "priority": priority})
        talk.apps(replace(gang, application_id=name))
        talk.schedule()
        talk.now_ns += 1
    there = talk.model().applications
    return there["older"], there["younger"]


@each_row(
    ("priorities", "priority_sort", "is_first", "equal"),
    [
        ((0, 0), True, True, True),
        ((0, 7), True, False, False),
        ((7, 0), True, True, False),
        ((0, 7), False, True, False),
    ],
)
def test_gangs_of_a_leaf_come_by_priority_if_it_sorts_by_that_and_by_age(
    priorities: tuple[int, int], priority_sort: bool, is_first: bool, equal: bool
) -> None:
    older, younger = gangs(*priorities, priority_sort=priority_sort)
    assert (is_ahead(older, younger), is_ahead(younger, older)) == (is_first, not is_first)
    assert are_equal(older, younger) is equal


def test_a_gang_of_placeholders_comes_by_age() -> None:
    talk = a_conversation()
    talk.apps(an_app("placeholders", "root.a", placeholder_ask=Resources(memory=20)))
    talk.asks(a_placeholder("p", 10, 2, "placeholders"))
    talk.now_ns += 1
    talk.apps(declares({"name": "w", "min": 2, "resources": {"memory": 10}, "priority": 7}))
    there = talk.model().applications
    assert is_ahead(there["placeholders"], there["gang"])
    assert not is_ahead(there["gang"], there["placeholders"])
    assert are_equal(there["placeholders"], there["gang"])
