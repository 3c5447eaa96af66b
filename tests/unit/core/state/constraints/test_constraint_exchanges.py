"""Placement constraints where room changes hands: gangs, reservations, and others that end."""

from __future__ import annotations

from typing import Any

from schedulerd.core.language.commands import AllocationRelease, NodeAction, PredicateResult, UpdateAllocations
from schedulerd.core.language.facts.fact import ReleaseRequested
from schedulerd.core.language.facts.reservations import ReservationEnd, ReservationEnded, Reserved
from schedulerd.core.language.specs import MINUTE_NS, SECOND_NS
from tests.unit.core.answering_rm import AnsweringRM, Refuses
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
from tests.unit.core.constraint_builders import DB, HOST, IS_DB, IS_WEB, WEB, on, one_of, together
from tests.unit.core.gang_builders import a_gang, real
from tests.unit.core.preemption_builders import an_entitled_ask, preempted, wait

ALONE = together(HOST, IS_WEB, most=1)


def confirm(talk: Conversation, *asked: ReleaseRequested) -> list[Any]:
    releases = [
        AllocationRelease(one.application_id, "", one.uuid, one.allocation_key, one.termination) for one in asked
    ]
    return talk.step(UpdateAllocations(talk.rm_id, releases=releases))


def a_gang_on(*zones: str, **fields: Any) -> Conversation:
    """A node for each zone with one placeholder on each."""
    talk = a_conversation(
        *(a_node(f"n{at}", {"memory": 10}, attributes={"zone": zone}) for at, zone in enumerate(zones, 1))
    )
    talk.apps(a_gang(memory=10 * len(zones)))
    talk.asks(a_placeholder("p", count=len(zones), app="gang", **fields))
    assert len(placed(talk.schedule())) == len(zones)
    return talk


# gangs ----------------------------------------------------------------------------------------------------------------


def test_a_real_ask_takes_the_placeholder_that_is_where_it_may_run() -> None:
    talk = a_gang_on("a", "b", "c")
    talk.asks(real(constraint=on(one_of("zone", "b"))))
    asked = only(ReleaseRequested, talk.schedule())
    assert asked.node_id == "n2"
    assert placed(confirm(talk, asked)) == [("gang", "r", "n2")]


def test_a_real_ask_that_may_run_nowhere_leaves_its_placeholders_alone_until_it_may() -> None:
    talk = a_gang_on("a", "b")
    talk.asks(real(constraint=together("zone", IS_DB, least=1)))
    assert of(ReleaseRequested, talk.schedule()) == []
    talk.nodes(a_node("n3", {"memory": 10}, attributes={"zone": "b"}))
    talk.asks(an_ask("db", tags={"app": "db"}))
    facts = talk.schedule()
    assert placed(facts) == [("app", "db", "n3")]
    assert only(ReleaseRequested, facts).node_id == "n2"


def test_the_placeholder_it_replaces_is_not_counted_with_it() -> None:
    talk = a_gang_on("a", tags=WEB)
    talk.asks(real(tags=WEB, constraint=ALONE))
    asked = only(ReleaseRequested, talk.schedule())
    assert placed(confirm(talk, asked)) == [("gang", "r", "n1")]


def test_two_that_may_not_be_together_do_not_take_two_placeholders_of_one_node() -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}))
    talk.apps(a_gang(memory=20))
    talk.asks(a_placeholder("p", count=2, app="gang"))
    talk.schedule()
    talk.asks(real("r1", tags=WEB, constraint=ALONE), real("r2", tags=WEB, constraint=ALONE))
    facts = confirm(talk, *of(ReleaseRequested, talk.schedule())) + talk.schedule()
    assert len(placed(facts)) == 1
    assert sum(one.pending for one in talk.app("gang").asks) == 1
    talk.nodes(a_node("n2", {"memory": 20}))
    assert [node for _, _, node in placed(talk.schedule())] == ["n2"]


def test_the_constraint_is_judged_anew_when_the_placeholder_is_gone() -> None:
    talk = a_gang_on("a")
    talk.asks(real(constraint=on(one_of("zone", "a"))))
    asked = only(ReleaseRequested, talk.schedule())
    talk.nodes(a_node("n2", {"memory": 10}, attributes={"zone": "a"}))
    talk.nodes(a_node("n1", {"memory": 10}, action=NodeAction.UPDATE, attributes={"zone": "b"}))
    assert placed(confirm(talk, asked)) == [("gang", "r", "n2")]


