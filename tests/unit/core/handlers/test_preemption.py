"""Others end for who has a right to their room: carried out, waited for, called off, and looked at again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from schedulerd.core.commands import NodeAction, NodeUpdate, TerminationType, UpdateConfiguration
from schedulerd.core.facts import Released, ReleaseRequested
from schedulerd.core.handlers import preemption
from schedulerd.core.preemption_facts import Preempted, PreemptionRefused, RoomMade
from schedulerd.core.resources import Limits, Resources
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.specs import (
    SECOND_NS,
    ApplicationOrder,
    LimitSpec,
    PartitionSpec,
    PreemptionPolicy,
    QueueSpec,
    Timeouts,
)
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_partition_spec,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    numbered,
    of,
    only,
    placed,
)
from tests.unit.core.claims import (
    a_claim,
    a_daemon,
    ends,
    fill,
    finished,
    gone,
    kept,
    preempted,
    refusals,
    reserved,
    wait,
)
from tests.unit.core.configurations import reload

TIMES = Timeouts()
DELAY_NS = 30 * SECOND_NS
ATTEMPT_NS = TIMES.preemption_attempt_ns


def the_root(guaranteed: int = 50, *, victims: dict[str, Any] | None = None, **fields: Any) -> QueueSpec:
    """`c` is guaranteed so much for the asks that claim it, `v` is for those who may have to end."""
    mine = {"memory": guaranteed} if guaranteed else None
    return a_root(a_queue_spec("c", guaranteed=mine, **fields), a_queue_spec("v", **(victims or {})), a_queue_spec("o"))


def a_talk(root: QueueSpec | None = None, **nodes: list[int]) -> Conversation:
    """Nodes by name, each full of allocations of such sizes: `n1_0`, `n1_1` and so on, from the oldest on."""
    talk = a_conversation(root=root or the_root())
    talk.apps(an_app("claimer", "root.c"), an_app("victims", "root.v"), an_app("other", "root.o"))
    for node, sizes in nodes.items():
        talk.nodes(a_node(node, {"memory": sum(sizes)}))
        for number, memory in enumerate(sizes):
            talk.asks(an_ask(f"{node}_{number}", memory, app="victims"))
            assert placed(talk.schedule()) == [("victims", f"{node}_{number}", node)]
    return talk


def without_preemption(root: QueueSpec) -> UpdateConfiguration:
    return UpdateConfiguration(RM, (PartitionSpec("default", root, preemption_enabled=False),))


def a_decision(**fields: Any) -> Conversation:
    """`c` is to have 10 on n1, for which n1_1 was asked to end."""
    talk = a_talk(n1=[10, 10])
    talk.asks(a_claim(**fields))
    assert preempted(wait(talk, DELAY_NS)) == ["n1_1"]
    return talk


# carried out


def test_when_the_ask_is_old_enough_the_youngest_is_asked_to_end_and_the_room_is_kept() -> None:
    talk = a_talk(n1=[10, 10])
    talk.asks(a_claim())
    assert preempted(wait(talk, DELAY_NS - 1)) == []
    assert kept(talk) == [("c", "n1", False)]
    facts = wait(talk, 1)
    request = only(ReleaseRequested, facts)
    assert (request.allocation_key, request.termination) == ("n1_1", TerminationType.PREEMPTED_BY_SCHEDULER)
    assert request.message == "makes room on n1 for ask c of application claimer"
    fact = only(Preempted, facts)
    assert (fact.queue, fact.application_id, fact.allocation_key, fact.node_id) == ("root.c", "claimer", "c", "n1")
    assert fact.victims == (("root.v", request.uuid),)
    assert fact.why == "root.c uses memory 0 of the 50 that it is guaranteed"
    assert kept(talk) == [("c", "n1", True)]
    assert ends(facts) == [("c", "n1", "not_needed")]


def test_nothing_is_free_before_the_victim_is_gone_and_then_the_ask_is_placed() -> None:
    talk = a_decision()
    assert talk.node().allocated == {"memory": 20}
    assert placed(wait(talk, DELAY_NS)) == []
    facts = gone(talk, "n1_1")
    assert only(RoomMade, facts).waited_ns == DELAY_NS
    assert not only(Released, facts).confirm
    facts = talk.schedule()
    assert (placed(facts), ends(facts)) == ([("claimer", "c", "n1")], [("c", "n1", "placed")])


def test_nobody_else_gets_the_room() -> None:
    talk = a_decision()
    talk.asks(an_ask("high", app="other", priority=100), a_claim("twin", priority=100))
    talk.schedule()
    assert placed(gone(talk, "n1_1") + talk.schedule()) == [("claimer", "c", "n1")]


def test_the_delay_is_that_of_the_queue() -> None:
    talk = a_talk(the_root(preemption_delay_ns=5 * SECOND_NS), n1=[10])
    talk.asks(a_claim())
    assert preempted(wait(talk, 5 * SECOND_NS - 1)) == []
    assert preempted(wait(talk, 1)) == ["n1_0"]


def test_an_ask_that_does_not_allow_it_has_nobody_ended() -> None:
    talk = a_talk(n1=[10])
    talk.asks(a_claim(allow_preempt_other=False))
    facts = wait(talk, 2 * DELAY_NS)
    assert (preempted(facts), refusals(facts)) == ([], [])


def test_where_it_is_switched_off_nobody_ends() -> None:
    talk = a_conversation(a_node("n1", {"memory": 10}))
    talk.step(without_preemption(the_root()))
    fill(talk, "victims", "root.v", k=10)
    talk.apps(an_app("claimer", "root.c"))
    talk.asks(a_claim())
    facts = wait(talk, 2 * DELAY_NS)
    assert (preempted(facts), refusals(facts)) == ([], [])


def test_those_first_in_order_claim_first() -> None:
    talk = a_talk(the_root(10), n1=[10, 10])
    talk.asks(a_claim("low"), a_claim("high", priority=1))
    facts = wait(talk, DELAY_NS)
    assert only(Preempted, facts).allocation_key == "high"
    assert refusals(facts) == [("low", "not_entitled")]


# several


def test_what_others_claimed_counts_against_the_guarantee() -> None:
    talk = a_talk(the_root(15), n1=[10, 10])
    talk.asks(a_claim("c1"), a_claim("c2"))
    facts = wait(talk, DELAY_NS)
    assert (preempted(facts), refusals(facts)) == (["n1_1"], [("c2", "not_entitled")])


def test_no_victim_is_taken_twice() -> None:
    talk = a_talk(n1=[10, 10])
    talk.asks(a_claim("c1"), a_claim("c2"))
    facts = wait(talk, DELAY_NS)
    assert [(one.allocation_key, len(one.victims)) for one in of(Preempted, facts)] == [("c1", 1), ("c2", 1)]
    assert preempted(facts) == ["n1_1", "n1_0"]
    assert preempted(wait(talk, DELAY_NS)) == []
    assert sorted(placed(gone(talk, "n1_0", "n1_1") + talk.schedule())) == [
        ("claimer", "c1", "n1"),
        ("claimer", "c2", "n1"),
    ]


def test_an_ask_for_several_claims_one_node_for_each() -> None:
    talk = a_talk(n1=[10, 10], n2=[10])
    talk.asks(a_claim(count=3))
    facts = wait(talk, DELAY_NS)
    assert sorted(preempted(facts)) == ["n1_1", "n2_0"]
    assert sorted(kept(talk)) == [("c", "n1", True), ("c", "n2", True)]
    facts = gone(talk, "n1_1") + talk.schedule()
    assert placed(facts) == [("claimer", "c", "n1")]
    assert preempted(facts) == ["n1_0"]
    gone(talk, "n1_0", "n2_0")
    assert len(placed(talk.schedule())) == 2
    assert kept(talk) == []


def test_what_goes_anyway_is_enough_for_a_second_one() -> None:
    talk = a_decision()
    talk.release_asks(application_id="claimer")
    talk.asks(a_claim("second"))
    facts = wait(talk, DELAY_NS)
    assert (preempted(facts), reserved(facts)[-1]) == ([], ("second", "n1", True))
    assert only(Preempted, facts).victims == ()
    assert placed(gone(talk, "n1_1") + talk.schedule()) == [("claimer", "second", "n1")]


def test_it_looks_past_room_that_is_kept_for_ordinary_asks() -> None:
    talk = a_talk(n1=[10, 10])
    talk.asks(an_ask("big", 20, app="other", priority=9))
    wait(talk, DELAY_NS)
    finished(talk, "n1_0")
    talk.asks(a_claim())
    assert placed(talk.schedule()) == []
    facts = wait(talk, DELAY_NS)
    assert (preempted(facts), placed(facts)) == ([], [("claimer", "c", "n1")])
    assert kept(talk) == [("big", "n1", False)]


# while the victims are on their way out


@pytest.mark.parametrize("termination", [TerminationType.STOPPED_BY_RM, TerminationType.TIMEOUT])
def test_a_victim_that_ends_by_itself_makes_room_as_well(termination: TerminationType) -> None:
    talk = a_decision()
    assert of(RoomMade, talk.release(application_id="victims", allocation_key="n1_1", termination=termination))
    assert placed(talk.schedule()) == [("claimer", "c", "n1")]


def test_so_does_one_whose_application_is_removed() -> None:
    talk = a_decision()
    assert len(of(RoomMade, talk.remove("victims"))) == 1
    assert placed(talk.schedule()) == [("claimer", "c", "n1")]


def test_room_of_somebody_else_that_ends_first_is_as_good() -> None:
    talk = a_decision()
    facts = finished(talk, "n1_0")
    assert of(RoomMade, facts) == []
    assert placed(talk.schedule()) == [("claimer", "c", "n1")]
    assert of(RoomMade, gone(talk, "n1_1")) == []
    talk.asks(an_ask("k", app="other"))
    assert placed(talk.schedule()) == [("other", "k", "n1")]


def test_an_ask_that_gets_another_node_meanwhile_leaves_the_room_to_others() -> None:
    talk = a_decision()
    talk.nodes(a_node("n2", {"memory": 10}))
    facts = talk.schedule()
    assert (placed(facts), ends(facts)) == ([("claimer", "c", "n2")], [("c", "n1", "not_needed")])
    talk.asks(an_ask("k", app="other"))
    assert of(RoomMade, gone(talk, "n1_1")) == []
    assert placed(talk.schedule()) == [("other", "k", "n1")]


def test_of_several_what_nobody_ends_for_is_given_up_first() -> None:
    talk = a_talk(the_root(10), n1=[10, 10], n2=[10])
    talk.asks(a_claim(count=2))
    wait(talk, DELAY_NS)
    assert [entry[2] for entry in kept(talk)] == [False, True]
    talk.nodes(a_node("n3", {"memory": 10}))
    facts = talk.schedule()
    assert placed(facts) == [("claimer", "c", "n3")]
    assert [entry[2] for entry in kept(talk)] == [True]


def test_an_ask_that_is_taken_back_leaves_the_room_to_others() -> None:
    talk = a_decision()
    assert ends(talk.release_asks(application_id="claimer", allocation_key="c")) == [("c", "n1", "not_needed")]
    talk.asks(an_ask("k", app="other"))
    assert placed(gone(talk, "n1_1") + talk.schedule()) == [("other", "k", "n1")]


def test_so_does_an_application_that_is_removed() -> None:
    talk = a_decision()
    assert ends(talk.remove("claimer")) == [("c", "n1", "not_needed")]
    talk.asks(an_ask("k", app="other"))
    assert placed(gone(talk, "n1_1") + talk.schedule()) == [("other", "k", "n1")]


def test_so_does_an_application_that_fails() -> None:
    talk = a_talk(n1=[10, 10])
    talk.apps(an_app("mortal", "root.c", execution_timeout_ms=40_000))
    talk.nodes(a_node("n2", {"memory": 5}))
    talk.asks(an_ask("starts", 5, app="mortal"), a_claim(app="mortal"))
    assert preempted(wait(talk, DELAY_NS)) == ["n1_1"]
    assert ends(wait(talk, 10 * SECOND_NS)) == [("c", "n1", "not_needed")]


@pytest.mark.parametrize(("change", "victims"), [({"memory": 10, "priority": -1}, []), ({"memory": 20}, ["n1_0"])])
def test_an_update_claims_anew_at_once_and_counts_who_goes_already(change: dict[str, Any], victims: list[str]) -> None:
    talk = a_decision()
    assert ends(talk.asks(a_claim(**change))) == [("c", "n1", "not_needed")]
    facts = talk.schedule()
    assert preempted(facts) == victims
    assert kept(talk) == [("c", "n1", True)]
    assert placed(gone(talk, "n1_1", *victims) + talk.schedule()) == [("claimer", "c", "n1")]


def test_a_queue_that_drains_keeps_what_was_claimed() -> None:
    talk = a_decision()
    reload(talk, a_root(a_queue_spec("v"), a_queue_spec("o")))
    assert placed(gone(talk, "n1_1") + talk.schedule()) == [("claimer", "c", "n1")]


@pytest.mark.parametrize(
    "change",
    [
        a_node("n1", action=NodeAction.DRAIN_NODE),
        a_node("n1", action=NodeAction.UPDATE, attributes={"ready": "false"}),
        a_node("n1", {"memory": 9}, action=NodeAction.UPDATE),
        a_node("n1", action=NodeAction.DECOMISSION),
    ],
    ids=["drained", "not ready", "too small", "removed"],
)
def test_a_node_that_is_no_good_any_longer_makes_it_look_for_another_one(change: NodeUpdate) -> None:
    talk = a_talk(n1=[10, 10], n2=[30])
    talk.asks(a_claim())
    assert preempted(wait(talk, DELAY_NS)) == ["n1_1"]
    facts = talk.nodes(change) + talk.schedule()
    assert ends(facts) == [("c", "n1", "node")]
    assert of(RoomMade, facts) == []
    facts += wait(talk, ATTEMPT_NS)
    assert preempted(facts)[-1:] == ["n2_0"]
    assert kept(talk) == [("c", "n2", True)]


def test_where_the_room_that_was_made_is_not_enough_any_longer_it_is_looked_for_anew() -> None:
    talk = a_decision()
    talk.nodes(a_node("n1", {"memory": 15}, action=NodeAction.UPDATE))
    gone(talk, "n1_1")
    facts = talk.schedule()
    assert ends(facts) == [("c", "n1", "node")]
    assert preempted(facts) == ["n1_0"]
    assert placed(gone(talk, "n1_0") + talk.schedule()) == [("claimer", "c", "n1")]


def test_it_waits_for_its_victims_for_as_long_as_they_take() -> None:
    talk = a_decision()
    assert ends(wait(talk, 3 * TIMES.reservation_ns)) == []
    assert placed(gone(talk, "n1_1") + talk.schedule()) == [("claimer", "c", "n1")]


def test_while_the_rm_is_away_nobody_is_asked_to_end_and_nothing_is_placed() -> None:
    talk = a_talk(n1=[10, 10])
    talk.asks(a_claim("c1"))
    wait(talk, SECOND_NS)
    talk.disconnect()
    assert preempted(wait(talk, DELAY_NS)) == []
    talk.connect()
    assert preempted(talk.schedule()) == ["n1_1"]
    talk.disconnect()
    gone(talk, "n1_1")
    assert placed(talk.schedule()) == []
    talk.connect()
    assert placed(talk.schedule()) == [("claimer", "c1", "n1")]


def test_nothing_is_left_of_it_when_the_rm_registers_again() -> None:
    talk = a_decision()
    talk.register()
    assert [alarm.kind.name for alarm in talk.scheduler.cluster.alarms.live()] == ["RECONNECT"]


def test_what_was_decided_is_not_undone_by_another_queue_file() -> None:
    talk = a_decision()
    reload(talk, the_root(0))
    assert kept(talk) == [("c", "n1", True)]
    assert placed(gone(talk, "n1_1") + talk.schedule()) == [("claimer", "c", "n1")]


# looked at again


def test_the_same_is_tried_again_when_something_moved_and_not_too_soon() -> None:
    talk = a_talk(the_root(victims={"guaranteed": {"memory": 20}}), n1=[10, 10])
    talk.asks(a_claim())
    facts = wait(talk, DELAY_NS)
    assert "ends for ask c" in only(PreemptionRefused, facts).reason
    assert refusals(facts) == [("c", "no_victims")]
    assert refusals(wait(talk, 10 * ATTEMPT_NS)) == []
    talk.nodes(a_node("n2", {"memory": 9}))
    assert refusals(talk.schedule() + wait(talk, 1)) == [("c", "no_victims")]
    talk.nodes(a_node("n2", {"memory": 8}, action=NodeAction.UPDATE))
    assert refusals(wait(talk, ATTEMPT_NS - 2)) == []
    assert refusals(wait(talk, 2)) == [("c", "no_victims")]


def test_a_failure_is_for_all_of_its_size_that_do_not_rank_above_it() -> None:
    talk = a_talk()
    talk.nodes(a_node("n1", {"memory": 10}))
    talk.asks(an_ask("firm", priority=5, app="victims"))
    talk.schedule()
    talk.asks(a_claim("c1"), a_claim("c2"))
    assert refusals(wait(talk, DELAY_NS)) == [("c1", "no_node")]
    talk.asks(a_claim("c3", priority=5))
    assert preempted(wait(talk, DELAY_NS)) == ["firm"]
    assert kept(talk) == [("c1", "n1", False), ("c3", "n1", True)]


def test_it_succeeds_when_the_right_comes_with_what_others_use() -> None:
    talk = a_talk(the_root(victims={"guaranteed": {"memory": 15}}), n1=[10])
    talk.asks(a_claim())
    assert refusals(wait(talk, DELAY_NS)) == [("c", "no_victims")]
    talk.nodes(a_node("n2", {"memory": 15}))
    assert placed(talk.schedule()) == [("claimer", "c", "n2")]
    talk.asks(a_claim("c2"), an_ask("more", 5, app="victims"))
    assert placed(talk.schedule()) == [("victims", "more", "n2")]
    assert refusals(wait(talk, DELAY_NS)) == [("c2", "no_victims")]
    for node in ("n3", "n4"):
        talk.nodes(a_node(node, {"memory": 5}))
        talk.asks(an_ask(f"on_{node}", 5, app="victims"))
        assert placed(talk.schedule()) == [("victims", f"on_{node}", node)]
    assert preempted(wait(talk, ATTEMPT_NS)) == ["n1_0"]


def test_it_succeeds_when_the_right_comes_with_another_queue_file() -> None:
    talk = a_talk(the_root(victims={"guaranteed": {"memory": 20}}), n1=[10, 10])
    talk.asks(a_claim())
    assert refusals(wait(talk, DELAY_NS)) == [("c", "no_victims")]
    reload(talk, the_root())
    assert preempted(talk.schedule()) == ["n1_1"]


def test_switching_it_off_holds_for_asks_that_wait_already() -> None:
    talk = a_talk(n1=[10])
    talk.asks(a_claim())
    wait(talk, DELAY_NS - 1)
    talk.step(without_preemption(the_root()))
    assert preempted(wait(talk, DELAY_NS)) == []
    talk.step(UpdateConfiguration(RM, (PartitionSpec("default", the_root()),)))
    assert preempted(wait(talk, 1)) == ["n1_0"]


@pytest.mark.parametrize(
    ("root", "victims"),
    [
        (the_root(0), []),
        (the_root(victims={"guaranteed": {"memory": 20}}), []),
        (the_root(preemption_policy=PreemptionPolicy.FENCE), []),
        (the_root(victims={"preemption_policy": PreemptionPolicy.DISABLED}), []),
        (a_root(a_queue_spec("v"), a_queue_spec("o")), ["n1_1"]),
    ],
    ids=["guarantee gone", "victims guaranteed", "fenced", "victims protected", "draining with its guarantee"],
)
def test_another_queue_file_holds_for_asks_that_wait_already(root: QueueSpec, victims: list[str]) -> None:
    talk = a_talk(n1=[10, 10])
    talk.asks(a_claim())
    wait(talk, DELAY_NS - 1)
    reload(talk, root)
    assert preempted(wait(talk, DELAY_NS)) == victims


def test_who_waits_for_its_turn_when_the_time_comes_claims_when_it_has_it() -> None:
    root = the_root(order=ApplicationOrder.STATE_AWARE)
    talk = a_talk(root, n1=[10, 10])
    talk.apps(an_app("later", "root.c"))
    talk.nodes(a_node("n2", {"memory": 1}))
    talk.asks(an_ask("first", 1, app="claimer"))
    talk.schedule()
    talk.asks(a_claim(app="later"))
    assert preempted(wait(talk, DELAY_NS + SECOND_NS)) == []
    assert preempted(wait(talk, TIMES.starting_ns)) == ["n1_1"]


def test_a_real_ask_that_waits_for_its_gang_when_the_time_comes_claims_afterwards() -> None:
    talk = a_talk(n1=[10, 10])
    talk.asks(a_placeholder("p", 100, app="claimer"), a_claim("r"))
    assert preempted(wait(talk, DELAY_NS + SECOND_NS)) == []
    talk.release_asks(application_id="claimer", allocation_key="p")
    assert preempted(wait(talk, SECOND_NS)) == ["n1_1"]


# gangs


def test_a_placeholder_may_claim_and_is_one_when_it_is_placed() -> None:
    talk = a_talk(n1=[10, 10])
    talk.apps(an_app("gang", "root.c", placeholder_ask=Resources(memory=20)))
    talk.asks(a_placeholder("p", count=2, app="gang", allow_preempt_other=True))
    facts = wait(talk, DELAY_NS)
    assert preempted(facts) == ["n1_1"]
    facts = gone(talk, "n1_1") + talk.schedule()
    assert placed(facts) == [("gang", "p", "n1")]
    assert preempted(facts) == ["n1_0"]
    assert placed(gone(talk, "n1_0") + talk.schedule()) == [("gang", "p", "n1")]
    assert [one.placeholder for one in talk.app("gang").allocations] == [True, True]


def test_placeholders_may_have_to_end_and_their_gang_goes_on_with_the_rest() -> None:
    talk = a_talk()
    talk.nodes(a_node("n1", {"memory": 20}))
    talk.apps(an_app("gang", "root.v", placeholder_ask=Resources(memory=20)))
    talk.asks(a_placeholder("p", count=2, app="gang"))
    talk.schedule()
    talk.asks(a_claim())
    facts = wait(talk, DELAY_NS)
    assert preempted(facts) == ["p"]
    victim = only(ReleaseRequested, facts).uuid
    talk.asks(an_ask("r", app="gang", task_group="group", count=2))
    swap = only(ReleaseRequested, talk.schedule())
    assert swap.uuid != victim
    assert swap.termination is TerminationType.PLACEHOLDER_REPLACED
    assert placed(gone(talk, "p")) == [("gang", "r", "n1")]
    assert placed(talk.schedule()) == [("claimer", "c", "n1")]


def test_a_gang_that_still_waits_gets_back_the_placeholders_that_had_to_end() -> None:
    talk = a_talk()
    talk.nodes(a_node("n1", {"memory": 20}))
    talk.apps(an_app("gang", "root.v", placeholder_ask=Resources(memory=30)))
    talk.asks(a_placeholder("p", count=3, app="gang"))
    talk.schedule()
    talk.asks(a_claim())
    victim = only(ReleaseRequested, wait(talk, DELAY_NS))
    talk.release(application_id="gang", uuid=victim.uuid, termination=victim.termination)
    assert sum(ask.pending for ask in talk.app("gang").asks) == 2
    [group] = talk.app("gang").task_groups
    assert (group.wanted, group.preempted, group.idle) == (3, 1, 1)
    talk.nodes(a_node("n2", {"memory": 20}))
    assert sorted(app for app, _, _ in placed(talk.schedule())) == ["claimer", "gang", "gang"]
    assert talk.app("gang").state == "Starting"


def test_a_placeholder_that_is_being_replaced_has_not_to_end() -> None:
    talk = a_talk()
    talk.nodes(a_node("n1", {"memory": 10}))
    talk.apps(an_app("gang", "root.v", placeholder_ask=Resources(memory=10)))
    talk.asks(a_placeholder("p", app="gang"))
    talk.schedule()
    talk.asks(an_ask("r", app="gang", task_group="group"))
    only(ReleaseRequested, talk.schedule())
    talk.asks(a_claim())
    facts = wait(talk, DELAY_NS)
    assert (preempted(facts), refusals(facts)) == ([], [("c", "no_node")])


# limits of users


def with_limits(most: int) -> QueueSpec:
    """Every user may have so much in all queues together."""
    return replace(the_root(), limits=(LimitSpec(users=("*",), max=Limits(memory=most)),))


def two_claims(*users: str) -> Conversation:
    """Two full nodes, and a claim of 10 of each of these users."""
    talk = a_conversation(a_node("n1", {"memory": 10}), a_node("n2", {"memory": 10}), root=with_limits(15))
    for number in range(2):
        talk.apps(an_app(f"v{number}", "root.v", user=f"victim{number}"))
        talk.asks(an_ask(f"v{number}", app=f"v{number}"))
        talk.schedule()
    for number, user in enumerate(users):
        talk.apps(an_app(f"c{number}", "root.c", user=user))
        talk.asks(a_claim(f"c{number}", app=f"c{number}"))
    return talk


def test_a_limit_of_its_user_keeps_others_from_ending_in_vain() -> None:
    talk = two_claims("victim0")
    facts = wait(talk, DELAY_NS)
    assert (preempted(facts), refusals(facts)) == ([], [("c0", "quota")])


def test_what_one_user_claimed_does_not_count_for_another() -> None:
    assert len(preempted(wait(two_claims("one", "another"), DELAY_NS))) == 2


def test_what_the_same_user_claimed_counts_towards_its_limit() -> None:
    facts = wait(two_claims("one", "one"), DELAY_NS)
    assert (len(preempted(facts)), refusals(facts)) == (1, [("c1", "quota")])


# daemons


def test_what_may_run_on_one_node_only_does_not_end_for_others() -> None:
    talk = a_talk()
    talk.nodes(a_node("n1", {"memory": 10}))
    talk.asks(a_daemon("d", app="victims"))
    talk.schedule()
    talk.asks(a_claim())
    assert preempted(wait(talk, DELAY_NS)) == []


# searches that take several cycles


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cycle looks at one more thing only."""
    monkeypatch.setattr(preemption, "VISITS_PER_SLICE", 1)


