"""What `/debug/state` answers: what was asked for, and the invariants while checking them takes hardly any time."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from schedulerd.core.invariants.all import extent
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.scheduler import Scheduler
from schedulerd.daemon.admin.debug_state import StateParameters, debug_state
from schedulerd.instant import Instant
from tests.unit.core.builders import a_conversation, a_node, a_placeholder, an_app, an_ask


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
    checked = debug_state(scheduler, recount_items_max=10)(StateParameters())
    assert (checked.violations, checked.not_checked_because) == ([], "")
    unchecked = debug_state(scheduler, recount_items_max=9)(StateParameters())
    assert unchecked.violations is None
    assert unchecked.not_checked_because == "10 items are more than the 9 of the setting recount_items_max"


@pytest.mark.parametrize("part", ["rm", "partition", "application", "node"])
def test_invariants_are_not_checked_for_a_partial_query(part: str) -> None:
    state = debug_state(a_scheduler(), recount_items_max=10)(StateParameters.model_validate({part: "x"}))
    assert state.violations is None
    assert state.not_checked_because == "the query selects a part of the state, and the check needs all of it"


def test_an_invariant_that_does_not_hold_is_shown() -> None:
    scheduler = a_scheduler()
    (partition,) = scheduler.cluster.partitions()
    partition.nodes["n1"].allocated.add([("memory", 1)])
    (found, *_) = debug_state(scheduler, recount_items_max=10)(StateParameters()).violations or []
    assert "allocated of node n1" in found


def test_what_is_asked_for_is_shown_and_the_rest_counted() -> None:
    look_at = debug_state(a_scheduler(), recount_items_max=10)
    (manager,) = look_at(StateParameters(application="app-1", node="n0")).resource_managers
    (partition,) = manager.partitions
    assert [one.application_id for one in partition.applications] == ["app-1"]
    assert [one.node_id for one in partition.nodes] == ["n0"]
    bounded = look_at(StateParameters(limit=1))
    assert bounded.left_out["nodes"] == 1
    assert look_at(StateParameters()).left_out == {}


def test_a_gang_is_shown_with_its_task_groups_and_no_more_of_them_than_asked_for() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}))
    talk.asks(*(a_placeholder(f"p-{name}", task_group=name) for name in ("workers", "driver")))
    talk.asks(an_ask("real", task_group="workers"))
    talk.now_ns += 5
    talk.schedule()
    look_at = debug_state(talk.scheduler, recount_items_max=100)
    (app,) = look_at(StateParameters()).resource_managers[0].partitions[0].applications
    assert app.gang_first_asked_ns is not None
    assert app.gang_full_ns == app.gang_first_asked_ns + 5
    assert [(one.name, one.wanted, one.placed, one.idle, one.awaiting_placeholder) for one in app.task_groups] == [
        ("driver", 1, 1, 1, 0),
        ("workers", 1, 1, 0, 1),
    ]
    assert look_at(StateParameters(limit=1)).left_out["task groups"] == 1


def test_times_are_shown_as_wall_time_by_the_clocks_as_they_stand_at_the_look() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}))
    talk.apps(an_app("incomplete"))
    talk.asks(an_ask("k", memory=1_000), a_placeholder("p", task_group="workers"))
    talk.asks(a_placeholder("p", app="incomplete"), a_placeholder("q", 1_000, app="incomplete"))
    talk.schedule()
    now = Instant(talk.now_ns + 5, 1_700_000_000 * SECOND_NS)
    (manager,) = debug_state(talk.scheduler, 100, clocks=lambda: now)(StateParameters()).resource_managers
    (inside,) = debug_state(talk.scheduler, 100, clocks=lambda: Instant(0, 0))(StateParameters()).resource_managers
    shown, known = times_of(asdict(manager)), times_of(asdict(inside))
    assert [one - (now.wall_ns - now.monotonic_ns) for _, one in shown] == [one for _, one in known]
    assert {name for name, _ in shown} >= {
        *("configured_at_ns", "state_log", "submitted_at_ns", "asked_at_ns"),
        *("gang_deadline_ns", "gang_first_asked_ns", "gang_full_ns"),
    }


def times_of(value: Any, name: str = "") -> list[tuple[str, int]]:
    """All times in plain values, with the name of the field."""
    if isinstance(value, dict):
        return [found for key, one in value.items() for found in times_of(one, key)]
    if isinstance(value, list | tuple):
        return [found for one in value for found in times_of(one, name)]
    is_time = name == "state_log" or (name.endswith("_ns") and name != "preemption_delay_ns")
    return [(name, value)] if is_time and isinstance(value, int) else []
