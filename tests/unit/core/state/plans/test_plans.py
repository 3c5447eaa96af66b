"""Plans of many asks: judged as one by the state of the moment, and committed as a whole or not at all."""

from __future__ import annotations

import pytest

from schedulerd.core.invariants.all import violations
from schedulerd.core.language.commands import NodeAction, TerminationType
from schedulerd.core.language.facts.fact import Allocated, Fact, ReleaseRequested
from schedulerd.core.language.facts.preemption import Preempted
from schedulerd.core.language.facts.reservations import Reserved
from schedulerd.core.language.resources import Limits
from schedulerd.core.language.specs import LimitSpec
from schedulerd.core.state.plans.committing import commit_plan
from schedulerd.core.state.plans.plan import Plan, PlannedAllocation, PlannedPreemption, PlannedReservation
from schedulerd.core.state.step_context import StepContext
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
    placed,
)
from tests.unit.core.gang_builders import a_gang, real

ROOM = {"memory": 50}


def a_talk(**leaf: object) -> Conversation:
    """Two nodes with room for five asks of 10 each; asks of three applications that no cycle has tried."""
    talk = a_conversation(a_node("n1", ROOM), a_node("n2", ROOM), root=a_root(a_queue_spec("a", **leaf)))  # type: ignore[arg-type]
    talk.apps(an_app("second"), an_app("third"))
    talk.asks(*(an_ask("k", 10, count=4, app=app) for app in ("app", "second", "third")))
    return talk


def allocation(talk: Conversation, app: str, node: str, key: str = "k") -> PlannedAllocation:
    application = talk.model().applications[app]
    return PlannedAllocation(application, application.asks[key], talk.model().nodes[node])


def reservation(talk: Conversation, app: str, node: str) -> PlannedReservation:
    planned = allocation(talk, app, node)
    return PlannedReservation(planned.application, planned.ask, planned.node, is_entitled=False)


def commit(talk: Conversation, plan: Plan) -> tuple[str | None, list[Fact]]:
    """What is said against it, and the facts; what it leaves behind holds together."""
    context = StepContext(talk.scheduler.cluster, talk.now_ns)
    against = commit_plan(context, talk.model(), plan)
    assert violations(talk.scheduler) == []
    assert against is None or context.facts == [], "nothing of it happens"
    return against, context.facts


def test_all_of_a_plan_is_committed() -> None:
    talk = a_talk()
    plan = Plan(allocations=tuple(allocation(talk, app, "n1") for app in ("app", "app", "second", "third", "third")))
    against, facts = commit(talk, plan)
    assert against is None
    assert len(of(Allocated, facts)) == 5
    assert talk.node("n1").available == {}
    assert talk.queue().allocated == ROOM


def test_allocations_that_fit_one_by_one_and_not_together_are_not_made() -> None:
    talk = a_talk()
    plan = Plan(
        allocations=tuple(allocation(talk, app, "n1") for app in ("app", "app", "app", "app", "second", "third"))
    )
    assert commit(talk, plan)[0] == "node n1 does not take all that is planned there: not enough memory"


@pytest.mark.parametrize(
    ("leaf", "sentence"),
    [
        ({"max": {"memory": 25}}, "queue root.a would be above its quota: 0 of 25 memory used, 30 more asked"),
        (
            {"limits": (LimitSpec(users=("somebody",), groups=(), max=Limits({"memory": 25})),)},
            "user 'somebody' would be above its limit in queue root.a: 0 of 25 memory used, 30 more asked",
        ),
        ({"max_applications": 2}, "queue root.a runs 0 of at most 2 applications"),
        (
            {"limits": (LimitSpec(users=("somebody",), groups=(), max_applications=2),)},
            "user 'somebody' runs 0 of at most 2 applications in queue root.a",
        ),
    ],
    ids=["quota", "user limit", "running applications", "running applications of a user"],
)
def test_rules_let_all_of_a_plan_in_together_or_none(leaf: dict[str, object], sentence: str) -> None:
    talk = a_talk(**leaf)
    two = tuple(allocation(talk, app, "n1") for app in ("app", "second"))
    assert commit(talk, Plan(allocations=(*two, allocation(talk, "third", "n2"))))[0] == sentence
    assert commit(talk, Plan(allocations=two))[0] is None


