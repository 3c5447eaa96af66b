"""Searches for victims that take several cycles, and what changes meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from schedulerd.core.language.commands import NodeAction
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import (
    SECOND_NS,
    QueueSpec,
    Timeouts,
)
from schedulerd.core.preemption.handlers import preemption
from tests.unit.core.builders import (
    Conversation,
    a_node,
    a_partition_spec,
    a_placeholder,
    a_scheduler,
    an_app,
    an_ask,
    an_existing,
    placed,
)
from tests.unit.core.configurations import reload
from tests.unit.core.preemption_builders import (
    an_entitled_ask,
    finished,
    full_nodes,
    guaranteed_root,
    preempted,
    refusals,
    reservations_of,
    wait,
    without_preemption,
)

TIMES = Timeouts()
DELAY_NS = 30 * SECOND_NS


# searches that take several cycles


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cycle looks at one more thing only."""
    monkeypatch.setattr(preemption, "VISITS_PER_SLICE", 1)


def slow_searches(root: QueueSpec | None = None) -> Iterator[Conversation]:
    """The search for `c`, each time one cycle further, as long as it is not finished."""
    for cycles in count(1):
        talk = full_nodes(root, n1=[10, 10], n2=[10, 10])
        talk.asks(an_entitled_ask())
        wait(talk, DELAY_NS - 1)
        talk.sleep(1)
        for _ in range(cycles):
            talk.cycle()
        if talk.model().retry_timers.search is None:
            assert cycles > 3
            return
        yield talk


@pytest.mark.usefixtures("slow")
def test_it_comes_to_the_same_as_at_once() -> None:
    for talk in slow_searches():
        assert preempted(talk.schedule()) == ["n1_1"]
        assert talk.model().retry_timers.search is None


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(
    "change",
    [
        lambda talk: talk.release_asks(application_id="claimer"),
        lambda talk: talk.remove("claimer"),
        lambda talk: talk.asks(an_entitled_ask(allow_preempt_other=False)),
        lambda talk: talk.asks(an_entitled_ask(priority=-1)),
        lambda talk: talk.asks(an_entitled_ask(memory=60)),
        lambda talk: talk.asks(a_placeholder("p", 1000, app="claimer")),
        lambda talk: reload(talk, guaranteed_root(0)),
        lambda talk: reload(talk, guaranteed_root(victims={"guaranteed": {"memory": 40}})),
        lambda talk: talk.step(without_preemption(guaranteed_root())),
        lambda talk: talk.nodes(*(a_node(one, action=NodeAction.DRAIN_NODE) for one in ("n1", "n2"))),
        lambda talk: talk.nodes(*(a_node(one, action=NodeAction.DECOMISSION) for one in ("n1", "n2"))),
        lambda talk: talk.nodes(*(a_node(one, {"memory": 9}, action=NodeAction.UPDATE) for one in ("n1", "n2"))),
    ],
    ids=[
        "ask released",
        "application removed",
        "does not allow it now",
        "priority lowered",
        "larger than its guarantee",
        "has to wait for its gang",
        "guarantee gone",
        "victims guaranteed",
        "switched off",
        "nodes drained",
        "nodes gone",
        "nodes too small",
    ],
)
def test_nothing_is_preempted_if_there_is_no_reason_any_longer_when_it_is_done(
    change: Callable[[Conversation], Any],
) -> None:
    for talk in slow_searches():
        change(talk)
        assert preempted(talk.schedule()) == []


@pytest.mark.usefixtures("slow")
def test_a_guarantee_that_is_used_up_meanwhile_leaves_no_right() -> None:
    for talk in slow_searches(guaranteed_root(15)):
        talk.apps(an_app("twin", "root.c"))
        talk.nodes(a_node("n3", {"memory": 9}))
        talk.asks(an_ask("uses", 9, app="twin"))
        facts = talk.schedule()
        assert placed(facts) == [("twin", "uses", "n3")]
        assert preempted(facts) == []


@pytest.mark.usefixtures("slow")
def test_an_allocation_that_may_be_preempted_since_the_search_began_is_found_by_the_next_attempt() -> None:
    """Nothing moves after the search, which did not see what moved meanwhile."""
    refused = []
    for talk in slow_searches(guaranteed_root(victims={"guaranteed": {"memory": 35}})):
        talk.nodes(a_node("n3", {"memory": 10}, an_existing("e", "e", "victims", 10)))
        facts = talk.schedule()
        refused += refusals(facts)
        assert len(preempted(facts + wait(talk, TIMES.preemption_attempt_ns))) == 1
    assert ("c", "no_node") in refused


@pytest.mark.usefixtures("slow")
def test_a_victim_that_is_gone_when_it_is_done_is_not_preempted() -> None:
    for talk in slow_searches():
        finished(talk, "n1_1")
        assert placed(talk.schedule()) == [("claimer", "c", "n1")]
        assert preempted(wait(talk, DELAY_NS)) == []


@pytest.mark.usefixtures("slow")
def test_room_that_turns_up_behind_a_reservation_is_not_for_an_ask_without_a_right_any_longer() -> None:
    """What is kept for ordinary asks may be taken by who has a right to it: that is judged when the search is done."""
    for cycles in range(1, 12):
        talk = full_nodes(guaranteed_root(10), n1=[10, 10], n2=[10, 10])
        talk.asks(an_ask("big", 20, app="other", count=2, priority=9))
        wait(talk, TIMES.reservation_delay_ns)
        assert len(reservations_of(talk)) == 2
        talk.apps(an_app("twin", "root.c"))
        talk.asks(an_entitled_ask())
        wait(talk, DELAY_NS - 1)
        talk.sleep(1)
        for _ in range(cycles):
            talk.cycle()
        searches = talk.model().retry_timers.search is not None
        talk.nodes(a_node("n3", {"memory": 5}))
        talk.asks(an_ask("uses", 5, app="twin"))
        finished(talk, "n1_1", "n2_1")
        facts = talk.schedule()
        if searches:
            assert placed(facts) == [("twin", "uses", "n3")]
            assert preempted(facts) == []
            assert [key for key, _ in refusals(facts)] == ["c"]


@pytest.mark.usefixtures("slow")
def test_an_ask_behind_a_search_has_its_turn() -> None:
    for talk in slow_searches():
        talk.apps(an_app("second", "root.c"))
        talk.asks(an_entitled_ask("s", app="second"))
        assert len(preempted(wait(talk, DELAY_NS))) == 2


# searches for a node to keep


def test_the_search_for_nodes_to_reserve_stops_after_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """No node has both the memory and the cores for any of the asks, which wait for long."""
    monkeypatch.setattr(preemption, "VISITS_PER_SLICE", 50)
    nodes, sizes = 40, 10
    talk = Conversation(a_scheduler())
    talk.register(a_partition_spec())
    talk.connect()
    talk.apps(an_app())
    rooms = {"memory": 100, "vcore": 1}, {"memory": 1, "vcore": 100}
    talk.nodes(*(a_node(f"n{at}", rooms[at % 2]) for at in range(nodes)))
    talk.asks(*(an_ask(f"k{at}", resources=Resources(memory=20 + at, vcore=20)) for at in range(sizes)))
    talk.schedule()
    budget = talk.model().retry_timers.budget
    talk.sleep(TIMES.reservation_delay_ns)
    looked_at = []
    while talk.scheduler.wants_cycle():
        before = budget.visits
        talk.cycle(100)
        looked_at.append(budget.visits - before)
    assert sum(looked_at) >= nodes * sizes
    assert max(looked_at) < 50 + sizes + nodes
    assert all(visits >= 50 for visits in looked_at[:-1])
