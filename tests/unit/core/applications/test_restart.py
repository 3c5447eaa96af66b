"""A resource manager restarts after an operator made things stricter: every node and pod stays (SEMANTICS I5)."""

from __future__ import annotations

import json

from schedulerd.core.applications.rules.namespace_tags import MAX_APPLICATIONS_TAG, QUOTA_TAG
from schedulerd.core.applications.rules.queue_placement import FORCE_CREATE_TAG
from schedulerd.core.invariants.all import violations
from schedulerd.core.language.commands import NewApplication
from schedulerd.core.language.facts.fact import (
    Allocated,
    ApplicationAccepted,
    ApplicationRejected,
    NodeAccepted,
    Released,
)
from schedulerd.core.language.facts.queues import TagIgnored
from schedulerd.core.language.resources import Limits
from schedulerd.core.language.specs import LimitSpec, PartitionSpec, QueueSpec, RuleKind, RuleSpec
from tests.unit.core.builders import EVERYBODY, Conversation, a_node, a_scheduler, an_app, an_ask, an_existing, of
from tests.unit.core.gang_builders import a_gang

NAMESPACE_RULE = RuleSpec(RuleKind.TAG, value="namespace", create=True)
QUOTA = json.dumps({"resources": {"memory": {"value": 100}}})


def a_partition(user_max: int) -> PartitionSpec:
    limit = LimitSpec(users=("*",), max=Limits(memory=user_max))
    return PartitionSpec(
        "default", QueueSpec("root", parent=True, submit_acl=EVERYBODY, limits=(limit,)), (NAMESPACE_RULE,)
    )


def applications(quota: str, max_applications: str, **tags: str) -> tuple[NewApplication, NewApplication]:
    """A gang of 40 in one namespace and a plain application in another one with these annotations."""
    annotated = {QUOTA_TAG: quota, MAX_APPLICATIONS_TAG: max_applications}
    return (
        a_gang("gang", 40, tags={"namespace": "batch", **tags}),
        an_app("plain", tags={"namespace": "web", **annotated, **tags}),
    )


def running_pods(talk: Conversation) -> dict[str, tuple[str, str]]:
    """Application and node of each allocation, by UUID."""
    return {one.uuid: (one.application.application_id, one.node.node_id) for one in talk.model().allocations.values()}


def test_a_restart_after_a_lowered_limit_and_a_broken_annotation_keeps_every_node_and_pod() -> None:
    talk = Conversation(a_scheduler())
    talk.register(a_partition(user_max=1_000))
    talk.connect()
    talk.nodes(a_node("n1", {"memory": 50}), a_node("n2", {"memory": 50}))
    assert len(of(ApplicationAccepted, talk.apps(*applications(QUOTA, "3")))) == 2
    talk.asks(
        *(an_ask(f"p{at}", 10, app="gang", task_group="group", placeholder=True) for at in range(4)),
        *(an_ask(f"w{at}", 10, app="plain") for at in range(4)),
    )
    talk.schedule()
    before = running_pods(talk)
    assert len(before) == 8
    existing = {
        node.node_id: [
            an_existing(one.uuid, one.key, one.application.application_id, 10, task_group=one.spec.task_group)
            for one in node.allocations.values()
        ]
        for node in talk.model().nodes.values()
    }

    talk.register(a_partition(user_max=10))
    talk.connect()
    told = talk.apps(*applications("{broken", "9" * 5_000, **{FORCE_CREATE_TAG: "true"}))
    told += talk.nodes(*(a_node(node_id, {"memory": 50}, *pods) for node_id, pods in existing.items()))
    told += talk.schedule()

    assert of(ApplicationRejected, told) == []
    assert of(Released, told) == []
    assert [fact.node_id for fact in of(NodeAccepted, told)] == ["n1", "n2"]
    assert sorted(fact.tag for fact in of(TagIgnored, told)) == sorted([MAX_APPLICATIONS_TAG, QUOTA_TAG])
    assert all(fact.recovered for fact in of(Allocated, told))
    assert running_pods(talk) == before
    assert violations(talk.scheduler) == []

    talk.asks(an_ask("more", 10, app="plain"))
    assert of(Allocated, talk.schedule()) == [], "the user is above the new limit: over-commit drains first"


def test_without_the_tag_new_work_is_checked() -> None:
    talk = Conversation(a_scheduler())
    talk.register(a_partition(user_max=10))
    talk.connect()
    rejected = of(ApplicationRejected, talk.apps(*applications("{broken", "3")))
    assert [fact.application_id for fact in rejected] == ["gang", "plain"]
