"""What cannot be placed is closed where the reason is: hidden above, repeated below, and all of it opens together."""

from __future__ import annotations

import pytest

from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import QueueSpec
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.pending.parent_entity import BlockReason, ParentEntity
from schedulerd.core.state.pending.pending_index import Key, SchedulingEntity
from schedulerd.core.state.pending.request_class import PendingClass
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_pending_class,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    placed,
    states,
)

pytestmark = pytest.mark.interpreted

# Directly: three ancestors above each other, and a entity at the lowest


class Waiting(SchedulingEntity):
    __slots__ = ()

    key: Key = (0,)


class Tower:
    """root.mid.low, where one entity waits for a small and a large request class."""

    def __init__(self) -> None:
        self.root = Queue("root", None, is_leaf=False)
        self.mid = Queue("mid", self.root, is_leaf=False)
        self.low = Queue("low", self.mid, is_leaf=True)
        self.ancestors = (self.low, self.mid, self.root)
        self.small, self.large = a_pending_class(memory=1), a_pending_class(memory=9)
        self.one = Waiting()
        for pending_class in (self.small, self.large):
            self.low.enqueue(self.one, self.one.key, pending_class)

    def withdraw(self, *pending_classes: PendingClass) -> None:
        for pending_class in pending_classes:
            self.low.dequeue(self.one, pending_class)


@pytest.fixture
def tower() -> Tower:
    return Tower()


def needed_at(ancestors: tuple[ParentEntity, ...], pending_class: PendingClass) -> list[bool]:
    return [pending_class in ancestor.pending_index for ancestor in ancestors]


def closed_at(ancestors: tuple[ParentEntity, ...], pending_class: PendingClass) -> list[bool]:
    return [pending_class in ancestor.pending_index.blocked_by for ancestor in ancestors]


def test_what_is_needed_below_is_offered_up_to_the_root(tower: Tower) -> None:
    assert needed_at(tower.ancestors, tower.small) == needed_at(tower.ancestors, tower.large) == [True, True, True]
    assert tower.root.pending_index.first() is tower.mid
    assert tower.mid.pending_index.first() is tower.low
    assert tower.low.pending_index.first() is tower.one


def test_what_is_needed_no_longer_is_taken_back_up_to_the_root(tower: Tower) -> None:
    tower.withdraw(tower.large)
    assert needed_at(tower.ancestors, tower.large) == [False, False, False]
    assert needed_at(tower.ancestors, tower.small) == [True, True, True]
    tower.withdraw(tower.small)
    assert [ancestor.pending_index.first() for ancestor in tower.ancestors] == [None, None, None]


def test_a_class_that_another_entity_still_needs_stays(tower: Tower) -> None:
    Queue("sister", tower.mid, is_leaf=True).enqueue(Waiting(), (0,), tower.large)
    tower.withdraw(tower.large)
    assert needed_at(tower.ancestors, tower.large) == [False, True, True]


@pytest.mark.parametrize("at", [0, 1, 2], ids=["low", "mid", "root"])
def test_a_block_hides_the_class_above(tower: Tower, at: int) -> None:
    tower.ancestors[at].block(tower.large, BlockReason.QUOTA)
    assert needed_at(tower.ancestors, tower.large) == [True] * (at + 1) + [False] * (2 - at)
    assert closed_at(tower.ancestors, tower.large) == [ancestor is tower.ancestors[at] for ancestor in tower.ancestors]
    assert tower.root.pending_index.first() is tower.mid, "there is still something small"
    tower.ancestors[at].unblock(tower.large)
    assert needed_at(tower.ancestors, tower.large) == [True, True, True]
    assert closed_at(tower.ancestors, tower.large) == [False, False, False]


@pytest.mark.parametrize("at", [0, 1, 2], ids=["low", "mid", "root"])
def test_when_all_is_blocked_nothing_above_is_visited(tower: Tower, at: int) -> None:
    ancestor = tower.ancestors[at]
    for pending_class in (tower.small, tower.large):
        ancestor.block(pending_class, BlockReason.QUOTA)
    assert [one.pending_index.first() for one in tower.ancestors[at:]] == [None] * (3 - at)
    ancestor.unblock(tower.small)
    assert None not in [one.pending_index.first() for one in tower.ancestors]


def test_propagated_blocks_are_lifted_together_with_their_origin(tower: Tower) -> None:
    tower.root.block(tower.large, BlockReason.NODE)
    block = tower.root.pending_index.blocked_by[tower.large]
    for ancestor in (tower.low, tower.mid):
        ancestor.propagate(tower.large, block)
    assert closed_at(tower.ancestors, tower.large) == [True, True, True]
    assert needed_at(tower.ancestors, tower.large) == [True, True, True], "a repeated block withdraws nothing"
    tower.root.unblock(tower.large)
    assert closed_at(tower.ancestors, tower.large) == [False, False, False]


