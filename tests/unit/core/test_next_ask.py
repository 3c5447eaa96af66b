"""Which ask is placed next, against the slow way: sort everything anew, and take the first that quotas and nodes allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from hypothesis import event, given
from hypothesis import strategies as st

from schedulerd.core.commands import NodeAction
from schedulerd.core.facts import Fact, Released
from schedulerd.core.resources import Resources
from schedulerd.core.specs import ApplicationOrder, QueueSpec
from schedulerd.core.views import Amounts, ApplicationView, AskView, PartitionView, QueueView
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    of,
    placed,
)

SHAPES = (
    Resources(memory=1),
    Resources(memory=3),
    Resources(memory=7),
    Resources(memory=1, gpu=1),
    Resources(gpu=2),
    Resources(vcore=2),
)
APPLICATIONS = 5
NODES: tuple[dict[str, int], ...] = (
    {"memory": 6, "vcore": 4},
    {"memory": 12, "vcore": 2, "gpu": 1},
    {"memory": 4, "gpu": 3},
)

# The slow way


def share_key(used: Amounts, guaranteed: Amounts) -> list[Fraction]:
    return sorted((Fraction(amount, guaranteed.get(name, 0) or 1) for name, amount in used.items()), reverse=True)


def fits(size: Amounts, room: Amounts) -> bool:
    return all(amount <= room.get(name, 0) for name, amount in size.items())


class Naive:
    """The partition as it is shown, walked from the root. Keys of asks sort by age, ids of applications too."""

    def __init__(self, partition: PartitionView) -> None:
        self.queues = {queue.path: queue for queue in partition.queues}
        self.applications = partition.applications
        self.rooms = [node.available for node in partition.nodes if node.schedulable]

    def next(self) -> tuple[str, str] | None:
        """(application, key) of the ask that has to be placed next."""
        return next(self._placeable(self.queues["root"]), None)

    def _placeable(self, queue: QueueView) -> Iterator[tuple[str, str]]:
        for child in sorted(self._children(queue), key=self._queue_order):
            yield from self._placeable(child)
        for app in sorted(self._applications(queue), key=self._application_order(queue)):
            for ask in sorted(app.asks, key=lambda one: (-one.priority, one.allocation_key)):
                if self._has_quota(queue, ask) and any(fits(ask.resources, room) for room in self.rooms):
                    yield app.application_id, ask.allocation_key

    def _children(self, queue: QueueView) -> list[QueueView]:
        return [one for one in self.queues.values() if one.path.rpartition(".")[0] == queue.path]

    def _applications(self, queue: QueueView) -> list[ApplicationView]:
        return [one for one in self.applications if one.queue == queue.path]

    def _queue_order(self, queue: QueueView) -> tuple[list[Fraction], int, str]:
        return share_key(queue.allocated, queue.guaranteed), -sum(queue.pending.values()), queue.path

    def _application_order(self, queue: QueueView) -> Callable[[ApplicationView], tuple[list[Fraction], str]]:
        fair = queue.application_order == ApplicationOrder.FAIR
        return lambda app: (share_key(app.allocated, queue.guaranteed) if fair else [], app.application_id)

    def _has_quota(self, queue: QueueView, ask: AskView) -> bool:
        names = queue.path.split(".")
        for depth in range(len(names)):
            one = self.queues[".".join(names[: depth + 1])]
            for name, amount in ask.resources.items():
                if name in one.max and one.allocated.get(name, 0) + amount > one.max[name]:
                    return False
        return True


# Random trees and what happens in them

amounts = st.dictionaries(st.sampled_from(["memory", "vcore", "gpu"]), st.integers(0, 20), max_size=2)
quotas = st.one_of(st.just({}), st.dictionaries(st.sampled_from(["memory", "gpu"]), st.integers(1, 9), min_size=1))


@dataclass(frozen=True)
class Tree:
    root: QueueSpec
    leaves: tuple[str, ...]


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Up to three levels below the root, quotas and guarantees anywhere, leaves of both orders."""
    leaves: list[str] = []

    def queue(name: str, path: str, depth: int) -> QueueSpec:
        is_parent = depth < 3 and draw(st.booleans())
        children = (
            [queue(one, f"{path}.{one}", depth + 1) for one in "xyz"[: draw(st.integers(1, 3))]] if is_parent else []
        )
        if not children:
            leaves.append(path)
        order = draw(st.sampled_from(ApplicationOrder))
        return a_queue_spec(name, *children, max=draw(quotas), guaranteed=draw(amounts), order=order)

    top = [queue(name, f"root.{name}", 1) for name in "pqr"[: draw(st.integers(1, 3))]]
    return Tree(a_root(*top, max=draw(quotas)), tuple(leaves))


