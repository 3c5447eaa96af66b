"""Facts become the log lines an operator wants, and not more than he can read."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import structlog

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts import configuration as conf
from schedulerd.core.language.facts import fact as facts
from schedulerd.core.language.facts.fact import RejectCode
from schedulerd.core.language.facts.reservations import ReservationEnd
from schedulerd.core.language.lifecycles import ApplicationState, NodeState, ResourceManagerState
from schedulerd.core.language.specs import ConfigurationText
from schedulerd.daemon.runtime import logs
from schedulerd.observe import log_events
from schedulerd.observe.log_events import FactLog
from tests.instants import EPOCH_NS, at
from tests.unit.observe.build import (
    allocated,
    application,
    ask,
    ask_rejected,
    gang_completed,
    gang_gave_way,
    gang_timed_out,
    node,
    preempted,
    preemption_refused,
    quota_preempted,
    release_requested,
    reservation_ended,
    reserved,
    resource_manager,
    room_made,
    swap_refused,
)

SECOND_NS = 10**9


class Written:
    """What the process logs, as the parsed lines of its stream."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.level = logs.configure("info", "json", self.stream)
        self.log = FactLog()

    def lines(self) -> list[dict[str, Any]]:
        text = self.stream.getvalue()
        self.stream.seek(0)
        self.stream.truncate()
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def written() -> Iterator[Written]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield Written()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


def test_every_kind_of_fact_has_a_line() -> None:
    assert set(log_events._ALL) == set(get_args(facts.Fact))


def test_news_at_info_with_everything_the_fact_says(written: Written) -> None:
    written.log.observe([application(ApplicationState.NEW, ApplicationState.ACCEPTED)], at(0))
    (line,) = written.lines()
    assert (line["level"], line["logger"], line["event"]) == (
        *("info", "core.scheduler.application", "application changed"),
    )
    assert (line["application_id"], line["queue"], line["old_state"], line["state"], line["cause"]) == (
        *("app-1", "root.a.b", "New", "Accepted", "test"),
    )