def test_a_block_of_its_own_is_not_lifted_from_above(tower: Tower) -> None:
    """It was repeated here, forgotten as nobody needed it, and closed here anew for a reason of this ancestor's own."""
    tower.root.block(tower.large, BlockReason.NODE)
    tower.low.propagate(tower.large, tower.root.pending_index.blocked_by[tower.large])
    Queue("sister", tower.mid, is_leaf=True).enqueue(Waiting(), (0,), tower.large)
    tower.withdraw(tower.large)
    assert closed_at(tower.ancestors, tower.large) == [False, False, True]
    tower.low.enqueue(tower.one, tower.one.key, tower.large)
    tower.low.block(tower.large, BlockReason.QUOTA)
    tower.root.unblock(tower.large)
    assert closed_at(tower.ancestors, tower.large) == [True, False, False]


def test_an_entity_that_comes_later_finds_the_class_blocked(tower: Tower) -> None:
    tower.mid.block(tower.large, BlockReason.QUOTA)
    sister = Queue("sister", tower.mid, is_leaf=True)
    sister.enqueue(Waiting(), (0,), tower.large)
    assert tower.mid.pending_index.first() is tower.low
    assert tower.large not in tower.root.pending_index
    tower.withdraw(tower.small)
    assert tower.root.pending_index.first() is None
    tower.mid.unblock(tower.large)
    assert tower.large in tower.root.pending_index


def test_a_rebuild_forgets_demand_and_blocks(tower: Tower) -> None:
    tower.low.block(tower.large, BlockReason.QUOTA)
    tower.low.reset_pending()
    assert tower.low.pending_index.first() is None
    assert tower.low.pending_index.blocked_by == {}
    assert (tower.low.needs, tower.low.class_order, tower.low.entry) == ({}, None, None)


# In life: what the cycle closes, and what opens it again


def three_levels(**quotas: dict[str, int]) -> QueueSpec:
    """root.mid.a and root.mid.b, with `max` by the last name, and root.c without."""
    leaves = [a_queue_spec(name, max=quotas.get(name)) for name in ("a", "b")]
    return a_root(a_queue_spec("mid", *leaves, max=quotas.get("mid")), a_queue_spec("c"), max=quotas.get("root"))


def three_leaves(root: QueueSpec, **node: int) -> Conversation:
    """The applications a, b and c in the leaf of that name."""
    talk = a_conversation(a_node("n1", node or {"memory": 1_000}), root=root)
    talk.apps(an_app("a", "root.mid.a"), an_app("b", "root.mid.b"), an_app("c", "root.c"))
    return talk


def blocks(talk: Conversation, memory: int) -> dict[str, tuple[str, BlockReason]]:
    """Where the request class of so much memory is closed: by whom, and why."""
    partition = talk.model()
    ancestors: dict[str, ParentEntity] = {queue.path: queue for queue in partition.root.subtree()}
    ancestors.update(partition.applications)
    names = {ancestor: name for name, ancestor in ancestors.items()}
    return {
        name: (names[block.origin], block.reason)
        for name, ancestor in ancestors.items()
        for pending_class, block in ancestor.pending_index.blocked_by.items()
        if pending_class.request_class.resources == Resources(memory=memory)
    }


@pytest.mark.parametrize(
    ("quotas", "at", "hidden_from"),
    [
        ({"a": {"memory": 50}}, "root.mid.a", ["b", "c"]),
        ({"mid": {"memory": 50}}, "root.mid", ["c"]),
        ({"root": {"memory": 50}}, "root", []),
        ({"a": {"memory": 50}, "mid": {"memory": 50}, "root": {"memory": 50}}, "root", []),
    ],
    ids=["leaf", "middle", "root", "highest of several"],
)
def test_a_class_is_blocked_at_the_highest_queue_that_lacks_quota(
    quotas: dict[str, dict[str, int]], at: str, hidden_from: list[str]
) -> None:
    talk = three_leaves(three_levels(**quotas))
    talk.asks(an_ask("first", 40, app="a"))
    talk.schedule()
    talk.asks(an_ask("second", 30, app="a"))
    assert placed(talk.schedule()) == []
    assert blocks(talk, 30) == {at: (at, BlockReason.QUOTA)}
    talk.asks(*(an_ask("k", 30, app=app) for app in ("b", "c")))
    assert sorted(app for app, _, _ in placed(talk.schedule())) == hidden_from
    talk.release(application_id="a", allocation_key="first")
    assert ("a", "second", "n1") in placed(talk.schedule())


def test_a_class_that_no_node_fits_is_blocked_at_the_root() -> None:
    talk = three_leaves(three_levels(), memory=20)
    talk.asks(an_ask("large", 30, app="a"))
    assert placed(talk.schedule()) == []
    assert blocks(talk, 30) == {"root": ("root", BlockReason.NODE)}
    talk.asks(an_ask("large", 30, app="b"), an_ask("large", 30, app="c"))
    assert not talk.scheduler.wants_cycle()
    talk.nodes(a_node("n2", {"memory": 60}))
    assert len(placed(talk.schedule())) == 2


