"""An exception in a check rejects the item, one in a change leaves the step (SEMANTICS I20)."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, get_args

import pytest

from schedulerd.core.configuration.handlers import configuration
from schedulerd.core.language import checks
from schedulerd.core.language import commands as c
from schedulerd.core.language.facts.configuration import ConfigurationRejected
from schedulerd.core.language.facts.fact import (
    Allocated,
    ApplicationRejected,
    AskRejected,
    CheckFailed,
    Fact,
    ItemIgnored,
    NodeRejected,
    RejectCode,
    ReleaseIgnored,
    ResourceManagerChanged,
)
from schedulerd.core.language.queue_commands import SetQueueStopped
from schedulerd.core.language.resources import Resources
from schedulerd.core.resource_managers.handlers import resource_managers
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.state import step_context
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.step_context import ResourceManager
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_partition_spec,
    an_app,
    an_ask,
    of,
    only,
    placed,
)

pytestmark = pytest.mark.interpreted

BAD = "the-bad-one"


class Bug(Exception):
    """What no check expects."""


def raises(*_: object) -> Any:
    raise Bug(BAD)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Everything that looks at the id of the bad item raises."""

    def identifier(field: str, value: str, real: Callable[[str, str], Any] = checks.identifier) -> Any:
        return raises() if value == BAD else real(field, value)

    monkeypatch.setattr(checks, "identifier", identifier)
    partition = ResourceManager.partition
    monkeypatch.setattr(ResourceManager, "partition", lambda rm, name: raises() if name == BAD else partition(rm, name))
    monkeypatch.setattr(ResourceManager, "known_partition_name", lambda rm, name: "")
    return monkeypatch


ITEMS: dict[str, tuple[c.Command, type[Fact], str]] = {
    "node": (c.UpdateNodes(RM, [a_node(BAD), a_node("good")]), NodeRejected, BAD),
    "application": (
        c.UpdateApplications(RM, new=[an_app(BAD), an_app("good")]),
        ApplicationRejected,
        BAD,
    ),
    "removal": (
        c.UpdateApplications(RM, remove=[c.ApplicationRemoval("app", BAD)]),
        ItemIgnored,
        "app",
    ),
    "ask": (c.UpdateAllocations(RM, asks=[an_ask(BAD), an_ask("good")]), AskRejected, BAD),
    "release": (
        c.UpdateAllocations(RM, releases=[c.AllocationRelease("app", BAD, "uuid-1")]),
        ReleaseIgnored,
        "uuid-1",
    ),
    "ask release": (
        c.UpdateAllocations(RM, ask_releases=[c.AskRelease("app", BAD, "k")]),
        ReleaseIgnored,
        "k",
    ),
    "utilization": (
        c.ReportUtilization(RM, [c.Utilization(BAD, Resources(memory=1))]),
        ItemIgnored,
        BAD,
    ),
}


GOOD: dict[str, c.Command] = {
    "node": c.UpdateNodes(RM, [a_node("good")]),
    "application": c.UpdateApplications(RM, new=[an_app("good")]),
    "ask": c.UpdateAllocations(RM, asks=[an_ask("good")]),
}
"""The same without the bad item, where there was another one."""


@pytest.mark.parametrize("kind", ITEMS)
def test_an_exception_in_a_check_rejects_the_item_and_changes_nothing(kind: str, broken: pytest.MonkeyPatch) -> None:
    command, rejection, object_id = ITEMS[kind]
    talk = a_conversation(a_node("n1", {"memory": 100, "vcore": 100}))
    before = talk.view()
    facts = talk.scheduler.step(talk.now_ns, command)
    failed = facts[0]
    assert isinstance(failed, CheckFailed)
    assert (failed.rm_id, failed.object_id, failed.exception) == (RM, object_id, "Bug")
    assert failed.code is RejectCode.CHECK_FAILED
    assert type(facts[1]) is rejection
    words = "was checked: a bug of schedulerd; its log has the details"
    assert getattr(facts[1], "reason", "") == f"Bug while this {failed.item} {words}"
    assert getattr(facts[1], "code", RejectCode.CHECK_FAILED) is RejectCode.CHECK_FAILED
    [error] = talk.scheduler.failed_checks
    assert "in raises" in "".join(traceback.format_exception(error))
    good = GOOD.get(kind)
    twin = a_conversation(a_node("n1", {"memory": 100, "vcore": 100}))
    assert facts[2:] == (twin.scheduler.step(twin.now_ns, good) if good is not None else [])
    assert talk.view() == (twin.view() if good is not None else before)


def test_the_next_step_has_no_failed_checks(broken: pytest.MonkeyPatch) -> None:
    talk = a_conversation(a_node("n1", {"memory": 100, "vcore": 100}))
    talk.scheduler.step(talk.now_ns, ITEMS["ask"][0])
    assert len(talk.scheduler.failed_checks) == 1
    assert placed(talk.schedule()) == [("app", "good", "n1")]
    assert talk.scheduler.failed_checks == []


