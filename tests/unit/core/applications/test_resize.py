"""An ask with the key of a placed allocation and other amounts resizes that allocation (SEMANTICS I17)."""

from __future__ import annotations

import pytest

from schedulerd.core.language.facts.fact import (
    Allocated,
    AllocationChanged,
    AskRejected,
    ChangeCause,
    ReleaseRequested,
)
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import LimitSpec
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    of,
    only,
    placed,
)


def a_talk(memory: int = 10) -> Conversation:
    """`k` is placed with so much on n1, in a queue and by a user that may have 20."""
    root = a_root(
        a_queue_spec("a", max={"memory": 20}, limits=(LimitSpec(users=("*",), max=Limits(memory=20)),)),
    )
    talk = a_conversation(a_node("n1", {"memory": 30}), root=root)
    talk.asks(an_ask("k", memory))
    assert len(placed(talk.schedule())) == 1
    return talk


def used(talk: Conversation) -> list[dict[str, int]]:
    """What node, queue, application and user have, as they say."""
    (user,) = talk.view().users
    return [
        dict(talk.node().allocated),
        dict(talk.queue().allocated),
        dict(talk.app().allocated),
        dict(user.usage["root.a"]),
    ]


@pytest.mark.parametrize("memory", [1, 9, 11, 20, 25, 1_000])
def test_all_ledgers_change_at_once_quota_and_room_or_not(memory: int) -> None:
    talk = a_talk()
    facts = talk.asks(an_ask("k", memory))
    changed = only(AllocationChanged, facts)
    assert (changed.cause, changed.old_resources, changed.resources) == (
        ChangeCause.RESIZED,
        {"memory": 10},
        {"memory": memory},
    )
    assert facts == [changed]
    assert used(talk) == [{"memory": memory}] * 4
    assert talk.node().available == {"memory": 30 - memory} or memory == 30
    talk.release(allocation_key="k")
    assert talk.node().available == {"memory": 30}
    assert talk.queue().allocated == {}


def test_other_types_of_resources_come_and_go() -> None:
    talk = a_talk()
    talk.asks(an_ask("k", resources=Resources(vcore=3)))
    assert used(talk) == [{"vcore": 3}] * 4


def test_the_same_amounts_change_nothing() -> None:
    talk = a_talk()
    assert of(AllocationChanged, talk.asks(an_ask("k", resources=Resources(memory=10, gpu=0)))) == []


def test_asks_that_wait_for_room_or_quota_get_what_a_smaller_allocation_gives_back() -> None:
    talk = a_talk(20)
    talk.asks(an_ask("waits", 15))
    assert placed(talk.schedule()) == []
    talk.asks(an_ask("k", 5))
    assert placed(talk.schedule()) == [("app", "waits", "n1")]


def test_waiting_asks_get_what_it_gives_back_of_one_resource_while_it_takes_another() -> None:
    talk = a_talk(20)
    talk.asks(an_ask("waits", 15))
    assert placed(talk.schedule()) == []
    talk.asks(an_ask("k", resources=Resources(memory=5, vcore=7)))
    assert placed(talk.schedule()) == [("app", "waits", "n1")]


def test_waiting_asks_wait_on_while_an_allocation_has_grown() -> None:
    talk = a_talk(5)
    talk.asks(an_ask("k", 20))
    talk.asks(an_ask("waits", 5))
    assert placed(talk.schedule()) == []


@pytest.mark.parametrize(("count", "new_count"), [(2, 2), (2, 1), (1, 2)])
def test_with_several_of_a_key_it_is_rejected(count: int, new_count: int) -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}))
    talk.asks(an_ask("k", 10, count=count))
    talk.schedule()
    rejected = only(AskRejected, talk.asks(an_ask("k", 11, count=new_count)))
    assert rejected.code.value == "invalid_count"
    assert rejected.reason.startswith(f"allocationKey 'k' has {count} allocations, and resourceAsk with other amounts")
    assert rejected.reason.endswith(f"maxAllocations, which is {new_count}, must be 1")
    assert talk.node().allocated == {"memory": 10 * count}


def test_one_placed_of_several_is_resized_when_no_more_are_wanted() -> None:
    talk = a_conversation(a_node("n1", {"memory": 10}))
    talk.asks(an_ask("k", 10, count=3))
    talk.schedule()
    talk.asks(an_ask("k", 6))
    assert talk.node().allocated == {"memory": 6}
    assert talk.app().asks == []


def test_a_pending_ask_with_other_amounts_is_an_update_as_ever() -> None:
    talk = a_talk()
    talk.asks(an_ask("big", 15))
    assert of(AllocationChanged, talk.asks(an_ask("big", 5))) == []
    assert placed(talk.schedule()) == [("app", "big", "n1")]


def test_one_that_is_being_released_is_resized_as_well() -> None:
    talk = a_conversation(a_node("n1", {"memory": 30}))
    talk.asks(an_ask("k", 10, execution_timeout_ms=1))
    talk.schedule()
    asked = only(ReleaseRequested, talk.sleep(10_000_000))
    talk.asks(an_ask("k", 15))
    assert talk.node().allocated == {"memory": 15}
    talk.release(uuid=asked.uuid, termination=asked.termination)
    assert talk.node().available == {"memory": 30}


def test_a_placeholder_of_other_amounts_is_replaced_by_what_fits_it_then() -> None:
    talk = a_conversation(a_node("n1", {"memory": 30}))
    talk.asks(a_placeholder("p", 10))
    talk.schedule()
    talk.asks(a_placeholder("p", 15))
    assert talk.app().placeholder_allocated == {"memory": 15}
    talk.asks(an_ask("real", 15, task_group="group"))
    asked = only(ReleaseRequested, talk.schedule())
    talk.release(uuid=asked.uuid, termination=asked.termination)
    assert talk.app().allocated == {"memory": 15}
    assert talk.app().placeholder_allocated == {}


def test_in_a_gang_the_place_of_a_member_stays_one() -> None:
    talk = a_conversation(a_node("n1", {"memory": 30}))
    talk.apps(an_app("gang", placeholder_ask=Resources(memory=20)))
    talk.asks(a_placeholder("p", 10, app="gang"), a_placeholder("q", 10, app="gang"))
    assert len(of(Allocated, talk.schedule())) == 2
    talk.asks(a_placeholder("p", 4, app="gang"))
    assert talk.app("gang").placeholder_allocated == {"memory": 14}
