"""Preemption for an ask with a required node: at once, as few as needed, whatever the queues are guaranteed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedulerd.core.language.ask_tags import LOWER_PRIORITY, VICTIMS_TAG
from schedulerd.core.language.commands import NodeAction, TerminationType, UpdateConfiguration
from schedulerd.core.language.facts.fact import AskRejected, ReleaseRequested
from schedulerd.core.language.facts.preemption import Preempted, PreemptionRefusal, PreemptionRefused, RoomMade
from schedulerd.core.language.specs import ApplicationOrder, OptOut, PreemptionPolicy
from tests.unit.core.builders import (
    RM,
    a_node,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    an_existing,
    of,
    only,
    placed,
)
from tests.unit.core.configurations import reload
from tests.unit.core.only_node import TIMES, a_talk, the_root
from tests.unit.core.preemption_builders import (
    a_daemon,
    confirm_releases,
    ended_reservations,
    finished,
    preempted,
    reservations_of,
    reserved,
    wait,
    without_preemption,
)

NOTHING = "nothing is preempted for ask d of application daemons"


def test_room_is_reserved_at_once_and_as_few_as_needed_are_preempted() -> None:
    talk = a_talk("v1", "v2", "v3")
    talk.asks(a_daemon("d", memory=15))
    facts = talk.schedule()
    assert reserved(facts) == [("d", "n1", True)]
    assert set(preempted(facts)) == {"v2", "v3"}
    assert {one.termination for one in of(ReleaseRequested, facts)} == {TerminationType.PREEMPTED_BY_SCHEDULER}
    fact = only(Preempted, facts)
    assert (fact.queue, fact.application_id, fact.allocation_key, fact.node_id) == ("root.b", "daemons", "d", "n1")
    assert {queue for queue, _ in fact.victims} == {"root.a"}
    assert fact.why == "it may run on node n1 only"


def test_it_is_placed_when_all_of_them_are_gone_and_the_rest_is_for_others() -> None:
    talk = a_talk("v1", "v2", "v3")
    talk.asks(a_daemon("d", memory=15))
    talk.schedule()
    assert placed(confirm_releases(talk, "v2") + talk.schedule()) == []
    fact = only(RoomMade, confirm_releases(talk, "v3"))
    assert (fact.application_id, fact.allocation_key, fact.node_id) == ("daemons", "d", "n1")
    talk.asks(an_ask("k", 5))
    assert placed(talk.schedule()) == [("daemons", "d", "n1"), ("app", "k", "n1")]
    assert reservations_of(talk) == []


def test_of_equal_ones_the_youngest_is_preempted_and_the_lowest_priority_before_that() -> None:
    talk = a_talk()
    talk.nodes(a_node("n1", {"memory": 30}, action=NodeAction.UPDATE))
    for key, priority in (("low", -5), ("old", 0), ("young", 0)):
        talk.asks(an_ask(key, priority=priority))
        talk.schedule()
    talk.asks(a_daemon("d1"))
    assert preempted(talk.schedule()) == ["low"]
    talk.asks(a_daemon("d2"))
    assert preempted(talk.schedule()) == ["young"]


def test_opted_out_allocations_are_preempted_last_where_they_may_and_originators_after_them() -> None:
    talk = a_talk()
    last = replace(talk.model().spec, preemption_optout=OptOut.LAST)
    talk.step(UpdateConfiguration(RM, (last,)))
    talk.nodes(a_node("n1", {"memory": 30}, action=NodeAction.UPDATE))
    talk.asks(
        an_ask("first", originator=True, priority=-9),
        an_ask("spared", allow_preempt_self=False, priority=-8),
        an_ask("any"),
    )
    talk.schedule()
    for key, victim in (("d1", "any"), ("d2", "spared"), ("d3", "first")):
        talk.asks(a_daemon(key))
        assert preempted(talk.schedule()) == [victim]


def test_a_higher_rank_stays_and_an_equal_one_does_not() -> None:
    talk = a_talk("v", priority=1)
    talk.asks(a_daemon("d", priority=0))
    assert preempted(talk.schedule()) == []
    talk.asks(a_daemon("d", priority=1))
    assert preempted(talk.schedule()) == ["v"]


def test_guarantees_do_not_protect_from_it() -> None:
    talk = a_talk("v", root=the_root(guaranteed={"memory": 10}))
    talk.asks(a_daemon())
    assert preempted(talk.schedule()) == ["v"]


def test_nothing_is_preempted_in_a_queue_that_does_not_want_that() -> None:
    talk = a_talk("v", root=the_root(preemption_policy=PreemptionPolicy.DISABLED))
    talk.asks(a_daemon())
    facts = talk.schedule()
    assert (reserved(facts), preempted(facts)) == ([("d", "n1", True)], [])


def test_nothing_of_its_own_application_is_preempted() -> None:
    talk = a_talk("v")
    talk.asks(a_daemon(app="app"))
    assert preempted(talk.schedule()) == []


def test_no_daemon_is_preempted_for_another_one() -> None:
    talk = a_talk(memory=10)
    talk.asks(a_daemon("d1", app="app"))
    talk.schedule()
    talk.asks(a_daemon("d2", priority=9))
    assert preempted(talk.schedule()) == []


def test_what_goes_anyway_is_counted_first() -> None:
    talk = a_talk("v1", "v2")
    talk.asks(a_daemon("d1"))
    assert preempted(talk.schedule()) == ["v2"]
    talk.release_asks(application_id="daemons", allocation_key="d1")
    talk.asks(a_daemon("d2"))
    facts = talk.schedule()
    assert (reserved(facts), preempted(facts)) == ([("d2", "n1", True)], [])
    assert placed(confirm_releases(talk, "v2") + talk.schedule()) == [("daemons", "d2", "n1")]


def test_nothing_is_preempted_if_that_is_not_enough() -> None:
    talk = a_talk("v1", memory=20)
    talk.asks(an_ask("v2", priority=9))
    talk.schedule()
    talk.asks(a_daemon("d", memory=20))
    assert preempted(talk.schedule()) == []


def test_it_is_said_why_nothing_is_preempted_and_again_only_when_that_changes() -> None:
    talk = a_talk("v1", "v2", priority=5)
    talk.asks(a_daemon("d"))
    told = only(PreemptionRefused, talk.schedule())
    assert (told.queue, told.application_id, told.allocation_key) == ("root.b", "daemons", "d")
    assert told.refusal is PreemptionRefusal.NO_NODE
    assert told.reason == f"{NOTHING}: the allocations that may be preempted on node n1 would not make enough room"
    talk.nodes(a_node("n1", {"memory": 21}, action=NodeAction.UPDATE))
    assert of(PreemptionRefused, talk.schedule()) == []
    reload(talk, the_root(most=5))
    told = only(PreemptionRefused, talk.schedule())
    quota = "queue root.b would be above its quota: 0 of 5 memory used, 10 more asked"
    assert told.refusal is PreemptionRefusal.QUOTA
    assert told.reason == f"{NOTHING}: {quota}; preemption makes room on its node, not in a quota"


def test_an_ask_that_could_never_fit_there_has_no_reservation() -> None:
    talk = a_talk("v")
    talk.asks(a_daemon("d", memory=11))
    facts = talk.schedule()
    assert (reserved(facts), preempted(facts)) == ([], [])


def test_nothing_is_preempted_where_that_is_switched_off_and_room_is_reserved_all_the_same() -> None:
    talk = a_talk("v")
    talk.step(without_preemption(the_root()))
    talk.asks(a_daemon())
    facts = talk.schedule()
    assert (reserved(facts), preempted(facts)) == ([("d", "n1", True)], [])


def test_it_is_not_for_a_queue_without_quota() -> None:
    talk = a_talk("v", root=the_root(most=5))
    talk.asks(a_daemon())
    facts = talk.schedule()
    assert (reserved(facts), preempted(facts)) == ([], [])


def test_allocations_are_preempted_as_soon_as_the_quota_it_lacked_is_free_again() -> None:
    talk = a_talk("v", root=the_root(most=15, preemption_policy=PreemptionPolicy.DISABLED))
    talk.asks(a_daemon("d"))
    talk.schedule()
    talk.nodes(a_node("n2", {"memory": 10}, an_existing("e1", app="daemons")))
    reload(talk, the_root(most=15))
    assert preempted(talk.schedule()) == []
    talk.release(application_id="daemons", uuid="e1")
    assert preempted(talk.schedule()) == ["v"]


def test_nothing_is_preempted_yet_while_the_quota_is_still_used_by_what_is_being_released() -> None:
    talk = a_talk("v", root=the_root(most=15, preemption_policy=PreemptionPolicy.DISABLED))
    talk.asks(a_daemon("d"))
    talk.schedule()
    talk.nodes(a_node("n2", {"memory": 10}, an_existing("e1", app="daemons")))
    talk.asks(a_daemon("first", node="n2", app="app"))
    assert preempted(talk.schedule()) == ["k"]
    reload(talk, the_root(most=15))
    facts = talk.schedule()
    assert (preempted(facts), of(PreemptionRefused, facts)) == ([], [])
    assert preempted(confirm_releases(talk, "k") + talk.schedule()) == ["v"]


# several on one node


def test_several_have_reservations_on_one_node_and_victims_of_their_own() -> None:
    talk = a_talk("v1", "v2")
    talk.asks(a_daemon("d1"))
    assert preempted(talk.schedule()) == ["v2"]
    talk.asks(a_daemon("d2"))
    facts = talk.schedule()
    assert (reserved(facts), preempted(facts)) == ([("d2", "n1", True)], ["v1"])
    assert placed(confirm_releases(talk, "v1") + talk.schedule()) == [("daemons", "d1", "n1")]
    assert placed(confirm_releases(talk, "v2") + talk.schedule()) == [("daemons", "d2", "n1")]


def test_both_at_once() -> None:
    talk = a_talk("v1", "v2", "v3")
    talk.asks(a_daemon("d1"), a_daemon("d2", memory=9))
    assert set(preempted(talk.schedule())) == {"v2", "v3"}
    assert placed(confirm_releases(talk, "v2", "v3") + talk.schedule()) == [
        ("daemons", "d1", "n1"),
        ("daemons", "d2", "n1"),
    ]


def test_what_the_first_needs_does_not_depend_on_what_waits_behind_it() -> None:
    """Room for two is kept on a node where one may end: that is enough for the first of them."""
    talk = a_talk("v", memory=20, root=the_root(preemption_policy=PreemptionPolicy.DISABLED))
    talk.asks(an_ask("stays", priority=9))
    talk.schedule()
    talk.asks(a_daemon("d1"), a_daemon("d2"))
    assert (preempted(talk.schedule()), len(reservations_of(talk))) == ([], 2)
    reload(talk, the_root())
    assert preempted(talk.schedule()) == ["v"]
    assert placed(confirm_releases(talk, "v") + talk.schedule()) == [("daemons", "d1", "n1")]


def test_a_reservation_that_ends_for_want_of_quota_does_not_delay_the_next() -> None:
    talk = a_talk("v", root=the_root(most=20, preemption_policy=PreemptionPolicy.DISABLED))
    talk.apps(an_app("more", "root.a"))
    talk.asks(a_daemon("d1"), a_daemon("d2", app="more"))
    talk.schedule()
    assert reservations_of(talk) == [("d1", "n1", True), ("d2", "n1", True)]
    reload(talk, the_root(most=5, preemption_policy=PreemptionPolicy.DISABLED))
    facts = finished(talk, "v") + talk.schedule()
    assert ended_reservations(facts) == [("d1", "n1", "quota"), ("d2", "n1", "placed")]
    assert placed(facts) == [("more", "d2", "n1")]


@pytest.mark.parametrize("open_by", ["quota", "turn"])
def test_an_ask_that_is_due_only_later_has_its_turn_when_others_of_its_class_had_theirs(open_by: str) -> None:
    """While it was held up by its queue it was not looked at; the room is not there any sooner for that."""
    order = ApplicationOrder.STATE_AWARE if open_by == "turn" else ApplicationOrder.FIFO
    first = a_queue_spec("b", max={"memory": 16} if open_by == "quota" else None, order=order)
    talk = a_talk("v1", "v2", root=a_root(a_queue_spec("a"), first))
    talk.nodes(a_node("n2", {"memory": 10}))
    talk.apps(an_app("holds", "root.b"))
    talk.asks(an_ask("holds", app="holds"))
    talk.schedule()
    talk.apps(an_app("more", "root.a"))
    if open_by == "turn":
        talk.apps(an_app("late", "root.b"))
        talk.asks(a_daemon("d1", app="late"), a_daemon("d2", app="more"))
    else:
        talk.asks(a_daemon("d1"), a_daemon("d2", app="more"))
    facts = wait(talk, 10 * TIMES.reservation_delay_ns)
    assert reserved(facts) == [("d2", "n1", True)]
    talk.nodes(a_node("n2", action=NodeAction.DRAIN_NODE))
    facts = finished(talk, "holds") + wait(talk, TIMES.reservation_delay_ns)
    assert ("d1", "n1", True) in reserved(facts)


def test_an_ask_may_name_only_lower_priorities_as_its_victims() -> None:
    talk = a_talk("v1", "v2")
    lower = {VICTIMS_TAG: LOWER_PRIORITY}
    talk.asks(a_daemon("d", memory=15, tags=lower))
    assert preempted(talk.schedule()) == []
    talk.release_asks(application_id="daemons", allocation_key="d")
    talk.asks(a_daemon("e", memory=15, priority=1, tags=lower))
    assert preempted(talk.schedule()) == ["v1", "v2"]


def test_other_victims_cannot_be_named() -> None:
    rejected = only(AskRejected, a_talk().asks(a_daemon("d", tags={VICTIMS_TAG: "all"})))
    assert rejected.reason == f"tags[{VICTIMS_TAG}] is 'all'; it must be '{LOWER_PRIORITY}', or not be there"
