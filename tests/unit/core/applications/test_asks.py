"""Asks: new ones, updates of known ones, and their release (SI `AllocationRequest`; SEMANTICS E1)."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.applications.handlers.asks import MAX_ALLOCATIONS_MAX
from schedulerd.core.language import checks
from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts.fact import (
    Allocated,
    AskAdded,
    AskRejected,
    AskWithdrawn,
    RejectCode,
    Released,
    ReleaseIgnored,
    WithdrawCause,
)
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import Timeouts
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    an_app,
    an_ask,
    an_existing,
    of,
    only,
    placed,
    states,
)

S = ApplicationState
ROOM = {"memory": 100}


@pytest.fixture
def talk() -> Conversation:
    """There is room for ten asks of the usual size, and nobody who cannot be waited for."""
    return a_conversation(a_node("n1", ROOM), timeouts=Timeouts(early_message_ns=0))


def keys(talk: Conversation) -> list[str]:
    """What is placed when everything that can be is, in order."""
    return [key for _, key, _ in placed(talk.schedule())]


# New ones


def test_an_ask_becomes_as_many_allocations_as_it_says(talk: Conversation) -> None:
    added = only(AskAdded, talk.asks(an_ask("k", count=3)))
    assert (added.count, added.resources, added.queue) == (3, {"memory": 10}, "root.a")
    allocated = of(Allocated, talk.schedule())
    assert [one.allocation_key for one in allocated] == ["k", "k", "k"]
    assert len({one.uuid for one in allocated}) == 3


def test_an_allocation_says_what_the_ask_said_and_when_it_came(talk: Conversation) -> None:
    talk.now_ns = 5_000
    talk.asks(an_ask("k", priority=7, tags={"t": "v"}, task_group="g"))
    talk.now_ns = 9_000
    allocated = only(Allocated, talk.schedule())
    assert (allocated.priority, allocated.tags, allocated.task_group) == (7, {"t": "v"}, "g")
    assert (allocated.asked_at_ns, allocated.recovered, allocated.placeholder) == (5_000, False, False)


def test_the_tags_of_its_application_are_not_those_of_an_ask(talk: Conversation) -> None:
    talk.apps(an_app("tagged", tags={"t": "v", REQUIRED_NODE_TAG: "n2"}))
    talk.asks(an_ask("k", app="tagged"))
    allocated = only(Allocated, talk.schedule())
    assert (allocated.node_id, allocated.tags) == ("n1", {})


def test_higher_priority_goes_first_then_age(talk: Conversation) -> None:
    talk.asks(an_ask("low", priority=-1), an_ask("old"), an_ask("high", priority=5), an_ask("young", memory=11))
    assert keys(talk) == ["high", "old", "young", "low"]


@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [
        ({"key": ""}, RejectCode.EMPTY_ID, "allocationKey is empty"),
        ({"app": ""}, RejectCode.EMPTY_ID, "applicationID is empty"),
        ({"key": "k" * 1_025}, RejectCode.INVALID_FIELD, "allocationKey is"),
        ({"app": "gone"}, RejectCode.UNKNOWN_APPLICATION, "applicationID 'gone'"),
        ({"partition": "gpuu"}, RejectCode.UNKNOWN_PARTITION, "partitionName 'gpuu'"),
        ({"count": 0}, RejectCode.INVALID_COUNT, "maxAllocations is 0; it must be between 1 and 1000000"),
        ({"count": -3}, RejectCode.INVALID_COUNT, "maxAllocations is -3"),
        ({"count": MAX_ALLOCATIONS_MAX + 1}, RejectCode.INVALID_COUNT, f"is {MAX_ALLOCATIONS_MAX + 1}"),
        ({"resources": Resources()}, RejectCode.INVALID_RESOURCES, "resourceAsk is empty"),
        ({"resources": Resources(memory=0)}, RejectCode.INVALID_RESOURCES, "resourceAsk is {'memory': 0}"),
        ({"resources": Resources(memory=1, gpu=-2)}, RejectCode.INVALID_RESOURCES, "resourceAsk['gpu'] is -2"),
        ({"resources": Resources({"": 1})}, RejectCode.INVALID_RESOURCES, "names the resource ''"),
        (
            {"resources": Resources({"r" * (checks.RESOURCE_NAME_LENGTH_MAX + 1): 1})},
            RejectCode.INVALID_RESOURCES,
            "a name has 1 to 256 characters",
        ),
        (
            {"resources": Resources({f"r{number}": 1 for number in range(checks.RESOURCE_NAMES_MAX + 1)})},
            RejectCode.INVALID_RESOURCES,
            "resourceAsk has more than 64 resources; at most 64 are allowed",
        ),
    ],
)
def test_a_rejection_names_field_and_value(
    talk: Conversation, fields: dict[str, Any], code: RejectCode, said: str
) -> None:
    facts = talk.asks(an_ask(**{"key": "bad", **fields}), an_ask("good"))
    rejected = only(AskRejected, facts)
    assert rejected.code is code
    assert said in rejected.reason
    assert keys(talk) == ["good"], "the rest of the message is handled"


def test_a_rejected_update_leaves_the_ask_as_it_was(talk: Conversation) -> None:
    talk.asks(an_ask("k", memory=20))
    talk.asks(an_ask("k", memory=-1))
    assert [one.resources for one in talk.app().asks] == [{"memory": 20}]


# Updates


def test_an_update_replaces_size_count_and_priority(talk: Conversation) -> None:
    talk.asks(an_ask("k", memory=500, count=2), an_ask("other", memory=500))
    facts = talk.asks(an_ask("k", memory=30, count=3, priority=4))
    withdrawn = only(AskWithdrawn, facts)
    assert (withdrawn.count, withdrawn.resources, withdrawn.cause) == (2, {"memory": 500}, WithdrawCause.UPDATED)
    assert withdrawn.termination is None, "the RM is not told what it said"
    assert (only(AskAdded, facts).count, only(AskAdded, facts).resources) == (3, {"memory": 30})
    assert talk.app().pending == {"memory": 590}
    assert keys(talk) == ["k", "k", "k"]


def test_an_update_keeps_the_place(talk: Conversation) -> None:
    talk.asks(an_ask("first", memory=500), an_ask("second"))
    talk.asks(an_ask("first", memory=20))
    assert keys(talk) == ["first", "second"]


def test_what_is_placed_counts(talk: Conversation) -> None:
    talk.asks(an_ask("k", memory=10, count=2))
    talk.schedule()
    assert only(AskAdded, talk.asks(an_ask("k", memory=10, count=5))).count == 3
    assert keys(talk) == ["k", "k", "k"]
    assert [one.resources["memory"] for one in talk.app().allocations] == [10] * 5


@pytest.mark.parametrize("count", [1, 2])
def test_an_update_to_no_more_than_is_placed_leaves_nothing_pending(talk: Conversation, count: int) -> None:
    talk.asks(an_ask("k", memory=40, count=5))
    talk.schedule()
    facts = talk.asks(an_ask("k", memory=40, count=count))
    assert only(AskWithdrawn, facts).count == 3
    assert of(AskAdded, facts) == []
    assert (talk.app().pending, talk.app().allocated) == ({}, {"memory": 80})


def test_what_was_placed_and_released_counts_too(talk: Conversation) -> None:
    talk.asks(an_ask("k", memory=60, count=2))
    talk.schedule()
    talk.release(allocation_key="k")
    assert keys(talk) == ["k"]
    assert of(AskAdded, talk.asks(an_ask("k", memory=60, count=2))) == []


def test_an_update_that_leaves_nothing_to_do_completes_the_application(talk: Conversation) -> None:
    talk.asks(an_ask("k", memory=60, count=2))
    talk.schedule()
    talk.release(allocation_key="k", termination=TerminationType.STOPPED_BY_RM)
    talk.asks(an_ask("k", memory=500, count=2))
    facts = talk.asks(an_ask("k", memory=500, count=1))
    assert states(facts) == [S.COMPLETING]
    assert talk.model().applications["app"].asks == {}


def test_an_update_of_a_placed_placeholder_does_not_complete_its_application(talk: Conversation) -> None:
    """Placeholders hold room for asks that are still to come."""
    talk.asks(a_placeholder("p"))
    talk.schedule()
    assert states(talk.asks(a_placeholder("p"))) == []
    assert talk.app().state == S.ACCEPTED


def test_a_key_whose_ask_is_done_is_new_again(talk: Conversation) -> None:
    talk.asks(an_ask("stays"), an_ask("k"))
    talk.schedule()
    talk.release(allocation_key="k")
    assert only(AskAdded, talk.asks(an_ask("k"))).count == 1


def test_one_key_in_two_applications_is_two_asks(talk: Conversation) -> None:
    talk.apps(an_app("other"))
    talk.asks(an_ask("k"), an_ask("k", app="other"))
    assert [app for app, _, _ in placed(talk.schedule())] == ["app", "other"]


def test_an_ask_for_a_failing_application_is_rejected_at_once_with_its_state() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.apps(an_app("short", execution_timeout_ms=1))
    talk.asks(an_ask("k", app="short"))
    talk.schedule()
    talk.sleep(1_000_000)
    assert talk.app("short").state == S.FAILING
    facts = talk.asks(an_ask("more", app="short"), an_ask("k", 20, app="short"))
    for rejected in of(AskRejected, facts):
        assert rejected.code is RejectCode.INVALID_STATE
        assert rejected.reason.startswith("applicationID 'short' is an application in state Failing")
    assert [type(fact) for fact in facts] == [AskRejected, AskRejected]


def test_a_real_ask_with_the_key_of_a_living_placeholder_is_rejected(talk: Conversation) -> None:
    talk.asks(a_placeholder("p", count=2, memory=60))
    talk.schedule()
    before = talk.view()
    facts = talk.asks(an_ask("p", task_group="group"))
    rejected = only(AskRejected, facts)
    assert (rejected.code, facts) == (RejectCode.DUPLICATE_ID, [rejected])
    assert rejected.reason.startswith("allocationKey 'p' is that of a placeholder that is still there")
    assert talk.view() == before
    assert of(AskAdded, talk.asks(a_placeholder("p", count=3, memory=60))), "the placeholder ask itself may change"
    talk.release(allocation_key="p")
    assert of(AskAdded, talk.asks(an_ask("p", count=4, task_group="group")))


# Releases


@pytest.mark.parametrize("kind", [TerminationType.STOPPED_BY_RM, TerminationType.UNKNOWN_TERMINATION_TYPE])
def test_a_released_ask_is_placed_no_more_and_confirmed_with_the_type_of_its_release(
    talk: Conversation, kind: TerminationType
) -> None:
    talk.asks(an_ask("k1"), an_ask("k2", count=2))
    withdrawn = only(AskWithdrawn, talk.release_asks(allocation_key="k2", termination=kind))
    assert (withdrawn.count, withdrawn.cause) == (2, WithdrawCause.RELEASED_BY_RM)
    assert withdrawn.termination is kind
    assert keys(talk) == ["k1"]


def test_the_asks_of_a_removed_application_are_confirmed_before_its_allocations(talk: Conversation) -> None:
    talk.asks(an_ask("placed"), an_ask("part", 40, count=3), an_ask("waits", 500))
    talk.schedule()
    facts = talk.remove("app")
    stopped = TerminationType.STOPPED_BY_RM
    withdrawn = [(one.allocation_key, one.cause, one.termination) for one in of(AskWithdrawn, facts)]
    assert withdrawn == [(key, WithdrawCause.APPLICATION_REMOVED, stopped) for key in ("part", "waits")]
    last = max(at for at, fact in enumerate(facts) if isinstance(fact, AskWithdrawn))
    assert all(at > last for at, fact in enumerate(facts) if isinstance(fact, Released))


def test_without_a_key_all_asks_of_the_application_go(talk: Conversation) -> None:
    talk.apps(an_app("other"))
    talk.asks(an_ask("k1"), an_ask("k2", memory=20), an_ask("k3"), an_ask("k1", app="other"))
    facts = talk.release_asks()
    assert [one.allocation_key for one in of(AskWithdrawn, facts)] == ["k1", "k2", "k3"]
    assert [app for app, _, _ in placed(talk.schedule())] == ["other"]


def test_without_an_application_the_key_goes_everywhere(talk: Conversation) -> None:
    talk.apps(an_app("other"))
    talk.asks(an_ask("k1"), an_ask("k1", app="other"), an_ask("k2"))
    assert len(of(AskWithdrawn, talk.release_asks(application_id="", allocation_key="k1"))) == 2
    assert keys(talk) == ["k2"]


def test_what_is_placed_already_stays(talk: Conversation) -> None:
    talk.asks(an_ask("k", memory=60, count=2))
    talk.schedule()
    facts = talk.release_asks(allocation_key="k")
    assert only(AskWithdrawn, facts).count == 1
    assert states(facts) == []
    assert talk.app().allocated == {"memory": 60}
    assert talk.scheduler.wants_cycle() is False


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"allocation_key": "gone"}, "no such ask is pending"),
        ({"allocation_key": "placed"}, "no such ask is pending"),
        ({"application_id": "gone"}, "no such ask is pending"),
        ({"partition": "gpuu"}, "partitionName 'gpuu'"),
        ({"application_id": ""}, "applicationID and allocationKey are both empty"),
        ({"termination": TerminationType.TIMEOUT}, "terminationType TIMEOUT confirms a release"),
    ],
)
def test_a_release_of_what_is_not_pending_is_ignored(talk: Conversation, fields: dict[str, Any], said: str) -> None:
    talk.asks(an_ask("placed", memory=100))
    talk.schedule()
    if "termination" in fields:
        talk.asks(an_ask("waits"))
    facts = talk.release_asks(**fields)
    assert said in only(ReleaseIgnored, facts).reason
    assert len(facts) == 1


def test_an_ask_whose_allocation_exists_already_may_be_released(talk: Conversation) -> None:
    """Its node came with it: nothing is pending, so there is nothing to take back."""
    talk.nodes(a_node("n2", ROOM, an_existing("e1", "k")))
    assert "no such ask" in only(ReleaseIgnored, talk.release_asks(allocation_key="k")).reason
    assert [one.uuid for one in talk.app().allocations] == ["e1"]
