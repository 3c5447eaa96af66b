"""What an explanation costs is bounded by what it shows: counted, and held against ten times as much that waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from schedulerd.core.explain.rules import reasons
from schedulerd.core.explain.rules.reasons import explain_application, explain_queue
from schedulerd.core.explain.values import QueueExplanation
from schedulerd.core.language.commands import Command
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.specs import ApplicationOrder, QueueSpec
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.rules import pending_allocations
from schedulerd.daemon.admin.api import explain_routes
from schedulerd.daemon.admin.api.finding import Place
from schedulerd.daemon.admin.ui.counts import count
from schedulerd.observe.explain_sentences import application_summary, queue_summary
from tests.unit.core.builders import RM, Conversation, a_conversation, a_node, a_queue_spec, a_root, an_app, an_ask
from tests.unit.core.explain.explained import explained_app, explained_queue, finish, rm_of, stops

pytestmark = pytest.mark.interpreted

LEAVES, SIZES = 4, 3


class Busy(Conversation):
    """Checks its invariants at the end only."""

    def step(self, command: Command) -> list[Fact]:
        return self.scheduler.step(self.now_ns, command)


def crowd(applications: int, asks_each: int, *leaves: QueueSpec) -> Conversation:
    """A cluster of one node that is full, in whose leaf queues many applications wait, with asks of few sizes."""
    queues = leaves or tuple(a_queue_spec(f"q{at}", max={"memory": 40} if at % 2 else None) for at in range(LEAVES))
    talk = a_conversation(a_node("n1", {"memory": 100}), root=a_root(*queues))
    talk.__class__ = Busy
    talk.apps(*(an_app(f"a{at}", f"root.{queues[at % len(queues)].name}") for at in range(applications)))
    for at in range(applications):
        size = 10 * (1 + at // len(queues) % SIZES)
        talk.asks(*(an_ask(f"k{number}", size, app=f"a{at}") for number in range(asks_each)))
    talk.schedule()
    return talk


@pytest.fixture
def visits(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a state is found, and the asks of a group are begun with."""
    found: Counter[str] = Counter()

    def counting(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            found[name] += 1
            return original(*args)

        return counted

    for name in ("class_state", "group_state"):
        monkeypatch.setattr(reasons, name, counting(name, getattr(reasons, name)))
    monkeypatch.setattr(AskGroup, "__iter__", counting("groups begun", AskGroup.__iter__))
    return found


def of_root(talk: Conversation) -> QueueExplanation:
    return explained_queue(talk, "root")


def test_an_explanation_of_a_queue_costs_the_same_with_ten_times_the_applications_and_asks(
    visits: Counter[str],
) -> None:
    work = []
    for applications, asks_each in ((24, 5), (240, 5), (24, 50)):
        talk = crowd(applications, asks_each)
        visits.clear()
        found = of_root(talk)
        assert set(visits) == {"class_state", "groups begun"}
        assert visits["groups begun"] == len(found.reasons)
        work.append(visits["class_state"])
        placed = len(talk.model().allocations)
        assert (found.pending, found.unexplained, found.at_least) == (applications * asks_each - placed, 0, False)
        assert sum(one.allocations for one in found.reasons) == found.pending
        assert sum(one.applications for one in found.reasons) >= applications - placed
    assert work[0] == work[1] == work[2] <= LEAVES * SIZES


def test_the_numbers_of_a_page_cost_the_same_with_ten_times_the_asks(visits: Counter[str]) -> None:
    for asks_each in (5, 50):
        talk = crowd(24, asks_each)
        visits.clear()
        found = finish(count(talk.model()))
        assert found.waiting == 24 * asks_each - len(talk.model().allocations)
        assert not visits
    assert {one.path: number for one, number in found.waiting_by_queue.items()} == {
        one.path: explained_queue(talk, one.path).pending for one in talk.model().root.subtree()
    }


def test_applications_that_the_pending_index_does_not_count_are_visited_up_to_a_bound(
    visits: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a state-aware leaf only one application at a time passes its demand on."""
    monkeypatch.setattr(reasons, "GROUPS_SEEN_MAX", 6)
    talk = crowd(20, 2, a_queue_spec("a", order=ApplicationOrder.STATE_AWARE))
    pending = 40 - len(talk.model().allocations)
    visits.clear()
    found = of_root(talk)
    assert visits["group_state"] == 6
    assert (found.pending, found.at_least) == (pending, False)
    assert found.unexplained == pending - sum(one.allocations for one in found.reasons) > 0
    assert queue_summary(found)[1].startswith(f"The reasons are those of {pending - found.unexplained} of them")
    monkeypatch.setattr(pending_allocations, "APPLICATIONS_SEEN_MAX", 10)
    found = of_root(talk)
    assert found.at_least
    assert found.pending < pending
    assert f"at least {found.pending} pending" in queue_summary(found)[0]
    numbers = finish(count(talk.model()))
    assert numbers.at_least
    assert numbers.waiting == found.pending


def test_classes_of_which_there_are_too_many_are_only_added_up(
    visits: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reasons, "CLASSES_SEEN_MAX", 3)
    talk = crowd(24, 5)
    visits.clear()
    found = of_root(talk)
    assert visits["class_state"] == 3
    assert found.pending == 24 * 5 - len(talk.model().allocations)
    assert found.unexplained == found.pending - sum(one.allocations for one in found.reasons) > 0
    monkeypatch.setattr(reasons, "CLASSES_COUNTED_MAX", 3)
    assert of_root(talk).at_least


def test_an_application_with_very_many_kinds_of_asks_is_explained_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasons, "GROUPS_SEEN_MAX", 5)
    talk = a_conversation(a_node("n1", {"memory": 10}))
    talk.asks(*(an_ask(f"k{at}", 11 + at) for at in range(12)))
    talk.schedule()
    found = explained_app(talk)
    assert (found.pending, found.at_least) == (5, True)
    assert "at least 5 pending" in application_summary(found)[0]


def test_no_step_of_an_explanation_takes_longer_with_more_applications() -> None:
    """Stops come after as many classes and applications, whatever there is of them."""
    talk = crowd(600, 1)
    work = explain_queue(rm_of(talk), talk.model(), talk.model().root, talk.now_ns)
    assert stops(work) >= 600 // pending_allocations.APPLICATIONS_A_TURN
    application = talk.model().applications["a599"]
    assert stops(explain_application(rm_of(talk), talk.model(), application, talk.now_ns)) >= 1


def test_a_pod_is_looked_for_in_large_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain_routes, "_ASKS_A_TURN", 10)
    talk = a_conversation(a_node("n1", {"memory": 10}))
    talk.apps(an_app("other", tags={"namespace": "blue"}))

    def tags(at: int) -> dict[str, str]:
        return {"kubernetes.io/meta/namespace": "red", "kubernetes.io/meta/podName": f"p{at}"}

    talk.asks(*(an_ask(f"k{at}", 11, tags=tags(at)) for at in range(50)))
    talk.asks(*(an_ask(f"o{at}", 11, app="other", tags=tags(100 + at)) for at in range(50)))
    rm = talk.scheduler.cluster.resource_managers[RM]
    place = Place(rm, talk.model())
    for name, key in (("p49", "k49"), ("p149", "o49")):
        pair, saw_all = finish(explain_routes._find_pod(place, "red", name))
        assert pair is not None
        assert (pair[1].key, saw_all) == (key, True)
    assert finish(explain_routes._find_pod(place, "blue", "p1")) == (None, True)
    assert stops(explain_routes._find_pod(place, "red", "none")) == 10
    monkeypatch.setattr(explain_routes, "OTHER_ASKS_SEEN_MAX", 20)
    assert stops(explain_routes._find_pod(place, "red", "none")) == 2
    assert finish(explain_routes._find_pod(place, "red", "none")) == (None, False)
    assert finish(explain_routes._find_pod(place, "blue", "none")) == (None, False)


def test_what_has_gone_between_two_stops_is_left_out() -> None:
    talk = crowd(40, 1)
    work = explain_queue(rm_of(talk), talk.model(), talk.model().root, talk.now_ns)
    next(work)
    talk.remove(*(f"a{at}" for at in range(40)))
    assert finish(work).pending <= 40
    assert finish(count(talk.model())).waiting == 0
