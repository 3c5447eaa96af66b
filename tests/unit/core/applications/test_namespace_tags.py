"""Tags by which a namespace limits its queue: read exactly or not at all (SEMANTICS I5)."""

from __future__ import annotations

import json

from schedulerd.core.applications.rules.namespace_tags import (
    GUARANTEED_TAG,
    MAX_APPLICATIONS_TAG,
    PARENT_QUEUE_TAG,
    QUOTA_TAG,
)
from schedulerd.core.applications.rules.queue_placement import FORCE_CREATE_TAG, RECOVERY_QUEUE
from schedulerd.core.language.facts.fact import Allocated, ApplicationAccepted, ApplicationRejected, RejectCode
from schedulerd.core.language.facts.queues import QueueChanged, TagIgnored
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import PartitionSpec, QueueSpec, RuleKind, RuleSpec
from tests.loops import each_row
from tests.unit.core.builders import EVERYBODY, Conversation, a_node, a_scheduler, an_app, an_ask, of, only

INT64_MAX = 2**63 - 1


def quota(**amounts: object) -> str:
    return json.dumps({"resources": {name: {"value": amount} for name, amount in amounts.items()}})


def talk_to_namespaces() -> Conversation:
    """A queue for each namespace, below root or below its parent queue; else the queue that is named, created if need
    be."""
    parent = RuleSpec(RuleKind.TAG, value=PARENT_QUEUE_TAG, create=True)
    rules = (
        RuleSpec(RuleKind.TAG, value="namespace", create=True, parent=parent),
        RuleSpec(RuleKind.TAG, value="namespace", create=True),
        RuleSpec(RuleKind.PROVIDED, create=True),
    )
    talk = Conversation(a_scheduler())
    talk.register(PartitionSpec("default", QueueSpec("root", parent=True, submit_acl=EVERYBODY), rules))
    talk.connect()
    talk.nodes(a_node("n1", {"memory": 100}))
    return talk


UNREADABLE = [
    (QUOTA_TAG, "no json"),
    (QUOTA_TAG, "[" * 60_000),
    (QUOTA_TAG, '{"memory": "10"}'),
    (QUOTA_TAG, '{"resources": {"memory": {"value": 1e400}}}'),
    (QUOTA_TAG, '{"resources": {"memory": {"value": Infinity}}}'),
    (QUOTA_TAG, quota(memory=1.5)),
    (QUOTA_TAG, quota(memory=-1)),
    (QUOTA_TAG, quota(memory=INT64_MAX + 1)),
    (QUOTA_TAG, quota(memory=True)),
    (QUOTA_TAG, quota(**{f"r{number}": 1 for number in range(65)})),
    (QUOTA_TAG, quota(**{"": 1})),
    (GUARANTEED_TAG, "null"),
    (GUARANTEED_TAG, quota(memory=2**63)),
    (GUARANTEED_TAG, '{"resources": {"memory": {"value": NaN}}}'),
    (MAX_APPLICATIONS_TAG, "9" * 5_000),
    (MAX_APPLICATIONS_TAG, str(2**64)),
    (MAX_APPLICATIONS_TAG, "-1"),
    (MAX_APPLICATIONS_TAG, "1.0"),
    (MAX_APPLICATIONS_TAG, "\u0663"),
    (PARENT_QUEUE_TAG, "root..a"),
    (PARENT_QUEUE_TAG, "root a"),
    (PARENT_QUEUE_TAG, "x" * 2_000),
    (PARENT_QUEUE_TAG, "root.a\x00"),
]


@each_row(("name", "text"), UNREADABLE)
def test_a_tag_that_cannot_be_read_exactly_rejects_the_application(name: str, text: str) -> None:
    talk = talk_to_namespaces()
    facts = talk.apps(an_app("bad", "root.ns", tags={name: text}), an_app("good", "root.ns"))
    rejected = only(ApplicationRejected, facts)
    assert (rejected.application_id, rejected.code) == ("bad", RejectCode.INVALID_FIELD)
    assert rejected.reason.startswith(f"tags[{name}] is {text[:60]!r}"[:60].removesuffix("'"))
    assert "must" in rejected.reason or "write" in rejected.reason
    assert len(rejected.reason) < 600
    assert only(ApplicationAccepted, facts).application_id == "good"


