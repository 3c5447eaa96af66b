"""What a swap does to the ledgers of node, queues, user and group, and to asks that wait for them (SEMANTICS G4)."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.language.commands import NodeAction
from schedulerd.core.language.facts.fact import Fact, ReleaseRequested
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Limits
from schedulerd.core.language.specs import ApplicationOrder, LimitSpec, QueueSpec, Timeouts
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
    states,
)
from tests.unit.core.gang_builders import a_full_gang, a_gang, a_swap, asked_to_release, confirm, real

S = ApplicationState
TIMES = Timeouts()
ANN: dict[str, Any] = {"user": "ann", "groups": ("dev",)}


def limited(memory: int, *, applications: int = 0) -> QueueSpec:
    """One leaf, in which ann, and the group dev as a whole, may use so much."""
    limit = LimitSpec(users=("ann",), groups=("dev",), max=Limits(memory=memory), max_applications=applications)
    return a_root(a_queue_spec("a", limits=(limit,)))


def usage(talk: Conversation) -> tuple[dict[str, int], dict[str, int]]:
    """What ann and dev use in root.a."""
    view = talk.view()
    [ann] = [one for one in view.users if one.user == "ann"]
    [dev] = [one for one in view.groups if one.user == "dev"]
    return ann.usage["root.a"], dev.usage["root.a"]


# users and groups


def test_user_and_group_use_what_the_placeholder_uses_until_it_is_gone_and_then_what_the_real_one_uses() -> None:
    talk = a_full_gang(2, root=limited(100), **ANN)
    request = a_swap(talk, real(memory=6))
    assert usage(talk) == ({"memory": 20}, {"memory": 20})
    confirm(talk, request)
    assert usage(talk) == ({"memory": 16}, {"memory": 16})
    talk.release(application_id="gang")
    talk.sleep(TIMES.completing_ns)
    assert (talk.view().users, talk.view().groups) == ([], [])


def test_a_gang_that_fills_a_limit_is_replaced_within_it() -> None:
    talk = a_full_gang(2, root=limited(20), **ANN)
    talk.asks(real(count=3))
    facts = talk.schedule()
    assert len(of(ReleaseRequested, facts)) == 2
    assert placed(facts) == []
    for request in of(ReleaseRequested, facts):
        assert placed(confirm(talk, request)) == [("gang", "r", "n1")]
        assert usage(talk) == ({"memory": 20}, {"memory": 20})
    assert placed(talk.schedule()) == []
    [ask] = talk.app("gang").asks
    assert "limit" in ask.waiting_for


def test_what_a_smaller_real_one_gives_back_to_its_user_requeues_what_waited_for_the_limit() -> None:
    talk = a_full_gang(2, root=limited(20), **ANN)
    talk.apps(an_app("later", **ANN))
    talk.asks(an_ask("k", 5, app="later"))
    assert placed(talk.schedule()) == []
    request = a_swap(talk, real(memory=4))
    assert placed(talk.schedule()) == []
    confirm(talk, request)
    assert placed(talk.schedule()) == [("later", "k", "n1")]
    assert usage(talk) == ({"memory": 19}, {"memory": 19})


def test_a_gang_stays_one_running_application_through_the_swap_of_its_only_placeholder() -> None:
    talk = a_full_gang(1, root=limited(100, applications=1), **ANN)
    talk.apps(an_app("later", **ANN))
    talk.asks(an_ask("k", app="later"))
    talk.schedule()
    request = a_swap(talk)
    assert placed(confirm(talk, request) + talk.schedule()) == [("gang", "r", "n1")]
    assert talk.queue().running_applications == 1
    talk.release(application_id="gang")
    assert placed(talk.schedule()) == [("later", "k", "n1")]


# quotas and nodes


def test_a_gang_that_fills_node_and_quota_is_replaced_one_for_one() -> None:
    talk = a_full_gang(3, memory=30, root=a_root(a_queue_spec("a", max={"memory": 30}), max={"memory": 30}))
    talk.asks(real(count=3))
    for request in of(ReleaseRequested, talk.schedule()):
        assert placed(confirm(talk, request)) == [("gang", "r", "n1")]
        for queue in ("root", "root.a"):
            assert talk.queue(queue).allocated == {"memory": 30}
        assert talk.node().available == {}


@pytest.mark.parametrize("root", [a_root(a_queue_spec("a", max={"memory": 20})), a_root()], ids=["quota", "node"])
def test_what_a_smaller_real_one_gives_back_requeues_an_unschedulable_ask(root: QueueSpec) -> None:
    talk = a_full_gang(2, memory=20, root=root)
    talk.asks(an_ask("waits", 7))
    talk.schedule()
    assert talk.app().asks[0].waiting_for
    request = a_swap(talk, real(memory=3))
    assert not talk.scheduler.wants_cycle()
    confirm(talk, request)
    assert talk.scheduler.wants_cycle()
    assert placed(talk.schedule()) == [("app", "waits", "n1")]
    assert talk.node().allocated == {"memory": 20}


def test_what_an_equal_real_one_takes_requeues_nothing() -> None:
    talk = a_full_gang(2, memory=20)
    talk.asks(an_ask("waits", 7))
    talk.schedule()
    confirm(talk, a_swap(talk))
    assert not talk.scheduler.wants_cycle()


def test_with_no_room_anywhere_the_ask_waits_says_why_and_is_placed_when_room_comes() -> None:
    talk = a_full_gang(1, memory=10)
    request = a_swap(talk)
    talk.nodes(a_node("n1", action=NodeAction.DRAIN_NODE), a_node("n2", {"memory": 5}))
    assert placed(confirm(talk, request) + talk.schedule()) == []
    [ask] = talk.app("gang").asks
    counted = "1 is draining, 1 would have too little memory even if it were empty"
    assert ask.waiting_for == f"no node has room: 2 nodes are considered, {counted}"
    assert talk.outstanding() == [("gang", "r", 1)]
    assert talk.app("gang").state == S.STARTING
    talk.nodes(a_node("n2", {"memory": 10}, action=NodeAction.UPDATE))
    assert placed(talk.schedule()) == [("gang", "r", "n2")]
    assert talk.queue().allocated == {"memory": 10}


def test_a_node_that_shrank_in_flight_does_not_take_the_real_one() -> None:
    talk = a_full_gang(2, memory=20)
    request = a_swap(talk)
    talk.nodes(a_node("n1", {"memory": 15}, action=NodeAction.UPDATE), a_node("n2", {"memory": 10}))
    assert placed(confirm(talk, request)) == [("gang", "r", "n2")]
    assert (talk.node("n1").available, talk.node("n2").available) == ({"memory": 5}, {})


def test_a_smaller_real_one_fits_the_node_that_shrank() -> None:
    talk = a_full_gang(2, memory=20)
    request = a_swap(talk, real(memory=5))
    talk.nodes(a_node("n1", {"memory": 15}, action=NodeAction.UPDATE), a_node("n2", {"memory": 10}))
    assert placed(confirm(talk, request)) == [("gang", "r", "n1")]
    assert talk.node("n1").available == {}


def test_no_other_ask_gets_the_room_of_a_placeholder_between_its_release_and_the_real_one() -> None:
    talk = a_full_gang(1, memory=10)
    talk.asks(an_ask("hungry", count=5, priority=100))
    request = a_swap(talk)
    assert placed(talk.schedule()) == []
    assert placed(confirm(talk, request) + talk.schedule()) == [("gang", "r", "n1")]


# the state-aware leaf


def state_aware() -> Conversation:
    talk = a_conversation(
        a_node("n1", {"memory": 20}), root=a_root(a_queue_spec("a", order=ApplicationOrder.STATE_AWARE))
    )
    talk.remove("app")
    return talk


def test_in_a_state_aware_leaf_the_next_gang_starts_when_the_one_before_runs() -> None:
    talk = state_aware()
    talk.apps(a_gang("first", 20), a_gang("second", 20))
    talk.asks(a_placeholder("p", count=2, app="first"), a_placeholder("q", count=2, app="second"))
    assert {app for app, _, _ in placed(talk.schedule())} == {"first"}
    talk.nodes(a_node("n2", {"memory": 20}))
    assert placed(talk.schedule()) == []
    assert "the next one may start when first runs" in talk.app("second").asks[0].waiting_for
    talk.asks(real(count=2, app="first"))
    first, second = of(ReleaseRequested, talk.schedule())
    assert states(confirm(talk, first), "first") == []
    assert placed(talk.schedule()) == []
    assert states(confirm(talk, second), "first") == [S.RUNNING]
    assert {app for app, _, _ in placed(talk.schedule())} == {"second"}


def two_that_could_start() -> tuple[Conversation, list[Fact]]:
    """The first holds a placeholder of a gang that is not whole; its real ask came while another was starting."""
    talk = state_aware()
    talk.apps(a_gang("first", 50), an_app("second"))
    talk.asks(a_placeholder("p", app="first"))
    talk.schedule()
    talk.asks(an_ask("k", 5, app="second"))
    assert states(talk.schedule(), "second") == [S.STARTING]
    talk.asks(real(app="first"))
    return talk, talk.schedule()


def test_in_a_state_aware_leaf_a_swap_waits_its_turn_too() -> None:
    talk, facts = two_that_could_start()
    assert asked_to_release(facts) == []
    talk.asks(an_ask("k2", 5, app="second"))
    facts = talk.schedule()
    assert (states(facts, "second"), asked_to_release(facts)) == ([S.RUNNING], [("p", "PLACEHOLDER_REPLACED")])
    assert states(confirm(talk, only(ReleaseRequested, facts)), "first") == [S.STARTING, S.RUNNING]


def test_in_a_state_aware_leaf_no_other_application_starts_while_a_swap_is_in_flight() -> None:
    talk = state_aware()
    talk.apps(a_gang("first", 50), an_app("second"))
    talk.asks(a_placeholder("p", app="first"))
    talk.schedule()
    request = a_swap(talk, real(app="first"))
    talk.asks(an_ask("k", 5, app="second"))
    assert placed(talk.schedule()) == []
    assert states(confirm(talk, request), "first") == [S.STARTING, S.RUNNING]
    assert states(talk.schedule(), "second") == [S.STARTING]


def test_in_a_state_aware_leaf_an_incomplete_gang_without_pending_asks_delays_no_other() -> None:
    talk = state_aware()
    talk.apps(a_gang("first", 50), an_app("second"))
    talk.asks(a_placeholder("p", app="first"), an_ask("k", 5, app="second"))
    assert placed(talk.schedule()) == [("first", "p", "n1"), ("second", "k", "n1")]


def test_in_a_state_aware_leaf_a_gang_that_takes_its_asks_back_delays_no_other() -> None:
    talk = state_aware()
    talk.apps(a_gang("first", 50), an_app("second"))
    talk.asks(a_placeholder("p", app="first"), a_placeholder("large", 100, app="first"), an_ask("k", 5, app="second"))
    assert placed(talk.schedule()) == [("first", "p", "n1")]
    talk.release_asks(application_id="first", allocation_key="large")
    assert placed(talk.schedule()) == [("second", "k", "n1")]