@pytest.mark.parametrize(
    ("fact", "level"),
    [
        (application(None, ApplicationState.NEW), "debug"),
        (application(ApplicationState.NEW, ApplicationState.ACCEPTED), "info"),
        (application(ApplicationState.ACCEPTED, ApplicationState.STARTING), "debug"),
        (application(ApplicationState.STARTING, ApplicationState.RUNNING), "debug"),
        (application(ApplicationState.RUNNING, ApplicationState.COMPLETING), "debug"),
        (application(ApplicationState.COMPLETING, ApplicationState.COMPLETED), "info"),
        (application(ApplicationState.RUNNING, ApplicationState.FAILING), "info"),
        (application(ApplicationState.COMPLETED, ApplicationState.EXPIRED), "debug"),
        (resource_manager(ResourceManagerState.RUNNING), "info"),
        (resource_manager(ResourceManagerState.PAUSED), "warning"),
        (resource_manager(ResourceManagerState.STOPPED), "warning"),
        (node("n1", None, NodeState.SCHEDULABLE, {"vcore": 10}), "info"),
        (node("n1", NodeState.SCHEDULABLE, NodeState.REMOVED), "info"),
        (ask_rejected(RejectCode.INVALID_RESOURCES), "warning"),
        (facts.ReleaseIgnored("rm-1", "default", "app-1", "", "", "no such allocation"), "info"),
        (node("n1", NodeState.SCHEDULABLE, NodeState.SCHEDULABLE, {"vcore": 11}), "debug"),
        (gang_completed(), "info"),
        (gang_gave_way(), "warning"),
        (gang_timed_out(ApplicationState.RUNNING), "info"),
        (gang_timed_out(ApplicationState.RESUMING), "warning"),
        (gang_timed_out(ApplicationState.FAILING), "warning"),
        (swap_refused(), "warning"),
        (preempted(("root.b", "uuid-1")), "info"),
        (quota_preempted(victims=1), "info"),
        (quota_preempted(victims=0), "warning"),
        (preemption_refused(), "debug"),
        (reserved(), "debug"),
        (reservation_ended(ReservationEnd.EXPIRED), "debug"),
        (room_made(), "debug"),
        (allocated(placeholder=True, vcore=10), "debug"),
        (release_requested(TerminationType.TIMEOUT, placeholder=True), "debug"),
        (allocated(vcore=10), "debug"),
        (ask(vcore=10), "debug"),
        (facts.CycleRan(1, 0, False), "debug"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_each_at_its_level(written: Written, fact: facts.Fact, level: str) -> None:
    written.log.observe([fact], at(0))
    assert [line["level"] for line in written.lines()] == ([] if level == "debug" else [level])
    written.level.set("debug")
    written.log.observe([fact], at(0))
    assert [line["level"] for line in written.lines()] == [level]


def test_a_termination_is_written_by_name_and_resources_as_an_object(written: Written) -> None:
    written.level.set("debug")
    written.log.observe([release_requested(TerminationType.TIMEOUT), allocated(vcore=10)], at(0))
    requested, placed = written.lines()
    assert requested["termination"] == "timeout"
    assert placed["resources"] == {"vcore": 10}


def test_a_rejection_carries_its_reason(written: Written) -> None:
    written.log.observe([ask_rejected(RejectCode.EMPTY_ID)], at(0))
    (line,) = written.lines()
    assert (line["code"], line["reason"]) == ("empty_id", "because of a test")


def test_a_gang_that_times_out_says_how_far_it_came(written: Written) -> None:
    written.log.observe([gang_timed_out()], at(0))
    (line,) = written.lines()
    assert (line["logger"], line["event"], line["application_id"], line["state"]) == (
        *("core.scheduler.gang", "gang timed out", "app-1", "Resuming"),
    )
    assert [line[name] for name in ("wanted", "placed", "replaced", "timed_out")] == [3, 2, 0, 3]


def test_a_preemption_names_its_ask_its_victims_and_the_reason(written: Written) -> None:
    written.log.observe([preempted(("root.b", "uuid-7"), ("root.c", "uuid-8"))], at(0))
    (line,) = written.lines()
    assert (line["logger"], line["event"]) == ("core.scheduler.preemption", "preemption decided")
    assert [line[name] for name in ("queue", "application_id", "allocation_key", "node_id")] == (
        ["root.a.b", "app-1", "key-1", "node-1"]
    )
    assert line["victims"] == [["root.b", "uuid-7"], ["root.c", "uuid-8"]]
    assert line["why"] == "queue root.a is below its guarantee (0 of 10 cpu)"


def test_a_placeholder_that_is_too_small_names_both_numbers_and_does_not_flood_the_log(written: Written) -> None:
    written.log.observe([swap_refused()] * 1000, at(SECOND_NS))
    lines = written.lines()
    assert len(lines) == log_events.COMPLAINTS_MAX
    assert "asks for 20 cpu, placeholder key-2 has 10" in lines[0]["reason"]


def test_of_a_flood_the_first_lines_are_written_and_the_rest_counted(written: Written) -> None:
    most = [ask_rejected(RejectCode.EMPTY_ID, rm_id="rm-2")] * log_events.COMPLAINTS_MAX
    flood = [ask_rejected(RejectCode.EMPTY_ID)] * 1000 + most
    written.log.observe(flood, at(SECOND_NS))
    by_rm = [line["rm_id"] for line in written.lines()]
    assert (by_rm.count("rm-1"), by_rm.count("rm-2")) == (log_events.COMPLAINTS_MAX, log_events.COMPLAINTS_MAX)
    written.log.observe([ask(vcore=1)], at(2 * SECOND_NS))
    (suppressed,) = written.lines()
    assert (suppressed["event"], suppressed["of"], suppressed["rm_id"], suppressed["count"]) == (
        *("lines suppressed", "ask rejected", "rm-1", 1000 - log_events.COMPLAINTS_MAX),
    )
    written.log.observe([ask_rejected(RejectCode.EMPTY_ID)], at(2 * SECOND_NS))
    (line,) = written.lines()
    assert line["event"] == "ask rejected"


def an_impact(harms: bool, queue: str = "root.a") -> conf.Impact:
    return conf.Impact(conf.ImpactKind.OVER_MAX, "default", queue, harms, f"{queue} is above")


TEXT = ConfigurationText("partitions: []", "queues.yaml", "ABC")


def test_what_a_reload_changes_is_written_first_and_what_harms_as_a_warning(written: Written) -> None:
    accepted = conf.ConfigurationAccepted("rm", (an_impact(True), an_impact(False)))
    written.log.observe([accepted, conf.ConfigurationUpdated("rm", configuration=TEXT)], at(0))
    *lines, last = written.lines()
    assert [(line["event"], line["level"], line["queue"], line["message"]) for line in lines] == [
        ("impact of the new queue file", level, "root.a", "root.a is above") for level in ("warning", "info")
    ]
    assert (last["event"], last["rm_id"], last["source"], last["checksum"]) == (
        *("queue file reloaded", "rm", "queues.yaml", "ABC"),
    )
    assert "partitions" not in json.dumps([*lines, last])


def test_a_reload_that_changes_nothing_says_so(written: Written) -> None:
    written.log.observe([conf.ConfigurationUpdated("rm", changed=False, configuration=TEXT)], at(0))
    assert [line["event"] for line in written.lines()] == ["queue file unchanged"]


def test_lines_about_a_reload_are_bounded_and_kept_to_their_level(written: Written) -> None:
    many = tuple(an_impact(at < 2, f"root.q{at}") for at in range(log_events.IMPACT_LINES_MAX + 7))
    reload: list[facts.Fact] = [
        conf.ConfigurationAccepted("rm", many),
        conf.ConfigurationUpdated("rm"),
    ]
    written.log.observe(reload, at(0))
    *told, suppressed, last = written.lines()
    assert len(told) == log_events.IMPACT_LINES_MAX
    assert (suppressed["event"], suppressed["count"], last["event"]) == ("lines suppressed", 7, "queue file reloaded")
    written.level.set("warning")
    written.log.observe(reload, at(0))
    assert [line["event"] for line in written.lines()] == [
        *["impact of the new queue file"] * 2,
        "lines suppressed",
    ]


def test_of_news_more_lines_are_written_than_of_mistakes_and_each_state_counts_for_itself(written: Written) -> None:
    many = log_events.NEWS_MAX + 5
    good = [application(ApplicationState.NEW, ApplicationState.ACCEPTED, f"app-{n}") for n in range(many)]
    bad = application(ApplicationState.ACCEPTED, ApplicationState.FAILED, "app-0")
    written.log.observe([*good, bad], at(SECOND_NS))
    *lines, last = written.lines()
    assert len(lines) == log_events.NEWS_MAX
    assert last["state"] == "Failed"
    written.log.observe([], at(2 * SECOND_NS))
    (suppressed,) = written.lines()
    told = suppressed["level"], suppressed["of"], suppressed["which"], suppressed["count"]
    assert told == ("info", "application changed", "Accepted", 5)


def test_details_are_written_all_of_them_where_they_are_wanted(written: Written) -> None:
    written.level.set("debug")
    written.log.observe([ask(vcore=1)] * (2 * log_events.NEWS_MAX), at(SECOND_NS))
    assert len(written.lines()) == 2 * log_events.NEWS_MAX


def test_nothing_is_put_together_for_a_level_that_is_off(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    written.level.set("error")
    monkeypatch.setattr(log_events, "_readable", lambda value: pytest.fail(f"looked at {value!r}"))
    written.log.observe([allocated(vcore=1), ask_rejected(RejectCode.EMPTY_ID)], at(SECOND_NS))
    assert written.lines() == []


def test_times_in_a_line_are_wall_times(written: Written) -> None:
    written.log.observe([application(ApplicationState.NEW, ApplicationState.ACCEPTED)], at(5 * SECOND_NS))
    assert written.lines()[0]["at_ns"] == EPOCH_NS