def test_no_gang_is_released_for_one_whose_members_may_not_be_together() -> None:
    """There is room for both of its placeholders where the later gang is, but only one may be on a node."""
    talk = a_conversation(a_node("n1", {"memory": 20}))
    talk.apps(a_gang("late", memory=30), a_gang("early", memory=20))
    talk.asks(a_placeholder("p", count=3, app="late"))
    talk.schedule()
    talk.asks(a_placeholder("q", count=2, app="early", tags=WEB, constraint=ALONE))
    assert of(ReleaseRequested, wait(talk, 2 * MINUTE_NS)) == []


# reservations ---------------------------------------------------------------------------------------------------------


def test_room_is_reserved_only_where_an_ask_may_run() -> None:
    talk = a_conversation(
        a_node("n1", {"memory": 100}, attributes={"zone": "a"}), a_node("n2", {"memory": 100}, attributes={"zone": "b"})
    )
    talk.apps(an_app("other"))
    talk.asks(an_ask("fill", 50, count=2, app="other"))
    talk.schedule()
    talk.asks(an_ask("large", 90, constraint=on(one_of("zone", "b"))))
    assert only(Reserved, wait(talk, 20 * SECOND_NS)).node_id == "n2"


def test_a_reservation_ends_where_the_ask_may_not_run_any_longer() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}, attributes={"zone": "a"}))
    talk.apps(an_app("other"))
    talk.asks(an_ask("fill", 50, app="other"))
    talk.schedule()
    talk.asks(an_ask("large", 90, tags=WEB, constraint=together("zone", IS_WEB, most=1)))
    assert only(Reserved, wait(talk, 20 * SECOND_NS)).node_id == "n1"
    talk.nodes(a_node("n2", {"memory": 10}, attributes={"zone": "a"}))
    talk.asks(an_ask("w", tags=WEB))
    facts = talk.schedule()
    assert placed(facts) == [("app", "w", "n2")]
    assert only(ReservationEnded, facts).end is ReservationEnd.NODE


def test_room_is_reserved_once_the_ask_may_run_somewhere() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}, attributes={"zone": "a"}))
    talk.apps(an_app("other"))
    talk.asks(an_ask("fill", 50, app="other"))
    talk.schedule()
    talk.asks(an_ask("large", 90, constraint=together("zone", IS_WEB, least=1)))
    assert of(Reserved, wait(talk, 40 * SECOND_NS)) == []
    talk.asks(an_ask("w", tags=WEB, app="other"))
    assert only(Reserved, wait(talk, 20 * SECOND_NS)).node_id == "n1"


# others end -----------------------------------------------------------------------------------------------------------


def contested(*zones: str, tags: dict[str, str] | None = None) -> Conversation:
    """Full nodes of 10 with one pod of root.rich on each; root.poor is guaranteed 20 and has nothing."""
    root = a_root(
        a_queue_spec("rich", preemption_delay_ns=SECOND_NS),
        a_queue_spec("poor", guaranteed={"memory": 20}, preemption_delay_ns=SECOND_NS),
    )
    talk = a_conversation(
        *(a_node(f"n{at}", {"memory": 10}, attributes={"zone": zone}) for at, zone in enumerate(zones, 1)), root=root
    )
    talk.apps(an_app("rich", "root.rich"), an_app("claimer", "root.poor"))
    talk.asks(an_ask("pod", count=len(zones), app="rich", tags=tags or {}))
    assert len(placed(talk.schedule())) == len(zones)
    return talk


def test_allocations_are_preempted_only_where_the_ask_may_run() -> None:
    talk = contested("a", "b", "c")
    talk.asks(an_entitled_ask(constraint=on(one_of("zone", "b"))))
    facts = wait(talk, 5 * SECOND_NS)
    assert only(ReleaseRequested, facts).node_id == "n2"
    assert placed(confirm(talk, only(ReleaseRequested, facts)) + talk.schedule()) == [("claimer", "c", "n2")]


