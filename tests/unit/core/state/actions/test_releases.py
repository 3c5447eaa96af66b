"""Releases of allocations, both ways (SI `AllocationRelease`; the table of SEMANTICS F)."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts.fact import ApplicationChanged, Released, ReleaseIgnored, ReleaseRequested
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.specs import Timeouts
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    an_app,
    an_ask,
    of,
    only,
    placed,
    states,
)

S = ApplicationState
T = TerminationType


@pytest.fixture
def talk() -> Conversation:
    """A full node: k1 once, k2 twice, and one of another application."""
    talk = a_conversation(a_node("n1", {"memory": 40}))
    talk.apps(an_app("other"))
    talk.asks(an_ask("k1"), an_ask("k2", count=2), an_ask("k1", app="other"))
    assert len(placed(talk.schedule())) == 4
    return talk


def uuids(talk: Conversation, key: str) -> list[str]:
    return [one.uuid for one in talk.app().allocations if one.allocation_key == key]


@pytest.mark.parametrize(
    ("termination", "confirmed_as"),
    [
        (T.STOPPED_BY_RM, T.STOPPED_BY_RM),
        (T.UNKNOWN_TERMINATION_TYPE, T.UNKNOWN_TERMINATION_TYPE),
        (T.TIMEOUT, None),
        (T.PREEMPTED_BY_SCHEDULER, None),
    ],
)
def test_what_the_rm_wants_is_confirmed_what_it_confirms_is_not(
    talk: Conversation, termination: TerminationType, confirmed_as: TerminationType | None
) -> None:
    [uuid] = uuids(talk, "k1")
    released = only(Released, talk.release(uuid=uuid, termination=termination, message="why"))
    assert (released.uuid, released.allocation_key, released.node_id) == (uuid, "k1", "n1")
    assert released.confirm is (confirmed_as is not None)
    assert released.termination is (confirmed_as or termination)
    assert released.message == "why"
    assert talk.node().available == {"memory": 10}


def test_a_replacement_that_was_never_asked_for_changes_nothing(talk: Conversation) -> None:
    [uuid] = uuids(talk, "k1")
    ignored = only(ReleaseIgnored, talk.release(uuid=uuid, termination=T.PLACEHOLDER_REPLACED))
    assert ignored.reason == f"allocation {uuid} is not being replaced"
    assert uuids(talk, "k1") == [uuid]


@pytest.mark.parametrize(
    ("fields", "freed"),
    [({"allocation_key": "k2"}, ["k2", "k2"]), ({}, ["k1", "k2", "k2"]), ({"allocation_key": "k1"}, ["k1"])],
    ids=["all of a key", "all of the application", "the one of a key"],
)
def test_one_release_may_name_several(talk: Conversation, fields: dict[str, Any], freed: list[str]) -> None:
    facts = talk.release(**fields)
    assert sorted(one.allocation_key for one in of(Released, facts)) == freed
    assert talk.view().applications[1].allocated == {"memory": 10}, "the other application is left alone"


def test_the_change_of_state_is_said_before_the_releases(talk: Conversation) -> None:
    facts = talk.release()
    assert states(facts) == [S.COMPLETING]
    assert [type(fact) for fact in facts] == [ApplicationChanged, Released, Released, Released]


def test_what_is_released_makes_room(talk: Conversation) -> None:
    talk.asks(an_ask("waits", memory=20))
    assert placed(talk.schedule()) == []
    talk.release(allocation_key="k2")
    assert placed(talk.schedule()) == [("app", "waits", "n1")]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"uuid": "gone"}, "no such allocation"),
        ({"allocation_key": "gone"}, "no such allocation"),
        ({"application_id": "gone"}, "applicationID 'gone' is not a known application"),
        ({"application_id": "", "uuid": "gone"}, "no such allocation"),
        ({"application_id": "", "allocation_key": "k1"}, "applicationID and UUID are both empty"),
        ({"application_id": ""}, "applicationID and UUID are both empty"),
        ({"application_id": "other", "uuid": "uuid-1"}, "no such allocation"),
        ({"partition": "gpuu"}, "partitionName 'gpuu'"),
    ],
)
def test_a_release_of_what_is_not_there_is_ignored(talk: Conversation, fields: dict[str, Any], said: str) -> None:
    facts = talk.release(**fields)
    assert said in only(ReleaseIgnored, facts).reason
    assert len(facts) == 1
    assert talk.node().available == {}


@pytest.mark.parametrize("kind", [T.STOPPED_BY_RM, T.UNKNOWN_TERMINATION_TYPE, T.TIMEOUT])
def test_a_uuid_alone_is_enough(talk: Conversation, kind: TerminationType) -> None:
    [uuid] = uuids(talk, "k1")
    released = only(Released, talk.release(application_id="", uuid=uuid, termination=kind))
    assert (released.uuid, released.application_id, released.termination) == (uuid, "app", kind)
    assert uuids(talk, "k1") == []


def test_a_second_release_finds_nothing(talk: Conversation) -> None:
    [uuid] = uuids(talk, "k1")
    talk.release(uuid=uuid)
    assert only(ReleaseIgnored, talk.release(uuid=uuid)).uuid == uuid
    assert talk.node().available == {"memory": 10}


def test_what_the_core_wants_gone_is_asked_for_once_and_used_until_confirmed() -> None:
    talk = a_conversation(a_node("n1", {"memory": 40}))
    talk.asks(a_placeholder("p"), an_ask("real"))
    talk.schedule()
    talk.release(allocation_key="real")
    requested = only(ReleaseRequested, talk.sleep(Timeouts().completing_ns))
    assert (requested.termination, requested.allocation_key) == (T.TIMEOUT, "p")
    assert talk.node().allocated == {"memory": 10}
    assert [one.releasing for one in talk.app().allocations] == ["TIMEOUT"]
    assert of(ReleaseRequested, talk.sleep(10 * Timeouts().placeholder_ns)) == []
    released = only(Released, talk.release(uuid=requested.uuid, termination=T.TIMEOUT))
    assert (released.confirm, released.placeholder) == (False, True)
    assert talk.node().allocated == {}


def test_the_rm_may_stop_what_the_core_wants_gone() -> None:
    """Both at once: the RM's own wish is confirmed, and the allocation is freed once."""
    talk = a_conversation(a_node("n1", {"memory": 40}))
    talk.asks(a_placeholder("p"))
    talk.schedule()
    requested = only(ReleaseRequested, talk.sleep(Timeouts().placeholder_ns))
    assert only(Released, talk.release(uuid=requested.uuid)).confirm
    assert of(ReleaseIgnored, talk.release(uuid=requested.uuid, termination=T.TIMEOUT))
