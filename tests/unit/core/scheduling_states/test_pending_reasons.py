"""Why asks wait, as data, for a resource manager that makes sentences of its own."""

from __future__ import annotations

from collections.abc import Sequence

from schedulerd.core.language.commands import ConnectCallbacks, NodeAction, TerminationType
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.facts.scheduling_states import (
    PendingReasonChanged,
    SchedulingState,
    SchedulingStateChanged,
)
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.resources import Limits
from schedulerd.core.language.specs import SECOND_NS, ApplicationOrder, LimitSpec
from schedulerd.core.state.pending.rules.states import PendingState, states_of
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
    an_existing,
    of,
)

S = SchedulingState
ROOM = {"memory": 100, "vcore": 10}


def listening(talk: Conversation) -> Conversation:
    talk.step(ConnectCallbacks(RM, pending_reasons=True))
    return talk


def play(talk: Conversation, ns: int = 2 * SECOND_NS) -> dict[str, PendingReasonChanged]:
    """The last reason of each ask by its key, after cycles and some time."""
    return said(talk.schedule() + talk.sleep(ns) + talk.schedule())


def said(facts: Sequence[Fact]) -> dict[str, PendingReasonChanged]:
    assert not of(SchedulingStateChanged, facts), "only what was asked for"
    return {one.allocation_key: one for one in of(PendingReasonChanged, facts)}


