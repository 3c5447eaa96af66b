"""Predicate calls other than ALLOCATE and PREEMPT: RESERVE, those of daemons, and SWAP."""

from __future__ import annotations

from schedulerd.core.language.commands import NodeAction, PredicateResult, TerminationType
from schedulerd.core.language.facts.fact import Fact, ReleaseRequested
from schedulerd.core.language.facts.predicates import PredicateWanted, PreemptionPredicateWanted
from schedulerd.core.language.facts.preemption import Preempted, PreemptionRefused
from schedulerd.core.language.facts.reservations import ReservationEnded, Reserved
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS, Timeouts
from tests.unit.core.answering_rm import AnsweringRM, Refuses
from tests.unit.core.builders import a_node, a_placeholder, an_app, an_ask, of, only, placed
from tests.unit.core.preemption_builders import (
    a_daemon,
    an_entitled_ask,
    fill,
    guaranteed_root,
    preempted,
    reservations_of,
    wait,
)

TIMES = Timeouts()
DELAY_NS = 30 * SECOND_NS


# reservations


def a_full_talk(*nodes: str, refuses: Refuses | None = None) -> AnsweringRM:
    """`small` is on every node of 20, and `big`, which wants 15, waits."""
    talk = AnsweringRM(refuses)
    talk.begin()
    talk.nodes(*(a_node(name, {"memory": 20}) for name in nodes))
    talk.apps(an_app(), an_app("others"))
    talk.asks(an_ask("small", 10, count=len(nodes), app="others"))
    assert len(placed(talk.schedule())) == len(nodes)
    talk.take_asked()
    talk.asks(an_ask("big", 15))
    talk.schedule()
    return talk


def later(talk: AnsweringRM) -> list[Fact]:
    """Big has waited for so long that room is to be reserved for it."""
    return wait(talk, TIMES.reservation_delay_ns)


def test_before_room_is_reserved_the_rm_is_asked() -> None:
    talk = a_full_talk("n1")
    facts = later(talk)
    assert [one.allocate for one in of(PredicateWanted, facts)] == [False]
    assert only(Reserved, facts).node_id == "n1"


def test_room_is_reserved_on_the_next_best_node_if_the_best_is_refused() -> None:
    talk = a_full_talk("n1", "n2", refuses=Refuses(("big", "n1")))
    assert only(Reserved, later(talk)).node_id == "n2"
    assert talk.take_asked() == [("big", "n1"), ("big", "n2")]


def test_a_refused_reservation_does_not_delay_equal_asks() -> None:
    talk = a_full_talk("n1", refuses=Refuses(("big", "n1")))
    talk.asks(an_ask("bigger", 15))
    facts = later(talk)
    assert [one.allocation_key for one in of(Reserved, facts)] == ["bigger"]


def test_room_that_was_refused_is_asked_for_again_after_a_while() -> None:
    talk = a_full_talk("n1", refuses=Refuses(("big", "n1")))
    assert of(Reserved, later(talk)) == []
    talk.refusal_of = Refuses()
    assert of(Reserved, wait(talk, TIMES.predicate_retry_delay_ns - 1)) == []
    assert only(Reserved, wait(talk, 2)).node_id == "n1"


def test_reserved_room_is_taken_when_the_resource_manager_agrees_again() -> None:
    talk = a_full_talk("n1")
    later(talk)
    talk.take_asked()
    facts = talk.release(application_id="others", allocation_key="small") + talk.schedule()
    assert [one.allocate for one in of(PredicateWanted, facts)] == [True]
    assert placed(facts) == [("app", "big", "n1")]
    assert only(ReservationEnded, facts).end.value == "placed"


def test_reserved_room_that_is_refused_then_is_for_others_again() -> None:
    talk = a_full_talk("n1")
    later(talk)
    talk.refusal_of = Refuses(("big", "n1"))
    facts = talk.release(application_id="others", allocation_key="small") + talk.schedule()
    assert placed(facts) == []
    assert only(ReservationEnded, facts).end.value == "node"
    talk.asks(an_ask("other", 15))
    assert placed(talk.schedule()) == [("app", "other", "n1")]


