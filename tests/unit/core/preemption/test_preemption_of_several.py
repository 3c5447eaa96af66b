"""An ask for several allocations gets room for all of them at once, like as many asks for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from schedulerd.core.language.commands import NewAsk
from schedulerd.core.language.facts.fact import Allocated, Fact, ReleaseRequested
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS, QueueSpec, WithinQueue
from schedulerd.core.state.model import node as model_node
from tests.unit.core.answering_rm import AnsweringRM
from tests.unit.core.builders import Conversation, a_node, a_queue_spec, a_root, an_app, an_ask, of, placed
from tests.unit.core.preemption_builders import (
    a_daemon,
    an_entitled_ask,
    confirm_releases,
    guaranteed_root,
    preempted,
    reservations_of,
    wait,
)

DELAY_NS = 30 * SECOND_NS

Story = list[tuple[int, str, str]]
"""What happened to whom, and when."""


class Case(NamedTuple):
    """A full cluster, and for how many of the eight allocations somebody is preempted, and when."""

    nodes: dict[str, int]
    """How many allocations of 10 run there."""
    root: QueueSpec = guaranteed_root(80)
    ask: Callable[..., NewAsk] = an_entitled_ask
    served: int = 8
    preempted_ns: int = DELAY_NS
    claimers: str = "root.c"
    predicates: bool = False
    placeholders: int = 0


def of_a_gang(key: str, count: int) -> NewAsk:
    return an_entitled_ask(key, placeholder=True, task_group="group", count=count)


def above_others(key: str, count: int) -> NewAsk:
    return an_entitled_ask(key, priority=1, count=count)


def on_n1(key: str, count: int) -> NewAsk:
    return a_daemon(key, app="claimer", count=count)


WITHIN = a_root(a_queue_spec("v", preemption_within_queue=WithinQueue.PRIORITY))
CASES = {
    "one node": Case({"n1": 8}),
    "two nodes": Case({"n1": 5, "n2": 3}),
    "eight nodes": Case({f"n{number}": 1 for number in range(8)}),
    "a guarantee for five": Case({"n1": 8}, guaranteed_root(50), served=5),
    "victims for three": Case({"n1": 3}, served=3),
    "within a queue": Case({"n1": 8}, WITHIN, above_others, claimers="root.v"),
    "a gang": Case({"n1": 8}, ask=of_a_gang, placeholders=80),
    "a required node": Case({"n1": 8, "n2": 1}, ask=on_n1, preempted_ns=0),
    "a required node with room for three": Case({"n1": 3}, ask=on_n1, served=3, preempted_ns=0),
    "the RM has a say": Case({"n1": 5, "n2": 3}, predicates=True),
    "the RM has a say about a required node": Case({"n1": 8}, ask=on_n1, preempted_ns=0, predicates=True),
}


def a_full_cluster(case: Case) -> Conversation:
    talk = AnsweringRM()
    talk.begin(case.root, predicates=case.predicates, preemption=case.predicates)
    talk.apps(
        an_app("claimer", case.claimers, placeholder_ask=Resources(memory=case.placeholders)),
        an_app("victims", "root.v"),
    )
    for node, count in case.nodes.items():
        talk.nodes(a_node(node, {"memory": 10 * count}))
        talk.asks(*(an_ask(f"{node}_{number}", 10, app="victims") for number in range(count)))
        assert len(placed(talk.schedule())) == count
    return talk


def a_story(case: Case, asks_count: int, each: int) -> Story:
    """So many asks, each for so many allocations of 10: who is preempted, and where they run as victims end."""
    talk = a_full_cluster(case)
    start_ns = talk.now_ns
    story: Story = []

    def tell(facts: list[Fact]) -> None:
        at_ns = talk.now_ns - start_ns
        story.extend((at_ns, "preempted", one.allocation_key) for one in of(ReleaseRequested, facts))
        story.extend((at_ns, "placed", one.node_id) for one in of(Allocated, facts))

    tell(talk.asks(*(case.ask(f"c{number}", count=each) for number in range(asks_count))) + talk.schedule())
    for _ in range(16):
        tell(wait(talk, 5 * SECOND_NS))
        leaving = [one.key for one in talk.model().allocations.values() if one.releasing is not None]
        tell(confirm_releases(talk, *leaving[:1]) + talk.schedule())
    assert case.served < 8 or not reservations_of(talk)
    return story


def test_no_more_is_reserved_on_the_only_node_than_it_could_hold() -> None:
    talk = a_full_cluster(Case({"n1": 3}))
    talk.asks(on_n1("c", count=8))
    facts = talk.schedule()
    assert reservations_of(talk) == [("c", "n1", True)] * 3
    confirm_releases(talk, *preempted(facts))
    assert len(placed(talk.schedule())) == 3
    assert reservations_of(talk) == []
    assert preempted(wait(talk, 60 * SECOND_NS)) == []


def test_no_more_is_reserved_on_the_only_node_than_quotas_let_in() -> None:
    queues = a_root(a_queue_spec("c", max={"memory": 20}), a_queue_spec("v"))
    talk = a_full_cluster(Case({"n1": 8}, queues))
    talk.asks(on_n1("c", count=8))
    assert preempted(talk.schedule()) == ["n1_7", "n1_6"]
    assert len(reservations_of(talk)) == 2
    assert len(placed(confirm_releases(talk, "n1_7") + talk.schedule())) == 1
    assert len(placed(confirm_releases(talk, "n1_6") + talk.schedule())) == 1
    assert preempted(wait(talk, 60 * SECOND_NS)) == []


def test_a_node_has_so_many_reservations_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_node, "RESERVATIONS_MAX", 3)
    talk = a_full_cluster(Case({"n1": 5}))
    talk.asks(on_n1("d", count=2), an_entitled_ask("c", count=2))
    assert len(preempted(wait(talk, DELAY_NS))) == 3
    assert reservations_of(talk) == [("d", "n1", True)] * 2 + [("c", "n1", True)]


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_one_ask_for_eight_is_served_like_eight_asks(case: Case) -> None:
    one_ask = a_story(case, 1, 8)
    assert one_ask == a_story(case, 8, 1)
    assert [(at_ns, what) for at_ns, what, _ in one_ask][: case.served] == [
        (case.preempted_ns, "preempted")
    ] * case.served
    assert [what for _, what, _ in one_ask[case.served :]] == ["placed"] * case.served