def test_nothing_is_preempted_where_the_ask_could_not_run_without_it() -> None:
    talk = contested("a", tags=WEB)
    talk.asks(an_entitled_ask(constraint=together("zone", IS_WEB, least=1)))
    assert preempted(wait(talk, MINUTE_NS)) == []


def test_an_allocation_that_an_affinity_excludes_is_preempted() -> None:
    talk = contested("a", tags=WEB)
    talk.asks(an_entitled_ask(constraint=ALONE, tags=WEB))
    asked = only(ReleaseRequested, wait(talk, 5 * SECOND_NS))
    assert placed(confirm(talk, asked) + talk.schedule()) == [("claimer", "c", "n1")]


# the resource manager's say -------------------------------------------------------------------------------------------


def test_an_ask_that_was_refused_everywhere_is_tried_where_it_may_run_later() -> None:
    """Nothing is freed on n2: others that it wants to be with come there."""
    talk = AnsweringRM(Refuses(("near", "n1")))
    talk.begin()
    talk.nodes(*(a_node(f"n{zone}", {"memory": 100}, attributes={"zone": zone}) for zone in ("1", "2")))
    talk.apps(an_app())
    talk.asks(an_ask("db", tags=DB, constraint=on(one_of("zone", "1"))))
    talk.schedule()
    talk.asks(an_ask("near", constraint=together("zone", IS_DB, least=1)))
    assert placed(talk.schedule()) == []
    talk.asks(an_ask("db-2", tags=DB, constraint=on(one_of("zone", "2"))))
    assert placed(talk.schedule()) == [("app", "db-2", "n2"), ("app", "near", "n2")]


def test_a_result_is_void_once_too_many_are_there() -> None:
    talk = AnsweringRM()
    talk.begin()
    talk.nodes(*(a_node(f"n{at}", {"memory": 10}, attributes={"zone": "a"}) for at in (1, 2)))
    talk.apps(an_app())
    talk.withholds_answers = True
    talk.asks(an_ask("w", count=2, tags=WEB, constraint=together("zone", IS_WEB, most=1)))
    talk.schedule()
    assert talk.open_calls == 2
    facts = talk.answer(*talk.asked)
    assert len(placed(facts + talk.schedule())) == 1
    assert talk.open_calls == 0


def test_a_placeholder_that_a_real_ask_needs_beside_it_stays() -> None:
    """It is the only one of its kind there, and without it the ask could not run there: so nobody is asked for ever."""
    talk = AnsweringRM()
    talk.begin()
    talk.nodes(a_node("n1", {"memory": 30}, attributes={"zone": "a"}))
    talk.apps(a_gang(memory=10))
    talk.asks(a_placeholder("p", app="gang", tags=DB))
    talk.schedule()
    talk.asks(real(constraint=together("zone", IS_DB, least=1)))
    facts = talk.cycle()
    assert placed(facts) == [("gang", "r", "n1")]
    assert of(ReleaseRequested, facts) == []
    assert not talk.scheduler.wants_cycle()


def test_a_checked_ask_whose_affinity_is_met_elsewhere_is_checked_on_that_node_next() -> None:
    talk = AnsweringRM(Refuses(("b", "n2")))
    talk.begin()
    talk.apps(an_app())
    talk.nodes(a_node("n2", {"memory": 100}))
    talk.asks(an_ask("w2", tags=WEB))
    talk.schedule()
    talk.nodes(a_node("n1", {"memory": 100}))
    talk.asks(an_ask("b", constraint=together(HOST, IS_WEB, least=1)))
    talk.schedule()
    talk.nodes(a_node("n2", {"memory": 120}, action=NodeAction.UPDATE))
    talk.withholds_answers = True
    talk.schedule()
    assert talk.take_asked()[-2:] == [("b", "n2"), ("b", "n2")], "refused everywhere: asked again for its new size"
    predicate_reserved = next(iter(talk.model().callbacks.open_predicate_checks))
    talk.withholds_answers = False
    talk.asks(an_ask("w1", tags=WEB))
    assert placed(talk.schedule()) == [("app", "w1", "n1")]
    talk.give(PredicateResult(predicate_reserved, "tainted"))
    assert placed(talk.schedule()) == [("app", "b", "n1")]
