"""A living application that is submitted again with other `namespace.*` tags updates its queue (SEMANTICS I26)."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.applications.rules.namespace_tags import GUARANTEED_TAG, MAX_APPLICATIONS_TAG, QUOTA_TAG
from schedulerd.core.applications.rules.queue_placement import FORCE_CREATE_TAG
from schedulerd.core.language.commands import NewApplication
from schedulerd.core.language.facts.fact import ApplicationAccepted, ApplicationChanged, ApplicationRejected, RejectCode
from schedulerd.core.language.facts.queues import QueueChanged, TagIgnored
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import PartitionSpec, QueueSpec, TemplateSpec
from tests.unit.core.applications.test_namespace_tags import quota, talk_to_namespaces
from tests.unit.core.builders import (
    EVERYBODY,
    Conversation,
    a_node,
    a_scheduler,
    an_ask,
    of,
    only,
    placed,
)


def app(id_: str = "app", **tags: str) -> NewApplication:
    """Of namespace `dev`."""
    named = {QUOTA_TAG: "quota", GUARANTEED_TAG: "guaranteed", MAX_APPLICATIONS_TAG: "count"}
    found = {name: tags[short] for name, short in named.items() if short in tags}
    return NewApplication(id_, "", user="ann", tags={"namespace": "dev", **found})


def limits(talk: Conversation) -> tuple[dict[str, int], dict[str, int], int]:
    queue = talk.model().root.children["dev"]
    return dict(queue.max), dict(queue.guaranteed), queue.max_applications


def test_a_raised_quota_lets_waiting_asks_in_and_a_lowered_one_does_not() -> None:
    talk = talk_to_namespaces()
    talk.apps(app(quota=quota(memory=10)))
    talk.asks(an_ask("a"), an_ask("b"), an_ask("c"))
    assert len(placed(talk.schedule())) == 1
    facts = talk.apps(app(quota=quota(memory=20)))
    assert only(ApplicationAccepted, facts).application_id == "app"
    assert only(QueueChanged, facts).amounts == {"memory": 20}
    assert of(ApplicationChanged, facts) == []
    assert len(placed(talk.schedule())) == 1
    talk.apps(app(quota=quota(memory=5)))
    talk.release(allocation_key="a")
    assert placed(talk.schedule()) == []


def test_a_tag_that_is_missing_lifts_what_it_set_and_nothing_else() -> None:
    talk = talk_to_namespaces()
    talk.apps(app(quota=quota(memory=10), guaranteed=quota(memory=5), count="1"))
    assert limits(talk) == ({"memory": 10}, {"memory": 5}, 1)
    talk.apps(app(guaranteed=quota(memory=5), count="1"))
    assert limits(talk) == ({}, {"memory": 5}, 1)
    talk.apps(app())
    assert limits(talk) == ({}, {}, 0)


def test_what_is_lifted_is_what_the_template_says() -> None:
    template = TemplateSpec(max=Limits(memory=30), guaranteed=Resources(memory=3), max_applications=4)
    talk = Conversation(a_scheduler())
    root = QueueSpec("root", parent=True, submit_acl=EVERYBODY, template=template)
    talk.register(PartitionSpec("default", root, talk_to_namespaces().model().spec.rules))
    talk.connect()
    talk.apps(app(quota=quota(memory=10), guaranteed=quota(memory=5), count="1"))
    talk.apps(app())
    assert limits(talk) == ({"memory": 30}, {"memory": 3}, 4)


def test_a_tag_that_the_application_never_had_lifts_nothing() -> None:
    talk = talk_to_namespaces()
    talk.apps(app("one", quota=quota(memory=10)), app("two", count="3"))
    talk.apps(app("two", count="4"))
    assert limits(talk) == ({"memory": 10}, {}, 4)


def test_the_newest_report_of_a_leaf_wins() -> None:
    talk = talk_to_namespaces()
    talk.apps(app("one", quota=quota(memory=10)), app("two", quota=quota(memory=20)))
    assert limits(talk)[0] == {"memory": 20}
    assert of(ApplicationRejected, talk.apps(app("one", quota=quota(memory=10)))) == []
    assert limits(talk)[0] == {"memory": 10}


def test_the_number_of_applications_holds_for_applications_that_have_not_started() -> None:
    talk = talk_to_namespaces()
    talk.apps(app("one"), app("two"), app("three"))
    talk.asks(an_ask("a", app="one"))
    talk.schedule()
    talk.apps(app("one", count="1"))
    talk.asks(an_ask("a", app="two"))
    assert placed(talk.schedule()) == []
    talk.apps(app("one", count="2"))
    assert placed(talk.schedule()) == [("two", "a", "n1")]
    talk.asks(an_ask("a", app="three"))
    assert placed(talk.schedule()) == []
    talk.apps(app("one"))
    assert placed(talk.schedule()) == [("three", "a", "n1")]


def test_nothing_new_is_a_duplicate_as_ever() -> None:
    talk = talk_to_namespaces()
    talk.apps(app(quota=quota(memory=10)))
    assert only(ApplicationRejected, talk.apps(app(quota=quota(memory=10)))).code is RejectCode.DUPLICATE_ID


@pytest.mark.parametrize(
    "other",
    [
        {"user": "bob"},
        {"groups": ("staff",)},
        {"queue": "root.other"},
        {"execution_timeout_ms": 5},
        {"placeholder_ask": Resources(memory=1)},
        {"gang_style": "Hard"},
    ],
)
def test_anything_else_is_rejected_and_changes_nothing(other: dict[str, Any]) -> None:
    talk = talk_to_namespaces()
    talk.apps(app(quota=quota(memory=10)))
    again = app(quota=quota(memory=20))
    for name, value in other.items():
        setattr(again, name, value)
    assert only(ApplicationRejected, talk.apps(again)).code is RejectCode.DUPLICATE_ID
    assert limits(talk)[0] == {"memory": 10}


@pytest.mark.parametrize("name", ["namespace", "color", FORCE_CREATE_TAG])
def test_another_tag_of_its_own_is_rejected(name: str) -> None:
    talk = talk_to_namespaces()
    talk.apps(app(quota=quota(memory=10)))
    again = app(quota=quota(memory=20))
    again.tags = {**again.tags, name: "new"}
    assert only(ApplicationRejected, talk.apps(again)).code is RejectCode.DUPLICATE_ID


def test_a_tag_that_cannot_be_read_is_rejected_and_the_application_goes_on() -> None:
    talk = talk_to_namespaces()
    talk.apps(app(quota=quota(memory=10)))
    rejected = only(ApplicationRejected, talk.apps(app(quota="lots")))
    assert rejected.code is RejectCode.INVALID_FIELD
    assert rejected.reason.startswith(f"tags[{QUOTA_TAG}] is 'lots': ")
    assert limits(talk)[0] == {"memory": 10}
    talk.asks(an_ask("a"))
    talk.nodes(a_node("n2", {"memory": 10}))
    assert len(placed(talk.schedule())) == 1


def test_of_one_that_runs_already_such_a_tag_is_ignored() -> None:
    talk = talk_to_namespaces()
    first, again = app(quota=quota(memory=10)), app(quota="lots")
    for one in (first, again):
        one.tags = {**one.tags, FORCE_CREATE_TAG: "true"}
    talk.apps(first)
    assert only(TagIgnored, talk.apps(again)).tag == QUOTA_TAG
    assert limits(talk)[0] == {}


def test_a_queue_of_the_file_keeps_what_the_file_says() -> None:
    talk = Conversation(a_scheduler())
    root = QueueSpec("root", parent=True, submit_acl=EVERYBODY, children=(QueueSpec("dev", max=Limits(memory=7)),))
    talk.register(PartitionSpec("default", root, talk_to_namespaces().model().spec.rules))
    talk.connect()
    talk.apps(app(quota=quota(memory=10)))
    assert of(ApplicationRejected, talk.apps(app(quota=quota(memory=20)))) == []
    assert limits(talk)[0] == {"memory": 7}
