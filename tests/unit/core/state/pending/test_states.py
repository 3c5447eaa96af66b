"""The state of each pending allocation: one small cluster for each state, and what leads from one to the next."""

from __future__ import annotations

import pytest

from schedulerd.core.language.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.language.resources import Limits
from schedulerd.core.language.specs import SECOND_NS, LimitSpec
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.predicate_check import PredicateCheck, PredicateHistory
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.pending.rules.states import STATES, PendingState, StateCount, Waiting, states_of
from schedulerd.core.state.quotas.rules import Blocked
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
from tests.unit.core.gang_builders import a_full_gang, a_gang, a_swap, confirm, real

S = PendingState
ROOM = {"memory": 100}


def found(talk: Conversation, key: str = "k", app: str = "app") -> list[Waiting]:
    rm = talk.scheduler.cluster.resource_managers[talk.rm_id]
    application = talk.model().applications[app]
    return states_of(talk.model(), rm.state, application, application.asks[key])


def counts(talk: Conversation, key: str = "k", app: str = "app") -> dict[PendingState, int]:
    of_state: dict[PendingState, int] = {}
    for one in found(talk, key, app):
        of_state[one.state] = of_state.get(one.state, 0) + one.allocations
    return of_state


def cause(talk: Conversation, key: str = "k", app: str = "app") -> object:
    [one] = found(talk, key, app)
    return one.cause


def test_an_ask_that_was_not_reached_yet_is_ready() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.asks(an_ask("k", count=3))
    assert found(talk) == [Waiting(S.READY, 3, None)]


def test_a_quota_blocks_with_its_numbers() -> None:
    talk = a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a", max={"memory": 30})))
    talk.asks(an_ask("k", 20, count=3))
    talk.schedule()
    [one] = found(talk)
    assert (one.state, one.allocations) == (S.QUOTA_BLOCKED, 2)
    assert isinstance(one.cause, Blocked)
    assert (one.cause.queue.path, one.cause.resource, one.cause.used, one.cause.asked, one.cause.max) == (
        "root.a",
        "memory",
        20,
        20,
        30,
    )


def test_a_gang_that_its_quota_cannot_hold_is_blocked_by_it() -> None:
    talk = a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a", max={"memory": 50})))
    talk.asks(an_ask("k", 20))
    talk.schedule()
    talk.apps(a_gang(memory=40))
    talk.asks(a_placeholder("p", count=4, app="gang"))
    talk.schedule()
    assert counts(talk, "p", "gang") == {S.QUOTA_BLOCKED: 4}


def test_a_limit_of_a_user_blocks() -> None:
    limit = LimitSpec(users=("somebody",), groups=(), max=Limits({"memory": 10}))
    talk = a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a", limits=(limit,))))
    talk.asks(an_ask("k", 10, count=2))
    talk.schedule()
    assert counts(talk) == {S.USER_LIMIT_BLOCKED: 1}


@pytest.mark.parametrize("by", ["queue", "user"])
def test_a_bound_on_running_applications_blocks(by: str) -> None:
    limits = (LimitSpec(users=("somebody",), groups=(), max_applications=1),) if by == "user" else ()
    leaf = a_queue_spec("a", max_applications=int(by == "queue"), limits=limits)
    talk = a_conversation(a_node("n1", ROOM), root=a_root(leaf))
    talk.apps(an_app("second"))
    talk.asks(an_ask("k", 10), an_ask("k", 10, app="second"))
    talk.schedule()
    assert counts(talk, "k", "second") == {S.MAX_APPLICATIONS_BLOCKED: 1}


def test_an_ask_that_no_node_fits_is_unschedulable_until_a_node_comes() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.asks(an_ask("k", 200))
    talk.schedule()
    assert found(talk) == [Waiting(S.UNSCHEDULABLE, 1, None)]
    talk.nodes(a_node("n2", {"memory": 300}))
    assert counts(talk) == {S.READY: 1}


def test_a_quota_counts_before_nodes() -> None:
    """Another node would not help, so an autoscaler must not hear that one is missing."""
    talk = a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a", max={"memory": 150})))
    talk.asks(an_ask("k", 200))
    talk.schedule()
    assert counts(talk) == {S.QUOTA_BLOCKED: 1}


