"""Gangs that were complete and have lost members."""

from __future__ import annotations

from dataclasses import replace

from schedulerd.core.language.commands import NodeAction
from schedulerd.core.language.facts.fact import Allocated, ReleaseRequested
from schedulerd.core.language.facts.gangs import GangBelowMin
from schedulerd.core.language.lifecycles import ApplicationState, GangState
from schedulerd.core.language.specs import MINUTE_NS, OnBelowMin
from tests.unit.core.builders import (
    Conversation,
    a_node,
    a_partition_spec,
    a_queue_spec,
    a_root,
    a_scheduler,
    an_app,
    an_existing,
    of,
    only,
    states,
)
from tests.unit.core.gangs.test_declared_gangs import RACKS, declares, member, state_of_gang, told


def a_short_gang(
    topology: str = "", *, timeout_ns: int = 5 * MINUTE_NS, on_below_min: OnBelowMin = OnBelowMin.CONTINUE
) -> Conversation:
    """A gang of three of which one is gone and asked for again. Its node has no room for it."""
    talk = Conversation(a_scheduler())
    queue = a_queue_spec("a", gang_below_min_timeout_ns=timeout_ns, gang_on_below_min=on_below_min)
    talk.register(replace(a_partition_spec(a_root(queue)), topology=RACKS))
    talk.connect()
    talk.nodes(a_node("n1", {"memory": 30}, attributes={"r": "a"}))
    group = {"name": "w", "min": 3, **({"topology": {"required": topology}} if topology else {})}
    talk.apps(declares(group))
    talk.asks(*[member(key) for key in "xyz"])
    uuid = of(Allocated, talk.schedule())[-1].uuid
    talk.nodes(a_node("n1", {"memory": 20}, action=NodeAction.UPDATE, attributes={"r": "a"}))
    talk.release(application_id="gang", uuid=uuid)
    talk.asks(member("again"))
    assert (told(talk.schedule()), state_of_gang(talk)) == ([], GangState.SHORT)
    return talk


def test_after_its_time_it_is_said_and_the_gang_goes_on() -> None:
    talk = a_short_gang()
    assert not of(GangBelowMin, talk.sleep(4 * MINUTE_NS))
    said = only(GangBelowMin, talk.sleep(2 * MINUTE_NS))
    assert (said.fails, said.reason) == (False, "for 300 s task group w has had 2 of the 3 members that it needs")
    assert not of(GangBelowMin, talk.sleep(60 * MINUTE_NS)), "once"
    talk.nodes(a_node("n2", {"memory": 10}))
    assert told(talk.schedule()) == ["again"]


def test_its_application_fails_if_the_queue_says_so() -> None:
    talk = a_short_gang(on_below_min=OnBelowMin.FAIL)
    facts = talk.sleep(6 * MINUTE_NS)
    assert only(GangBelowMin, facts).fails
    assert states(facts, "gang") == [ApplicationState.FAILING]
    assert len(of(ReleaseRequested, facts)) == 2


def test_a_gang_that_is_repaired_in_time_has_its_full_time_when_it_is_short_again() -> None:
    talk = a_short_gang(on_below_min=OnBelowMin.FAIL)
    talk.sleep(4 * MINUTE_NS)
    talk.nodes(a_node("n2", {"memory": 10}))
    uuid = only(Allocated, talk.schedule()).uuid
    assert not of(GangBelowMin, talk.sleep(60 * MINUTE_NS))
    talk.nodes(a_node("n2", {"memory": 0}, action=NodeAction.UPDATE))
    talk.release(application_id="gang", uuid=uuid)
    talk.asks(member("third"))
    assert not of(GangBelowMin, talk.sleep(4 * MINUTE_NS))
    assert of(GangBelowMin, talk.sleep(2 * MINUTE_NS))


def test_without_a_timeout_it_stays_short_for_ever() -> None:
    talk = a_short_gang(timeout_ns=0, on_below_min=OnBelowMin.FAIL)
    assert not of(GangBelowMin, talk.sleep(1_000 * MINUTE_NS))


def test_it_is_said_that_its_domain_can_no_longer_hold_it() -> None:
    talk = a_short_gang("rack")
    reason = only(GangBelowMin, talk.sleep(6 * MINUTE_NS)).reason
    assert reason.endswith("of the 3 members that it needs, and the rack that it has to be in can no longer hold them")
    talk = a_short_gang("rack")
    talk.apps(an_app())
    talk.nodes(a_node("n2", {"memory": 10}, an_existing(), attributes={"r": "a"}))  # others use it
    assert "can no longer hold" not in only(GangBelowMin, talk.sleep(6 * MINUTE_NS)).reason


def test_no_alarm_is_left_when_its_resource_manager_registers_again() -> None:
    talk = a_short_gang()
    talk.register()
    assert not of(GangBelowMin, talk.sleep(6 * MINUTE_NS))
