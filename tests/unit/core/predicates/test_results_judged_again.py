"""What is agreed to is judged by the state it comes to, by constraints too; and what an old stream said is void."""

from __future__ import annotations

from schedulerd.core.language.commands import NodeAction, PredicateResult
from schedulerd.core.language.facts.fact import ReleaseRequested
from schedulerd.core.language.facts.predicates import PredicateWanted, PreemptionPredicateWanted
from schedulerd.core.language.facts.preemption import Preempted
from schedulerd.core.language.specs import SECOND_NS, Timeouts
from tests.unit.core.answering_rm import AnsweringRM, Refuses
from tests.unit.core.builders import a_node, a_placeholder, a_queue_spec, a_root, an_app, an_ask, of, only, placed
from tests.unit.core.constraint_builders import HOST, on, one_of
from tests.unit.core.gang_builders import a_gang, real
from tests.unit.core.preemption_builders import a_daemon, an_entitled_ask, fill, guaranteed_root, wait

TIMES = Timeouts()


def test_a_placeholder_is_not_given_up_where_the_ask_may_not_run_any_longer() -> None:
    """Its node comes into another zone while the result is waited for; no other node will do."""
    talk = AnsweringRM()
    talk.begin()
    talk.nodes(a_node("n1", {"memory": 10}, attributes={"zone": "a"}))
    talk.apps(a_gang(memory=10))
    talk.asks(a_placeholder("p", app="gang"))
    talk.schedule()
    talk.withholds_answers = True
    talk.asks(real(constraint=on(one_of("zone", "a"))))
    wanted = only(PredicateWanted, talk.schedule())
    talk.nodes(a_node("n1", action=NodeAction.UPDATE, attributes={"zone": "b"}))
    assert of(ReleaseRequested, talk.give(PredicateResult(wanted.call_id)) + talk.schedule()) == []


def test_an_ask_does_not_await_a_check_on_a_node_where_it_may_not_run() -> None:
    """It was refused on the only node that will do, and rests."""
    talk = AnsweringRM(Refuses(("choosy", "n1")))
    talk.begin()
    talk.nodes(a_node("n1", {"memory": 100}, attributes={"zone": "a"}), a_node("n2", {"memory": 10}))
    talk.apps(an_app())
    talk.withholds_answers = True
    talk.asks(an_ask("slow", 10, constraint=on(one_of(HOST, "n2"))))
    talk.schedule()
    talk.withholds_answers = False
    talk.asks(an_ask("choosy", 10, constraint=on(one_of("zone", "a"))))
    talk.schedule()
    predicate_history = talk.model().applications["app"].asks["choosy"].predicate_history
    assert predicate_history is not None
    assert predicate_history.awaits is None


def a_talk_with_a_reservation() -> AnsweringRM:
    """n1 of 20 has `small`; room is kept there for `big`, which wants 15."""
    talk = AnsweringRM()
    talk.begin()
    talk.nodes(a_node("n1", {"memory": 20}))
    talk.apps(an_app(), an_app("others"))
    talk.asks(an_ask("small", 10, app="others"))
    talk.schedule()
    talk.asks(an_ask("big", 15))
    wait(talk, TIMES.reservation_delay_ns)
    return talk


def test_another_stream_did_not_agree_to_an_allocation_in_reserved_room() -> None:
    """It is opened between the result that the old one gave and the next cycle."""
    talk = a_talk_with_a_reservation()
    talk.withholds_answers = True
    talk.release(application_id="others", allocation_key="small")
    wanted = only(PredicateWanted, talk.schedule())
    talk.give(PredicateResult(wanted.call_id))
    talk.callbacks()
    facts = talk.schedule()
    assert placed(facts) == []
    assert len(of(PredicateWanted, facts)) == 1


def test_another_stream_did_not_agree_to_a_preemption() -> None:
    talk = AnsweringRM()
    talk.begin(guaranteed_root())
    talk.apps(an_app("victims", "root.v"), an_app("claimer", "root.c"))
    talk.nodes(a_node("n1", {"memory": 10}))
    talk.asks(an_ask("on_n1", app="victims"))
    talk.schedule()
    talk.asks(an_entitled_ask())
    talk.withholds_answers = True
    wanted = only(PreemptionPredicateWanted, wait(talk, 30 * SECOND_NS))
    talk.give(PredicateResult(wanted.call_id))
    talk.callbacks()
    facts = talk.schedule()
    assert of(Preempted, facts) == []
    assert len(of(PreemptionPredicateWanted, facts)) == 1


def test_another_stream_did_not_refuse_a_preemption_for_a_daemon() -> None:
    """All refusals are forgotten with the stream (docs/predicates.md)."""
    talk = AnsweringRM(lambda one: "no port" if isinstance(one, PreemptionPredicateWanted) else "")
    talk.begin(guaranteed_root())
    talk.nodes(a_node("n1", {"memory": 10}))
    fill(talk, "victims", "root.v", v0=10)
    talk.apps(an_app("daemons", "root.c"))
    talk.asks(a_daemon())
    talk.schedule()
    talk.refusal_of = Refuses()
    talk.take_asked()
    talk.callbacks()
    wait(talk, 60 * SECOND_NS)
    assert talk.take_asked() == [("d", "n1")]


def test_no_fewer_are_preempted_than_a_quota_needs() -> None:
    """Two have to end for a quota, one would do for the node; the resource manager says that one is enough."""
    root = a_root(
        a_queue_spec("p", a_queue_spec("c", guaranteed={"memory": 20}), a_queue_spec("v"), max={"memory": 20}),
    )
    talk = AnsweringRM()
    talk.begin(root)
    talk.apps(an_app("victims", "root.p.v"), an_app("claimer", "root.p.c"))
    talk.nodes(a_node("n1", {"memory": 30}))
    talk.asks(an_ask("v", 10, count=2, app="victims"))
    assert len(placed(talk.schedule())) == 2
    talk.asks(an_entitled_ask(memory=20))
    talk.withholds_answers = True
    wanted = only(PreemptionPredicateWanted, wait(talk, 30 * SECOND_NS))
    assert len(wanted.victim_keys) == 2
    facts = talk.give(PredicateResult(wanted.call_id, index=0)) + talk.schedule()
    assert len(of(ReleaseRequested, facts)) == 2
