"""Decisions become changes of node, application, queues and user together, and nothing is left of what is gone.

Every step of a `Conversation` counts all ledgers anew, so what is told here is what counting cannot see.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulerd.core.language.commands import ExistingAllocation, NodeAction
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import Timeouts
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.partition import Partition
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_model_node,
    a_node,
    a_partition_spec,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
)

DEEP = a_root(a_queue_spec("p", a_queue_spec("a")))


class Books:
    """An application two queues below the root, and a node; no scheduler around them."""

    def __init__(self) -> None:
        self.partition = Partition("rm", a_partition_spec(DEEP), Timeouts())
        queue = self.partition.root.find("root.p.a")
        assert queue is not None
        self.queues = queue.path_to_root
        self.app = Application(an_app("app", "root.p.a", user="ann"), "rm", self.partition.name, queue, 1, 0)
        self.app.state = self.app.state.ACCEPTED
        self.partition.applications["app"] = queue.applications["app"] = self.app
        self.node: Node = a_model_node("n1", {"memory": 100}, self.partition.scoring)
        self.partition.nodes["n1"] = self.node
        commit.open_node(self.partition, self.node)

    def ask(self, key: str = "k", count: int = 1, placeholder: bool = False, **amounts: int) -> Ask:
        spec = a_placeholder(key) if placeholder else an_ask(key)
        request_class = self.partition.request_classes.of(Resources(amounts or {"memory": 10}))
        ask = self.app.asks[key] = Ask(spec, request_class, self.partition.next_serial(), 0)
        commit.demand(self.partition, self.app, ask, count)
        return ask

    def pending(self) -> list[Resources]:
        return [self.app.pending, *(queue.pending for queue in self.queues)]

    def allocated(self) -> list[Resources]:
        return [self.app.allocated, self.node.allocated, *(queue.allocated for queue in self.queues)]

    def ledgers(self) -> list[Resources]:
        """All there are but the node's capacity."""
        usage = [ledger.usage for ledger in self.app.usage_ledgers]
        return [*self.pending(), *self.allocated(), self.app.placeholder_allocated, *usage]


@pytest.fixture
def books() -> Books:
    return Books()


def test_demand_and_withdrawal_are_counted_on_the_whole_path(books: Books) -> None:
    ask = books.ask(count=3)
    assert books.pending() == [{"memory": 30}] * 4
    assert commit.withdraw(books.partition, books.app, ask, 1) == 1
    assert books.pending() == [{"memory": 20}] * 4
    assert commit.withdraw(books.partition, books.app, ask, 99) == 2
    assert commit.withdraw(books.partition, books.app, ask) == 0
    assert books.pending() == [{}] * 4
    assert books.app.groups == {}


def test_a_placement_is_counted_everywhere_at_once(books: Books) -> None:
    allocation = commit.allocate(books.partition, books.app, books.ask(count=2), books.node, "u1")
    assert books.pending() == [{"memory": 10}] * 4
    assert books.allocated() == [{"memory": 10}] * 5
    assert books.node.available == {"memory": 90}
    assert [ledger.usage for ledger in books.app.usage_ledgers] == [{"memory": 10}] * 3
    assert list(books.partition.allocations.values()) == [allocation]
    assert dict(books.partition.usages.users.items()).keys() == {"ann"}


def test_a_placeholder_is_counted_apart(books: Books) -> None:
    commit.allocate(books.partition, books.app, books.ask("p", placeholder=True), books.node, "u1")
    assert (books.app.allocated, books.app.placeholder_allocated) == ({}, {"memory": 10})
    assert books.app.placeholders == 1
    assert books.app.is_idle


def test_what_is_free_again_is_free_everywhere(books: Books) -> None:
    ask = books.ask()
    commit.free(books.partition, commit.allocate(books.partition, books.app, ask, books.node, "u1"))
    assert books.node.available == {"memory": 100}
    assert (books.partition.allocations, books.app.allocations, books.app.asks) == ({}, {}, {})


