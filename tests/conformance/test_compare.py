"""The comparison itself: a scenario can only pass if a wrong answer fails, so each kind of wrong answer is tried."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tests.conformance.compare import Difference, Level, Rightly, differences
from tests.conformance.documented import Additions, Excuse, Place, additions, judge
from tests.loops import each_row

Json = dict[str, Any]


def a_result() -> Json:
    events = [
        {"ev": "appUpdated", "app": "app1", "state": "Running", "message": "runApplication", "m": 0},
        {"ev": "alloc", "app": "app1", "key": "a1", "node": "n1", "resources": {"memory": 10, "gpu": 0}, "m": 1},
        {"ev": "released", "app": "app1", "key": "a0", "terminationType": "STOPPED_BY_RM", "message": "gone", "m": 1},
    ]
    snapshot = {
        "apps": {"app1": {"state": "Running", "queue": "root.a"}},
        "completedApps": {},
        "rejectedApps": {},
        "queues": {"root.a": {"allocated": {"memory": 10}, "pending": {}, "maxApps": 0}},
        "nodes": {"n1": {"allocations": ["app1|a1"]}},
        "users": {"u1": {"queues": {"root": {"usage": {"memory": 10}}}}},
    }
    checks = [{"label": "x", "events": events, "snapshot": snapshot}]
    return {"name": "s", "unstable": [], "registerError": "", "checks": checks}


def compared(change: Any, level: Level = Level.VISIBLE, unstable: tuple[str, ...] = ()) -> list[Difference]:
    expected, actual = a_result(), copy.deepcopy(a_result())
    expected["unstable"] = list(unstable)
    change(actual["checks"][0])
    return differences(expected, actual, level)


WRONG = {
    "another node": lambda check: check["events"][1].update(node="n2"),
    "another size": lambda check: check["events"][1].update(resources={"memory": 11}),
    "an event missing": lambda check: check["events"].pop(),
    "an event twice": lambda check: check["events"].append(check["events"][1]),
    "another termination type": lambda check: check["events"][2].update(terminationType="TIMEOUT"),
    "no message at all": lambda check: check["events"][2].update(message=""),
    "another state": lambda check: check["snapshot"]["apps"]["app1"].update(state="Starting"),
    "an application missing": lambda check: check["snapshot"]["apps"].clear(),
    "an application too many": lambda check: check["snapshot"]["apps"].update(app2={"state": "New"}),
    "another amount": lambda check: check["snapshot"]["queues"]["root.a"]["allocated"].update(memory=11),
    "something pending": lambda check: check["snapshot"]["queues"]["root.a"]["pending"].update(memory=1),
    "another allocation": lambda check: check["snapshot"]["nodes"]["n1"].update(allocations=["app1|a2"]),
    "another usage": lambda check: check["snapshot"]["users"]["u1"]["queues"]["root"]["usage"].update(memory=9),
}


@each_row("change", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_answer_is_found(change: Any) -> None:
    assert compared(change)


SAME = {
    "nothing changed": lambda check: None,
    "another wording": lambda check: check["events"][2].update(message="released as asked"),
    "another batching": lambda check: [event.update(m=7) for event in check["events"]],
    "the priority, which the peer does not send": lambda check: check["events"][1].update(priority=5),
    "another order": lambda check: check["events"].reverse(),
    "a zero": lambda check: check["snapshot"]["queues"]["root.a"]["pending"].update(memory=0),
    "a zero in an event": lambda check: check["events"][1].update(resources={"memory": 10, "vcore": 0}),
    "a field the level does not look at": lambda check: check["snapshot"]["queues"]["root.a"].update(maxApps=3),
}


@each_row("change", SAME.values(), ids=SAME.keys())
def test_what_is_not_visible_does_not_matter(change: Any) -> None:
    assert not compared(change)


def test_level_order_looks_at_the_order_of_events() -> None:
    assert "event 1" in str(compared(lambda check: check["events"].reverse(), Level.ORDER)[0])


def test_level_full_looks_at_every_field() -> None:
    found = compared(lambda check: check["snapshot"]["queues"]["root.a"].update(maxApps=3), Level.FULL)
    assert [difference.pointer for difference in found] == ["/queues/root.a/maxApps"]


def test_what_was_unstable_and_all_below_it_is_skipped() -> None:
    def change(check: Json) -> None:
        check["snapshot"]["apps"].clear()
        check["events"][1].update(node="n9")

    assert not compared(change, unstable=("/checks/0/snapshot/apps/app1", "/checks/0/events/1/node"))
    assert compared(change, unstable=("/checks/0/snapshot/apps/app", "/checks/0/events/1/node"))
    assert compared(change, unstable=("/checks/0/snapshot/apps/app1", "/checks/0/events/1/key"))


def test_a_registration_that_succeeds_instead_of_failing_is_found() -> None:
    expected = a_result() | {"registerError": "no such rule", "checks": []}
    assert "registration succeeds" in str(differences(expected, a_result(), Level.VISIBLE)[0])


def test_a_missing_check_is_found() -> None:
    assert differences(a_result(), a_result() | {"checks": []}, Level.VISIBLE)


def excuse(*places: Place) -> list[Excuse]:
    return [Excuse(("s",), "a rule", "a source", places)]


def test_an_excuse_covers_its_place_and_nothing_beside_it() -> None:
    def change(check: Json) -> None:
        check["snapshot"]["queues"]["root.a"].update(allocated={"memory": 11}, pending={"memory": 1})
        check["events"][1].update(node="n2")

    found = compared(change)
    place = Place("x", ("/queues/root.a/allocated",), ({"ev": "alloc", "key": "a1"},))
    judgement = judge("s", found, excuse(place))
    assert [difference.pointer for difference in judgement.left] == ["/queues/root.a/pending/memory"]
    assert judgement.rules == ["a rule (a source)"]
    assert judge("other", found, excuse(place)).left == found


def test_an_excuse_that_nothing_needs_is_stale() -> None:
    judgement = judge("s", [], excuse(Place("x", ("/queues",))))
    assert judgement.stale == ["x"]


# Additions: answers of ours that are due everywhere and were not recorded

CONFIRMED: Json = {"ev": "askReleased", "app": "app1", "key": "p*", "terminationType": "STOPPED_BY_RM"}
TAKEN_BACK: Json = {
    "aliases": [{"pattern": "^p[0-9]+$", "replace": "p*"}],
    "steps": [
        {"check": "before"},
        {"releaseAsks": [{"app": "app1", "key": "p7"}]},
        {"nodes": [{"id": "n1", "action": "DRAIN_TO_SCHEDULABLE"}]},
        {"releaseAsks": [{"app": "app1", "key": "u", "terminationType": "UNKNOWN_TERMINATION_TYPE"}]},
        {"check": "x"},
        {"removeApps": ["app2"]},
        {"check": "after"},
    ],
}


def is_added(check: int, **fields: str) -> bool:
    return Additions(TAKEN_BACK, additions())(check, CONFIRMED | fields)


def test_a_confirmed_release_of_an_ask_is_rightly_added_after_its_cause_and_nowhere_else() -> None:
    assert is_added(1)
    assert is_added(2, app="app2", key="any")
    assert not is_added(0), "before its cause"
    assert not is_added(2), "another check"
    assert not is_added(1, key="q1")
    assert not is_added(1, app="app2")
    assert not is_added(1, terminationType="TIMEOUT")
    assert not is_added(1, ev="released")


def test_an_unknown_type_is_rightly_confirmed_only_for_an_ask_that_was_released_with_it() -> None:
    unknown = {"terminationType": "UNKNOWN_TERMINATION_TYPE"}
    assert is_added(1, key="u", **unknown)
    assert not is_added(1, key="p*", **unknown)
    assert not is_added(2, key="u", **unknown)


def test_a_rejected_node_is_rightly_added_only_if_it_was_to_be_undrained() -> None:
    assert is_added(1, ev="nodeRejected", node="n1")
    assert not is_added(1, ev="nodeRejected", node="n2")
    assert not is_added(0, ev="nodeRejected", node="n1")


class Adds(Rightly):
    def __init__(self, adds: Callable[[Json], bool]) -> None:
        self._adds = adds

    def adds(self, check: int, event: Json) -> bool:
        return self._adds(event)


def test_what_is_added_changes_nothing_about_the_rest() -> None:
    def found(*events: Json, level: Level = Level.ORDER) -> list[Difference]:
        expected, actual = a_result(), copy.deepcopy(a_result())
        actual["checks"][0]["events"] = list(events)
        return differences(expected, actual, level, Adds(lambda event: event.items() >= CONFIRMED.items()))

    updated, allocated, released = a_result()["checks"][0]["events"]
    assert found(updated, CONFIRMED, allocated, CONFIRMED, released) == []
    assert found(CONFIRMED, allocated, updated, released), "the order"
    assert found(CONFIRMED, updated, released), "one that is missing"
    assert found(CONFIRMED, updated, allocated, released, released), "one too many"
    recorded = a_result()
    recorded["checks"][0]["events"].append(CONFIRMED)
    everything = Adds(lambda event: True)
    assert differences(recorded, a_result(), Level.VISIBLE, everything), "a recorded one that does not come"


def test_every_addition_has_a_cause_rule_and_source() -> None:
    for addition in additions():
        assert addition.event["ev"]
        assert addition.causes
        assert addition.rule
        assert addition.source
