"""Queues that an operator stops: they take nothing new, and finish what they have."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import CleanQueues, UpdateConfiguration
from schedulerd.core.language.facts.fact import ApplicationAccepted, ApplicationRejected, Fact, ItemIgnored, RejectCode
from schedulerd.core.language.facts.queues import QueueChange, QueueChanged
from schedulerd.core.language.queue_commands import SetQueueStopped
from schedulerd.core.language.specs import PartitionSpec, QueueSpec, RuleKind, RuleSpec
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_partition_spec,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    of,
    only,
    placed,
)

ROOT = a_root(a_queue_spec("p", a_queue_spec("a"), a_queue_spec("b")), a_queue_spec("c"))


def a_talk(root: QueueSpec = ROOT, *rules: RuleSpec) -> Conversation:
    talk = a_conversation(a_node("n1", {"memory": 100}), root=root)
    if rules:
        talk.step(UpdateConfiguration(RM, (PartitionSpec("default", root, rules),)))
    return talk


def stop(talk: Conversation, queue: str, *, by: str = "") -> list[Fact]:
    return talk.step(SetQueueStopped(RM, queue, stopped=True, by=by))


def start(talk: Conversation, queue: str) -> list[Fact]:
    return talk.step(SetQueueStopped(RM, queue, stopped=False))


def refused(talk: Conversation, queue: str, app: str = "new") -> str:
    """Why an application is rejected; '' if it is accepted."""
    facts = talk.apps(an_app(app, queue))
    if of(ApplicationAccepted, facts):
        return ""
    return only(ApplicationRejected, facts).reason


def test_a_stopped_queue_takes_nothing_new_and_finishes_what_it_has() -> None:
    talk = a_talk()
    talk.apps(an_app("old", "root.p.a"))
    talk.asks(an_ask("k1", app="old"))
    stop(talk, "root.p.a")
    assert "root.p.a is stopped by an operator: it takes no new applications" in refused(talk, "root.p.a")
    talk.asks(an_ask("k2", app="old"))
    assert placed(talk.schedule()) == [("old", "k1", "n1"), ("old", "k2", "n1")]
    assert refused(talk, "root.p.b") == ""


def test_a_stop_is_for_all_queues_below() -> None:
    talk = a_talk()
    stop(talk, "ROOT.P")
    for leaf in ("root.p.a", "root.p.b"):
        assert "root.p is stopped" in refused(talk, leaf)
    start(talk, "root.p")
    assert refused(talk, "root.p.a") == ""


def test_starting_a_queue_does_not_start_the_one_above() -> None:
    talk = a_talk()
    stop(talk, "root.p")
    stop(talk, "root.p.a")
    start(talk, "root.p.a")
    assert "root.p is stopped" in refused(talk, "root.p.a")


def test_no_queue_is_created_below_a_stopped_one() -> None:
    talk = a_talk(ROOT, RuleSpec(RuleKind.PROVIDED, create=True))
    stop(talk, "root.p")
    assert "root.p is stopped" in refused(talk, "root.p.new")
    assert "root.p.new" not in {queue.path for queue in talk.view().queues}


def test_the_next_placement_rule_is_tried() -> None:
    talk = a_talk(ROOT, RuleSpec(RuleKind.PROVIDED), RuleSpec(RuleKind.FIXED, value="root.c"))
    stop(talk, "root.p.a")
    assert only(ApplicationAccepted, talk.apps(an_app("app", "root.p.a"))).queue == "root.c"


def test_an_application_that_runs_already_is_taken_anyway() -> None:
    talk = a_talk()
    stop(talk, "root")
    facts = talk.apps(an_app("running", "root.c", tags={"application.create.force": "true"}))
    assert only(ApplicationAccepted, facts).queue == "root.@recovery@"
    ignored = only(ItemIgnored, stop(talk, "root.@recovery@"))
    assert "cannot be stopped" in ignored.reason


def test_stops_and_starts_are_told_with_the_operator_and_only_once() -> None:
    talk = a_talk()
    told = only(QueueChanged, stop(talk, "root.c", by="ops"))
    said = "stopped by ops: takes no new applications, and finishes those it has"
    assert (told.queue, told.change, told.message) == ("root.c", QueueChange.CONFIGURATION, said)
    assert stop(talk, "root.c") == []
    assert only(QueueChanged, start(talk, "root.c")).message == "started: takes applications again"
    assert start(talk, "root.c") == []


def test_a_stop_holds_over_new_queue_files_and_ends_with_the_registration() -> None:
    talk = a_talk()
    stop(talk, "root.c")
    changed = a_root(a_queue_spec("c", max={"memory": 5}))
    talk.step(UpdateConfiguration(RM, (a_partition_spec(changed),)))
    assert "root.c is stopped" in refused(talk, "root.c")
    assert [queue.path for queue in talk.view().queues if queue.stopped] == ["root.c"]
    talk.register(a_partition_spec(changed))
    talk.connect()
    assert refused(talk, "root.c") == ""


def test_a_stopped_queue_that_the_file_no_longer_names_goes() -> None:
    talk = a_talk()
    stop(talk, "root.c")
    talk.step(UpdateConfiguration(RM, (a_partition_spec(a_root(a_queue_spec("d"))),)))
    talk.step(CleanQueues(RM))
    talk.step(UpdateConfiguration(RM, (a_partition_spec(ROOT),)))
    assert refused(talk, "root.c") == ""


def test_a_stopped_dynamic_queue_stays_until_it_is_started() -> None:
    talk = a_talk(ROOT, RuleSpec(RuleKind.PROVIDED, create=True))
    talk.apps(an_app("app", "root.dyn"))
    stop(talk, "root.dyn")
    talk.remove("app")
    talk.step(CleanQueues(RM))
    assert "root.dyn is stopped" in refused(talk, "root.dyn")
    start(talk, "root.dyn")
    talk.sleep(talk.scheduler.cluster.timeouts.cleanup_ns + 1)
    assert "root.dyn" not in {queue.path for queue in talk.view().queues}


@pytest.mark.parametrize(
    ("queue", "partition", "code"),
    [
        ("root.nothing", "", RejectCode.INVALID_FIELD),
        ("", "", RejectCode.INVALID_FIELD),
        ("c", "", RejectCode.INVALID_FIELD),
        ("root.c", "other", RejectCode.UNKNOWN_PARTITION),
        ("root." + "x" * 100_000, "", RejectCode.INVALID_FIELD),
    ],
)
def test_what_cannot_be_stopped(queue: str, partition: str, code: RejectCode) -> None:
    talk = a_talk(a_root(a_queue_spec("c")))
    ignored = only(ItemIgnored, talk.step(SetQueueStopped(RM, queue, True, partition)))
    assert ignored.code is code
    assert len(ignored.reason) < 1_000
