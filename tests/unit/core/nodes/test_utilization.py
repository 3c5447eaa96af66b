"""Reports of real use: kept, shown and forgotten with what they are about; and what nodes had better offer."""

from __future__ import annotations

import pytest

from schedulerd.core.invariants.all import violations
from schedulerd.core.language.commands import NodeAction, ReportUtilization, Utilization
from schedulerd.core.language.facts.fact import Fact, ItemIgnored, RejectCode
from schedulerd.core.language.facts.nodes import NodeRecommended
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import MINUTE_NS, SECOND_NS
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_partition_spec,
    a_scheduler,
    an_ask,
    of,
    only,
    placed,
)


def report(talk: Conversation, object_id: str, partition: str = "", **used: int) -> list[Fact]:
    return talk.step(ReportUtilization(RM, [Utilization(object_id, Resources(used), partition)]))


def recommended(facts: list[Fact]) -> list[dict[str, int]]:
    return [fact.schedulable.nonzero() for fact in of(NodeRecommended, facts)]


@pytest.fixture
def talk() -> Conversation:
    """A node of 100 of which 10 are occupied by others that we know of and 40 allocated as `uuid-1`."""
    talk = a_conversation(a_node("n1", {"memory": 100, "vcore": 8}, occupied={"memory": 10}))
    talk.asks(an_ask("k", 40))
    talk.schedule()
    return talk


def test_it_is_shown_where_it_belongs(talk: Conversation) -> None:
    assert (talk.node().used, talk.app().allocations[0].used) == (None, None)
    assert report(talk, "n1", memory=45) == []
    assert report(talk, "uuid-1", memory=35) == []
    assert talk.node().used == {"memory": 45}
    assert talk.app().allocations[0].used == talk.node().allocations[0].used == {"memory": 35}
    report(talk, "uuid-1")
    assert talk.app().allocations[0].used == {}
    assert talk.model().used == {"memory": 45}


def test_it_changes_nothing_for_quotas_or_room(talk: Conversation) -> None:
    before = talk.queue(), talk.node().available
    report(talk, "n1", memory=50)
    report(talk, "uuid-1", memory=4_000)
    assert (talk.queue(), talk.node().available) == before
    talk.asks(an_ask("rest", 50))
    assert placed(talk.schedule()) == [("app", "rest", "n1")]


def test_it_goes_with_the_node(talk: Conversation) -> None:
    talk.nodes(a_node("n2", {"memory": 10}))
    report(talk, "n1", memory=45)
    report(talk, "n2", memory=3)
    assert talk.model().used == {"memory": 48}
    talk.nodes(a_node("n1", action=NodeAction.DECOMISSION))
    assert talk.model().used == {"memory": 3}
    talk.nodes(a_node("n1", {"memory": 100}))
    assert talk.node().used is None


def test_it_goes_with_the_allocation(talk: Conversation) -> None:
    report(talk, "uuid-1", memory=35)
    report(talk, "uuid-1", memory=30, vcore=1)
    assert talk.model().allocations_used.nonzero() == {"memory": 30, "vcore": 1}
    talk.release(uuid="uuid-1")
    assert talk.model().allocations_used.nonzero() == {}
    assert violations(talk.scheduler) == []


def test_a_wrong_sum_is_a_violation(talk: Conversation) -> None:
    talk.model().allocations_used["memory"] = 3
    assert violations(talk.scheduler) == [
        f"[{RM}]default: the reported usage of the allocations of the partition is {{'memory': 3}}, counted {{}}"
    ]


def test_without_a_partition_it_is_found_in_any() -> None:
    talk = Conversation(a_scheduler())
    talk.register(a_partition_spec(), a_partition_spec(name="gpu"))
    talk.nodes(a_node("n1", {"memory": 10}), a_node("g1", {"memory": 10}, partition="gpu"))
    assert of(ItemIgnored, report(talk, "g1", memory=1) + report(talk, "n1", "default", memory=2)) == []
    assert (talk.model("gpu").used, talk.model().used) == ({"memory": 1}, {"memory": 2})
    assert only(ItemIgnored, report(talk, "g1", "default", memory=2)).code is RejectCode.UNKNOWN_NODE