def test_a_quota_is_told_with_its_numbers() -> None:
    talk = listening(a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a", max={"memory": 50}))))
    talk.asks(an_ask("first", 30), an_ask("second", 30))
    told = play(talk)["second"]
    assert (told.state, told.scheduling_state, told.rule) == ("quota_blocked", S.SKIPPED, "quota")
    assert (told.queue, told.resource, told.used, told.asked, told.max) == ("root.a", "memory", 30, 30, 50)
    assert not told.account


def test_a_limit_is_told_with_its_account() -> None:
    limited = a_queue_spec("a", limits=(LimitSpec(("ann",), max=Limits(memory=5)),))
    talk = a_conversation(a_node("n1", ROOM), root=a_root(limited))
    talk.apps(an_app("ann's", user="ann"))
    listening(talk).asks(an_ask("k", 10, app="ann's"))
    told = play(talk)["k"]
    assert (told.state, told.rule, told.account, told.max) == ("user_limit_blocked", "limit", "ann", 5)
    assert not told.is_group


def test_lack_of_room_needs_no_rule() -> None:
    talk = listening(a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a"))))
    talk.asks(an_ask("k", 200))
    told = play(talk)["k"]
    assert (told.state, told.scheduling_state, told.rule) == ("unschedulable", S.FAILED, "")
    assert told.queue == "root.a"


def test_an_ask_without_room_because_of_earlier_asks_is_told_how_many() -> None:
    talk = listening(a_conversation(a_node("n1", {"memory": 50}), root=a_root(a_queue_spec("a", max={"memory": 250}))))
    talk.asks(*(an_ask(f"k{number}", 60) for number in range(6)))
    told = play(talk)
    assert [told[f"k{n}"].scheduling_state for n in range(6)] == [S.FAILED] * 4 + [S.SKIPPED] * 2
    assert [(told[f"k{n}"].state, told[f"k{n}"].ahead) for n in (4, 5)] == [("unschedulable", 4), ("unschedulable", 5)]


def test_reserved_room_is_told_with_its_node() -> None:
    talk = a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a"), a_queue_spec("b")))
    talk.apps(an_app("other", "root.b"))
    listening(talk).asks(an_ask("k", 60, app="other", priority=1), an_ask("more", 60))
    told = play(talk, 6 * SECOND_NS)["more"]
    assert (told.state, told.scheduling_state, told.node, told.victims) == ("reserved", S.RESERVED, "n1", 0)


def test_real_asks_of_a_gang_wait_for_its_placeholders() -> None:
    talk = listening(a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a"))))
    talk.asks(a_placeholder("p1", 80), a_placeholder("p2", 80), an_ask("real", 80, task_group="tg"))
    told = play(talk)
    assert (told["real"].state, told["real"].scheduling_state) == ("awaiting_gang", S.SKIPPED)
    assert told["real"].awaited_application == "", "its own gang"
    assert told["p2"].state == "unschedulable"


def test_an_ask_in_the_place_of_another_one_of_the_gang_is_told_as_well() -> None:
    """As many are pending as before. Such a pod showed no reason for as long as the gang waited."""
    talk = listening(a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a"))))
    real = [an_ask(key, 80, task_group="tg") for key in ("real1", "real2", "real3")]
    talk.asks(a_placeholder("p1", 80), a_placeholder("p2", 80), *real[:2])
    play(talk)
    talk.release_asks(application_id="app", allocation_key="real1")
    talk.asks(real[2])
    assert play(talk, 20 * SECOND_NS)["real3"].state == "awaiting_gang"


def test_an_application_that_waits_for_its_turn_to_start_says_so() -> None:
    leaf = a_queue_spec("a", order=ApplicationOrder.STATE_AWARE)
    talk = a_conversation(a_node("n1", ROOM), root=a_root(leaf))
    talk.apps(an_app("late", "root.a"))
    listening(talk).asks(an_ask("k", 10), an_ask("z", 10, app="late"))
    told = play(talk)["z"]
    assert (told.state, told.inactive, told.awaited_application) == ("application_inactive", "Accepted", "app")


def test_an_application_that_waits_for_another_one_to_start_than_before_says_so() -> None:
    leaf = a_queue_spec("a", order=ApplicationOrder.STATE_AWARE)
    talk = a_conversation(a_node("n1", ROOM), root=a_root(leaf))
    talk.apps(an_app("second", "root.a"), an_app("third", "root.a"))
    listening(talk).asks(an_ask("k", 10), an_ask("y", 10, app="second"), an_ask("z", 10, app="third"))
    told = play(talk)
    assert (told["y"].awaited_application, told["z"].awaited_application) == ("app", "app")
    assert play(talk, talk.scheduler.cluster.timeouts.starting_ns)["z"].awaited_application == "second"


def test_an_application_that_was_let_in_is_told_why_it_waits_then() -> None:
    """Nothing else happens when it is let in: its class is blocked already."""
    leaf = a_queue_spec("a", order=ApplicationOrder.STATE_AWARE)
    talk = a_conversation(a_node("n1", ROOM), root=a_root(leaf))
    talk.apps(an_app("late", "root.a"))
    listening(talk).asks(an_ask("k", 1000), an_ask("z", 1000, app="late"))
    assert play(talk, 29 * SECOND_NS)["z"].state == "application_inactive"
    talk.sleep(2 * SECOND_NS)
    assert play(talk)["z"].state == "unschedulable"


def test_an_ask_that_waits_for_its_turn_is_told_what_is_ahead() -> None:
    """No cycle runs: the daemon is busy with other things."""
    talk = listening(a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a"))))
    talk.apps(an_app("later", "root.a"))
    talk.asks(an_ask("k1", 10), an_ask("k2", 10, count=3), an_ask("k3", 10, priority=5), an_ask("z", 10, app="later"))
    told = said(talk.sleep(2 * SECOND_NS))
    assert {key: (one.state, one.scheduling_state, one.ahead) for key, one in told.items()} == {
        "k3": ("ready", None, 0),
        "k1": ("ready", None, 1),
        "k2": ("ready", None, 2),
        "z": ("ready", None, 5),
    }


def test_nothing_is_told_twice_and_a_short_turn_is_no_news() -> None:
    talk = listening(a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a"))))
    talk.asks(an_ask("large", 200))
    assert play(talk)["large"].state == "unschedulable"
    assert not play(talk, 60 * SECOND_NS)
    talk.nodes(a_node("n2", {"memory": 300}))
    assert not said(talk.sleep(2 * SECOND_NS)), "it has room now, and nobody has tried it yet"
    assert not play(talk), "placed"


def two_full_nodes() -> Conversation:
    """`more` waits for room on either node, in a queue that is guaranteed some; other asks fill the nodes."""
    leaves = a_queue_spec("a", guaranteed={"memory": 60}, preemption_delay_ns=0), a_queue_spec("b")
    talk = a_conversation(a_node("n1", ROOM), a_node("n2", ROOM), root=a_root(*leaves))
    talk.apps(an_app("other", "root.b"))
    listening(talk).asks(*(an_ask(f"k{number}", 50, app="other") for number in range(4)))
    talk.schedule()
    talk.asks(an_ask("more", 60, allow_preempt_other=True))
    return talk


def test_victims_and_another_node_of_reserved_room_are_told() -> None:
    """The reason named the node of an earlier reservation for as long as the ask was reserved for."""
    talk = two_full_nodes()
    told = play(talk, 10 * SECOND_NS)["more"]
    assert (told.state, told.victims) == ("reserved", 2)
    first = told.node
    facts = talk.nodes(a_node(first, action=NodeAction.DRAIN_NODE)) + talk.schedule() + talk.sleep(15 * SECOND_NS)
    told = said(facts + talk.schedule() + talk.sleep(15 * SECOND_NS))["more"]
    assert told.node not in ("", first)


def test_a_victim_that_is_gone_is_told() -> None:
    leaves = a_queue_spec("a", guaranteed={"memory": 100}, preemption_delay_ns=0), a_queue_spec("b")
    talk = a_conversation(a_node("n1", ROOM), root=a_root(*leaves))
    talk.apps(an_app("other", "root.b"))
    listening(talk).asks(an_ask("k1", 50, app="other"), an_ask("k2", 50, app="other"))
    talk.schedule()
    talk.asks(an_ask("more", 90, allow_preempt_other=True))
    assert play(talk, 10 * SECOND_NS)["more"].victims == 2
    talk.release(application_id="other", allocation_key="k1", termination=TerminationType.PREEMPTED_BY_SCHEDULER)
    assert play(talk)["more"].victims == 1


def test_other_amounts_of_a_quota_are_told_when_they_have_lasted() -> None:
    talk = listening(a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a", max={"memory": 50}))))
    talk.asks(an_ask("first", 30), an_ask("small", 5), an_ask("second", 40))
    assert play(talk)["second"].used == 35
    talk.release(allocation_key="small")
    assert not play(talk, 9 * SECOND_NS), "a change of use is not told to all that wait for it at once"
    assert play(talk, 5 * SECOND_NS)["second"].used == 30
    assert not play(talk, 60 * SECOND_NS)


def test_a_quota_that_is_short_beside_the_nodes_is_the_reason() -> None:
    """More nodes would not help. `explain` called it unschedulable, and kubectl named the quota."""
    talk = listening(a_conversation(a_node("n1", {"memory": 20}), root=a_root(a_queue_spec("a", max={"memory": 50}))))
    talk.asks(an_ask("large", 45))
    assert play(talk)["large"].state == "unschedulable"
    talk.nodes(a_node("n2", {"memory": 10}, an_existing(memory=10)))
    assert play(talk, 12 * SECOND_NS)["large"].rule == "quota"
    application = talk.model().applications["app"]
    [waiting] = states_of(talk.model(), ResourceManagerState.RUNNING, application, application.asks["large"])
    assert waiting.state is PendingState.QUOTA_BLOCKED
