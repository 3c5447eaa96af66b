"""The survey of nodes: it agrees with where asks are allocated, counts every node once, and stops often."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulerd.core.explain.rules import room
from schedulerd.core.explain.rules.ask import AHEAD_SEEN_MAX, explain_ask
from schedulerd.core.explain.rules.nodes import BEST_NODES_MAX, NODES_A_TURN, survey
from schedulerd.core.explain.rules.reasons import explain_queue
from schedulerd.core.explain.rules.room import NODES_A_TURN as ROOM_NODES_A_TURN
from schedulerd.core.language.commands import NodeAction
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from schedulerd.core.state.pending.request_class import RequestClass
from schedulerd.core.views.node_causes import node_cause
from schedulerd.observe.explain_sentences import reason_clause
from tests.loops import examples
from tests.unit.core.builders import a_conversation, a_node, a_queue_spec, a_root, an_app, an_ask
from tests.unit.core.constraint_builders import on, one_of
from tests.unit.core.explain.explained import explained, explained_app, explained_queue, finish, rm_of, stops
from tests.unit.core.preemption_builders import reservations_of, wait

AMOUNTS = st.integers(0, 12)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(AMOUNTS, AMOUNTS, st.booleans()), min_size=1, max_size=6),
    st.lists(st.tuples(AMOUNTS, AMOUNTS), max_size=8),
    st.tuples(AMOUNTS, AMOUNTS),
    st.sampled_from(["", "n0", "n1", "gone"]),
)
def test_it_agrees_with_the_rule_that_places_asks(
    nodes: list[tuple[int, int, bool]], asks: list[tuple[int, int]], wanted: tuple[int, int], required: str
) -> None:
    talk = a_conversation(*(a_node(f"n{at}", {"a": a, "b": b}) for at, (a, b, _) in enumerate(nodes)))
    talk.nodes(*(a_node(f"n{at}", action=NodeAction.DRAIN_NODE) for at, one in enumerate(nodes) if one[2]))
    talk.asks(*(an_ask(f"k{at}", resources=Resources(a=a, b=b)) for at, (a, b) in enumerate(asks)))
    talk.schedule()
    talk.sleep(30 * SECOND_NS)
    talk.schedule()
    partition = talk.model()
    request_class = RequestClass(Resources(a=wanted[0], b=wanted[1]).canonical(), required_node=required)
    for node in partition.nodes.values():
        refusal = partition.refusal(request_class, node)
        cause = node_cause(partition, request_class, node)
        assert (cause.kind == "room") is (refusal is None)
        assert cause.kind != "insufficient" or refusal == f"not enough {cause.detail}"
    found = finish(survey(partition, request_class))
    if required != "gone":
        assert sum(one.nodes for one in found.counts) == len(partition.nodes)
    first = partition.first_fit(request_class)
    room = [one.node_id for one in found.best if one.cause == "room"]
    assert room[:1] == ([first.node_id] if first is not None else [])


def test_it_stops_after_every_few_nodes() -> None:
    talk = a_conversation(*(a_node(f"n{at}", {"memory": 10}) for at in range(4 * NODES_A_TURN)))
    talk.asks(an_ask("k", 20))
    talk.schedule()
    application = talk.model().applications["app"]
    work = explain_ask(rm_of(talk), talk.model(), application, application.asks["k"], talk.now_ns)
    assert stops(work) == 4
    assert len(explained(talk).nodes.best) == BEST_NODES_MAX  # type: ignore[union-attr]


def test_counts_of_many_applications_are_at_least() -> None:
    talk = a_conversation(a_node("n1", {"memory": 5}))
    talk.apps(*(an_app(f"app-{at}") for at in range(AHEAD_SEEN_MAX + 1)))
    for at in range(0, AHEAD_SEEN_MAX + 1, 200):
        talk.asks(*(an_ask("k", app=f"app-{one}") for one in range(at, min(at + 200, AHEAD_SEEN_MAX + 1))))
    position = explained(talk, app=f"app-{AHEAD_SEEN_MAX}").position
    assert position is not None
    assert (position.at_least, position.first_ahead[0]) == (True, "app-0")


@pytest.mark.parametrize("count", [1, 40])
def test_reasons_add_up(count: int) -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}))
    talk.asks(*(an_ask(f"k{at}", 90 + at) for at in range(count)))
    talk.schedule()
    found = explained_app(talk)
    assert sum(one.allocations for one in found.reasons) == found.pending
    queue = explained_queue(talk, "root")
    assert sum(one.allocations for one in queue.reasons) == queue.pending == found.pending


def test_nodes_that_could_take_the_ask_when_they_are_empty_are_nearest() -> None:
    talk = a_conversation(*(a_node(f"small-{at}", {"memory": 59}) for at in range(BEST_NODES_MAX)))
    talk.nodes(a_node("large", {"memory": 100}))
    talk.asks(an_ask("first", 100))
    talk.schedule()
    talk.asks(an_ask("k", 60))
    talk.schedule()
    nodes = explained(talk).nodes
    assert nodes is not None
    assert [one.node_id for one in nodes.best][:2] == ["large", "small-0"]
    assert [(one.cause, one.nodes) for one in nodes.counts] == [("too_small", BEST_NODES_MAX), ("insufficient", 1)]


def test_a_node_that_lacks_more_than_all_that_are_named_is_not_named() -> None:
    talk = a_conversation(
        *(a_node(f"n{at}", {"memory": 59}) for at in range(BEST_NODES_MAX)), a_node("tiny", {"memory": 1})
    )
    talk.asks(an_ask("k", 60))
    talk.schedule()
    nodes = explained(talk).nodes
    assert nodes is not None
    assert [one.node_id for one in nodes.best] == [f"n{at}" for at in range(BEST_NODES_MAX)]


def test_a_cause_that_stays_is_counted_before_one_that_may_end() -> None:
    talk = a_conversation(a_node("n1", {"memory": 10}), a_node("n2", {"memory": 100}))
    talk.nodes(*(a_node(one, action=NodeAction.DRAIN_NODE) for one in ("n1", "n2")))
    causes = [
        node_cause(talk.model(), RequestClass((("memory", 50),), required_node=required), node).kind
        for required in ("", "n2")
        for node in talk.model().nodes.values()
    ]
    assert causes == ["too_small", "state", "not_required", "room"]


def test_unschedulable_asks_are_told_apart_by_what_the_nodes_lack() -> None:
    talk = a_conversation(*(a_node(f"n{at}", {"memory": 10, "gpu": int(at == 0)}) for at in range(3)))
    talk.nodes(a_node("n3", {"memory": 10}), a_node("n3", action=NodeAction.DRAIN_NODE))
    talk.asks(*(an_ask(f"first-{at}", resources=Resources(memory=6, gpu=int(at == 0))) for at in range(3)))
    talk.schedule()
    talk.asks(
        an_ask("gpu", resources=Resources(memory=1, gpu=1), count=5),
        an_ask("gpu-2", resources=Resources(memory=2, gpu=1), count=2),
        an_ask("memory", 8, count=3),
        an_ask("large", 11),
    )
    talk.schedule()
    said = [(one.allocations, reason_clause(one, talk.now_ns)) for one in explained_queue(talk, "root").reasons]
    assert said == [
        (7, "no node has room: 3 Insufficient gpu, 1 draining or not ready, such as for 1 gpu, 1 memory"),
        (3, "no node has room: 3 Insufficient memory, 1 draining or not ready, such as for 8 memory"),
        (1, "no node can ever fit 11 memory; the largest has 10"),
    ]


def test_a_constraint_is_named_only_where_it_may_be_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """No node has room for 8: that is why an ask waits whose constraint allows one of them."""
    talk = a_conversation(
        a_node("n1", {"memory": 20}, attributes={"disk": "ssd"}), *(a_node(f"n{at}", {"memory": 10}) for at in (2, 3))
    )
    talk.asks(an_ask("on-1", 13, constraint=on(one_of("disk", "ssd"))), *(an_ask(f"f{at}", 5) for at in range(5)))
    talk.schedule()

    def said(size: int, disk: str) -> list[str]:
        talk.asks(an_ask("k", size, constraint=on(one_of("disk", disk))))
        talk.schedule()
        found = [reason_clause(one, talk.now_ns) for one in explained_queue(talk, "root").reasons]
        talk.release_asks(allocation_key="k")
        return found

    both = "no node both has room and is allowed by its placement constraint"
    assert said(8, "ssd") == ["no node has room: 3 Insufficient memory, such as for 8 memory"]
    assert said(8, "tape") == [f"{both}: 3 Insufficient memory"]
    assert said(2, "tape") == [f"{both}: 2 Insufficient memory"]
    monkeypatch.setattr(room, "CONSTRAINTS_SEEN_MAX", 0)
    assert said(8, "ssd") == [f"{both}: 3 Insufficient memory"]


def test_the_nodes_are_visited_once_for_all_reasons_in_slices() -> None:
    talk = a_conversation(*(a_node(f"n{at}", {"memory": 10}) for at in range(4 * ROOM_NODES_A_TURN)))
    talk.asks(*(an_ask(f"k{at}", 11 + at) for at in range(12)))
    talk.schedule()
    work = explain_queue(rm_of(talk), talk.model(), talk.model().root, talk.now_ns)
    # The nodes, what they have free of one resource, the applications, the reason, and the use of the queue.
    assert stops(work) == 4 + 1 + 1 + 1 + 1


SMALL = st.integers(1, 12)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=3),
    st.lists(st.tuples(SMALL, SMALL, st.booleans()), min_size=1, max_size=8),
    st.lists(st.integers(0, 12), min_size=3, max_size=3),
)
def test_never_more_is_lacking_than_is_asked_for(
    nodes: list[tuple[int, int]], asks: list[tuple[int, int, bool]], shrunk: list[int]
) -> None:
    """Whatever is reserved there, for others or for the ask itself, and however far nodes are overcommitted."""
    root = a_root(a_queue_spec("a", guaranteed={"memory": 20}), a_queue_spec("v"))
    talk = a_conversation(*(a_node(f"n{at}", {"memory": a, "vcore": b}) for at, (a, b) in enumerate(nodes)), root=root)
    talk.apps(an_app("other", "root.v"))
    sizes = [Resources(memory=memory, vcore=vcore) for memory, vcore, _ in asks]
    talk.asks(*(an_ask(f"o{at}", app="other", resources=size) for at, size in enumerate(sizes)))
    talk.schedule()
    for at, size in enumerate(sizes):
        tags = {REQUIRED_NODE_TAG: "n0"} if asks[at][2] else {}
        talk.asks(an_ask(f"k{at}", resources=size, tags=tags, allow_preempt_other=True))
    wait(talk, 31 * SECOND_NS)
    for at, memory in enumerate(shrunk[: len(nodes)]):
        talk.nodes(a_node(f"n{at}", {"memory": memory}, action=NodeAction.UPDATE))
    for application_id in ("app", "other"):
        for ask in list(talk.model().applications[application_id].asks.values()):
            if ask.group is None:
                continue
            found = explained(talk, ask.key, application_id)
            near = [] if found.nodes is None else found.nodes.best
            lacks = [one for fit in near for one in fit.lacks] + [
                one for kept in found.reservations for one in kept.lacks
            ]
            for one in lacks:
                assert one.free >= 0
                assert one.missing == one.asked - one.free <= one.asked


def test_what_is_reserved_for_the_ask_itself_is_not_taken_from_it() -> None:
    talk = a_conversation(a_node("n1", {"memory": 40}))
    talk.apps(an_app("other"))
    talk.asks(an_ask("k1", 35, app="other"))
    talk.schedule()
    talk.asks(an_ask("k2", 10))
    wait(talk, 5 * SECOND_NS)
    assert reservations_of(talk) == [("k2", "n1", False)]
    found = explained(talk, "k2")
    assert found.nodes is not None
    [near] = found.nodes.best
    assert [(one.resource, one.missing, one.free) for one in near.lacks] == [("memory", 5, 5)]