def test_a_registration_that_cannot_be_checked_leaves_the_earlier_one_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = a_conversation(a_node("n1", {"memory": 100, "vcore": 100}))
    before = talk.view()
    monkeypatch.setattr(resource_managers, "ResourceManager", raises)
    again = c.RegisterResourceManager(RM, (a_partition_spec(),))
    facts = talk.scheduler.step(talk.now_ns, again)
    assert [type(fact) for fact in facts] == [CheckFailed, ItemIgnored]
    facts = talk.scheduler.step(talk.now_ns, c.RegisterResourceManager("new", (a_partition_spec(),)))
    assert (only(CheckFailed, facts).rm_id, of(ResourceManagerChanged, facts)) == ("new", [])
    assert list(talk.scheduler.cluster.resource_managers) == [RM]
    assert talk.view() == before


def test_a_queue_file_that_cannot_be_checked_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = a_conversation(a_node("n1", {"memory": 100, "vcore": 100}))
    monkeypatch.setattr(configuration, "assess", raises)
    facts = talk.scheduler.step(talk.now_ns, c.UpdateConfiguration(RM, (a_partition_spec(),)))
    assert [type(fact) for fact in facts] == [CheckFailed, ConfigurationRejected]


def test_a_result_that_cannot_be_checked_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = a_conversation(a_node("n1", {"memory": 100, "vcore": 100}))
    monkeypatch.setattr(talk.scheduler.cluster.resource_managers[RM].callbacks, "open_predicate_checks", None)
    facts = talk.scheduler.step(talk.now_ns, c.GivePredicateResults(RM, [c.PredicateResult(7)]))
    assert only(CheckFailed, facts).object_id == only(ItemIgnored, facts).object_id == "7"


def test_an_exception_in_a_change_leaves_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = a_conversation(a_node("n1", {"memory": 100, "vcore": 100}))
    monkeypatch.setattr(commit, "demand", raises)
    with pytest.raises(Bug):
        talk.asks(an_ask())


def test_what_tests_talk_to_shows_them_the_exception(broken: pytest.MonkeyPatch) -> None:
    """The conversation of the unit and property tests raises what a check raised, so that none of them passes it by."""
    with pytest.raises(Bug):
        a_conversation(a_node("n1", {"memory": 100, "vcore": 100})).step(ITEMS["ask"][0])


def test_a_check_reads_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every item of a conversation of all kinds is checked twice: the first time nothing may come of it."""
    checked: list[str] = []
    scheduler: list[Scheduler] = []
    take = step_context.take

    def strict(turn: Any, rm: Any, items: Any, check: Any, reject: Any) -> None:
        for item in items:
            before, said = look(), list(turn.facts)
            check(turn, rm, item)
            assert (look(), turn.facts) == (before, said)
            checked.append(type(item).__name__)
            take(turn, rm, [item], check, reject)

    def look() -> object:
        known = scheduler[0].cluster.resource_managers if scheduler else {}
        return [(Conversation(scheduler[0], rm).view(), len(known[rm].early), known[rm].state) for rm in known]

    for module in ("scheduler", "applications.handlers.applications"):
        monkeypatch.setattr(f"schedulerd.core.{module}.take", strict)
    talk = a_conversation(a_node("n1", {"memory": 100, "vcore": 100}))
    scheduler.append(talk.scheduler)
    talk.nodes(a_node("n2", {"memory": 10}), a_node("n2"), a_node("n1", action=c.NodeAction.DRAIN_NODE), a_node(""))
    talk.apps(an_app("two"), an_app("two"), an_app("three", queue="nowhere"))
    talk.asks(an_ask("k"), an_ask("k"), an_ask(""), an_ask("early", app="later"))
    [allocated] = of(Allocated, talk.schedule())
    talk.step(
        c.ReportUtilization(RM, [c.Utilization("n1", allocated.resources), c.Utilization("x", allocated.resources)])
    )
    talk.step(SetQueueStopped(RM, "root.a", stopped=True))
    talk.step(SetQueueStopped(RM, "root.a", stopped=False))
    talk.apps(an_app("later"))
    talk.release(application_id="app", uuid=allocated.uuid)
    talk.release(application_id="app", uuid=allocated.uuid)
    talk.release_asks(application_id="later")
    talk.release_asks(application_id="nobody")
    talk.step(c.UpdateConfiguration(RM, (a_partition_spec(),)))
    talk.step(c.GivePredicateResults(RM, [c.PredicateResult(1)]))
    talk.remove("app")
    talk.remove("app")
    talk.register()
    assert set(checked) == {kind.__name__ for kind in get_args(step_context.Item)}
