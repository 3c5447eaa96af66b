"""What `/debug/state` answers: what was asked for, and the invariants while checking them takes hardly any time."""

from __future__ import annotations

from schedulerd.core.invariants import extent
from schedulerd.core.scheduler import Scheduler
from schedulerd.daemon.debug_state import StateQuery, debug_state
from tests.unit.core.builders import a_conversation, a_node, an_app, an_ask


def a_scheduler() -> Scheduler:
    """Two nodes; two applications with two allocations and one ask each."""
    talk = a_conversation(*(a_node(f"n{number}", {"memory": 100}) for number in range(2)))
    talk.apps(an_app("app-1"))
    for name in ("app", "app-1"):
        talk.asks(an_ask("k", count=2, app=name))
    talk.schedule()
    return talk.scheduler


def test_invariants_are_checked_up_to_the_bound_and_not_beyond() -> None:
    scheduler = a_scheduler()
    assert extent(scheduler) == 2 + 2 + 4 + 2
    checked = debug_state(scheduler, recount_items_max=10)(StateQuery())
    assert (checked.violations, checked.not_checked_because) == ([], "")
    unchecked = debug_state(scheduler, recount_items_max=9)(StateQuery())
    assert unchecked.violations is None
    assert unchecked.not_checked_because == "10 items are more than the 9 of the setting recount_items_max"


def test_an_invariant_that_does_not_hold_is_shown() -> None:
    scheduler = a_scheduler()
    (partition,) = scheduler.cluster.partitions()
    partition.nodes["n1"].allocated.add([("memory", 1)])
    (found, *_) = debug_state(scheduler, recount_items_max=10)(StateQuery()).violations or []
    assert "allocated of node n1" in found


def test_what_is_asked_for_is_shown_and_the_rest_counted() -> None:
    look_at = debug_state(a_scheduler(), recount_items_max=10)
    (manager,) = look_at(StateQuery(application="app-1", node="n0")).resource_managers
    (partition,) = manager.partitions
    assert [one.application_id for one in partition.applications] == ["app-1"]
    assert [one.node_id for one in partition.nodes] == ["n0"]
    bounded = look_at(StateQuery(limit=1))
    assert bounded.left_out["nodes"] == 1
    assert look_at(StateQuery()).left_out == {}