def test_room_that_is_refused_is_not_reserved_again_at_once() -> None:
    """The RM knows of less room than the core: it agrees to the reservation, and refuses the allocation there. Checks
    of other asks hold room meanwhile, so that the ask always lacks some and wants a reservation."""
    talk = AnsweringRM()
    talk.begin()
    talk.nodes(a_node("n1", {"memory": 20}))
    talk.apps(an_app(), an_app("others"))
    talk.asks(an_ask("small", 20, app="others"))
    talk.schedule()
    talk.asks(an_ask("x", 5), an_ask("y", 10), an_ask("z", 15))
    later(talk)
    talk.refusal_of = lambda wanted: "Insufficient cpu" if getattr(wanted, "allocate", True) else ""
    talk.take_asked()
    talk.withholds_answers = True
    facts = talk.release(application_id="others", allocation_key="small")
    for _ in range(20):
        facts += talk.schedule()
        wanted, talk.asked = talk.asked, []
        if wanted:
            facts += talk.answer(*sorted(wanted, key=lambda one: getattr(one, "allocate", True)))
    assert [one.allocation_key for one in of(ReservationEnded, facts)] == ["x", "z"]
    assert len(of(PredicateWanted, facts)) < 12


def test_the_node_of_a_reservation_goes_while_a_check_on_it_is_open() -> None:
    talk = a_full_talk("n1")
    later(talk)
    talk.withholds_answers = True
    talk.release(application_id="others", allocation_key="small")
    talk.schedule()
    assert talk.open_calls == 1
    talk.nodes(a_node("n1", action=NodeAction.DECOMISSION))
    assert talk.open_calls == 0
    talk.withholds_answers = False
    talk.nodes(a_node("n2", {"memory": 20}))
    assert placed(talk.schedule()) == [("app", "big", "n2")]


# daemons


def a_daemon_talk(*, preemption: bool = True) -> AnsweringRM:
    talk = AnsweringRM()
    talk.begin(guaranteed_root(), preemption=preemption)
    talk.nodes(a_node("n1", {"memory": 10}))
    fill(talk, "victims", "root.v", v0=10)
    talk.apps(an_app("daemons", "root.c"))
    talk.take_asked()
    return talk


def test_a_daemon_has_a_check_to_reserve_one_to_preempt_and_one_to_run_there() -> None:
    talk = a_daemon_talk()
    talk.asks(a_daemon())
    facts = talk.schedule()
    asked = [one for one in facts if isinstance(one, PredicateWanted | PreemptionPredicateWanted)]
    assert [getattr(one, "allocate", None) for one in asked] == [False, None]
    assert preempted(facts) == ["v0"]
    victim = only(ReleaseRequested, facts)
    talk.take_asked()
    gone = talk.release(application_id="victims", uuid=victim.uuid, termination=victim.termination) + talk.schedule()
    assert placed(gone) == [("daemons", "d", "n1")]
    assert talk.take_asked() == [("d", "n1")]


def test_a_daemon_that_is_called_back_during_its_check_leaves_the_position_of_its_queue() -> None:
    talk = AnsweringRM()
    talk.begin()
    talk.nodes(a_node("n1", {"memory": 20}))
    talk.apps(an_app())
    talk.withholds_answers = True
    talk.asks(a_daemon("d", priority=5, app="app"), an_ask("waits", 30))
    talk.schedule()
    talk.give(PredicateResult(talk.asked[-1].call_id, "tainted"))
    talk.schedule()
    talk.answer(talk.asked[-1])
    assert reservations_of(talk) == [("d", "n1", True)]
    talk.schedule()
    assert (talk.open_calls, bool(talk.model().refused_asks)) == (1, True)
    talk.nodes(a_node("n1", {"memory": 25}, action=NodeAction.UPDATE))
    assert not talk.model().refused_asks


def test_nothing_is_preempted_for_a_daemon_that_could_not_run_there_even_then() -> None:
    talk = a_daemon_talk()
    talk.refusal_of = lambda one: "no port" if isinstance(one, PreemptionPredicateWanted) else ""
    talk.asks(a_daemon())
    facts = talk.schedule() + wait(talk, 60 * SECOND_NS)
    assert of(Preempted, facts) == []
    assert len(of(PreemptionPredicateWanted, facts)) == 1, "the node is as it was"
    assert "refuses node n1 even without the victims" in only(PreemptionRefused, facts).reason


