"""Stories about gangs that once went wrong, kept so that they do not again."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import NodeAction, TerminationType, UpdateConfiguration
from schedulerd.core.language.facts.fact import Allocated, NodeRejected, ReleaseRequested
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import MINUTE_NS, ApplicationOrder, Timeouts
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
    an_existing,
    of,
    only,
    placed,
    states,
)

S = ApplicationState
TIMES = Timeouts()


def a_gang(talk: Conversation, name: str = "gang", memory: int = 20, queue: str = "root.a", style: str = "") -> None:
    talk.apps(an_app(name, queue, placeholder_ask=Resources(memory=memory), gang_style=style))


def placeholders(talk: Conversation, count: int = 2, name: str = "gang", key: str = "p") -> None:
    talk.asks(a_placeholder(key, count=count, app=name))
    talk.schedule()


def reals(talk: Conversation, count: int, name: str = "gang", key: str = "r") -> list[ReleaseRequested]:
    talk.asks(an_ask(key, 10, count, name, task_group="group"))
    return of(ReleaseRequested, talk.schedule())


def confirm(talk: Conversation, *requests: ReleaseRequested) -> list[tuple[str, str, str]]:
    found = []
    for one in requests:
        facts = talk.release(application_id=one.application_id, uuid=one.uuid, termination=one.termination)
        found += placed(facts)
    return found


def a_quota(memory: int, *leaves: str) -> Conversation:
    root = a_root(*(a_queue_spec(name) for name in leaves or ("a", "b")), max={"memory": memory})
    return a_conversation(a_node("n1", {"memory": 100}), root=root)


def test_a_reload_that_ends_turns_does_not_let_a_real_ask_pass_its_placeholder() -> None:
    turns = a_root(a_queue_spec("a", order=ApplicationOrder.STATE_AWARE))
    talk = a_conversation(a_node("n1", {"memory": 25}), root=turns)
    a_gang(talk, memory=20)
    placeholders(talk, 1)
    talk.apps(an_app("first"))
    [swap] = reals(talk, 1)
    talk.step(UpdateConfiguration(RM, (a_partition_spec(a_root()),)))
    assert talk.app("gang").awaiting_placeholder == 1
    assert confirm(talk, swap) == [("gang", "r", "n1")]


def test_a_gang_that_lost_a_member_needs_room_for_that_member_only() -> None:
    talk = a_quota(20)
    a_gang(talk)
    placeholders(talk)
    confirm(talk, *reals(talk, 2))
    [one, _] = talk.app("gang").allocations
    talk.release(application_id="gang", uuid=one.uuid)
    placeholders(talk, 1, key="again")
    assert sorted(item.placeholder for item in talk.app("gang").allocations) == [False, True]
    assert confirm(talk, *reals(talk, 1, key="s")) == [("gang", "s", "n1")]


def test_the_gate_is_whole_again_when_the_gang_has_nothing_left() -> None:
    talk = a_quota(30)
    a_gang(talk)
    placeholders(talk)
    confirm(talk, *reals(talk, 2))
    [one, other] = talk.app("gang").allocations
    talk.release(application_id="gang", uuid=one.uuid)
    talk.asks(an_ask("k", 15))
    talk.schedule()
    placeholders(talk, 1, key="again")
    talk.release(application_id="gang", uuid=other.uuid)
    assert placed(talk.schedule()) == []
    assert "with the whole gang: 15 of 30 memory used, 20 more asked" in talk.app("gang").asks[0].waiting_for


def test_what_an_application_has_beside_its_gang_is_no_part_of_the_promise() -> None:
    talk = a_quota(30)
    a_gang(talk, memory=20)
    talk.asks(an_ask("driver", app="gang"))
    talk.schedule()
    talk.nodes(a_node("n1", action=NodeAction.DRAIN_NODE), a_node("n2", {"memory": 10}))
    placeholders(talk)
    assert talk.queue("root").gang_quota_promised == {"memory": 10}
    a_gang(talk, "other", 10, "root.b")
    talk.nodes(a_node("n3", {"memory": 10}))
    assert {app for app, _, _ in placed(talk.schedule())} == {"gang"}


@pytest.mark.parametrize("order", [("p", "r"), ("r", "p")])
def test_the_order_in_a_nodes_report_does_not_matter_to_the_promise(order: tuple[str, str]) -> None:
    talk = a_quota(40)
    a_gang(talk)
    existing = {
        "p": an_existing("e1", "p", "gang", task_group="group", placeholder=True),
        "r": an_existing("e2", "r", "gang", task_group="group"),
    }
    talk.nodes(a_node("n2", {"memory": 20}, *(existing[key] for key in order)))
    assert talk.queue("root").gang_quota_promised == {}


def test_placeholder_asks_that_are_taken_back_are_not_promised_any_longer() -> None:
    talk = a_conversation(
        a_node("n1", {"memory": 10}), root=a_root(a_queue_spec("a"), a_queue_spec("b"), max={"memory": 20})
    )
    a_gang(talk)
    placeholders(talk)
    assert talk.queue("root").gang_quota_promised == {"memory": 10}
    a_gang(talk, "other", 10, "root.b")
    talk.nodes(a_node("n2", {"memory": 5}))
    talk.release_asks(application_id="gang", allocation_key="p")
    assert talk.queue("root").gang_quota_promised == {}
    talk.nodes(a_node("n3", {"memory": 10}))
    placeholders(talk, 1, "other")
    assert len(talk.app("other").allocations) == 1


def test_placeholders_that_go_together_are_all_gone_before_their_asks_look_for_room() -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}))
    a_gang(talk)
    placeholders(talk)
    reals(talk, 2)
    talk.nodes(a_node("n1", {"memory": 15}, action=NodeAction.UPDATE))
    facts = talk.release(application_id="gang", allocation_key="p", termination=TerminationType.PLACEHOLDER_REPLACED)
    assert placed(facts) == [("gang", "r", "n1")]
    assert sum(ask.pending for ask in talk.app("gang").asks) == 1


def test_a_placeholder_that_comes_again_does_not_use_up_what_is_promised_for_another() -> None:
    talk = a_conversation(
        a_node("n1", {"memory": 10}), root=a_root(a_queue_spec("a"), a_queue_spec("b"), max={"memory": 30})
    )
    a_gang(talk)
    placeholders(talk)
    for key in ("again", "and again"):
        [placed] = talk.app("gang").allocations
        talk.release(application_id="gang", uuid=placed.uuid)
        talk.asks(an_ask(key, app="gang", task_group="group", placeholder=True))
        talk.schedule()
        assert talk.queue("root").gang_quota_promised == {"memory": 10}


def test_an_extra_placeholder_that_is_taken_back_was_never_promised() -> None:
    talk = a_conversation(
        a_node("n1", {"memory": 10}), root=a_root(a_queue_spec("a"), a_queue_spec("b"), max={"memory": 30})
    )
    a_gang(talk)
    placeholders(talk)
    talk.asks(an_ask("extra", app="gang", task_group="group", placeholder=True))
    talk.release_asks(application_id="gang", allocation_key="extra")
    assert talk.queue("root").gang_quota_promised == {"memory": 10}


def test_a_placeholder_that_is_reported_while_its_application_completes_has_its_time() -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}))
    a_gang(talk)
    talk.asks(an_ask("k", app="gang"))
    talk.schedule()
    talk.release(application_id="gang", allocation_key="k")
    assert talk.app("gang").state == S.COMPLETING
    talk.nodes(a_node("n2", {"memory": 10}, an_existing("e1", "p", "gang", task_group="group", placeholder=True)))
    talk.asks(an_ask("l", app="gang"))
    talk.schedule()
    assert only(ReleaseRequested, talk.sleep(TIMES.placeholder_ns)).uuid == "e1"


def test_a_node_that_is_refused_takes_no_ask_with_it() -> None:
    talk = a_conversation()
    a_gang(talk)
    placeholders(talk)
    doubled = [an_existing("e1", "p", "gang", task_group="group", placeholder=True)] * 2
    facts = talk.nodes(a_node("n1", {"memory": 20}, *doubled))
    assert facts == [only(NodeRejected, facts)]
    assert talk.app("gang").pending == {"memory": 20}
    (group,) = talk.app("gang").task_groups
    assert (group.wanted, group.placed) == (2, 0)
    talk.nodes(a_node("n1", {"memory": 20}))
    assert states(talk.schedule(), "gang") == [S.STARTING]


def test_an_existing_allocation_is_not_made_a_second_time_because_its_ask_awaited_a_placeholder() -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}))
    a_gang(talk, memory=10)
    placeholders(talk, 1)
    [swap] = reals(talk, 1)
    talk.nodes(a_node("n2", {"memory": 20}, an_existing("e1", "r", "gang", task_group="group")))
    assert confirm(talk, swap) == []
    talk.schedule()
    assert [one.uuid for one in talk.app("gang").allocations] == ["e1"]
    assert talk.app("gang").asks == []


def test_an_ask_release_that_names_nothing_does_not_end_the_wait_for_the_real_asks() -> None:
    talk = a_conversation(a_node("n1", {"memory": 10}))
    a_gang(talk)
    placeholders(talk)
    [request] = of(ReleaseRequested, talk.sleep(TIMES.placeholder_ns))
    confirm(talk, request)
    assert talk.app("gang").state == S.ACCEPTED
    assert states(talk.release_asks(application_id="gang", allocation_key="p"), "gang") == []
    talk.asks(an_ask("r", app="gang", task_group="group"))
    assert states(talk.schedule(), "gang") == [S.STARTING]


def test_one_that_runs_completes_with_its_last_ask_though_a_placeholder_is_left() -> None:
    talk = a_conversation(a_node("n1", {"memory": 30}))
    a_gang(talk, memory=30)
    placeholders(talk, 3)
    confirm(talk, *reals(talk, 2))
    talk.asks(an_ask("large", 500, app="gang"))
    assert talk.app("gang").state == S.RUNNING
    talk.release(application_id="gang", allocation_key="r")
    assert talk.app("gang").state == S.RUNNING
    assert states(talk.release_asks(application_id="gang", allocation_key="large"), "gang") == [S.COMPLETING]
    assert only(ReleaseRequested, talk.sleep(TIMES.completing_ns)).allocation_key == "p"


def test_gangs_whose_deadlock_timeouts_end_together_are_checked_one_after_the_other() -> None:
    patience = Timeouts(gang_deadlock_timeout_ns=MINUTE_NS)
    root = a_root(*(a_queue_spec(name) for name in "ab"))
    talk = a_conversation(root=root, timeouts=patience)
    for leaf, name in zip("ab", ("first", "second"), strict=True):
        a_gang(talk, name, 30, f"root.{leaf}")
        talk.asks(a_placeholder(count=3, app=name))
    talk.nodes(a_node("n1", {"memory": 40}))
    talk.schedule()
    talk.now_ns += MINUTE_NS
    talk.sleep(0)
    assert talk.scheduler.next_deadline_ns() == talk.now_ns + 10_000_000
    assert {one.application_id for one in of(Allocated, talk.schedule())} == set()