def slow_searches(root: QueueSpec | None = None) -> Iterator[Conversation]:
    """The search for `c`, each time one cycle further, as long as it is not finished."""
    for cycles in count(1):
        talk = a_talk(root, n1=[10, 10], n2=[10, 10])
        talk.asks(a_claim())
        wait(talk, DELAY_NS - 1)
        talk.sleep(1)
        for _ in range(cycles):
            talk.cycle()
        if talk.model().patience.search is None:
            assert cycles > 3
            return
        yield talk


@pytest.mark.usefixtures("slow")
def test_it_comes_to_the_same_as_at_once() -> None:
    for talk in slow_searches():
        assert preempted(talk.schedule()) == ["n1_1"]
        assert talk.model().patience.search is None


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(
    "change",
    [
        lambda talk: talk.release_asks(application_id="claimer"),
        lambda talk: talk.remove("claimer"),
        lambda talk: talk.asks(a_claim(allow_preempt_other=False)),
        lambda talk: talk.asks(a_claim(priority=-1)),
        lambda talk: talk.asks(a_claim(memory=60)),
        lambda talk: talk.asks(a_placeholder("p", 1000, app="claimer")),
        lambda talk: reload(talk, the_root(0)),
        lambda talk: reload(talk, the_root(victims={"guaranteed": {"memory": 40}})),
        lambda talk: talk.step(without_preemption(the_root())),
        lambda talk: talk.nodes(*(a_node(one, action=NodeAction.DRAIN_NODE) for one in ("n1", "n2"))),
        lambda talk: talk.nodes(*(a_node(one, action=NodeAction.DECOMISSION) for one in ("n1", "n2"))),
        lambda talk: talk.nodes(*(a_node(one, {"memory": 9}, action=NodeAction.UPDATE) for one in ("n1", "n2"))),
    ],
    ids=[
        "ask released",
        "application removed",
        "does not allow it now",
        "priority lowered",
        "larger than its guarantee",
        "has to wait for its gang",
        "guarantee gone",
        "victims guaranteed",
        "switched off",
        "nodes drained",
        "nodes gone",
        "nodes too small",
    ],
)
def test_nobody_ends_if_there_is_no_reason_any_longer_when_it_is_done(change: Callable[[Conversation], Any]) -> None:
    for talk in slow_searches():
        change(talk)
        assert preempted(talk.schedule()) == []


