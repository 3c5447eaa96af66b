"""Why asks wait, and why nothing is preempted for them: one sentence for each reason, with its numbers."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.config import matches
from schedulerd.core.language.commands import NewAsk, NodeAction
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import SECOND_NS, LimitSpec, PartitionSpec, PreemptionPolicy, Timeouts
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    numbered,
    placed,
)

ROOM = {"memory": 100, "vcore": 10}


def waiting(talk: Conversation, application_id: str = "app") -> dict[str, str]:
    """Why each of its asks waits."""
    return {ask.allocation_key: ask.waiting_for for ask in talk.app(application_id).asks}


def test_an_ask_that_was_not_tried_yet_waits_for_nothing() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.asks(an_ask("k"))
    assert waiting(talk) == {"k": ""}


@pytest.mark.parametrize("at", ["a", "root"])
def test_an_ask_over_quota_names_queue_and_amounts(at: str) -> None:
    root = a_root(
        a_queue_spec("a", max={"memory": 30} if at == "a" else None), max={"memory": 30} if at != "a" else None
    )
    talk = a_conversation(a_node("n1", ROOM), root=root)
    talk.asks(an_ask("k", 20, count=2))
    talk.schedule()
    path = "root.a" if at == "a" else "root"
    assert waiting(talk) == {"k": f"queue {path} would be above its quota: 20 of 30 memory used, 20 more asked"}


def test_amounts_of_rules_are_in_the_unit_of_their_resource() -> None:
    limit = LimitSpec(users=("somebody",), groups=(), max=Limits({"vcore": 1_500}))
    root = a_root(a_queue_spec("a", max={"memory": 3 << 30}), a_queue_spec("b", limits=(limit,)))
    talk = a_conversation(a_node("n1", {"memory": 64 << 30, "vcore": 8_000}), root=root)
    talk.apps(an_app("other", "root.b"))
    talk.asks(
        an_ask("k", resources=Resources(memory=2 << 30), count=2),
        an_ask("k", app="other", resources=Resources(vcore=1_000), count=2),
    )
    talk.schedule()
    assert waiting(talk) == {"k": "queue root.a would be above its quota: 2Gi of 3Gi memory used, 2Gi more asked"}
    limited = "user 'somebody' would be above its limit in queue root.b: 1 of 1500m cpu used, 1 more asked"
    assert waiting(talk, "other") == {"k": limited}


def test_an_ask_no_node_fits_counts_why_not() -> None:
    talk = a_conversation(
        a_node("n1", ROOM),
        a_node("n2", {"memory": 500}),
        a_node("n3", {"memory": 20, "vcore": 99}),
        a_node("n4", ROOM, action=NodeAction.CREATE_DRAIN),
        a_node("n5", ROOM, attributes={"ready": "false"}),
    )
    talk.asks(an_ask("k", resources=Resources(memory=200, vcore=1)))
    talk.schedule()
    assert waiting(talk) == {
        "k": "no node has room: 5 nodes are considered, 4 would have too little memory even if they were empty, "
        "1 would have too little cpu even if it were empty"
    }


def test_an_ask_of_a_paused_resource_manager_says_so() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.asks(an_ask("k"))
    talk.disconnect()
    assert waiting(talk) == {"k": "its resource manager is paused: nothing is placed in that state"}


def test_an_ask_of_an_application_that_is_failing_says_so() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.apps(an_app("gang", gang_style="Hard"))
    talk.asks(a_placeholder("p", app="gang"), a_placeholder("q", 500, app="gang"), an_ask("large", 500, app="gang"))
    talk.schedule()
    talk.sleep(Timeouts().placeholder_ns)
    assert waiting(talk, "gang") == {"large": "its application is Failing: nothing is placed in that state"}


DELAY_NS = 30 * SECOND_NS
YOUNG = "it has not waited for preemption.delay yet"
NOT_ALLOWED = "it may not preempt others (allowPreemptOther is false)"


def a_full_cluster(*, enabled: bool = True, used: int = 0, **a: Any) -> Conversation:
    """Queue a with `used` and queue b with the rest of a node of 100; a is guaranteed 60, unless told otherwise."""
    a.setdefault("guaranteed", {"memory": 60})
    root = a_root(a_queue_spec("a", **a), a_queue_spec("b"))
    talk = Conversation(Scheduler(Timeouts(), numbered(), matches))
    talk.register(PartitionSpec("default", root, preemption_enabled=enabled))
    talk.connect()
    talk.nodes(a_node("n1", {"memory": 100}))
    talk.apps(an_app("app"), an_app("other", "root.b"))
    talk.asks(an_ask("own", 10, count=used // 10), an_ask("b", 10, count=(100 - used) // 10, app="other"))
    assert len(placed(talk.schedule())) == 10
    talk.apps(an_app("asker"))
    return talk


def an_entitled_ask(memory: int = 20, **fields: Any) -> NewAsk:
    fields.setdefault("allow_preempt_other", True)
    return an_ask("k", memory, app="asker", **fields)


def said_after(talk: Conversation, ask: NewAsk, wait_ns: int = DELAY_NS) -> str:
    """Why nobody ends for the ask, when it has waited for so long."""
    talk.asks(ask)
    talk.schedule()
    talk.sleep(wait_ns)
    talk.schedule()
    [shown] = talk.app("asker").asks
    assert shown.waiting_for.startswith(("no node", "the node that it requires", "queue root.a"))
    return shown.no_preemption_because


def test_one_that_was_not_tried_yet_has_no_reason() -> None:
    talk = a_full_cluster()
    talk.asks(an_entitled_ask())
    assert talk.app("asker").asks[0].no_preemption_because == ""


def test_one_that_is_too_young_says_when() -> None:
    assert said_after(a_full_cluster(), an_entitled_ask(), DELAY_NS - 1) == YOUNG


def test_one_that_may_not_says_so() -> None:
    assert said_after(a_full_cluster(), an_entitled_ask(allow_preempt_other=False)) == NOT_ALLOWED


def test_where_preemption_is_off_that_comes_first() -> None:
    talk = a_full_cluster(enabled=False)
    assert said_after(talk, an_entitled_ask(allow_preempt_other=False)) == "preemption is off in this partition"


def test_an_ask_with_victims_names_them_instead() -> None:
    talk = a_full_cluster()
    assert said_after(talk, an_entitled_ask()) == ""
    assert waiting(talk, "asker") == {
        "k": "no node has room: 1 node is considered, 1 has too little memory; "
        "n1 is kept for it, where 2 preempted allocations have to end first"
    }
    assert talk.queue().quota_reserved == talk.queue("root.b").leaving == {"memory": 20}
    assert (talk.queue().leaving, talk.queue("root.b").quota_reserved) == ({}, {})
    [reservation] = talk.node().reservations
    assert len(reservation.waits_for) == 2


def test_one_of_which_more_is_pending_than_others_end_for_goes_on_to_say_why() -> None:
    talk = a_full_cluster()
    said = said_after(talk, an_entitled_ask(40, count=2))
    assert said == "queue root.a would use 80 of 60 memory guaranteed"


@pytest.mark.parametrize(
    ("cluster", "entitled_ask", "reason"),
    [
        ({"used": 50}, an_entitled_ask(), "queue root.a would use 70 of 60 memory guaranteed"),
        (
            {"guaranteed": {"vcore": 5}},
            an_entitled_ask(),
            "its queues have no guarantee of what it asks for",
        ),
        (
            {"used": 100, "guaranteed": {"memory": 200}},
            an_entitled_ask(),
            "no queue that it may take from uses more than it is guaranteed",
        ),
        (
            {},
            an_entitled_ask(priority=-1),
            "on no node would the allocations that may be preempted make enough room (1 considered)",
        ),
    ],
    ids=["not entitled", "nothing guaranteed", "no victims", "no node"],
)
def test_one_that_was_refused_says_why(cluster: dict[str, Any], entitled_ask: NewAsk, reason: str) -> None:
    assert said_after(a_full_cluster(**cluster), entitled_ask) == reason


def test_what_is_guaranteed_beyond_a_fence_is_not_the_reason() -> None:
    fence: dict[str, Any] = {"preemption_policy": PreemptionPolicy.FENCE, "guaranteed": {"vcore": 1}}
    assert said_after(a_full_cluster(**fence), an_entitled_ask()).startswith("its queues have no guarantee of what")


def test_what_was_refused_to_one_holds_for_those_that_do_not_rank_above_it() -> None:
    talk = a_full_cluster(used=50)
    said_after(talk, an_entitled_ask(priority=1))
    talk.asks(an_ask("low", 20, app="asker", allow_preempt_other=True), an_entitled_ask(priority=1))
    talk.asks(an_ask("high", 20, app="asker", priority=2, allow_preempt_other=True))
    talk.schedule()
    reasons = {ask.allocation_key: ask.no_preemption_because for ask in talk.app("asker").asks}
    refused = "queue root.a would use 70 of 60 memory guaranteed"
    assert reasons == {"k": refused, "low": refused, "high": YOUNG}


def test_an_ask_with_a_required_node_says_why_nothing_is_preempted_there() -> None:
    daemon = an_entitled_ask(tags={REQUIRED_NODE_TAG: "n1"}, priority=-1)
    reason = "the allocations that may be preempted on node n1 would not make enough room"
    assert said_after(a_full_cluster(), daemon, 0) == reason
    assert said_after(a_full_cluster(enabled=False), daemon, 0) == "preemption is off in this partition"


def test_one_that_a_quota_keeps_out_says_which() -> None:
    reason = "queue root.a would be above its quota: 0 of 10 memory used, 20 more asked, whatever is preempted"
    assert said_after(a_full_cluster(max={"memory": 10}), an_entitled_ask()) == reason


def test_one_that_is_not_tried_for_another_reason_says_that_alone() -> None:
    talk = a_full_cluster()
    said_after(talk, an_entitled_ask(), 0)
    talk.disconnect()
    [shown] = talk.app("asker").asks
    assert (shown.waiting_for[:27], shown.no_preemption_because) == ("its resource manager is pau", "")