@each_row(("name", "text"), UNREADABLE)
def test_a_forced_application_is_accepted_as_if_the_unreadable_tag_were_absent(name: str, text: str) -> None:
    talk = talk_to_namespaces()
    readable = quota(memory=5)
    other = GUARANTEED_TAG if name == QUOTA_TAG else QUOTA_TAG
    tags = {name.upper(): text, other: readable, FORCE_CREATE_TAG: "true", "namespace": "ns"}
    facts = talk.apps(an_app("runs", "", tags=tags))
    ignored = only(TagIgnored, facts)
    accepted = only(ApplicationAccepted, facts)
    assert (ignored.application_id, ignored.tag, ignored.queue) == ("runs", name.upper(), "root.ns")
    assert ignored.reason.startswith(f"tags[{name.upper()}] is ")
    assert ignored.reason.endswith("is accepted without this tag, because it runs already")
    assert (accepted.queue, of(ApplicationRejected, facts)) == ("root.ns", [])
    queue = talk.queue("root.ns")
    limits = queue.max if other == QUOTA_TAG else queue.guaranteed
    assert (limits, queue.max_applications) == ({"memory": 5}, 0)


def test_a_forced_application_with_four_unreadable_tags_is_told_of_each() -> None:
    tags = {
        name: "no" if name != PARENT_QUEUE_TAG else "n o"
        for name in (QUOTA_TAG, GUARANTEED_TAG, MAX_APPLICATIONS_TAG, PARENT_QUEUE_TAG)
    }
    facts = talk_to_namespaces().apps(an_app("runs", "root.nowhere.else", tags=tags | {FORCE_CREATE_TAG: "true"}))
    assert [fact.tag for fact in of(TagIgnored, facts)] == list(tags)
    assert only(ApplicationAccepted, facts).queue == "root.nowhere.else"


def test_zero_is_a_quota_of_nothing_also_if_all_of_it_is_zero() -> None:
    talk = talk_to_namespaces()
    talk.apps(an_app("app", "root.ns", tags={QUOTA_TAG: quota(memory=0)}))
    assert talk.queue("root.ns").max == {"memory": 0}
    assert of(Allocated, talk.asks(an_ask("k")) + talk.schedule()) == []
    talk.apps(an_app("more", "root.ns", tags={QUOTA_TAG: quota(memory=10)}))
    assert [fact.allocation_key for fact in of(Allocated, talk.schedule())] == ["k"]


def test_a_guarantee_of_zero_is_none() -> None:
    talk = talk_to_namespaces()
    for app, amount in (("one", 10), ("two", 0)):
        talk.apps(an_app(app, "root.ns", tags={GUARANTEED_TAG: quota(memory=amount)}))
        assert talk.queue("root.ns").guaranteed == ({"memory": amount} if amount else {})


def test_the_largest_values_are_taken() -> None:
    talk = talk_to_namespaces()
    tags = {QUOTA_TAG: quota(memory=INT64_MAX), MAX_APPLICATIONS_TAG: str(2**64 - 1), PARENT_QUEUE_TAG: "root.ns"}
    talk.apps(an_app("app", "", tags=tags | {"namespace": "deep"}))
    queue = talk.queue("root.ns.deep")
    assert (queue.max, queue.max_applications) == ({"memory": INT64_MAX}, 2**64 - 1)


def test_the_recovery_queue_has_no_quota() -> None:
    talk = talk_to_namespaces()
    talk.apps(an_app("runs", "root..a", tags={QUOTA_TAG: quota(memory=0), FORCE_CREATE_TAG: "true"}))
    assert talk.queue(f"root.{RECOVERY_QUEUE}").max == {}


def test_a_gang_that_its_quota_refuses_leaves_no_queue_and_no_quota_behind() -> None:
    talk = talk_to_namespaces()
    talk.apps(an_app("there", "root.ns", tags={QUOTA_TAG: quota(memory=50)}))
    small = {QUOTA_TAG: quota(memory=10)}
    facts = talk.apps(
        an_app("gang-1", "root.ns", tags=small, placeholder_ask=Resources(memory=20)),
        an_app("gang-2", "root.new", tags=small, placeholder_ask=Resources(memory=20)),
    )
    assert [one.code for one in of(ApplicationRejected, facts)] == [RejectCode.OVER_QUOTA] * 2
    assert "max of queue root.new is 10" in of(ApplicationRejected, facts)[1].reason
    assert not of(QueueChanged, facts)
    assert {queue.path: queue.max for queue in talk.view().queues} == {"root": {}, "root.ns": {"memory": 50}}