def test_a_block_above_is_propagated_where_it_is_met_and_lifted_with_its_origin() -> None:
    talk = three_leaves(three_levels(), memory=20)
    talk.asks(an_ask("large", 30, app="a", priority=1), an_ask("small", 10, 2, app="a"))
    assert placed(talk.schedule()) == [("a", "small", "n1")] * 2
    talk.asks(an_ask("tiny", 0, app="a", resources=Resources(gpu=1)))
    talk.schedule()
    root = ("root", BlockReason.NODE)
    assert blocks(talk, 30) == {"root": root, "root.mid": root, "root.mid.a": root, "a": root}
    talk.nodes(a_node("n2", {"memory": 30}))
    assert placed(talk.schedule()) == [("a", "large", "n2")]
    assert blocks(talk, 30) == {}


def test_what_is_repeated_is_the_nearest_reason() -> None:
    """The leaf has no quota for a request class, then no node fits it either, then nobody above needs it any more."""
    talk = three_leaves(three_levels(a={"memory": 60}), memory=30)
    talk.asks(an_ask("runs", 10, 2, app="a"))
    talk.schedule()
    talk.asks(an_ask("large", 50, app="a", priority=1))
    talk.schedule()
    talk.asks(an_ask("large", 50, app="c"))
    talk.schedule()
    talk.asks(an_ask("small", 1, app="a"))
    assert placed(talk.schedule()) == [("a", "small", "n1")]
    leaf = ("root.mid.a", BlockReason.QUOTA)
    assert blocks(talk, 50) == {"root": ("root", BlockReason.NODE), "root.mid.a": leaf, "a": leaf}
    talk.release_asks(application_id="c")
    assert blocks(talk, 50) == {"root.mid.a": leaf, "a": leaf}
    talk.release(application_id="a", allocation_key="runs")
    talk.nodes(a_node("n2", {"memory": 50}))
    assert placed(talk.schedule()) == [("a", "large", "n2")]


def test_two_classes_of_which_one_lacks_quota() -> None:
    talk = three_leaves(three_levels(a={"gpu": 1}), memory=100, gpu=8)
    with_gpu = Resources(memory=10, gpu=1)
    talk.asks(an_ask("gpu", app="a", resources=with_gpu, count=3, priority=9), an_ask("plain", 10, 4, app="a"))
    assert [key for _, key, _ in placed(talk.schedule())] == ["gpu", *["plain"] * 4]
    assert not talk.scheduler.wants_cycle()
    talk.release(application_id="a", allocation_key="gpu")
    assert [key for _, key, _ in placed(talk.schedule())] == ["gpu"]


def test_room_on_a_node_opens_nothing_that_lacks_quota() -> None:
    talk = three_leaves(three_levels(mid={"memory": 50}), memory=40)
    talk.asks(an_ask("runs", 40, app="a"), an_ask("more", 20, app="b"))
    talk.schedule()
    talk.nodes(a_node("n2", {"memory": 500}))
    assert blocks(talk, 20) == {"root.mid": ("root.mid", BlockReason.QUOTA)}
    assert not talk.scheduler.wants_cycle()


def test_quota_opens_nothing_that_has_no_room_on_a_node() -> None:
    talk = three_leaves(three_levels(mid={"memory": 50}), memory=40)
    talk.asks(an_ask("runs", 10, app="a"))
    talk.schedule()
    talk.asks(an_ask("large", 45, app="b"))
    talk.schedule()
    assert blocks(talk, 45) == {"root.mid": ("root.mid", BlockReason.QUOTA)}
    talk.release(application_id="a", allocation_key="runs")
    assert talk.scheduler.wants_cycle()
    assert placed(talk.schedule()) == []
    assert blocks(talk, 45) == {"root": ("root", BlockReason.NODE)}


def test_an_application_that_is_failing_forgets_propagated_blocks_and_has_no_demand() -> None:
    talk = three_leaves(three_levels(), memory=20)
    talk.apps(an_app("gang", "root.mid.a", gang_style="Hard", execution_timeout_ms=1, placeholder_ask=Resources(gpu=1)))
    talk.asks(
        an_ask("large", 30, app="gang", priority=1, task_group="group", placeholder=True),
        a_placeholder("p", 10, count=2, app="gang"),
        an_ask("also", 30, app="c"),
    )
    talk.schedule()
    assert "gang" in blocks(talk, 30)
    assert ApplicationState.FAILING in states(talk.sleep(1_000_000), "gang")
    assert blocks(talk, 30) == {"root": ("root", BlockReason.NODE)}
    assert talk.model().applications["gang"].needs == {}
    talk.nodes(a_node("n2", {"memory": 90}))
    assert placed(talk.schedule()) == [("c", "also", "n2")]


def test_ancestors_that_are_gone_do_not_pile_up_at_a_block() -> None:
    """A large ask waits for ever; applications that want the same and something small come and go."""
    talk = a_conversation(a_node("n1", {"memory": 20}))
    talk.asks(an_ask("large", 30))
    talk.schedule()
    for number in range(300):
        talk.apps(an_app(f"{number}"))
        talk.asks(an_ask("large", 30, app=f"{number}", priority=1), an_ask("small", 10, app=f"{number}"))
        assert len(placed(talk.schedule())) == 1
        talk.remove(f"{number}")
    [block] = talk.model().root.pending_index.blocked_by.values()
    assert len(block.propagated_to) < 150
