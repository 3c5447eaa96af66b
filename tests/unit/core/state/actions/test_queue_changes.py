"""Queues, nodes and allocations say what became of them in so many words that no reader has to compare."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schedulerd.core.language.commands import CleanQueues, NodeAction, UpdateConfiguration
from schedulerd.core.language.facts.fact import NodeAspect, NodeChanged, Released
from schedulerd.core.language.facts.queues import QueueChange, QueueChanged
from schedulerd.core.language.resources import Limits
from schedulerd.core.language.specs import (
    LimitSpec,
    PartitionSpec,
    PriorityPolicy,
    QueueProperties,
    QueueSpec,
    TemplateSpec,
)
from tests.unit.core.builders import (
    EVERYBODY,
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_partition_spec,
    a_queue_spec,
    a_root,
    a_scheduler,
    an_ask,
    of,
    only,
)
from tests.unit.core.configurations import reload

C = QueueChange
CAPACITY = {"memory": 100}


def said(facts: Any) -> list[tuple[str, QueueChange]]:
    return [(fact.queue, fact.change) for fact in of(QueueChanged, facts)]


def test_a_registration_says_all_queues_with_their_quotas() -> None:
    root = a_root(a_queue_spec("a", max={"memory": 5}, guaranteed={"memory": 2}), a_queue_spec("b"))
    facts = Conversation(a_scheduler()).register(a_partition_spec(root))
    assert said(facts) == [
        ("root", C.ADDED),
        ("root.a", C.ADDED),
        ("root.a", C.MAX),
        ("root.a", C.GUARANTEED),
        ("root.b", C.ADDED),
    ]
    assert [fact.amounts for fact in of(QueueChanged, facts)] == [{}, {}, {"memory": 5}, {"memory": 2}, {}]


def test_a_quota_that_goes_is_a_change_to_none() -> None:
    talk = a_conversation(root=a_root(a_queue_spec("a", max={"memory": 5})))
    told = only(QueueChanged, reload(talk, a_root(a_queue_spec("a"))))
    assert (told.queue, told.change, told.amounts) == ("root.a", C.MAX, {})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_applications": 3}, "changed: maxapplications"),
        ({"properties": QueueProperties(priority_policy=PriorityPolicy.FENCE)}, "changed: properties"),
        ({"limits": (LimitSpec(users=("ann",), max=Limits(memory=1)),)}, "changed: limits"),
        ({"submit_acl": EVERYBODY, "admin_acl": EVERYBODY}, "changed: submitacl, adminacl"),
        ({"template": TemplateSpec(max_applications=1)}, "changed: childtemplate"),
    ],
)
def test_other_rules_are_one_change_that_names_them(changes: dict[str, Any], message: str) -> None:
    parent = a_queue_spec("p", a_queue_spec("q"))
    talk = a_conversation(root=a_root(parent))
    told = only(QueueChanged, reload(talk, a_root(replace(parent, **changes))))
    assert (told.queue, told.change, told.message) == ("root.p", C.CONFIGURATION, message)


def test_a_queue_that_drains_says_so_and_again_when_it_is_back_and_when_it_is_gone() -> None:
    both, one = a_root(a_queue_spec("a"), a_queue_spec("b")), a_root(a_queue_spec("a"))
    talk = a_conversation(root=both)
    told = only(QueueChanged, reload(talk, one))
    assert (told.queue, told.message) == ("root.b", "accepts nothing new, and is removed when it is empty")
    told = only(QueueChanged, reload(talk, both))
    assert (told.queue, told.message) == ("root.b", "accepts applications again")
    reload(talk, one)
    told = only(QueueChanged, talk.step(CleanQueues(RM)))
    assert (told.queue, told.change, told.managed) == ("root.b", C.REMOVED, True)


def test_partitions_that_come_and_go_say_all_their_queues() -> None:
    more = a_partition_spec(a_root(a_queue_spec("a", a_queue_spec("b"))), "more")
    talk = a_conversation()
    default = a_partition_spec()
    facts = talk.step(UpdateConfiguration(RM, (default, more)))
    assert said(facts) == [("root", C.ADDED), ("root.a", C.ADDED), ("root.a.b", C.ADDED)]
    facts = talk.step(UpdateConfiguration(RM, (default,)))
    assert said(facts) == [("root.a.b", C.REMOVED), ("root.a", C.REMOVED), ("root", C.REMOVED)]
    assert {fact.partition for fact in of(QueueChanged, facts)} == {"more"}


def test_the_same_file_changes_no_queue_even_if_something_else_of_it_differs() -> None:
    talk = a_conversation()
    spec = PartitionSpec("default", a_root(), preemption_enabled=False)
    assert said(talk.step(UpdateConfiguration(RM, (spec,)))) == []


def test_a_leaf_that_becomes_a_parent_says_so() -> None:
    talk = a_conversation(root=a_root(a_queue_spec("p"), a_queue_spec("q")))
    facts = reload(talk, a_root(a_queue_spec("p", a_queue_spec("x")), a_queue_spec("q")))
    assert said(facts) == [("root.p", C.TYPE), ("root.p.x", C.ADDED)]
    assert [fact.is_leaf for fact in of(QueueChanged, facts)] == [False, True]


@pytest.mark.parametrize(
    ("update", "aspects"),
    [
        (a_node("n1", {"memory": 50}, action=NodeAction.UPDATE), NodeAspect.CAPACITY),
        (a_node("n1", CAPACITY, action=NodeAction.UPDATE, occupied={"memory": 1}), NodeAspect.OCCUPIED),
        (a_node("n1", action=NodeAction.UPDATE, attributes={"ready": "false"}), NodeAspect.READY),
        (a_node("n1", action=NodeAction.UPDATE, attributes={"zone": "1"}), NodeAspect.NONE),
        (a_node("n1", action=NodeAction.DRAIN_NODE), NodeAspect.SCHEDULABLE),
        (
            a_node("n1", {"gpu": 1}, action=NodeAction.UPDATE, occupied={"gpu": 1}, attributes={"ready": "false"}),
            NodeAspect.CAPACITY | NodeAspect.OCCUPIED | NodeAspect.READY,
        ),
    ],
)
def test_a_node_says_what_of_it_changed(update: Any, aspects: NodeAspect) -> None:
    talk = a_conversation(a_node("n1", CAPACITY))
    changed = only(NodeChanged, talk.nodes(update))
    assert (changed.changed, changed.ready) == (aspects, NodeAspect.READY not in aspects)


def test_draining_twice_is_one_change() -> None:
    talk = a_conversation(a_node("n1", CAPACITY))
    talk.nodes(a_node("n1", action=NodeAction.DRAIN_NODE))
    assert only(NodeChanged, talk.nodes(a_node("n1", action=NodeAction.DRAIN_NODE))).changed is NodeAspect.NONE


def test_what_goes_with_its_node_says_so() -> None:
    talk = a_conversation(a_node("n1", CAPACITY), a_node("n2", CAPACITY))
    talk.asks(an_ask(count=2))
    talk.schedule()
    assert only(Released, talk.nodes(a_node("n1", action=NodeAction.DECOMISSION))).node_removed
    assert not only(Released, talk.release(allocation_key="k")).node_removed


def test_queues_of_a_spec_without_children_are_leaves() -> None:
    root = QueueSpec("root", submit_acl=EVERYBODY)
    told = only(QueueChanged, Conversation(a_scheduler()).register(a_partition_spec(root)))
    assert (told.queue, told.change, told.is_leaf) == ("root", C.ADDED, True)