def test_real_asks_wait_for_the_placeholders_of_their_gang() -> None:
    talk = a_conversation(a_node("n1", {"memory": 15}))
    talk.apps(a_gang())
    talk.asks(a_placeholder("p", count=2, app="gang"), real())
    talk.schedule()
    assert counts(talk, "r", "gang") == {S.AWAITING_GANG: 1}
    assert cause(talk, "r", "gang") is talk.model().applications["gang"]


def test_an_ask_awaits_the_placeholder_whose_room_it_gets() -> None:
    talk = a_full_gang()
    request = a_swap(talk)
    assert counts(talk, "r", "gang") == {S.AWAITING_PLACEHOLDER: 1}
    placeholder = cause(talk, "r", "gang")
    assert isinstance(placeholder, Allocation)
    assert placeholder.uuid == request.uuid
    confirm(talk, request)
    assert found(talk, "r", "gang") == []


def test_an_ask_awaits_the_answer_about_a_node() -> None:
    judge = a_judge(silent=True)
    judge.asks(an_ask("k", count=2))
    judge.cycle(1)
    assert counts(judge) == {S.AWAITING_PREDICATE: 1, S.READY: 1}
    [check, _] = (one.cause for one in found(judge))
    assert isinstance(check, PredicateCheck)
    assert check.node.node_id == "n1"


def test_an_ask_that_every_node_refused_says_with_which_reasons() -> None:
    judge = a_judge(refuses=(("k", "n1"),))
    judge.asks(an_ask("k"))
    judge.schedule()
    assert counts(judge) == {S.PREDICATE_FAILED: 1}
    history = cause(judge)
    assert isinstance(history, PredicateHistory)
    assert history.reasons == {"tainted": (1, "n1")}


def test_room_is_reserved_for_some_of_an_ask_and_the_rest_is_unschedulable() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.apps(an_app("other"))
    talk.asks(an_ask("small", 60, app="other"))
    talk.schedule()
    talk.asks(an_ask("k", 50, count=3))
    talk.schedule()
    assert counts(talk) == {S.UNSCHEDULABLE: 3}
    talk.sleep(60 * SECOND_NS)
    talk.schedule()
    assert counts(talk) == {S.RESERVED: 1, S.UNSCHEDULABLE: 2}
    assert isinstance(found(talk)[0].cause, Reservation)


def test_nothing_is_tried_for_an_application_or_a_resource_manager_that_is_not_there() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.apps(a_gang(memory=1_000, gang_style="Hard"))
    talk.asks(a_placeholder("p", 500, count=2, app="gang"), real("r", 500))
    talk.asks(a_placeholder("q", 10, app="gang"))
    talk.schedule()
    talk.sleep(talk.scheduler.cluster.timeouts.placeholder_ns)
    assert talk.app("gang").state == ApplicationState.FAILING
    assert cause(talk, "r", "gang") is ApplicationState.FAILING
    assert counts(talk, "r", "gang") == {S.APPLICATION_INACTIVE: 1}
    talk.asks(an_ask("k"))
    talk.disconnect()
    assert cause(talk) is ResourceManagerState.PAUSED


def test_every_state_has_its_meaning() -> None:
    assert list(STATES) == list(PendingState)
    assert {one.pod_reason for one in STATES.values()} == {"SchedulingSkipped", "Unschedulable"}


def test_a_count_in_slices_is_the_count_of_all_asks() -> None:
    talk = a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a", max={"memory": 30}), a_queue_spec("b")))
    talk.apps(*(an_app(f"b{number}", "root.b") for number in range(5)))
    talk.asks(an_ask("k", 20, count=3), *(an_ask("k", 70, app=f"b{number}") for number in range(5)))
    talk.schedule()
    rm = talk.scheduler.cluster.resource_managers[talk.rm_id]
    count = StateCount(talk.model(), rm.state)
    slices = 0
    while count.advance(2):
        slices += 1
    assert slices == 3
    assert {state: number for state, number in count.counts.items() if number} == {
        S.QUOTA_BLOCKED: 2,
        S.UNSCHEDULABLE: 4,
    }
