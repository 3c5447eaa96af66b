"""The RM says that a placeholder is gone: late, early, of several at once, with other news (SEMANTICS F, G4)."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.language.commands import AllocationRelease, AskRelease, NewAsk, NodeAction, TerminationType
from schedulerd.core.language.commands import UpdateAllocations as Update
from schedulerd.core.language.facts.fact import (
    Allocated,
    ApplicationChanged,
    AskAdded,
    Released,
    ReleaseIgnored,
    ReleaseRequested,
)
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import MINUTE_NS, Timeouts
from tests.unit.core.builders import RM, Conversation, a_node, an_ask, of, only, placed, states
from tests.unit.core.gang_builders import a_full_gang, a_gang, a_swap, asked_to_release, confirm, real
from tests.unit.core.heard import allocated, released

S = ApplicationState
T = TerminationType
TIMES = Timeouts()


def in_flight(count: int = 2, placeholders: int = 2, **fields: Any) -> tuple[Conversation, list[ReleaseRequested]]:
    """A full gang of which so many placeholders are being replaced by the allocations of one ask `r`."""
    talk = a_full_gang(placeholders, **fields)
    talk.asks(real(count=count))
    requests = of(ReleaseRequested, talk.schedule())
    assert [one.termination for one in requests] == [T.PLACEHOLDER_REPLACED] * count
    return talk, requests


# one confirmation for several


@pytest.mark.parametrize("key", ["p", ""], ids=["of the key", "of the whole application"])
def test_one_confirmation_without_uuid_completes_all_swaps_of_its_key_and_leaves_the_rest_alone(key: str) -> None:
    talk, requests = in_flight(2, placeholders=3)
    facts = confirm(talk, requests[0], uuid="", allocation_key=key)
    assert [one.replaces for one in of(Allocated, facts)] == [one.uuid for one in requests]
    assert allocated(facts) == [("r", "n1", False)] * 2
    assert (released(facts), states(facts, "gang")) == ([], [S.RUNNING])
    assert only(ReleaseIgnored, facts).reason == "allocation uuid-3 is not being replaced"
    assert [one.idle for one in talk.app("gang").task_groups] == [1]
    assert talk.node().allocated == {"memory": 30}


@pytest.mark.parametrize("termination", [T.STOPPED_BY_RM, T.TIMEOUT])
def test_the_rm_may_end_all_of_the_application_and_asks_that_awaited_placeholders_have_the_room(
    termination: TerminationType,
) -> None:
    talk, requests = in_flight(1)
    facts = talk.release(application_id="gang", termination=termination)
    assert len(of(Released, facts)) == 2
    assert {one.confirm for one in of(Released, facts)} == {termination is T.STOPPED_BY_RM}
    assert [one.replaces for one in of(Allocated, facts)] == [requests[0].uuid]
    assert states(facts, "gang") == [S.RUNNING], "nothing holds it up any longer"
    assert talk.node().allocated == {"memory": 10}


def test_releases_are_said_before_what_takes_their_room_and_the_state_before_both() -> None:
    talk, requests = in_flight(1, placeholders=1)
    facts = confirm(talk, requests[0], termination=T.STOPPED_BY_RM)
    assert [type(fact) for fact in facts] == [ApplicationChanged, Released, Allocated]


# late, twice, for something gone


def test_a_swap_in_flight_outlives_the_time_of_the_gang() -> None:
    talk, requests = in_flight(2, placeholders=3, placeholder_ask=Resources(memory=40))
    confirm(talk, requests.pop(0))
    facts = talk.sleep(TIMES.placeholder_ns)
    assert asked_to_release(facts) == [("p", "TIMEOUT")]
    assert states(facts, "gang") == [S.RUNNING]
    talk.sleep(10 * MINUTE_NS)
    assert placed(confirm(talk, requests[0])) == [("gang", "r", "n1")]
    confirm(talk, only(ReleaseRequested, facts))
    assert talk.node().allocated == {"memory": 20}
    [group] = talk.app("gang").task_groups
    assert (group.replaced, group.timed_out, group.idle) == (2, 1, 0)


def test_a_swap_of_a_soft_gang_that_resumes_is_completed_and_the_application_starts_with_it() -> None:
    talk = a_full_gang(2)
    talk.apps(a_gang("soft", 90, gang_style="Soft"))
    talk.asks(an_ask("p", app="soft", count=2, task_group="group", placeholder=True))
    talk.schedule()
    request = a_swap(talk, real(app="soft"))
    facts = talk.sleep(TIMES.placeholder_ns)
    assert states(facts, "soft") == [S.RESUMING]
    [leftover] = [one for one in of(ReleaseRequested, facts) if one.application_id == "soft"]
    assert placed(confirm(talk, request)) == [("soft", "r", "n1")]
    assert talk.app("soft").state == S.RESUMING
    assert states(confirm(talk, leftover), "soft") == [S.ACCEPTED, S.STARTING]


@pytest.mark.parametrize("again", [T.PLACEHOLDER_REPLACED, T.TIMEOUT, T.STOPPED_BY_RM, T.PREEMPTED_BY_SCHEDULER])
def test_a_second_confirmation_of_any_type_changes_nothing(again: TerminationType) -> None:
    talk, [request, _] = in_flight(2)
    confirm(talk, request)
    before = talk.view()
    facts = confirm(talk, request, termination=again)
    assert [type(fact) for fact in facts] == [ReleaseIgnored]
    assert talk.view() == before


@pytest.mark.parametrize(
    "fields",
    [
        {"uuid": "never-was"},
        {"uuid": "", "allocation_key": "never-was"},
        {"application_id": "never-was"},
        {"partition": "never-was"},
        {"application_id": "app"},
    ],
    ids=["uuid", "key", "application", "partition", "another application's"],
)
def test_a_confirmation_of_what_is_not_there_is_ignored_and_the_swap_waits(fields: dict[str, str]) -> None:
    talk, [request] = in_flight(1)
    facts = confirm(talk, request, **fields)
    assert [type(fact) for fact in facts] == [ReleaseIgnored]
    assert talk.app("gang").awaiting_placeholder == 1
    assert placed(confirm(talk, request)) == [("gang", "r", "n1")]


def test_a_confirmation_after_its_node_is_gone_is_ignored_and_the_ask_is_placed_once() -> None:
    talk, [request] = in_flight(1)
    talk.nodes(a_node("n1", action=NodeAction.DECOMISSION), a_node("n2", {"memory": 20}))
    assert [type(fact) for fact in confirm(talk, request)] == [ReleaseIgnored]
    assert placed(talk.schedule()) == [("gang", "r", "n2")]
    assert [type(fact) for fact in confirm(talk, request)] == [ReleaseIgnored]
    assert talk.app("gang").allocated == {"memory": 10}


def test_the_real_one_that_came_of_a_swap_is_no_placeholder_and_ends_like_any_other() -> None:
    talk, [request] = in_flight(1)
    new = only(Allocated, confirm(talk, request))
    facts = talk.release(application_id="gang", uuid=new.uuid, termination=T.PLACEHOLDER_REPLACED)
    assert only(ReleaseIgnored, facts).reason == f"allocation {new.uuid} is not being replaced"
    facts = talk.release(application_id="gang", uuid=new.uuid)
    assert only(Released, facts).placeholder is False
    assert states(facts, "gang") == [S.COMPLETING]


# one message with several things


def a_message(*asks: NewAsk, releases: list[ReleaseRequested], ask_releases: tuple[AskRelease, ...] = ()) -> Update:
    return Update(
        RM,
        asks=list(asks),
        releases=[
            AllocationRelease(one.application_id, uuid=one.uuid, termination=one.termination) for one in releases
        ],
        ask_releases=list(ask_releases),
    )


def test_a_confirmation_and_new_asks_in_one_message_go_their_ways() -> None:
    talk, requests = in_flight(1, placeholders=2)
    facts = talk.step(a_message(real("s"), releases=requests))
    assert only(AskAdded, facts).allocation_key == "s"
    assert placed(facts) == [("gang", "r", "n1")]
    assert asked_to_release(talk.schedule()) == [("p", "PLACEHOLDER_REPLACED")]


def test_an_ask_made_larger_in_the_message_that_confirms_does_not_get_the_room_it_had() -> None:
    talk, requests = in_flight(1, placeholders=1, memory=15)
    facts = talk.step(a_message(real(memory=12), releases=requests))
    assert placed(facts) == []
    assert talk.app("gang").awaiting_placeholder == 0
    assert placed(talk.schedule()) == [("gang", "r", "n1")]
    assert talk.node().allocated == {"memory": 12}


def test_an_ask_taken_back_in_the_message_that_confirms_was_placed_before() -> None:
    """Releases of allocations are handled before those of asks, so there is nothing left to take back."""
    talk, requests = in_flight(1)
    facts = talk.step(a_message(releases=requests, ask_releases=(AskRelease("gang", allocation_key="r"),)))
    assert placed(facts) == [("gang", "r", "n1")]
    assert only(ReleaseIgnored, facts).allocation_key == "r"
    assert talk.app("gang").allocated == {"memory": 10}


def test_confirmations_of_several_applications_in_one_message() -> None:
    talk = a_full_gang(1)
    talk.apps(a_gang("other", 10))
    talk.asks(an_ask("p", app="other", task_group="group", placeholder=True))
    talk.schedule()
    talk.asks(real(), real(app="other"))
    requests = of(ReleaseRequested, talk.schedule())
    facts = talk.step(a_message(releases=[*requests, *requests]))
    assert [app for app, _, _ in placed(facts)] == [one.application_id for one in requests]
    assert len(of(ReleaseIgnored, facts)) == 2
    assert talk.node().allocated == {"memory": 20}
