"""What a user reads about a waiting ask: a story for each pending state, word for word."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from schedulerd.core.explain.rules.reasons import explain_application
from schedulerd.core.language.commands import NodeAction
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import SECOND_NS, ApplicationOrder, LimitSpec
from schedulerd.core.state.pending.rules.states import PendingState
from schedulerd.observe.explain_sentences import ask_summary
from tests.unit.core.answering_rm import a_judge
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
)
from tests.unit.core.explain.explained import explained, finish, rm_of, story
from tests.unit.core.gang_builders import a_full_gang, a_gang, a_swap, real
from tests.unit.core.preemption_builders import an_entitled_ask, full_nodes, wait

ROOM = {"memory": 100}
NO_PREEMPTION = "Nothing is preempted for it: it may not preempt others (allowPreemptOther is false)."
FIRST = "It is next in queue root.a."
KEPT = (
    "n1 is kept for it since 00:00:30, where 1 preempted allocation has to end first: the room is there when what is "
    "being released has ended. That ends in 5 min"
)
S = PendingState


def tell(talk: Conversation, state: PendingState, key: str = "k", app: str = "app") -> list[str]:
    assert [one.state for one in explained(talk, key, app).waiting] == [state]
    return story(talk, key, app)


def test_an_ask_that_is_next() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.asks(an_ask("k"))
    assert tell(talk, S.READY) == ["It is next in queue root.a."]


def test_an_ask_behind_others() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.apps(an_app("second"))
    talk.asks(an_ask("k"), an_ask("k", app="second"))
    assert tell(talk, S.READY, app="second") == [
        "1 application is ahead of it in queue root.a: app.",
    ]
    talk.asks(an_ask("later"))
    assert tell(talk, S.READY, "later") == ["1 ask of its application comes before it in queue root.a."]


def test_a_quota() -> None:
    talk = a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a", max={"memory": 30})))
    talk.asks(an_ask("k", 20, count=3))
    talk.schedule()
    assert tell(talk, S.QUOTA_BLOCKED) == [
        "All 2: queue root.a would be above its quota: 20 of 30 memory used, 20 more asked. Nodes are not the cause.",
        "Used by application app (20 memory).",
        "It goes on when 10 memory is released, or when the max of root.a is raised to 40 memory.",
        NO_PREEMPTION,
        FIRST,
    ]


def test_all_rules_that_block_are_told() -> None:
    """The next ask lacks two resources in its leaf, one in the root, and its user has a limit."""
    limit = LimitSpec(users=("somebody",), groups=(), max=Limits({"vcore": 2}))
    leaf = a_queue_spec("a", max={"memory": 30, "vcore": 2}, limits=(limit,))
    talk = a_conversation(a_node("n1", ROOM | {"vcore": 100}), root=a_root(leaf, max={"memory": 35}))
    talk.asks(an_ask("first", resources=Resources(memory=20, vcore=2)))
    talk.schedule()
    talk.asks(an_ask("k", resources=Resources(memory=20, vcore=1)))
    talk.schedule()
    assert tell(talk, S.QUOTA_BLOCKED)[:-2] == [
        "Queue root would be above its quota: 20 of 35 memory used, 20 more asked. Nodes are not the cause.",
        "Used by queue root.a (20 memory).",
        "That ends when 5 memory is released, or when the max of root is raised to 40 memory.",
        "Also: queue root.a would be above its quota: 20 of 30 memory used, 20 more asked.",
        "Used by application app (20 memory).",
        "That ends when 10 memory is released, or when the max of root.a is raised to 40 memory.",
        "Also: queue root.a is at its quota: 2m of 2m cpu used, 1m more asked.",
        "Used by application app (2m cpu).",
        "That ends when 1m cpu is released, or when the max of root.a is raised to 3m cpu.",
        "Also: user 'somebody' is at its limit in queue root.a: 2m of 2m cpu used, 1m more asked.",
        "Used by application app (2m cpu).",
        "That ends when 1m cpu is released, or when this limit is raised to 3m cpu.",
    ]


def test_an_application_says_that_its_next_ask_can_never_start() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.asks(an_ask("k", 10_000))
    talk.schedule()
    application = talk.model().applications["app"]
    found = finish(explain_application(rm_of(talk), talk.model(), application, talk.now_ns, surveys=True))
    assert found.next_ask is not None
    assert "No node can ever fit 10000 memory; the largest has 100." in ask_summary(found.next_ask)


def test_a_quota_of_a_parent_that_others_use() -> None:
    root = a_root(a_queue_spec("a"), a_queue_spec("b"), max={"memory": 50})
    talk = a_conversation(a_node("n1", ROOM), root=root)
    talk.apps(an_app("other", "root.b"))
    talk.asks(an_ask("big", 40, app="other"))
    talk.schedule()
    talk.asks(an_ask("k", 20))
    talk.schedule()
    assert tell(talk, S.QUOTA_BLOCKED)[:3] == [
        "Queue root would be above its quota: 40 of 50 memory used, 20 more asked. Nodes are not the cause.",
        "Used by queue root.b (40 memory).",
        "It goes on when 10 memory is released, or when the max of root is raised to 60 memory.",
    ]


def test_an_ask_above_its_whole_quota() -> None:
    talk = a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a", max={"memory": 30})))
    talk.asks(an_ask("k", 40))
    talk.schedule()
    assert tell(talk, S.QUOTA_BLOCKED)[:2] == [
        "Queue root.a would be above its quota: 0 of 30 memory used, 40 more asked. Nodes are not the cause.",
        (
            "It can never start like this: 40 memory is more than the max of root.a allows in all. "
            "Ask for less, or raise it."
        ),
    ]


def test_a_gang_above_its_quota() -> None:
    talk = a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a", max={"memory": 50})))
    talk.asks(an_ask("k", 20))
    talk.schedule()
    talk.apps(a_gang(memory=40))
    talk.asks(a_placeholder("p", count=4, app="gang"))
    talk.schedule()
    assert tell(talk, S.QUOTA_BLOCKED, "p", "gang")[:2] == [
        (
            "All 4: queue root.a would be above its quota with the whole gang: 20 of 50 memory used, 40 more asked. "
            "Nodes are not the cause."
        ),
        "Used by application app (20 memory).",
    ]


def test_a_gang_above_the_limit_of_its_user() -> None:
    limit = LimitSpec(users=("somebody",), groups=(), max=Limits({"memory": 50}))
    root = a_root(a_queue_spec("a", limits=(limit,)))
    talk = a_conversation(a_node("n1", {"memory": 10}), root=root)
    talk.apps(a_gang("first", memory=40), a_gang(memory=40))
    talk.asks(*(a_placeholder(f"p{number}", app=app) for app in ("first", "gang") for number in range(4)))
    talk.schedule()
    amounts = "10 of 50 memory used, 30 promised to gangs, 40 more asked"
    assert tell(talk, S.USER_LIMIT_BLOCKED, "p0", "gang")[:3] == [
        f"User 'somebody' would be above its limit in queue root.a with the whole gang: {amounts}.",
        "Used by application first (10 memory).",
        "It goes on when 30 memory is released or no longer promised, or when this limit is raised to 80 memory.",
    ]


def test_a_limit_of_a_user() -> None:
    limit = LimitSpec(users=("somebody",), groups=(), max=Limits({"memory": 10}))
    talk = a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a", limits=(limit,))))
    talk.asks(an_ask("k", 10, count=2))
    talk.schedule()
    assert tell(talk, S.USER_LIMIT_BLOCKED) == [
        "User 'somebody' is at its limit in queue root.a: 10 of 10 memory used, 10 more asked.",
        "Used by application app (10 memory).",
        "It goes on when 10 memory is released, or when this limit is raised to 20 memory.",
        FIRST,
    ]


def test_a_bound_on_running_applications() -> None:
    talk = a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a", max_applications=1)))
    talk.apps(an_app("second"))
    talk.asks(an_ask("k", 10), an_ask("k", 10, app="second"))
    talk.schedule()
    assert tell(talk, S.MAX_APPLICATIONS_BLOCKED, app="second") == [
        "Queue root.a runs 1 of at most 1 applications.",
        "Running: application app.",
        "It starts when one of them completes, or when maxapplications of root.a is raised to 2.",
        FIRST,
    ]


def test_no_node_has_room() -> None:
    talk = a_conversation(a_node("n1", ROOM), a_node("n2", {"memory": 60}))
    talk.asks(an_ask("first", 70))
    talk.schedule()
    talk.nodes(a_node("n3", {"memory": 500}), a_node("n3", action=NodeAction.DRAIN_NODE))
    talk.asks(an_ask("k", 90))
    talk.schedule()
    assert tell(talk, S.UNSCHEDULABLE) == [
        (
            "No node has room: 3 nodes are considered, 1 has too little memory, 1 is draining, 1 would have "
            "too little memory even if it were empty."
        ),
        "Nearest: node n1 lacks 60 memory (30 memory free); node n2 lacks 30 memory (60 memory free).",
        NO_PREEMPTION,
        FIRST,
    ]


def test_no_node_is_large_enough() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.asks(an_ask("k", 200))
    talk.schedule()
    assert tell(talk, S.UNSCHEDULABLE) == [
        "No node can ever fit 200 memory; the largest has 100.",
        "Nodes: 1 node is considered, 1 would have too little memory even if it were empty.",
        "Nearest: node n1 lacks 100 memory (100 memory free).",
        NO_PREEMPTION,
        FIRST,
    ]


def test_no_nodes_at_all() -> None:
    talk = a_conversation()
    talk.asks(an_ask("k", 200))
    talk.schedule()
    assert tell(talk, S.UNSCHEDULABLE) == ["No node has room: there are no nodes.", NO_PREEMPTION, FIRST]


def test_its_own_gang() -> None:
    talk = a_conversation(a_node("n1", {"memory": 15}))
    talk.apps(a_gang())
    talk.asks(a_placeholder("p", count=2, app="gang"), real())
    talk.schedule()
    assert tell(talk, S.AWAITING_GANG, "r", "gang") == [
        "Gang: 1 of 2 have room; the next needs 10 memory, and no node has it. Given up in 15 min.",
        "1 ask of its application comes before it in queue root.a.",
    ]


def test_a_placeholder_that_is_released() -> None:
    talk = a_full_gang()
    a_swap(talk)
    assert tell(talk, S.AWAITING_PLACEHOLDER, "r", "gang") == [
        "It gets the room of a placeholder on node n1, which is being released."
    ]


def test_an_answer_of_the_resource_manager() -> None:
    judge = a_judge(silent=True)
    judge.asks(an_ask("k", count=1))
    judge.cycle(1)
    judge.now_ns += 3 * SECOND_NS
    assert tell(judge, S.AWAITING_PREDICATE) == [
        "It waits for the answer of its resource manager about node n1, asked 3 s ago.",
        FIRST,
    ]


def test_nodes_that_the_resource_manager_refuses() -> None:
    judge = a_judge(refuses=(("k", "n1"),))
    judge.asks(an_ask("k"))
    judge.schedule()
    assert tell(judge, S.PREDICATE_FAILED) == [
        "Its resource manager refuses every node that has room: tainted (node n1).",
        "Nodes: 1 node is considered, 1 is refused by its resource manager.",
        FIRST,
    ]


def test_reserved_room() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.apps(an_app("other"))
    talk.asks(an_ask("small", 60, app="other"))
    talk.schedule()
    talk.asks(an_ask("k", 50))
    talk.schedule()
    talk.sleep(60 * SECOND_NS)
    talk.schedule()
    assert tell(talk, S.RESERVED)[:1] == [
        "n1 is kept for it since 00:01:00: 10 memory must still be freed; nobody knows when. That ends in 5 min."
    ]


def test_reserved_room_that_an_execution_timeout_frees() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.apps(an_app("other", execution_timeout_ms=600_000))
    talk.asks(an_ask("small", 60, app="other"))
    talk.schedule()
    talk.asks(an_ask("k", 50))
    talk.schedule()
    talk.sleep(60 * SECOND_NS)
    talk.schedule()
    assert tell(talk, S.RESERVED)[0] == (
        "n1 is kept for it since 00:01:00: by execution timeouts the room is there in 9 min at the latest. "
        "That ends in 5 min."
    )


def test_victims_that_have_to_end_first() -> None:
    talk = full_nodes(n1=[10, 10])
    talk.asks(an_entitled_ask())
    wait(talk, 30 * SECOND_NS)
    assert tell(talk, S.RESERVED, "c", "claimer")[0] == f"{KEPT}."


def test_what_is_reserved_alike_for_several_allocations_is_said_once() -> None:
    talk = full_nodes(n1=[10, 10, 10])
    talk.asks(an_entitled_ask(count=2))
    wait(talk, 30 * SECOND_NS)
    assert [one for one in story(talk, "c", "claimer") if "kept" in one] == [f"All 2: {KEPT}."]


def test_an_application_that_is_given_up() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.apps(a_gang(memory=1_000, gang_style="Hard"))
    talk.asks(a_placeholder("p", 500, count=2, app="gang"), real("r", 500))
    talk.asks(a_placeholder("q", 10, app="gang"))
    talk.schedule()
    talk.sleep(talk.scheduler.cluster.timeouts.placeholder_ns)
    assert tell(talk, S.APPLICATION_INACTIVE, "r", "gang") == [
        "Its application is Failing: nothing is placed in that state.",
        FIRST,
    ]


def test_a_resource_manager_that_is_away() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.asks(an_ask("k"))
    talk.disconnect()
    assert tell(talk, S.APPLICATION_INACTIVE) == [
        "Its resource manager is paused: nothing is placed in that state.",
        FIRST,
    ]


def test_a_queue_that_starts_one_application_at_a_time() -> None:
    talk = a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a", order=ApplicationOrder.STATE_AWARE)))
    talk.apps(an_app("second"))
    talk.asks(an_ask("k"), an_ask("k", app="second"))
    one_at_a_time = "Its queue starts one application at a time: "
    assert tell(talk, S.APPLICATION_INACTIVE, app="second")[0] == (
        f"{one_at_a_time}application app has to start first."
    )
    talk.schedule()
    talk.sleep(60 * SECOND_NS)
    assert tell(talk, S.APPLICATION_INACTIVE, app="second")[0] == (
        f"{one_at_a_time}the next one may start when app runs, in 4 min at the latest."
    )


def test_a_queue_whose_next_application_is_blocked() -> None:
    talk = a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a", order=ApplicationOrder.STATE_AWARE)))
    talk.apps(an_app("second"))
    talk.asks(an_ask("k", 1000), an_ask("k", app="second"))
    talk.schedule()
    talk.sleep(10 * SECOND_NS)
    assert tell(talk, S.APPLICATION_INACTIVE, app="second")[0] == (
        "Its queue starts one application at a time: application app has to start first; app is blocked, and "
        "the next one may start in 20 s."
    )


def test_amounts_are_written_as_people_do() -> None:
    talk = a_conversation(a_node("n1", {"vcore": 4_000, "memory": 2**30}))
    talk.asks(an_ask("k", resources=Resources(vcore=4_500, memory=2**29)))
    talk.schedule()
    assert tell(talk, S.UNSCHEDULABLE)[:3] == [
        "No node can ever fit 4500m cpu; the largest has 4.",
        "Nodes: 1 node is considered, 1 would have too little cpu even if it were empty.",
        "Nearest: node n1 lacks 500m cpu (4 cpu free).",
    ]


def test_nothing_waits_of_an_allocated_ask() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.asks(an_ask("k"))
    talk.schedule()
    assert story(talk) == ["Nothing of it waits: it is allocated."]


def entitled(*, enabled: bool = True, allowed: bool = True) -> list[str]:
    talk = full_nodes(n1=[10, 10])
    talk.model().spec = replace(talk.model().spec, preemption_enabled=enabled)
    talk.asks(replace(an_entitled_ask(), allow_preempt_other=allowed))
    talk.schedule()
    return [one for one in story(talk, "c", "claimer") if "preempted for it" in one]


def test_candidates_of_preemption_are_said_even_if_none_is_preempted() -> None:
    rights = (
        "Guaranteed: 50 memory to root.c, which uses 0 memory. "
        "May be preempted for it: application victims in queue root.v (20 memory)."
    )
    assert entitled(enabled=False) == [f"Nothing is preempted for it: preemption is off in this partition. {rights}"]
    assert entitled(allowed=False) == [
        f"Nothing is preempted for it: it may not preempt others (allowPreemptOther is false). {rights}"
    ]
    assert entitled()[0].startswith(
        "Nothing is preempted for it: it has not waited for preemption.delay yet, which ends in "
    )
    assert entitled()[0].endswith(rights)


def test_nothing_will_be_preempted_without_a_guarantee() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.asks(an_ask("first", 60), an_ask("k", 50, allow_preempt_other=True))
    talk.schedule()
    no_guarantee = "Nothing will be preempted for it: its queues have no guarantee."
    assert no_guarantee in story(talk)
    talk.sleep(60 * SECOND_NS)
    assert no_guarantee in story(talk), "nor when preemption.delay is over"


def test_queues_that_are_served_before_its_own_are_named() -> None:
    root = a_root(a_queue_spec("lim"), a_queue_spec("team", a_queue_spec("a"), a_queue_spec("b")))
    talk = a_conversation(a_node("n1", {"memory": 31}), root=root)
    talk.apps(an_app("lim", "root.lim"), an_app("a", "root.team.a"), an_app("b", "root.team.b"))
    talk.asks(an_ask("ran", 20, app="a"), an_ask("ran", 10, app="b"))
    talk.schedule()
    for app in ("a", "lim", "b"):
        talk.asks(an_ask("k", app=app))
    assert story(talk, app="a")[-1] == "Served before it: root.lim, then root.team.b."
    assert story(talk, app="b")[-1] == "Served before it: root.lim."
    assert "Served" not in story(talk, app="lim")[-1]


def test_there_is_a_story_for_every_state() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert set(re.findall(r"\bS\.([A-Z_]+)", source)) == set(PendingState.__members__)