def test_without_preemption_predicates_preemption_is_decided_by_the_core_alone() -> None:
    talk = a_daemon_talk(preemption=False)
    talk.asks(a_daemon())
    assert preempted(talk.schedule()) == ["v0"]


# placeholders


def a_gang_talk(count: int) -> AnsweringRM:
    """So many placeholders, each on a node of its own."""
    talk = AnsweringRM()
    talk.begin()
    talk.nodes(*(a_node(f"n{number}", {"memory": 10}) for number in range(1, count + 1)))
    talk.apps(an_app(placeholder_ask=Resources(memory=10 * count)))
    talk.asks(a_placeholder(count=count))
    assert len(placed(talk.schedule())) == count
    talk.take_asked()
    return talk


def test_real_asks_are_tried_for_a_placeholder_each() -> None:
    talk = a_gang_talk(3)
    talk.withholds_answers = True
    talk.asks(*(an_ask(f"r{number}", task_group="group") for number in range(3)))
    facts = talk.schedule()
    assert of(ReleaseRequested, facts) == [], "no placeholder goes before there is a result"
    assert sorted(node for _, node in talk.asked_pairs) == ["n1", "n2", "n3"]
    assert all(one.allocate for one in of(PredicateWanted, facts)), "they are to run there, and no room is to be kept"
    talk.withholds_answers = False
    requests = of(ReleaseRequested, talk.answer(*talk.asked))
    assert [one.termination for one in requests] == [TerminationType.PLACEHOLDER_REPLACED] * 3


def test_a_placeholder_that_goes_meanwhile_is_not_swapped() -> None:
    talk = a_gang_talk(1)
    talk.withholds_answers = True
    talk.asks(an_ask("r", task_group="group"))
    talk.schedule()
    [placeholder] = talk.app().allocations
    talk.release(uuid=placeholder.uuid)
    facts = talk.answer(*talk.asked) + talk.schedule()
    assert of(ReleaseRequested, facts) == []
    talk.withholds_answers = False
    assert placed(talk.answer(talk.asked[-1])) == [("app", "r", "n1")], "it is placed like any other"


def test_a_real_ask_that_is_refused_by_one_is_tried_for_another() -> None:
    talk = a_gang_talk(2)
    talk.refusal_of = Refuses(("r", "n1"))
    talk.asks(an_ask("r", task_group="group"))
    request = only(ReleaseRequested, talk.schedule())
    assert request.node_id == "n2"
    assert placed(talk.release(uuid=request.uuid, termination=request.termination)) == [("app", "r", "n2")]


def test_several_wait_for_fewer_placeholders() -> None:
    talk = a_gang_talk(1)
    talk.withholds_answers = True
    talk.asks(an_ask("r1", task_group="group"), an_ask("r2", task_group="group"))
    talk.schedule()
    assert talk.take_asked() == [("r1", "n1")]
    assert not talk.scheduler.wants_cycle()


def test_an_ask_refused_on_a_node_with_room_preempts_elsewhere_and_wins_no_empty_reservation_there() -> None:
    """Its refusal there is not in `PredicateHistory.refused` once it was set aside for all nodes with room."""
    talk = AnsweringRM(Refuses(("c", "n1")))
    talk.begin(guaranteed_root(50))
    talk.nodes(a_node("f1", {"memory": 10}))
    talk.apps(an_app("claimer", "root.c"), an_app("victims", "root.v"))
    talk.asks(an_ask("v", 10, app="victims"))
    talk.schedule()
    talk.nodes(a_node("n1", {"memory": 100}))
    talk.asks(an_entitled_ask("c"))
    talk.schedule()
    facts = wait(talk, 3 * DELAY_NS)
    decisions = of(Preempted, facts)
    assert [(one.node_id, len(one.victims)) for one in decisions] == [("f1", 1)]


def test_nothing_is_remembered_of_the_classes_of_a_refused_ask_that_is_tried_again() -> None:
    talk = AnsweringRM(Refuses(("k", "n1")))
    talk.begin()
    talk.nodes(a_node("n1", {"memory": 100}))
    talk.apps(an_app())
    talk.asks(an_ask())
    talk.schedule()
    wait(talk, 20 * DELAY_NS)
    assert len(talk.model().retry_timers.unreservable) <= 1