@pytest.mark.usefixtures("slow")
def test_who_uses_up_the_guarantee_meanwhile_leaves_no_right() -> None:
    for talk in slow_searches(the_root(15)):
        talk.apps(an_app("twin", "root.c"))
        talk.nodes(a_node("n3", {"memory": 9}))
        talk.asks(an_ask("uses", 9, app="twin"))
        facts = talk.schedule()
        assert placed(facts) == [("twin", "uses", "n3")]
        assert preempted(facts) == []


@pytest.mark.usefixtures("slow")
def test_a_victim_that_is_gone_when_it_is_done_is_not_asked_to_end() -> None:
    for talk in slow_searches():
        finished(talk, "n1_1")
        assert placed(talk.schedule()) == [("claimer", "c", "n1")]
        assert preempted(wait(talk, DELAY_NS)) == []


@pytest.mark.usefixtures("slow")
def test_room_that_turns_up_behind_a_reservation_is_not_for_who_has_no_right_any_longer() -> None:
    """What is kept for ordinary asks may be taken by who has a right to it: that is judged when the search is done."""
    for cycles in range(1, 12):
        talk = a_talk(the_root(10), n1=[10, 10], n2=[10, 10])
        talk.asks(an_ask("big", 20, app="other", count=2, priority=9))
        wait(talk, TIMES.reservation_delay_ns)
        assert len(kept(talk)) == 2
        talk.apps(an_app("twin", "root.c"))
        talk.asks(a_claim())
        wait(talk, DELAY_NS - 1)
        talk.sleep(1)
        for _ in range(cycles):
            talk.cycle()
        searches = talk.model().patience.search is not None
        talk.nodes(a_node("n3", {"memory": 5}))
        talk.asks(an_ask("uses", 5, app="twin"))
        finished(talk, "n1_1", "n2_1")
        facts = talk.schedule()
        if searches:
            assert placed(facts) == [("twin", "uses", "n3")]
            assert preempted(facts) == []
            assert [key for key, _ in refusals(facts)] == ["c"]