numbers = st.integers(0, 1_000)
moves = st.tuples(
    st.sampled_from(["ask", "ask", "ask", "ask", "release", "release", "take back", "node", "drain", "undrain"]),
    numbers,
    numbers,
    numbers,
)
Move = tuple[str, int, int, int]


class Story:
    """Plays moves; each number picks one of what there is."""

    def __init__(self, tree: Tree) -> None:
        self.talk = a_conversation(a_node("n0", dict(NODES[0])), root=tree.root)
        for number in range(APPLICATIONS):
            self.talk.apps(an_app(f"a{number}", tree.leaves[number * 7 % len(tree.leaves)]))
        self.asked = 0
        self.nodes = 1

    def play(self, what: str, one: int, two: int, three: int) -> None:
        talk, app = self.talk, f"a{one % APPLICATIONS}"
        if what == "ask":
            self.asked += 1
            size, key = SHAPES[two % len(SHAPES)], f"k{self.asked:03}"
            talk.asks(an_ask(key, app=app, count=1 + three % 3, priority=three % 2, resources=size))
        elif what == "release":
            uuids = [(held.application_id, held.uuid) for node in talk.view().nodes for held in node.allocations]
            if uuids:
                application_id, uuid = uuids[two % len(uuids)]
                event(f"released: {len(of(Released, talk.release(application_id=application_id, uuid=uuid)))}")
        elif what == "take back":
            talk.release_asks(application_id=app)
        elif what == "node":
            talk.nodes(a_node(f"n{self.nodes}", dict(NODES[two % len(NODES)])))
            self.nodes += 1
        else:
            action = NodeAction.DRAIN_NODE if what == "drain" else NodeAction.DRAIN_TO_SCHEDULABLE
            talk.nodes(a_node(f"n{two % self.nodes}", action=action))

    def schedule(self, placements_max: int) -> list[Fact]:
        facts: list[Fact] = []
        while self.talk.scheduler.wants_cycle():
            facts += self.talk.cycle(placements_max)
        return facts

    def place_one(self) -> bool:
        """One placement, held against the slow way. False if there is none."""
        expected = Naive(self.talk.view()).next()
        found = [(app, key) for app, key, _ in placed(self.talk.cycle(1))]
        assert found == ([] if expected is None else [expected])
        if expected is None:
            assert not self.talk.scheduler.wants_cycle()
        return expected is not None


def note(talk: Conversation) -> None:
    """Tells hypothesis' statistics which states were reached."""
    reasons = {ask.waiting_for.split(" ")[0] for app in talk.view().applications for ask in app.asks}
    for reason in reasons:
        event(f"waits for: {reason or 'its turn'}")


@given(trees(), st.lists(moves, min_size=15, max_size=30))
def test_the_next_ask_is_what_sorting_everything_anew_says(tree: Tree, plan: list[Move]) -> None:
    story = Story(tree)
    for move in plan:
        story.play(*move)
        story.place_one()
    while story.place_one():
        pass
    note(story.talk)


@given(trees(), st.lists(moves, min_size=15, max_size=30))
def test_a_long_cycle_places_what_many_short_ones_place(tree: Tree, plan: list[Move]) -> None:
    """The order is settled at the start of a cycle and kept right on its way."""
    short, long = (Story(tree) for _ in range(2))
    for number, move in enumerate(plan):
        short.play(*move)
        long.play(*move)
        if number % 5 == 4:
            one_by_one, at_once = placed(short.schedule(1)), placed(long.schedule(1_000))
            event("something is placed" if one_by_one else "nothing is placed")
            assert at_once == one_by_one