@pytest.mark.parametrize(
    ("leaf", "sentence"),
    [
        ({"max": {"memory": 50}}, "queue root.a would be above its quota with the whole gang"),
        (
            {"limits": (LimitSpec(users=("somebody",), groups=(), max=Limits({"memory": 50})),)},
            "user 'somebody' would be above its limit in queue root.a with the whole gang",
        ),
    ],
)
def test_gangs_that_pass_the_gate_one_by_one_and_not_together_do_not_start(
    leaf: dict[str, object], sentence: str
) -> None:
    talk = a_talk(**leaf)
    talk.apps(a_gang("gang", 30), a_gang("other", 30))
    talk.asks(*(a_placeholder("p", count=3, app=app) for app in ("gang", "other")))
    of_one = (allocation(talk, "gang", "n1", "p"),) * 2
    assert (commit(talk, Plan(allocations=(*of_one, allocation(talk, "other", "n1", "p"))))[0] or "").startswith(
        sentence
    )
    assert commit(talk, Plan(allocations=of_one))[0] is None


def test_no_more_is_planned_of_an_ask_than_waits() -> None:
    talk = a_talk()
    plan = Plan(reservations=(reservation(talk, "app", "n1"),), allocations=(allocation(talk, "app", "n2"),) * 4)
    assert commit(talk, plan)[0] == "ask k waits for 4 allocations, and 5 are planned"


def test_an_ask_that_is_gone_or_waits_for_its_gang_holds_the_plan_back() -> None:
    talk = a_talk()
    plan = Plan(allocations=(allocation(talk, "second", "n1"), allocation(talk, "app", "n1")))
    talk.release_asks(allocation_key="k")
    assert commit(talk, plan)[0] == "ask k of application app does not wait any longer"
    talk.apps(a_gang())
    talk.asks(a_placeholder("p", app="gang"), real())
    plan = Plan(allocations=(allocation(talk, "second", "n1"), allocation(talk, "gang", "n1", "r")))
    assert commit(talk, plan)[0] == "ask r of application gang waits for its gang"


def test_a_node_that_is_gone_or_drains_holds_the_plan_back() -> None:
    talk = a_talk()
    plan = Plan(allocations=(allocation(talk, "app", "n1"), allocation(talk, "app", "n2")))
    talk.nodes(a_node("n2", action=NodeAction.DECOMISSION))
    assert commit(talk, plan)[0] == "node n2 is gone"
    talk = a_talk()
    plan = Plan(allocations=(allocation(talk, "app", "n1"), allocation(talk, "app", "n2")))
    talk.nodes(a_node("n2", action=NodeAction.DRAIN_NODE))
    assert (commit(talk, plan)[0] or "").startswith("node n2 does not take ask k: ")


def test_a_rule_keeps_a_single_allocation_out_as_well() -> None:
    talk = a_talk(max={"memory": 5})
    sentence = "queue root.a would be above its quota: 0 of 5 memory used, 10 more asked"
    assert commit(talk, Plan(allocations=(allocation(talk, "app", "n1"),)))[0] == sentence


def test_room_is_reserved_once_for_an_ask_on_a_node() -> None:
    talk = a_talk()
    one = reservation(talk, "app", "n1")
    assert commit(talk, Plan(reservations=(one, one)))[0] == "room of node n1 is reserved for ask k already"
    against, facts = commit(talk, Plan(reservations=(one, reservation(talk, "app", "n2"))))
    assert against is None
    assert [one.node_id for one in of(Reserved, facts)] == ["n1", "n2"]


def a_preemption(talk: Conversation) -> Plan:
    """For the ask of `third`: two allocations of `app` on n1."""
    running = talk.model().applications["app"].allocations.values()
    victims = tuple(one for one in running if one.node.node_id == "n1")[:2]
    planned = allocation(talk, "third", "n1")
    return Plan(preemptions=(PlannedPreemption(planned.application, planned.ask, planned.node, victims, "a test"),))


def test_victims_are_released_for_the_reservation_of_the_plan() -> None:
    talk = a_talk()
    assert len(placed(talk.cycle(8))) == 8
    against, facts = commit(talk, a_preemption(talk))
    assert against is None
    assert len(of(Preempted, facts)[0].victims) == 2
    assert [one.termination for one in of(ReleaseRequested, facts)] == [TerminationType.PREEMPTED_BY_SCHEDULER] * 2


def test_a_victim_that_is_gone_or_planned_twice_holds_the_plan_back() -> None:
    talk = a_talk()
    talk.cycle(8)
    plan = a_preemption(talk)
    assert commit(talk, Plan(preemptions=plan.preemptions * 2))[0] is not None
    (one,) = plan.preemptions
    talk.release(uuid=one.victims[0].uuid)
    assert commit(talk, plan)[0] == f"allocation {one.victims[0].uuid} may not be preempted any longer"
