"""Each rule excuses what follows from its cause, and nothing else: every other answer is still reported.

The recordings here are made up: our own answer to a small scenario, changed to what the peer says. No name is that of a
scenario that was recorded, so a rule can only know them by what happened in them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from schedulerd.core.language.facts.fact import Allocated, ApplicationChanged, ReleaseRequested
from tests.conformance.compare import Json, Level, differences
from tests.conformance.history import History
from tests.conformance.player import play_through
from tests.conformance.rules import Played, Rules
from tests.loops import each_row

CONFIG = 'partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: a}, {name: b}]}]}]'
SIZE = {"memory": 10}
ALIASES = [{"pattern": r"^(ph)\d+$", "replace": "${1}*"}]


def a_node(name: str, **more: str) -> Json:
    return {"nodes": [{"id": name, "resources": {"memory": 100}, **more}]}


def an_ask(key: str, app: str = "app1", **more: object) -> Json:
    return {"asks": [{"key": key, "app": app, "resources": SIZE, "taskGroup": "tg", **more}]}


def an_app(name: str, queue: str = "root.a", **more: object) -> Json:
    return {"apps": [{"id": name, "queue": queue, "user": "u1", "groups": [], **more}]}


def a_scenario(*steps: Json, config: str = CONFIG) -> Json:
    return {"name": "never recorded", "config": config, "aliases": ALIASES, "steps": [a_node("n1"), *steps]}


class Recording:
    """A scenario as we play it, beside a recording of it that a test changes."""

    def __init__(self, *steps: Json, config: str = CONFIG) -> None:
        self.scenario = a_scenario(*steps, config=config)
        self.answer, self.history = play_through(self.scenario)
        self.recorded: Json = copy.deepcopy(self.answer)
        self.labels = [check["label"] for check in self.answer["checks"]]

    def events(self, label: str) -> list[Json]:
        found: list[Json] = self.recorded["checks"][self.labels.index(label)]["events"]
        return found

    def snapshot(self, label: str) -> Json:
        found: Json = self.recorded["checks"][self.labels.index(label)]["snapshot"]
        return found

    def left(self) -> list[str]:
        """What is reported, also of the order of events."""
        rules = Rules(Played(self.scenario, self.recorded, self.answer, self.history), ())
        return [str(one) for one in differences(self.recorded, self.answer, Level.ORDER, rules)]


def without(history: History, kind: type[Any]) -> None:
    """As if the core had never said this."""
    for turns in history:
        for turn in turns:
            turn.facts[:] = [fact for fact in turn.facts if not isinstance(fact, kind)]


Change = Callable[[Recording], object]


def both(first: Change, second: Change) -> Change:
    return lambda recording: [change(recording) for change in (first, second)]


# An allocation on its way out is told to go once

SWAPPING = (
    an_app("app1", placeholderAsk=SIZE),
    an_ask("ph1", placeholder=True),
    {"schedule": 1},
    an_ask("r1"),
    {"schedule": 1},
    {"check": "replacing"},
    a_node("n2"),
)
"""A placeholder on n1 was told to go, and the resource manager has not confirmed it."""


def told_again(**fields: str) -> Json:
    event = {
        "ev": "released",
        "app": "app1",
        "key": "ph*",
        "terminationType": "STOPPED_BY_RM",
        "message": "gone",
        "m": 9,
    }
    return event | fields


def with_the_node_removed() -> Recording:
    return Recording(*SWAPPING, a_node("n1", action="DECOMISSION"), {"check": "removed"})


def test_the_release_of_what_was_told_to_go_is_not_missed_when_its_node_goes() -> None:
    recording = with_the_node_removed()
    recording.events("removed").append(told_again())
    assert recording.left() == []


TOLD_OTHERWISE: dict[str, Change] = {
    "of another allocation": lambda one: one.events("removed").append(told_again(key="r1")),
    "of another application": lambda one: one.events("removed").append(told_again(app="app2")),
    "of another type": lambda one: one.events("removed").append(told_again(terminationType="TIMEOUT")),
    "before": lambda one: one.events("replacing").append(told_again()),
    "twice": lambda one: one.events("removed").extend([told_again(), told_again()]),
    "of an ask": lambda one: one.events("removed").append(told_again(ev="askReleased")),
    "and it was never told": both(
        lambda one: one.events("removed").append(told_again()),
        lambda one: without(one.history, ReleaseRequested),
    ),
}


@pytest.mark.parametrize("change", TOLD_OTHERWISE.values(), ids=TOLD_OTHERWISE.keys())
def test_any_other_release_that_is_missing_is_reported(change: Change) -> None:
    recording = with_the_node_removed()
    change(recording)
    assert len(recording.left()) == 1


@pytest.mark.parametrize(
    "step",
    [a_node("n2", action="DECOMISSION"), a_node("n1", action="DRAIN_NODE"), {"confirmReleases": True}],
    ids=["another node", "drained", "confirmed"],
)
def test_a_release_that_is_missing_is_reported_if_its_node_stays(step: Json) -> None:
    recording = Recording(*SWAPPING, step, {"check": "x"})
    recording.events("x").append(told_again())
    assert len(recording.left()) == 1


# An unknown termination type is answered with that type


def with_a_release(termination: str, key: str = "a1") -> Recording:
    release = {"app": "app1", "key": key, "terminationType": termination}
    return Recording(
        an_app("app1"), an_ask("a1", maxAllocations=2), {"schedule": 2}, {"releaseAllocs": [release]}, {"check": "x"}
    )


def answered_with(recording: Recording, termination: str) -> None:
    for event in recording.events("x"):
        if event["ev"] == "released":
            event["terminationType"] = termination


@pytest.mark.parametrize("key", ["a1", ""])
def test_an_unknown_type_is_answered_with_that_type(key: str) -> None:
    recording = with_a_release("UNKNOWN_TERMINATION_TYPE", key)
    answered_with(recording, "STOPPED_BY_RM")
    assert recording.recorded != recording.answer
    assert recording.left() == []


def test_any_other_type_is_reported() -> None:
    recording = with_a_release("UNKNOWN_TERMINATION_TYPE")
    answered_with(recording, "TIMEOUT")
    assert recording.left()


def test_a_known_type_that_is_answered_with_the_unknown_one_is_reported() -> None:
    recording = with_a_release("UNKNOWN_TERMINATION_TYPE")
    answered_with(recording, "STOPPED_BY_RM")
    (item,) = next(step["releaseAllocs"] for step in recording.scenario["steps"] if "releaseAllocs" in step)
    item["terminationType"] = "STOPPED_BY_RM"
    assert recording.left()
    item["terminationType"] = "UNKNOWN_TERMINATION_TYPE"
    assert not recording.left()


@pytest.mark.parametrize("field", ["app", "key"])
def test_an_unknown_type_for_something_else_is_reported(field: str) -> None:
    recording = with_a_release("UNKNOWN_TERMINATION_TYPE")
    answered_with(recording, "STOPPED_BY_RM")
    (item,) = next(step["releaseAllocs"] for step in recording.scenario["steps"] if "releaseAllocs" in step)
    item[field] = "other"
    assert recording.left()


def test_an_unknown_type_that_is_not_answered_is_reported() -> None:
    recording = with_a_release("UNKNOWN_TERMINATION_TYPE")
    answered_with(recording, "STOPPED_BY_RM")
    recording.answer["checks"][0]["events"] = [
        event for event in recording.answer["checks"][0]["events"] if event["ev"] != "released"
    ]
    assert recording.left()


# Asks that are rejected at once, and are pending in the recording

GANG = an_app("app1", placeholderAsk={"memory": 200}, gangSchedulingStyle="Hard", executionTimeoutMs=400)
FAILING = (GANG, an_ask("ph1", placeholder=True, maxAllocations=20), {"schedule": 20}, {"sleepMs": 1200})
"""Half of the gang was placed, and its time is over."""
PLACED = (an_app("app1", placeholderAsk=SIZE), an_ask("k1", placeholder=True), {"schedule": 1})
"""A placeholder that lives."""


def with_a_late_ask(*before: Json, key: str) -> Recording:
    """The recording as the peer has it: nothing is rejected, and three of them are pending."""
    recording = Recording(
        *before, {"check": "before"}, an_ask(key, maxAllocations=3), {"check": "late"}, {"check": "still"}
    )
    recording.events("late")[:] = [event for event in recording.events("late") if event["ev"] != "askRejected"]
    for label in ("late", "still"):
        recording.snapshot(label)["apps"]["app1"]["pendingAsks"][key] = 3
        for queue in ("root", "root.a"):
            recording.snapshot(label)["queues"][queue]["pending"] = {"memory": 30}
    return recording


LATE = {"Failing": (*FAILING, "late"), "the key of a placeholder": (*PLACED, "k1")}


@pytest.mark.parametrize("case", LATE.values(), ids=LATE.keys())
def test_an_ask_that_is_rejected_at_once_is_not_missed_among_what_is_pending(case: tuple[Any, ...]) -> None:
    recording = with_a_late_ask(*case[:-1], key=case[-1])
    assert recording.recorded != recording.answer
    assert recording.left() == []


def pending(label: str, queue: str, amount: int) -> Change:
    return lambda one: one.snapshot(label)["queues"][queue].update(pending={"memory": amount})


LATE_OTHERWISE: dict[str, Change] = {
    "more is pending": pending("late", "root", 31),
    "less is pending": pending("late", "root.a", 20),
    "in another queue": pending("late", "root.b", 30),
    "before": both(
        pending("before", "root.a", 30),
        lambda one: one.snapshot("before")["apps"]["app1"].update(pendingAsks={"late": 3}),
    ),
    "another resource": lambda one: one.snapshot("late")["queues"]["root"]["pending"].update(vcore=1),
    "no longer pending in its application": lambda one: one.snapshot("still")["apps"]["app1"]["pendingAsks"].clear(),
    "another one was rejected": lambda one: one.answer["checks"][1]["events"].append(
        {"ev": "askRejected", "app": "app1", "key": "other", "reason": "x"}
    ),
    "in another check": lambda one: one.answer["checks"][0]["events"].append(
        {"ev": "askRejected", "app": "app1", "key": "late", "reason": "x"}
    ),
    "it is allocated": lambda one: one.events("late").append({"ev": "alloc", "app": "app1", "key": "late"}),
}


@each_row("change", LATE_OTHERWISE.values(), ids=LATE_OTHERWISE.keys())
def test_whatever_else_is_pending_or_rejected_is_reported(change: Change) -> None:
    recording = with_a_late_ask(*FAILING, key="late")
    change(recording)
    assert recording.left()


def test_an_ask_that_is_rejected_without_the_cause_is_reported() -> None:
    recording = with_a_late_ask(*FAILING, key="late")
    without(recording.history, ApplicationChanged)
    assert len(recording.left()) == 5, "the rejection, and two queues at two checks"


@pytest.mark.parametrize(
    "change", [{"placeholder": True}, {"key": "k2"}, {"app": "app2"}], ids=["placeholder", "key", "application"]
)
def test_an_ask_that_is_rejected_for_another_reason_than_the_key_is_reported(change: Json) -> None:
    recording = with_a_late_ask(*PLACED, key="k1")
    recording.scenario["steps"][-3]["asks"][0].update(change)
    for turn in recording.history[1]:
        turn.step.get("asks", [{}])[0].update(change)
    assert recording.left()


# The swap is one update


def with_a_swap(*after: Json) -> Recording:
    return Recording(*SWAPPING, {"confirmReleases": True}, *after, {"check": "confirmed"})


def completing(app: str = "app1") -> Json:
    return {"ev": "appUpdated", "app": app, "state": "Completing", "message": "x", "m": 0}


def running(recording: Recording) -> int:
    """Where it runs, in the recording."""
    states = [event.get("state") for event in recording.events("confirmed")]
    return states.index("Running")


def test_an_application_need_not_pass_through_completing_when_a_swap_ends() -> None:
    recording = with_a_swap()
    recording.events("confirmed").insert(running(recording), completing())
    assert recording.left() == []


COMPLETING_OTHERWISE: dict[str, Change] = {
    "it stays so": lambda one: one.events("confirmed").append(completing()),
    "twice": lambda one: one.events("confirmed").__setitem__(
        slice(running(one), running(one)), [completing(), completing()]
    ),
    "and again at the end": both(
        lambda one: one.events("confirmed").insert(running(one), completing()),
        lambda one: one.events("confirmed").append(completing()),
    ),
    "another application": lambda one: one.events("confirmed").insert(running(one), completing("app2")),
    "another check": lambda one: one.events("replacing").append(completing()),
    "another state": lambda one: one.events("confirmed").insert(running(one), completing() | {"state": "Resuming"}),
    "no swap": both(
        lambda one: one.events("confirmed").insert(running(one), completing()),
        lambda one: without(one.history, Allocated),
    ),
}


@pytest.mark.parametrize("change", COMPLETING_OTHERWISE.values(), ids=COMPLETING_OTHERWISE.keys())
def test_any_other_completing_that_is_missing_is_reported(change: Change) -> None:
    recording = with_a_swap()
    change(recording)
    assert recording.left()


# Applications that are accepted here


def accepted_here() -> Recording:
    """app1 names no queue, as root.default takes it; app2 is beside it. The peer rejects app1, and with it its ask."""
    config = CONFIG.replace("{name: b}", "{name: default}")
    steps = (an_app("app1", ""), an_app("app2"), an_ask("k1"), an_ask("k2", "app2"), {"schedule": 2}, {"check": "x"})
    recording = Recording(*steps, config=config)
    recording.events("x")[:] = [
        {"m": 0, "ev": "appRejected", "app": "app1", "reason": "no rule"},
        {"m": 1, "ev": "askRejected", "app": "app1", "key": "k1", "reason": "no app"},
        *(event for event in recording.events("x") if event.get("app") != "app1"),
    ]
    snapshot = recording.snapshot("x")
    del snapshot["apps"]["app1"]
    snapshot["rejectedApps"]["app1"] = {"state": "Rejected", "message": ""}
    snapshot["nodes"]["n1"]["allocations"] = ["app2|k2"]
    for path in ("root", "root.default"):
        snapshot["users"]["u1"]["queues"][path]["usage"] = {"memory": 10} if path == "root" else {}
        snapshot["queues"][path]["allocated"] = {"memory": 10} if path == "root" else {}
    return recording


def test_an_application_that_names_no_queue_is_excused_with_all_that_it_has() -> None:
    assert accepted_here().left() == []


def test_nothing_beside_an_application_that_is_accepted_here_is_excused() -> None:
    recording = accepted_here()
    recording.snapshot("x")["queues"]["root"]["allocated"] = {"memory": 11}
    recording.snapshot("x")["nodes"]["n1"]["allocations"] = []
    recording.events("x").append({"m": 1, "ev": "askRejected", "app": "app2", "key": "k3", "reason": "no"})
    assert len(recording.left()) == 3


def test_an_application_that_names_a_queue_is_not_excused() -> None:
    recording = Recording(an_app("app1", "root.b"), {"check": "x"})
    recording.events("x")[:] = [{"m": 0, "ev": "appRejected", "app": "app1", "reason": "no rule"}]
    assert recording.left()


# An allocation of an application that is not known does not reject its node


def with_a_stale_allocation(app: str = "gone") -> Recording:
    """A node comes with it, and a later ask finds room there."""
    existing = {"key": "k", "app": app, "resources": SIZE}
    return Recording(
        an_app("app1"),
        {"check": "before"},
        {"nodes": [{"id": "n2", "resources": {"memory": 100}, "existing": [existing]}]},
        {"check": "node"},
        an_ask("a1"),
        {"schedule": 1},
        {"check": "after"},
    )


def rejected(recording: Recording, label: str = "node", node: str = "n2") -> None:
    """As the peer says it, and without the node from there on."""
    recording.events(label)[:] = [{"ev": "nodeRejected", "node": node, "reason": "unknown application", "m": 1}]
    for checked in ("node", "after"):
        recording.snapshot(checked)["nodes"].pop(node)


def test_its_node_may_be_there_with_all_that_follows() -> None:
    recording = with_a_stale_allocation()
    rejected(recording)
    recording.events("after").clear()
    assert recording.left() == []


def test_a_node_that_is_not_there_is_reported_without_such_an_allocation() -> None:
    recording = with_a_stale_allocation(app="app1")
    rejected(recording)
    assert len(recording.left()) >= 2


@pytest.mark.parametrize("node", ["n1", "n3"])
def test_another_node_that_is_rejected_is_reported(node: str) -> None:
    recording = with_a_stale_allocation()
    recording.events("node")[:] = [{"ev": "nodeRejected", "node": node, "reason": "x", "m": 1}]
    assert recording.left()


def test_what_differs_before_is_reported() -> None:
    recording = with_a_stale_allocation()
    rejected(recording)
    recording.events("before").append(completing())
    assert len(recording.left()) == 1
