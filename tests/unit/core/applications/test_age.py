"""The age of an application: the tag `schedulerd.io/asked-at`, else its report; then its id. One for all orders."""

from __future__ import annotations

import pytest

from schedulerd.core.applications.rules.queue_placement import FORCE_CREATE_TAG
from schedulerd.core.language.commands import NewApplication
from schedulerd.core.language.facts.fact import ApplicationAccepted, ApplicationRejected, RejectCode
from schedulerd.core.language.facts.queues import TagIgnored
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS, ApplicationOrder
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    of,
    only,
    placed,
)

ORDERS = list(ApplicationOrder)


def a_talk(order: ApplicationOrder = ApplicationOrder.FIFO) -> Conversation:
    return a_conversation(a_node("n1", {"memory": 10}), root=a_root(a_queue_spec("leaf", order=order)))


def report(talk: Conversation, *specs: NewApplication) -> list[str]:
    """The applications in the order in which they are placed, if each comes in a step of its own."""
    for spec in specs:
        talk.sleep(SECOND_NS)
        talk.apps(spec)
    talk.asks(*(an_ask("k", app=spec.application_id) for spec in specs))
    found = []
    while done := placed(talk.schedule()):
        found += [app for app, _, _ in done]
        talk.release(application_id=found[-1])
    return found


def aged(name: str, asked_at_ns: int | None = None) -> NewApplication:
    return an_app(name, "root.leaf", asked_at_ns=asked_at_ns)


@pytest.mark.parametrize("order", ORDERS)
def test_the_order_is_that_of_the_ages_and_not_of_the_reports(order: ApplicationOrder) -> None:
    """So a resource manager that reports again, in any order, finds the order of before."""
    assert report(a_talk(order), aged("c", 30), aged("a", 20), aged("b", 10)) == ["b", "a", "c"]


@pytest.mark.parametrize("order", ORDERS)
def test_without_the_tag_the_report_counts_and_then_the_id(order: ApplicationOrder) -> None:
    assert report(a_talk(order), aged("b"), aged("c"), aged("a")) == ["b", "c", "a"]
    assert report(a_talk(order), aged("b", 5), aged("c", 5), aged("a", 5)) == ["a", "b", "c"]


def test_an_age_in_the_future_is_now() -> None:
    assert report(a_talk(), aged("b", 10**18), aged("a")) == ["b", "a"]


def test_the_view_says_from_when_the_age_counts() -> None:
    talk = a_talk()
    talk.apps(aged("a", 5))
    assert (talk.app("a").asked_at_ns, talk.app("a").submitted_at_ns) == (5, talk.now_ns)


def test_an_older_gang_gets_the_placeholders_of_a_younger_one_that_was_reported_first() -> None:
    talk = a_talk()
    for name, asked_at_ns in (("first", 20), ("second", 10)):
        talk.apps(an_app(name, "root.leaf", asked_at_ns=asked_at_ns, placeholder_ask=Resources(memory=10)))
    first, second = (talk.model().applications[name] for name in ("first", "second"))
    assert second.age < first.age
    assert sorted([first, second], key=lambda one: one.key()) == [second, first]


def test_a_tag_that_cannot_be_read_rejects_a_new_application_and_not_one_that_runs() -> None:
    talk = a_talk()
    reason = "tags[schedulerd.io/asked-at] is 'x'; it must be nanoseconds"
    rejected = only(ApplicationRejected, talk.apps(an_app("new", "root.leaf", unreadable=reason)))
    assert (rejected.code, rejected.reason) == (RejectCode.INVALID_FIELD, reason)
    facts = talk.apps(an_app("runs", "root.leaf", unreadable=reason, tags={FORCE_CREATE_TAG: "true"}))
    assert [one.application_id for one in of(ApplicationAccepted, facts)] == ["runs"]
    assert reason in only(TagIgnored, facts).reason


def test_another_conversion_of_the_same_age_is_no_other_application() -> None:
    """After the wall clock was set, the same tag is another time of the steps."""
    talk = a_conversation(a_node("n1"))
    tags = {"schedulerd.io/asked-at": "1700000000000000000"}
    talk.apps(an_app("a", tags=tags, asked_at_ns=5))
    again = {**tags, "namespace.resourcequota": '{"resources": {"memory": {"value": 30}}}'}
    assert of(ApplicationRejected, talk.apps(an_app("a", tags=again, asked_at_ns=7))) == []
