"""Which ask is next, against the slow way: sort everything anew, and take the first that quotas and nodes allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from schedulerd.core.commands import NodeAction
from schedulerd.core.facts import Fact, Released
from schedulerd.core.lifecycles import ApplicationState
from schedulerd.core.model.party import EVERYBODY_ELSE
from schedulerd.core.resources import Limits, Resources
from schedulerd.core.specs import ApplicationOrder, LimitSpec, PriorityPolicy, QueueSpec
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
USERS = ("ann", "bob")
NODES: tuple[dict[str, int], ...] = (
    {"memory": 6, "vcore": 4},
    {"memory": 12, "vcore": 2, "gpu": 1},
    {"memory": 4, "gpu": 3},
)

# The slow way


def share_key(used: Amounts, guaranteed: Amounts) -> list[Fraction]:
    """Usage over guarantee, largest first."""
    return sorted((Fraction(amount, guaranteed.get(name, 0) or 1) for name, amount in used.items()), reverse=True)


def fits(size: Amounts, room: Amounts) -> bool:
    return all(amount <= room.get(name, 0) for name, amount in size.items())


def exceeds(used: Amounts, size: Amounts, most: Amounts) -> bool:
    return any(name in most and used.get(name, 0) + amount > most[name] for name, amount in size.items())


def rank(priority: int | None) -> int:
    """Highest first, nothing pending last."""
    return 2**40 if priority is None else -priority


class Naive:
    """The partition as it is shown, walked from the root. Keys of asks sort by age, ids of applications too."""

    def __init__(self, partition: PartitionView, specs: dict[str, QueueSpec], running: dict[str, int]) -> None:
        """`running` is how many applications count as running by queue, which is not shown."""
        self.specs = specs
        self.running = running
        self.users = {user.user: user for user in partition.users}
        self.queues = {queue.path: queue for queue in partition.queues}
        self.applications = partition.applications
        self.rooms = [node.available for node in partition.nodes if node.schedulable]

    def next(self) -> tuple[str, str] | None:
        """(application, key) of the ask that has to be placed next."""
        return next(self._placeable(self.queues["root"]), None)

    def _placeable(self, queue: QueueView) -> Iterator[tuple[str, str]]:
        for child in sorted(self._children(queue), key=self._queue_order(queue)):
            yield from self._placeable(child)
        for app in sorted(self._applications(queue), key=self._application_order(queue)):
            for ask in sorted(app.asks, key=lambda one: (-one.priority, one.allocation_key)):
                if self._may_have(queue, app, ask) and any(fits(ask.resources, room) for room in self.rooms):
                    yield app.application_id, ask.allocation_key

    def _children(self, queue: QueueView) -> list[QueueView]:
        return [one for one in self.queues.values() if one.path.rpartition(".")[0] == queue.path]

    def _applications(self, queue: QueueView) -> list[ApplicationView]:
        return [one for one in self.applications if one.queue == queue.path]

    def _queue_order(self, parent: QueueView) -> Callable[[QueueView], tuple[Any, ...]]:
        def order(queue: QueueView) -> tuple[Any, ...]:
            share, priority = share_key(queue.allocated, queue.guaranteed), rank(self._queue_priority(queue))
            first = (priority, share) if self.specs[parent.path].properties.priority_sort else (share, priority)
            return *first, -sum(queue.pending.values()), queue.path

        return order

    def _application_order(self, queue: QueueView) -> Callable[[ApplicationView], tuple[Any, ...]]:
        fair = queue.application_order == ApplicationOrder.FAIR

        def order(app: ApplicationView) -> tuple[Any, ...]:
            share, priority = share_key(app.allocated, queue.guaranteed), rank(self._application_priority(app))
            if self.specs[queue.path].properties.priority_sort:
                return priority, share if fair else [], app.application_id
            return share if fair else [], 0 if fair else app.application_id, priority, app.application_id

        return order

    def _application_priority(self, app: ApplicationView) -> int | None:
        return max((ask.priority for ask in app.asks), default=None)

    def _queue_priority(self, queue: QueueView) -> int | None:
        inside = [self._application_priority(app) for app in self._applications(queue)]
        inside += [self._queue_priority(child) for child in self._children(queue)]
        pending = [priority for priority in inside if priority is not None]
        if not pending:
            return None
        properties = self.specs[queue.path].properties
        fenced = properties.priority_policy is PriorityPolicy.FENCE
        return properties.priority_offset + (0 if fenced else max(pending))

    def _may_have(self, queue: QueueView, app: ApplicationView, ask: AskView) -> bool:
        """Whether quotas, limits of the user, and the number of running applications allow it here and above."""
        starts = app.state == ApplicationState.ACCEPTED and not app.allocations
        names = queue.path.split(".")
        for depth in range(len(names)):
            one = self.queues[".".join(names[: depth + 1])]
            spec = self.specs[one.path]
            if exceeds(one.allocated, ask.resources, one.max):
                return False
            if starts and 0 < spec.max_applications <= self.running[one.path]:
                return False
            for limit in spec.limits:
                if limit.users[0] in (app.user, EVERYBODY_ELSE):
                    user = self.users.get(app.user)
                    if exceeds(user.usage.get(one.path, {}) if user else {}, ask.resources, limit.max or {}):
                        return False
                    running = user.applications.get(one.path, []) if user else []
                    if starts and 0 < limit.max_applications <= len(running):
                        return False
        return True


# Random trees and what happens in them

amounts = st.dictionaries(st.sampled_from(["memory", "vcore", "gpu"]), st.integers(0, 20), max_size=2)
quotas: st.SearchStrategy[dict[str, int]] = st.one_of(
    st.just({}), st.dictionaries(st.sampled_from(["memory", "gpu"]), st.integers(1, 9), min_size=1)
)


limits: st.SearchStrategy[tuple[LimitSpec, ...]] = st.one_of(
    st.just(()),
    st.builds(
        lambda user, most, applications: (LimitSpec(users=(user,), max=Limits(most), max_applications=applications),),
        st.sampled_from([*USERS, EVERYBODY_ELSE]),
        quotas,
        st.sampled_from([0, 1]),
    ),
)


@dataclass(frozen=True)
class Tree:
    root: QueueSpec
    leaves: tuple[str, ...]
    specs: dict[str, QueueSpec]
    """By path."""


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Up to three levels below the root; quotas, guarantees and priority policies anywhere, leaves of both orders."""
    leaves: list[str] = []
    specs: dict[str, QueueSpec] = {}

    def queue(name: str, path: str, depth: int) -> QueueSpec:
        is_parent = depth < 3 and draw(st.booleans())
        children = (
            [queue(one, f"{path}.{one}", depth + 1) for one in "xyz"[: draw(st.integers(1, 3))]] if is_parent else []
        )
        if not children:
            leaves.append(path)
        spec = a_queue_spec(
            name,
            *children,
            max=draw(quotas),
            guaranteed=draw(amounts),
            order=draw(st.sampled_from([ApplicationOrder.FIFO, ApplicationOrder.FAIR])),
            priority_sort=draw(st.booleans()),
            priority_policy=draw(st.sampled_from(PriorityPolicy)),
            priority_offset=draw(st.sampled_from([0, 0, 1, -1])),
            max_applications=draw(st.sampled_from([0, 0, 1, 2])),
            limits=draw(limits),
        )
        specs[path] = spec
        return spec

    top = [queue(name, f"root.{name}", 1) for name in "pqr"[: draw(st.integers(1, 3))]]
    root = a_root(*top, max=draw(quotas))
    specs["root"] = root
    return Tree(root, tuple(leaves), specs)


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
        self.specs = tree.specs
        self.talk = a_conversation(a_node("n0", dict(NODES[0])), root=tree.root)
        for number in range(APPLICATIONS):
            leaf = tree.leaves[number * 7 % len(tree.leaves)]
            self.talk.apps(an_app(f"a{number}", leaf, user=USERS[number % len(USERS)]))
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
        running = {queue.path: queue.running for queue in self.talk.model().root.subtree()}
        expected = Naive(self.talk.view(), self.specs, running).next()
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
