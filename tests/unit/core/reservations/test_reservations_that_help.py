"""Room is reserved only where it helps: an ask that waits for new nodes does not delay others (SEMANTICS I9)."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import NodeAction
from schedulerd.core.language.facts.fact import ReleaseRequested
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS, Timeouts
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
    an_existing,
    of,
    placed,
)
from tests.unit.core.constraint_builders import HOST, on, one_of
from tests.unit.core.gang_builders import a_gang
from tests.unit.core.preemption_builders import (
    an_entitled_ask,
    confirm_releases,
    ended_reservations,
    fill,
    finished,
    full_nodes,
    guaranteed_root,
    preempted,
    reservations_of,
    reserved,
    wait,
)
from tests.unit.core.reserved import DELAY_NS, TWO_LEAVES, a_talk


def an_unfinishable_gang(nodes: int = 1, timeouts: Timeouts | None = None) -> Conversation:
    """Nodes of 100 with 80 of the gang on each, and one placeholder of 40 pending, for longer than any ask waits."""
    talk = a_conversation(root=TWO_LEAVES, timeouts=timeouts)
    talk.apps(a_gang(memory=(2 * nodes + 1) * 40))
    talk.nodes(*(a_node(f"n{number + 1}", {"memory": 100}) for number in range(nodes)))
    talk.asks(a_placeholder("p", 40, 2 * nodes + 1, "gang"))
    assert len(placed(talk.schedule())) == 2 * nodes
    assert reserved(wait(talk, 10 * DELAY_NS)) == []
    return talk


# the acceptance scenario


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_plain_ask_of_another_queue_is_placed_beside_a_gang_that_waits_for_nodes(nodes: int) -> None:
    talk = an_unfinishable_gang(nodes)
    talk.apps(an_app("small", "root.b"))
    talk.asks(an_ask("k", 10, app="small"))
    assert placed(talk.cycle()) == [("small", "k", "n1")]


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_later_gang_is_placed_beside_a_gang_that_waits_for_nodes(nodes: int) -> None:
    talk = an_unfinishable_gang(nodes)
    talk.apps(a_gang("later", 10, "root.b"))
    talk.asks(a_placeholder("later", 10, app="later"))
    assert placed(talk.cycle()) == [("later", "later", "n1")]


def test_the_gang_is_outstanding_and_is_placed_when_a_node_comes() -> None:
    talk = an_unfinishable_gang()
    assert talk.outstanding() == [("gang", "p", 1)]
    talk.nodes(a_node("n2", {"memory": 40}))
    assert placed(talk.cycle()) == [("gang", "p", "n2")]


def test_a_gang_larger_than_the_cluster_reserves_nothing_though_each_member_would_fit_somewhere() -> None:
    talk = a_talk(n1=90, n2=90)
    talk.apps(a_gang(memory=200))
    talk.asks(a_placeholder("p", 50, 5, "gang"))
    assert reserved(wait(talk, DELAY_NS)) == []


def test_a_gang_that_fits_when_others_are_gone_has_room_reserved() -> None:
    talk = a_talk(n1=90, n2=90)
    talk.apps(a_gang(memory=200))
    talk.asks(a_placeholder("p", 50, 4, "gang"))
    assert reserved(wait(talk, DELAY_NS)) == [("p", "n1", False), ("p", "n2", False)]


def test_a_gang_of_several_sizes_is_packed_largest_first() -> None:
    talk = a_talk(n1=90, n2=90)
    talk.apps(a_gang(memory=200))
    talk.asks(a_placeholder("small", 30, 4, "gang", task_group="s"), a_placeholder("large", 70, 1, "gang"))
    assert reserved(wait(talk, DELAY_NS)) != []


def test_members_for_one_node_count_there_and_nowhere_else() -> None:
    talk = a_talk(n1=90, n2=90)
    talk.apps(a_gang(memory=150))
    tags = {REQUIRED_NODE_TAG: "n2"}
    talk.asks(a_placeholder("d", 60, app="gang", task_group="d", tags=tags), a_placeholder("p", 40, 1, "gang"))
    assert [node for key, node, _ in reserved(wait(talk, DELAY_NS)) if key == "p"] == ["n1"]
    talk.asks(a_placeholder("q", 50, app="gang", task_group="q", tags=tags))
    wait(talk, DELAY_NS)
    assert [key for key, _, is_entitled in reservations_of(talk) if not is_entitled] == []


def test_members_that_choose_their_nodes_count_there_and_nowhere_else() -> None:
    talk = a_talk(n1=90, n2=90)
    talk.apps(a_gang(memory=150))
    talk.asks(a_placeholder("p", 50, 3, "gang", constraint=on(one_of(HOST, "n1"))))
    assert reserved(wait(talk, DELAY_NS)) == []
    talk.asks(a_placeholder("p", 50, 2, "gang", constraint=on(one_of(HOST, "n1"))))
    assert reserved(wait(talk, DELAY_NS)) == [("p", "n1", False)]


# the application's own allocations


def test_no_room_is_reserved_where_the_application_itself_is_in_the_way() -> None:
    talk = a_talk(n2=95, n1=0)
    talk.asks(an_ask("own", 80))
    assert placed(talk.schedule()) == [("app", "own", "n1")]
    talk.asks(an_ask("more", 40))
    assert reserved(wait(talk, DELAY_NS)) == [("more", "n2", False)]


def test_an_application_alone_on_its_node_reserves_nothing_and_others_have_the_rest() -> None:
    talk = a_talk(n1=0)
    talk.asks(an_ask("own", 80))
    talk.schedule()
    talk.asks(an_ask("more", 40))
    assert reserved(wait(talk, DELAY_NS)) == []
    talk.asks(an_ask("small", 10, app="other"))
    assert placed(talk.cycle()) == [("other", "small", "n1")]


def test_room_is_reserved_as_soon_as_its_own_allocation_is_gone() -> None:
    talk = a_talk(n1=0)
    talk.asks(an_ask("own", 50))
    talk.asks(an_ask("others", 50, app="other"))
    talk.schedule()
    talk.asks(an_ask("more", 60))
    assert reserved(wait(talk, DELAY_NS)) == []
    assert reserved(finished(talk, "own") + talk.schedule()) == [("more", "n1", False)]


def test_another_application_with_asks_of_the_size_has_room_reserved_where_the_first_is_in_its_own_way() -> None:
    talk = a_talk(n1=0)
    talk.asks(an_ask("own", 80))
    talk.schedule()
    talk.asks(*(an_ask(f"more{number}", 40) for number in range(100)))
    talk.asks(an_ask("others", 40, app="other"))
    assert reserved(wait(talk, DELAY_NS)) == [("others", "n1", False)]


def test_a_reservation_ends_when_its_own_application_has_taken_the_room() -> None:
    talk = a_talk(n1=0, n2=0)
    talk.nodes(a_node("n2", action=NodeAction.DRAIN_NODE))
    talk.asks(an_ask("others", 90, app="other"))
    talk.schedule()
    talk.asks(an_ask("big", 50))
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n1", False)]
    daemon = an_ask("daemon", 60, tags={REQUIRED_NODE_TAG: "n1"})
    finished(talk, "others")
    talk.asks(daemon)
    facts = talk.schedule()
    assert ("big", "n1", "placed") in ended_reservations(facts) or ("big", "n1", "node") in ended_reservations(facts)


# it ends, and comes again, as nodes and the gang change


def a_reserved_gang() -> Conversation:
    """A gang of three members of 50, for the first of which n1 is kept; all nodes are used by others up to 90."""
    talk = a_talk(n1=90, n2=90)
    talk.apps(a_gang(memory=150))
    talk.asks(a_placeholder("p", 50, 3, "gang"))
    assert reserved(wait(talk, DELAY_NS)) == [("p", "n1", False), ("p", "n2", False)]
    return talk


def test_the_reservations_of_a_gang_end_when_a_node_goes_without_which_it_is_not_complete() -> None:
    talk = a_reserved_gang()
    talk.nodes(a_node("n2", action=NodeAction.DECOMISSION))
    talk.asks(an_ask("small", 10, app="other"))
    facts = talk.cycle()
    assert ended_reservations(facts) == [("p", "n1", "gang")]
    assert placed(facts) == [("other", "small", "n1")]


@pytest.mark.parametrize(
    "change",
    [a_node("n2", action=NodeAction.DRAIN_NODE), a_node("n2", {"memory": 90}, action=NodeAction.UPDATE)],
    ids=["drains", "shrinks"],
)
def test_they_stay_when_what_is_left_is_enough(change: object) -> None:
    talk = a_reserved_gang()
    talk.nodes(a_node("n3", {"memory": 100}, an_existing("e3", "on_n3", "other", 90)))
    talk.schedule()
    talk.nodes(change)  # type: ignore[arg-type]
    facts = talk.schedule()
    assert ("p", "n1", "gang") not in ended_reservations(facts)
    assert ("p", "n1", False) in reservations_of(talk)


def test_they_end_when_the_gang_asks_for_more_than_fits_and_come_again_when_it_takes_that_back() -> None:
    talk = a_reserved_gang()
    talk.asks(a_placeholder("more", 50, 2, "gang"))
    assert ended_reservations(talk.schedule()) == [("p", "n1", "gang"), ("p", "n2", "gang")]
    assert reserved(wait(talk, 10 * DELAY_NS)) == []
    talk.release_asks(application_id="gang", allocation_key="more")
    assert reserved(wait(talk, DELAY_NS)) == [("p", "n1", False), ("p", "n2", False)]


def test_room_is_reserved_when_a_full_node_comes_that_the_gang_would_fit_on() -> None:
    talk = a_talk(n1=90)
    talk.apps(a_gang(memory=150))
    talk.asks(a_placeholder("p", 50, 3, "gang"))
    assert reserved(wait(talk, DELAY_NS)) == []
    talk.nodes(a_node("n2", {"memory": 100}, an_existing("e2", "on_n2", "other", 90)))
    assert reserved(wait(talk, DELAY_NS)) == [("p", "n1", False), ("p", "n2", False)]


# what else holds others up for a gang


def test_later_gangs_do_not_wait_any_longer_when_the_earlier_one_needs_nodes() -> None:
    talk = a_conversation(root=TWO_LEAVES, timeouts=Timeouts(gang_deadlock_timeout_ns=10 * SECOND_NS))
    talk.apps(a_gang("first", 50), a_gang("second", 50, "root.b"))
    talk.asks(a_placeholder("p1", 10, 5, "first"), a_placeholder("p2", 10, 5, "second"))
    for number in range(3):
        talk.nodes(a_node(f"n{number + 1}", {"memory": 20}))
        talk.schedule()
    assert of(ReleaseRequested, wait(talk, 10 * SECOND_NS)) != []
    assert talk.model().priority_gang is not None
    talk.nodes(a_node("n2", action=NodeAction.DRAIN_NODE), a_node("n3", action=NodeAction.DRAIN_NODE))
    assert talk.model().priority_gang is None


def test_nothing_is_preempted_for_a_gang_that_waits_for_nodes() -> None:
    talk = a_conversation(root=guaranteed_root(guaranteed=500))
    fill(talk, "nobody", "root.v")
    talk.nodes(a_node("n1", {"memory": 100}))
    fill(talk, "victims", "root.v", v1=50, v2=50)
    talk.apps(a_gang("claimer", 150, "root.c"))
    talk.asks(an_entitled_ask("p", 50, 3, placeholder=True, task_group="group"))
    assert preempted(wait(talk, 60 * SECOND_NS)) == []
    talk.nodes(a_node("n2", {"memory": 100}, an_existing("e2", "on_n2", "victims", 100)))
    assert preempted(wait(talk, 60 * SECOND_NS)) == ["v2", "v1", "on_n2"]


def test_nothing_is_preempted_while_the_application_itself_is_in_the_way_though_it_is_to_go() -> None:
    talk = full_nodes(n1=[10])
    talk.nodes(a_node("n1", {"memory": 20}, action=NodeAction.UPDATE))
    talk.asks(an_ask("own", 10, app="claimer", execution_timeout_ms=1_000))
    assert [one for one in placed(talk.schedule()) if one[0] == "claimer"] == [("claimer", "own", "n1")]
    talk.asks(an_entitled_ask(memory=20))
    facts = wait(talk, 60 * SECOND_NS)
    assert [one.allocation_key for one in of(ReleaseRequested, facts)] == ["own"]
    assert reserved(facts) == []
    confirm_releases(talk, "own")
    assert preempted(wait(talk, 60 * SECOND_NS)) == ["n1_0"]


def test_an_ask_that_waits_for_nodes_says_so() -> None:
    talk = an_unfinishable_gang()
    [ask] = [one for one in talk.app("gang").asks if one.pending]
    assert ask.waiting_for.endswith("; room is reserved when the 1 pending placeholder of its gang fits on the nodes")


def test_a_gang_knows_its_size_also_where_units_differ() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100, "vcore": 4}), root=a_root(a_queue_spec("a"), a_queue_spec("b")))
    fill(talk, "other", "root.b", all=95)
    talk.apps(a_gang(memory=40))
    talk.asks(a_placeholder("p", 10, 5, "gang", resources=Resources(memory=10, vcore=1)))
    assert reserved(wait(talk, DELAY_NS)) == []
    talk.asks(a_placeholder("p", 10, 4, "gang", resources=Resources(memory=10, vcore=1)))
    assert reserved(wait(talk, DELAY_NS)) == [("p", "n1", False)]
