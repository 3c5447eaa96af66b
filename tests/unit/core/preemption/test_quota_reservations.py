"""Preemption for an ask that a max on its path does not let in, though its queue is guaranteed the room."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from schedulerd.core.language.commands import NewAsk, TerminationType
from schedulerd.core.language.facts.fact import Fact, ReleaseRequested
from schedulerd.core.language.facts.preemption import Preempted, PreemptionRefusal, PreemptionRefused
from schedulerd.core.language.facts.reservations import ReservationEnded
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import SECOND_NS, QueueProperties, QueueSpec
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    of,
    only,
    placed,
)

DELAY_NS = SECOND_NS
QUICK = QueueProperties(preemption_delay_ns=DELAY_NS)


def leaf(name: str, guaranteed: int = 0, most: int | None = None) -> QueueSpec:
    return replace(
        a_queue_spec(name),
        guaranteed=Resources(memory=guaranteed) if guaranteed else Resources(),
        max=Limits() if most is None else Limits(memory=most),
        properties=QUICK,
    )


def a_talk(*leaves: QueueSpec, most: int = 40) -> Conversation:
    """Three nodes with room for 20 each, below a parent that may use less than all of it."""
    team = replace(a_queue_spec("team"), parent=True, children=leaves, max=Limits(memory=most), properties=QUICK)
    nodes = (a_node(f"n{at}", {"memory": 20}) for at in range(3))
    talk = a_conversation(*nodes, root=a_root(team, leaf("other")))
    talk.apps(an_app("rich", "root.team.rich"), an_app("poor", "root.team.poor"), an_app("other", "root.other"))
    talk.asks(*(an_ask(f"k{at}", 10, 1, "rich") for at in range(4)))
    talk.schedule()
    return talk


def an_entitled_ask(key: str = "c", memory: int = 10, **fields: Any) -> NewAsk:
    return an_ask(key, memory, 1, "poor", allow_preempt_other=True, **fields)


def later(talk: Conversation, by_ns: int = DELAY_NS) -> list[Fact]:
    return [*talk.sleep(by_ns), *talk.schedule()]


def confirm(talk: Conversation, facts: list[Fact]) -> None:
    for one in of(ReleaseRequested, facts):
        talk.release(application_id=one.application_id, uuid=one.uuid, termination=one.termination)


def test_victims_run_anywhere_below_the_queue_that_is_full() -> None:
    talk = a_talk(leaf("rich", 10), leaf("poor", 20))
    talk.asks(an_entitled_ask())
    assert placed(talk.schedule()) == []
    facts = later(talk)
    assert [(one.allocation_key, one.node_id) for one in of(ReleaseRequested, facts)] == [("k3", "n0")]
    assert only(Preempted, facts).application_id == "poor"
    confirm(talk, facts)
    assert placed(talk.schedule()) == [("poor", "c", "n1")]


def test_the_quota_that_victims_free_is_reserved_for_the_ask() -> None:
    talk = a_talk(leaf("rich", 10), leaf("poor", 20))
    talk.asks(an_entitled_ask(memory=20), an_ask("more", 10, 1, "rich"))
    talk.schedule()
    facts = later(talk)
    first, second = of(ReleaseRequested, facts)
    talk.release(application_id="rich", uuid=first.uuid, termination=first.termination)
    assert placed(talk.schedule()) == []
    assert "20 reserved for others" in talk.app("rich").asks[0].waiting_for
    talk.release(application_id="rich", uuid=second.uuid, termination=TerminationType.PREEMPTED_BY_SCHEDULER)
    assert [key for _, key, _ in placed(talk.schedule())] == ["c"]


def test_it_is_for_others_again_when_the_ask_goes() -> None:
    talk = a_talk(leaf("rich", 10), leaf("poor", 20))
    talk.asks(an_entitled_ask(), an_ask("more", 10, 1, "rich"))
    talk.schedule()
    facts = later(talk)
    talk.release_asks(application_id="poor", allocation_key="c")
    confirm(talk, facts)
    assert [key for _, key, _ in placed(talk.schedule())] == ["more"]


def test_nothing_outside_the_full_queue_is_preempted() -> None:
    talk = a_talk(leaf("rich", 40), leaf("poor", 20))
    talk.asks(*(an_ask(f"o{at}", 10, 1, "other") for at in range(2)), an_entitled_ask())
    talk.schedule()
    facts = later(talk)
    assert of(ReleaseRequested, facts) == []
    assert only(PreemptionRefused, facts).refusal is PreemptionRefusal.NO_VICTIMS


def test_an_ask_in_a_leaf_that_is_full_itself_preempts_nothing() -> None:
    talk = a_talk(leaf("rich", 10), leaf("poor", 5, 5))
    talk.asks(an_entitled_ask())
    talk.schedule()
    assert only(PreemptionRefused, later(talk)).refusal is PreemptionRefusal.QUOTA


def test_where_nodes_lack_room_as_well_all_victims_run_on_the_one_node() -> None:
    talk = a_talk(leaf("rich", 10), leaf("poor", 20), most=40)
    talk.asks(*(an_ask(f"o{at}", 10, 1, "other") for at in range(2)))
    talk.schedule()
    talk.asks(an_entitled_ask(memory=20))
    talk.schedule()
    facts = later(talk)
    ended = of(ReleaseRequested, facts)
    assert {one.application_id for one in ended} <= {"rich", "other"}
    assert len({one.node_id for one in ended}) == 1
    assert len(ended) == 2
    confirm(talk, facts)
    assert [key for _, key, _ in placed(talk.schedule())] == ["c"]
    assert {one.end.value for one in of(ReservationEnded, facts)} <= {"not_needed", "placed"}


def test_an_ask_for_several_takes_the_best_node_twice() -> None:
    talk = a_talk(leaf("rich", 10), leaf("poor", 20), most=100)
    talk.asks(*(an_ask(f"o{at}", 10, 1, "other") for at in range(2)))
    talk.schedule()
    talk.asks(an_ask("c", 10, 2, "poor", allow_preempt_other=True))
    talk.schedule()
    facts = later(talk)
    assert [one.node_id for one in of(Preempted, facts)] == ["n0", "n0"]
    confirm(talk, facts)
    assert len(placed(talk.schedule())) == 2
