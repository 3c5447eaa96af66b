"""When preemption is attempted again for an ask, and what else decides: gangs, limits, predicates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schedulerd.core.language.commands import NodeAction, TerminationType, UpdateConfiguration
from schedulerd.core.language.facts.fact import ReleaseRequested
from schedulerd.core.language.facts.preemption import PreemptionRefused
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import (
    SECOND_NS,
    ApplicationOrder,
    LimitSpec,
    PartitionSpec,
    PreemptionPolicy,
    QueueSpec,
    Timeouts,
)
from tests.unit.core.answering_rm import AnsweringRM, Wanted
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    only,
    placed,
)
from tests.unit.core.configurations import reload
from tests.unit.core.preemption_builders import (
    a_daemon,
    an_entitled_ask,
    confirm_releases,
    fill,
    full_nodes,
    guaranteed_root,
    preempted,
    refusals,
    reservations_of,
    wait,
    without_preemption,
)

TIMES = Timeouts()
DELAY_NS = 30 * SECOND_NS
ATTEMPT_NS = TIMES.preemption_attempt_ns


def a_decision(**fields: Any) -> Conversation:
    """`c` is to have 10 on n1, for which n1_1 was asked to end."""
    talk = full_nodes(n1=[10, 10])
    talk.asks(an_entitled_ask(**fields))
    assert preempted(wait(talk, DELAY_NS)) == ["n1_1"]
    return talk


# looked at again


def test_the_same_is_tried_again_when_something_moved_and_not_too_soon() -> None:
    talk = full_nodes(guaranteed_root(victims={"guaranteed": {"memory": 20}}), n1=[10, 10])
    talk.asks(an_entitled_ask())
    facts = wait(talk, DELAY_NS)
    assert "is preempted for ask c" in only(PreemptionRefused, facts).reason
    assert refusals(facts) == [("c", "no_victims")]
    assert refusals(wait(talk, 10 * ATTEMPT_NS)) == []
    talk.nodes(a_node("n2", {"memory": 9}))
    assert refusals(talk.schedule() + wait(talk, 1)) == [("c", "no_victims")]
    talk.nodes(a_node("n2", {"memory": 8}, action=NodeAction.UPDATE))
    assert refusals(wait(talk, ATTEMPT_NS - 2)) == []
    assert refusals(wait(talk, 2)) == [("c", "no_victims")]


def test_a_failure_is_for_all_of_its_size_that_do_not_rank_above_it() -> None:
    talk = full_nodes()
    talk.nodes(a_node("n1", {"memory": 10}))
    talk.asks(an_ask("firm", priority=5, app="victims"))
    talk.schedule()
    talk.asks(an_entitled_ask("c1"), an_entitled_ask("c2"))
    assert refusals(wait(talk, DELAY_NS)) == [("c1", "no_node")]
    talk.asks(an_entitled_ask("c3", priority=5))
    assert preempted(wait(talk, DELAY_NS)) == ["firm"]
    assert reservations_of(talk) == [("c1", "n1", False), ("c3", "n1", True)]


def test_it_succeeds_when_the_right_comes_with_what_others_use() -> None:
    talk = full_nodes(guaranteed_root(victims={"guaranteed": {"memory": 15}}), n1=[10])
    talk.asks(an_entitled_ask())
    assert refusals(wait(talk, DELAY_NS)) == [("c", "no_victims")]
    talk.nodes(a_node("n2", {"memory": 15}))
    assert placed(talk.schedule()) == [("claimer", "c", "n2")]
    talk.asks(an_entitled_ask("c2"), an_ask("more", 5, app="victims"))
    assert placed(talk.schedule()) == [("victims", "more", "n2")]
    assert refusals(wait(talk, DELAY_NS)) == [("c2", "no_victims")]
    for node in ("n3", "n4"):
        talk.nodes(a_node(node, {"memory": 5}))
        talk.asks(an_ask(f"on_{node}", 5, app="victims"))
        assert placed(talk.schedule()) == [("victims", f"on_{node}", node)]
    assert preempted(wait(talk, ATTEMPT_NS)) == ["n1_0"]


def test_it_succeeds_when_the_right_comes_with_another_queue_file() -> None:
    talk = full_nodes(guaranteed_root(victims={"guaranteed": {"memory": 20}}), n1=[10, 10])
    talk.asks(an_entitled_ask())
    assert refusals(wait(talk, DELAY_NS)) == [("c", "no_victims")]
    reload(talk, guaranteed_root())
    assert preempted(talk.schedule()) == ["n1_1"]


def test_switching_it_off_holds_for_asks_that_wait_already() -> None:
    talk = full_nodes(n1=[10])
    talk.asks(an_entitled_ask())
    wait(talk, DELAY_NS - 1)
    talk.step(without_preemption(guaranteed_root()))
    assert preempted(wait(talk, DELAY_NS)) == []
    talk.step(UpdateConfiguration(RM, (PartitionSpec("default", guaranteed_root()),)))
    assert preempted(wait(talk, 1)) == ["n1_0"]


@pytest.mark.parametrize(
    ("root", "victims"),
    [
        (guaranteed_root(0), []),
        (guaranteed_root(victims={"guaranteed": {"memory": 20}}), []),
        (guaranteed_root(preemption_policy=PreemptionPolicy.FENCE), []),
        (guaranteed_root(victims={"preemption_policy": PreemptionPolicy.DISABLED}), []),
        (a_root(a_queue_spec("v"), a_queue_spec("o")), ["n1_1"]),
    ],
    ids=["guarantee gone", "victims guaranteed", "fenced", "victims protected", "draining with its guarantee"],
)
def test_another_queue_file_holds_for_asks_that_wait_already(root: QueueSpec, victims: list[str]) -> None:
    talk = full_nodes(n1=[10, 10])
    talk.asks(an_entitled_ask())
    wait(talk, DELAY_NS - 1)
    reload(talk, root)
    assert preempted(wait(talk, DELAY_NS)) == victims


def test_an_ask_that_is_due_before_its_turn_preempts_when_it_has_its_turn() -> None:
    root = guaranteed_root(order=ApplicationOrder.STATE_AWARE)
    talk = full_nodes(root, n1=[10, 10])
    talk.apps(an_app("later", "root.c"))
    talk.nodes(a_node("n2", {"memory": 1}))
    talk.asks(an_ask("first", 1, app="claimer"))
    talk.schedule()
    talk.asks(an_entitled_ask(app="later"))
    assert preempted(wait(talk, DELAY_NS + SECOND_NS)) == []
    assert preempted(wait(talk, TIMES.starting_ns)) == ["n1_1"]


def test_a_real_ask_that_is_due_while_it_waits_for_its_gang_preempts_afterwards() -> None:
    talk = full_nodes(n1=[10, 10])
    talk.asks(a_placeholder("p", 100, app="claimer"), an_entitled_ask("r"))
    assert preempted(wait(talk, DELAY_NS + SECOND_NS)) == []
    talk.release_asks(application_id="claimer", allocation_key="p")
    assert preempted(wait(talk, SECOND_NS)) == ["n1_1"]


# gangs


def test_a_placeholder_may_preempt_and_is_one_when_it_is_placed() -> None:
    talk = full_nodes(n1=[10, 10])
    talk.apps(an_app("gang", "root.c", placeholder_ask=Resources(memory=20)))
    talk.asks(a_placeholder("p", count=2, app="gang", allow_preempt_other=True))
    assert preempted(wait(talk, DELAY_NS)) == ["n1_1", "n1_0"]
    assert placed(confirm_releases(talk, "n1_1") + talk.schedule()) == [("gang", "p", "n1")]
    assert placed(confirm_releases(talk, "n1_0") + talk.schedule()) == [("gang", "p", "n1")]
    assert [one.placeholder for one in talk.app("gang").allocations] == [True, True]


def test_placeholders_may_be_preempted_and_their_gang_goes_on_with_the_rest() -> None:
    talk = full_nodes()
    talk.nodes(a_node("n1", {"memory": 20}))
    talk.apps(an_app("gang", "root.v", placeholder_ask=Resources(memory=20)))
    talk.asks(a_placeholder("p", count=2, app="gang"))
    talk.schedule()
    talk.asks(an_entitled_ask())
    facts = wait(talk, DELAY_NS)
    assert preempted(facts) == ["p"]
    victim = only(ReleaseRequested, facts).uuid
    talk.asks(an_ask("r", app="gang", task_group="group", count=2))
    swap = only(ReleaseRequested, talk.schedule())
    assert swap.uuid != victim
    assert swap.termination is TerminationType.PLACEHOLDER_REPLACED
    assert placed(confirm_releases(talk, "p")) == [("gang", "r", "n1")]
    assert placed(talk.schedule()) == [("claimer", "c", "n1")]


def test_a_gang_that_still_waits_gets_back_its_preempted_placeholders() -> None:
    talk = full_nodes()
    talk.nodes(a_node("n1", {"memory": 20}))
    talk.apps(an_app("gang", "root.v", placeholder_ask=Resources(memory=30)))
    talk.asks(a_placeholder("p", count=3, app="gang"))
    talk.schedule()
    talk.asks(an_entitled_ask())
    victim = only(ReleaseRequested, wait(talk, DELAY_NS))
    talk.release(application_id="gang", uuid=victim.uuid, termination=victim.termination)
    assert sum(ask.pending for ask in talk.app("gang").asks) == 2
    [group] = talk.app("gang").task_groups
    assert (group.wanted, group.preempted, group.idle) == (3, 1, 1)
    talk.nodes(a_node("n2", {"memory": 20}))
    assert sorted(app for app, _, _ in placed(talk.schedule())) == ["claimer", "gang", "gang"]
    assert talk.app("gang").state == "Starting"


def test_a_placeholder_that_is_being_replaced_is_no_victim() -> None:
    talk = full_nodes()
    talk.nodes(a_node("n1", {"memory": 10}))
    talk.apps(an_app("gang", "root.v", placeholder_ask=Resources(memory=10)))
    talk.asks(a_placeholder("p", app="gang"))
    talk.schedule()
    talk.asks(an_ask("r", app="gang", task_group="group"))
    only(ReleaseRequested, talk.schedule())
    talk.asks(an_entitled_ask())
    facts = wait(talk, DELAY_NS)
    assert (preempted(facts), refusals(facts)) == ([], [("c", "no_node")])


# limits of users


def with_limits(most: int) -> QueueSpec:
    """Every user may have so much in all queues together."""
    return replace(guaranteed_root(), limits=(LimitSpec(users=("*",), max=Limits(memory=most)),))


def two_entitled_asks(*users: str) -> Conversation:
    """Two full nodes, and an entitled ask of 10 of each of these users."""
    talk = a_conversation(a_node("n1", {"memory": 10}), a_node("n2", {"memory": 10}), root=with_limits(15))
    for number in range(2):
        talk.apps(an_app(f"v{number}", "root.v", user=f"victim{number}"))
        talk.asks(an_ask(f"v{number}", app=f"v{number}"))
        talk.schedule()
    for number, user in enumerate(users):
        talk.apps(an_app(f"c{number}", "root.c", user=user))
        talk.asks(an_entitled_ask(f"c{number}", app=f"c{number}"))
    return talk


def test_a_limit_of_its_user_prevents_preemption_without_effect() -> None:
    talk = two_entitled_asks("victim0")
    facts = wait(talk, DELAY_NS)
    assert (preempted(facts), refusals(facts)) == ([], [("c0", "quota")])


def test_what_one_user_reserved_does_not_count_for_another() -> None:
    assert len(preempted(wait(two_entitled_asks("one", "another"), DELAY_NS))) == 2


def test_what_the_same_user_reserved_counts_towards_its_limit() -> None:
    facts = wait(two_entitled_asks("one", "one"), DELAY_NS)
    assert (len(preempted(facts)), refusals(facts)) == (1, [("c1", "quota")])


# daemons


def test_nothing_is_preempted_elsewhere_for_an_ask_with_a_required_node() -> None:
    talk = full_nodes()
    talk.nodes(a_node("n1", {"memory": 10}))
    talk.asks(a_daemon("d", app="victims"))
    talk.schedule()
    talk.asks(an_entitled_ask())
    assert preempted(wait(talk, DELAY_NS)) == []


# the resource manager has a say


def a_talk_with_conflict(key: str) -> AnsweringRM:
    """`c` may not run beside the allocation of this key; all is ready for it to preempt for 10 of n1.

    The RM judges the minimal set alone: it never asks for further victims.
    """

    def refusal_of(wanted: Wanted) -> str:
        there = {one.key for one in talk.model().nodes[wanted.node_id].allocations.values()}
        there -= set(getattr(wanted, "victim_keys", ())[: getattr(wanted, "start_index", 0) + 1])
        return "conflict" if wanted.allocation_key == "c" and key in there else ""

    talk = AnsweringRM(refusal_of)
    talk.begin(guaranteed_root())
    talk.nodes(a_node("n1", {"memory": 20}))
    fill(talk, "victims", "root.v", v0=10, v1=10)
    talk.apps(an_app("claimer", "root.c"))
    talk.asks(an_entitled_ask())
    return talk


def test_a_conflict_with_a_victim_is_over_when_that_is_gone() -> None:
    talk = a_talk_with_conflict("v1")
    facts = wait(talk, DELAY_NS)
    assert preempted(facts) == ["v1"]
    assert reservations_of(talk) == [("c", "n1", True)]
    assert placed(confirm_releases(talk, "v1") + talk.schedule()) == [("claimer", "c", "n1")]


def test_a_conflict_that_stays_prevents_preemption_without_effect() -> None:
    talk = a_talk_with_conflict("v0")
    facts = wait(talk, DELAY_NS)
    assert (preempted(facts), refusals(facts)) == ([], [("c", "no_node")])


def test_an_ask_for_several_does_not_delay_equal_asks() -> None:
    talk = full_nodes(n1=[10, 10, 10])
    talk.asks(an_entitled_ask("c1", count=2, priority=1), an_entitled_ask("c2"))
    facts = wait(talk, DELAY_NS)
    assert preempted(facts) == ["n1_2", "n1_1", "n1_0"]
    assert refusals(facts) == []
    assert reservations_of(talk) == [("c1", "n1", True), ("c1", "n1", True), ("c2", "n1", True)]