@pytest.mark.usefixtures("slow")
def test_who_waits_behind_a_search_has_its_turn() -> None:
    for talk in slow_searches():
        talk.apps(an_app("second", "root.c"))
        talk.asks(a_claim("s", app="second"))
        assert len(preempted(wait(talk, DELAY_NS))) == 2


# others have a say


class Says:
    """Refuses the ask `c` on a node as long as the allocation of this key is there."""

    def __init__(self, talk: Conversation, key: str) -> None:
        self.talk = talk
        self.key = key

    def refusal(self, application_id: str, allocation_key: str, node_id: str) -> str | None:
        return self.refusal_without(application_id, allocation_key, node_id, ())

    def refusal_without(
        self, application_id: str, allocation_key: str, node_id: str, ended_keys: Sequence[str]
    ) -> str | None:
        there = {one.key for one in self.talk.model().nodes[node_id].allocations.values()} - set(ended_keys)
        return "conflict" if allocation_key == "c" and self.key in there else None


def a_talk_with_conflict(key: str) -> Conversation:
    """`c` may not run beside the allocation of this key; all is ready for it to claim 10 of n1."""
    talk = Conversation(Scheduler(Timeouts(), numbered()))
    talk.scheduler.cluster.feasibility = Says(talk, key)
    talk.register(a_partition_spec(the_root()))
    talk.connect()
    talk.nodes(a_node("n1", {"memory": 20}))
    fill(talk, "victims", "root.v", v0=10, v1=10)
    talk.apps(an_app("claimer", "root.c"))
    talk.asks(a_claim())
    return talk


def test_a_conflict_with_a_victim_is_over_when_that_is_gone() -> None:
    talk = a_talk_with_conflict("v1")
    facts = wait(talk, DELAY_NS)
    assert preempted(facts) == ["v1"]
    assert kept(talk) == [("c", "n1", True)]
    assert placed(gone(talk, "v1") + talk.schedule()) == [("claimer", "c", "n1")]


def test_a_conflict_that_stays_keeps_others_from_ending_in_vain() -> None:
    talk = a_talk_with_conflict("v0")
    facts = wait(talk, DELAY_NS)
    assert (preempted(facts), refusals(facts)) == ([], [("c", "no_node")])