@pytest.mark.parametrize(
    ("item", "code", "words"),
    [
        (Utilization("", Resources()), RejectCode.EMPTY_ID, "ID is empty"),
        (Utilization("n9", Resources()), RejectCode.UNKNOWN_NODE, "ID 'n9' is neither a node nor the UUID of an"),
        (Utilization("n1", Resources(memory=-1)), RejectCode.INVALID_RESOURCES, "actualUsedResource['memory'] is -1"),
        (Utilization("n1", Resources(), "moon"), RejectCode.UNKNOWN_PARTITION, "partitionName 'moon' is not"),
    ],
)
def test_what_cannot_be_used_is_ignored_with_the_reason(
    talk: Conversation, item: Utilization, code: RejectCode, words: str
) -> None:
    facts = talk.step(ReportUtilization(RM, [item, Utilization("n1", Resources(memory=5))]))
    ignored = only(ItemIgnored, facts)
    assert (ignored.code, ignored.object_id) == (code, item.object_id)
    assert words in ignored.reason
    assert talk.node().used == {"memory": 5}, "the rest is taken"


def test_a_node_that_others_use_had_better_offer_less(talk: Conversation) -> None:
    assert recommended(report(talk, "n1", memory=50, vcore=0)) == [], "as much as we know of"
    fact = only(NodeRecommended, report(talk, "n1", memory=70, vcore=1))
    assert (fact.rm_id, fact.partition, fact.node_id) == (RM, "default", "n1")
    assert fact.schedulable == {"memory": 80, "vcore": 7}
    assert fact.message == (
        "memory 70 used, 40 allocated + 10 occupied, so 80 of 100 should be offered; "
        "vcore 1 used, 0 allocated + 0 occupied, so 7 of 8 should be offered"
    )
    assert talk.node().recommended == {"memory": 80, "vcore": 7}


def test_it_never_recommends_less_than_nothing(talk: Conversation) -> None:
    assert recommended(report(talk, "n1", memory=10_000, disk=5)) == [{"vcore": 8}]


def test_it_recommends_once_a_minute_and_only_what_is_new(talk: Conversation) -> None:
    assert recommended(report(talk, "n1", memory=70)) == [{"memory": 80, "vcore": 8}]
    talk.sleep(MINUTE_NS - 1)
    assert recommended(report(talk, "n1", memory=90)) == []
    talk.sleep(1)
    assert recommended(report(talk, "n1", memory=70)) == [], "that was said"
    assert recommended(report(talk, "n1", memory=90)) == [{"memory": 60, "vcore": 8}]
    talk.sleep(MINUTE_NS)
    fact = only(NodeRecommended, report(talk, "n1", memory=20))
    assert fact.schedulable == {"memory": 100, "vcore": 8}
    assert fact.message == "no other workload uses the node, so it may offer all it has"
    talk.sleep(MINUTE_NS)
    assert recommended(report(talk, "n1", memory=30)) == []


def test_an_rm_that_follows_is_not_told_less_and_less(talk: Conversation) -> None:
    assert recommended(report(talk, "n1", memory=70)) == [{"memory": 80, "vcore": 8}]
    talk.nodes(a_node("n1", {"memory": 80, "vcore": 8}, action=NodeAction.UPDATE))
    for _ in range(3):
        talk.sleep(MINUTE_NS)
        assert recommended(report(talk, "n1", memory=70)) == []
    assert recommended(report(talk, "n1", memory=75)) == [{"memory": 75, "vcore": 8}]
    talk.sleep(MINUTE_NS)
    assert recommended(report(talk, "n1", memory=50)) == [{"memory": 100, "vcore": 8}]


def test_an_rm_that_says_that_others_occupy_the_node_is_not_told_so(talk: Conversation) -> None:
    talk.nodes(a_node("n1", occupied={"memory": 30}, action=NodeAction.UPDATE))
    assert recommended(report(talk, "n1", memory=70)) == []


def test_each_node_has_its_own_minute(talk: Conversation) -> None:
    talk.nodes(a_node("n2", {"memory": 10}))
    report(talk, "n1", memory=70)
    talk.sleep(SECOND_NS)
    assert recommended(report(talk, "n2", memory=3)) == [{"memory": 7}]