@pytest.mark.parametrize("placeholder", [False, True])
def test_ledgers_forget_names_that_fall_to_0(books: Books, placeholder: bool) -> None:
    """A resource manager that asks for ever new resource names must not fill the memory."""
    for number in range(20):
        ask = books.ask(f"k{number}", 2, placeholder, **{f"r{number}": 5, "memory": 1})
        allocation = commit.allocate(books.partition, books.app, ask, books.node, f"u{number}")
        commit.withdraw(books.partition, books.app, ask)
        commit.free(books.partition, allocation)
    assert [dict(ledger) for ledger in books.ledgers()] == [{}] * len(books.ledgers())
    assert list(books.partition.request_classes.known()) == []


def test_a_node_forgets_a_resource_it_only_owed() -> None:
    """Only a recovered allocation can be of something its node does not have."""
    existing = ExistingAllocation("app", "k", "e1", Resources(memory=1, gpu=1))
    talk = a_conversation(a_node("n1", {"memory": 100}))
    talk.nodes(a_node("n2", {"memory": 100}, existing))
    node = talk.model().nodes["n2"]
    assert node.available == {"memory": 99, "gpu": -1}
    talk.release()
    assert dict(node.available) == {"memory": 100}


def test_a_user_without_usage_and_applications_is_forgotten(books: Books) -> None:
    commit.free(books.partition, commit.allocate(books.partition, books.app, books.ask(), books.node, "u1"))
    assert dict(books.partition.usages.users.items()).keys() == {"ann"}, "until the application is done"
    commit.retire(books.partition, books.app)
    assert dict(books.partition.usages.users.items()) == {}


def test_a_user_whose_placeholders_are_still_there_is_not_forgotten(books: Books) -> None:
    commit.allocate(books.partition, books.app, books.ask("p", placeholder=True), books.node, "u1")
    commit.retire(books.partition, books.app)
    assert dict(books.partition.usages.users.items()).keys() == {"ann"}


def test_a_node_is_in_the_order_once_while_it_is_open(books: Books) -> None:
    commit.open_node(books.partition, books.node)
    assert list(books.partition.node_order) == [books.node]
    commit.close_node(books.partition, books.node)
    commit.close_node(books.partition, books.node)
    assert list(books.partition.node_order) == []


def test_amounts_as_large_as_they_get_do_not_drift() -> None:
    most = 2**63 - 1
    talk = a_conversation(a_node("n1", {"memory": most}))
    talk.asks(an_ask("k", most), an_ask("one", 1))
    assert [one.allocation_key for one in talk.app().asks] == ["k", "one"]
    talk.schedule()
    assert talk.node().available == {}
    talk.release(allocation_key="k")
    assert talk.node().available == {"memory": most}


moves = st.lists(
    st.tuples(st.sampled_from(["ask", "place", "free", "withdraw", "node"]), st.integers(0, 99)), max_size=40
)


@given(moves)
def test_after_any_history_that_ends_with_nothing_nothing_is_left(plan: list[tuple[str, int]]) -> None:
    """The invariants hold after every step, and the last allocation takes every amount and every index with it."""
    talk = a_conversation(a_node("n0", {"memory": 60, "gpu": 1}), root=DEEP)
    talk.apps(an_app("app", "root.p.a"))
    for number, (what, size) in enumerate(plan):
        play(talk, number, what, size)
    talk.release_asks()
    talk.release()
    for queue in talk.model().root.subtree():
        assert (dict(queue.allocated), dict(queue.pending), queue.pending_index.pending_classes(), queue.needs) == (
            {},
            {},
            [],
            {},
        )
    partition = talk.model()
    assert (
        partition.allocations,
        list(partition.request_classes.known()),
        list(partition.request_classes.unschedulable()),
    ) == ({}, [], [])
    assert all(node.available == node.capacity for node in partition.nodes.values())


def play(talk: Conversation, number: int, what: str, size: int) -> None:
    if what == "ask":
        amounts = Resources({"memory": size, "gpu": size % 2})
        talk.asks(an_ask(f"k{number}", count=1 + size % 3, resources=amounts))
    elif what == "place":
        talk.cycle(1 + size % 4)
    elif what == "free":
        held = talk.app().allocations if talk.view().applications else []
        if held:
            talk.release(uuid=held[size % len(held)].uuid)
    elif what == "withdraw":
        talk.release_asks(allocation_key=f"k{size % (number + 1)}")
    else:
        action = [NodeAction.DRAIN_NODE, NodeAction.DRAIN_TO_SCHEDULABLE][size % 2]
        talk.nodes(a_node("n0", action=action), a_node(f"n{number}", {"memory": size}))
