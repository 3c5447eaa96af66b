"""Whoever adds and subtracts event records arrives at the state of the scheduler, whatever happened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from schedulerd.core.language.commands import Command
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.views.values import PartitionView
from schedulerd.observe.event_record import SI, Event, Record
from schedulerd.observe.event_recorder import EventRecorder
from schedulerd.observe.event_ring import EventRing
from tests.instants import at
from tests.loops import examples
from tests.property.story import Move, Story, moves, several_trees
from tests.property.trees import Tree

EVENTS_MAX = 100_000
plans = st.lists(moves("reload", "reload"), min_size=15, max_size=40)
ALLOCATION_ENDS = frozenset(
    (SI.ALLOC_CANCEL, SI.ALLOC_PREEMPT, SI.ALLOC_TIMEOUT, SI.ALLOC_REPLACED, SI.ALLOC_NODEREMOVED)
)
Amounts = dict[str, int]


class Bookkeeper:
    """Knows nothing but event records of one partition, and keeps what they say is there."""

    def __init__(self) -> None:
        self.allocations: dict[str, set[str]] = defaultdict(set)
        self.on_nodes: dict[str, dict[str, Amounts]] = {}
        self.in_queues: dict[str, dict[str, Amounts]] = defaultdict(dict)
        self.capacity: dict[str, Amounts] = {}
        self.applications: dict[str, set[str]] = {}
        self.max: dict[str, Amounts] = {}
        self.guaranteed: dict[str, Amounts] = {}
        self.states: dict[str, int] = {}

    def read(self, events: Iterable[Event]) -> None:
        for event in events:
            record = event.record
            if record.kind == SI.NODE:
                self._node(record)
            elif record.kind == SI.QUEUE:
                self._queue(record)
            elif record.kind == SI.APP:
                self._application(record)

    def _node(self, record: Record) -> None:
        node_id, resources = record.object_id, dict(record.resources)
        match record.change, record.detail:
            case SI.ADD, SI.DETAILS_NONE:
                assert node_id not in self.capacity
                self.capacity[node_id], self.on_nodes[node_id] = resources, {}
            case SI.SET, SI.NODE_CAPACITY:
                self.capacity[node_id] = resources
            case SI.REMOVE, SI.NODE_DECOMISSION:
                assert self.on_nodes.pop(node_id) == {}
                del self.capacity[node_id]
            case SI.ADD, SI.NODE_ALLOC:
                self.on_nodes[node_id][record.reference_id] = resources
            case SI.REMOVE, SI.NODE_ALLOC:
                assert self.on_nodes[node_id].pop(record.reference_id) == resources

    def _queue(self, record: Record) -> None:
        path, resources = record.object_id, dict(record.resources)
        match record.change, record.detail:
            case SI.ADD, SI.DETAILS_NONE | SI.QUEUE_DYNAMIC:
                assert path not in self.applications
                self.applications[path], self.max[path], self.guaranteed[path] = set(), {}, {}
            case SI.REMOVE, SI.QUEUE_CONFIG | SI.QUEUE_DYNAMIC:
                assert self.applications.pop(path) == set()
                del self.max[path], self.guaranteed[path]
            case SI.SET, SI.QUEUE_MAX:
                assert self.max[path] != resources
                self.max[path] = resources
            case SI.SET, SI.QUEUE_GUARANTEED:
                assert self.guaranteed[path] != without_zeros(resources)
                self.guaranteed[path] = without_zeros(resources)
            case SI.ADD, SI.QUEUE_APP:
                self.applications[path].add(record.reference_id)
            case SI.REMOVE, SI.QUEUE_APP:
                self.applications[path].remove(record.reference_id)
            case SI.ADD, SI.QUEUE_ALLOC:
                self.in_queues[path][record.reference_id] = resources
            case SI.REMOVE, SI.QUEUE_ALLOC:
                assert self.in_queues[path].pop(record.reference_id) == resources

    def _application(self, record: Record) -> None:
        if record.detail == SI.APP_ALLOC:
            self.allocations[record.object_id].add(record.reference_id)
        elif record.detail in ALLOCATION_ENDS:
            self.allocations[record.object_id].remove(record.reference_id)

    def compare(self, view: PartitionView) -> None:
        """Holds what was kept against the state of the scheduler."""
        assert {node.node_id: without_zeros(self.capacity[node.node_id]) for node in view.nodes} == {
            node.node_id: node.capacity for node in view.nodes
        }
        assert self.capacity.keys() == {node.node_id for node in view.nodes}
        for node in view.nodes:
            there = {one.uuid for one in node.allocations} | {one.uuid for one in node.unclaimed}
            assert self.on_nodes[node.node_id].keys() == there
            assert total(self.on_nodes[node.node_id].values()) == node.allocated
        assert self.applications.keys() == {queue.path for queue in view.queues}
        for queue in view.queues:
            assert (self.max[queue.path], self.guaranteed[queue.path]) == (queue.max, queue.guaranteed)
            below = (held for path, held in self.in_queues.items() if f"{path}.".startswith(f"{queue.path}."))
            assert total(one for held in below for one in held.values()) == queue.allocated
        live = {(one.queue, one.application_id) for one in view.applications}
        assert {(path, one) for path, some in self.applications.items() for one in some} == live
        for one in view.applications:
            assert self.allocations[one.application_id] == {held.uuid for held in one.allocations}


def total(amounts: Iterable[Amounts]) -> Amounts:
    sums: dict[str, int] = defaultdict(int)
    for one in amounts:
        for name, amount in one.items():
            sums[name] += amount
    return without_zeros(sums)


def without_zeros(amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in amounts.items() if amount}


class EventStory(Story):
    """A story of which somebody reads the event records."""

    def __init__(self, files: list[Tree]) -> None:
        self.recorder = EventRecorder(EventRing(EVENTS_MAX, "story"))
        self.bookkeeper = Bookkeeper()
        self._read = 0
        super().__init__(files)

    def step(self, command: Command) -> list[Fact]:
        facts = super().step(command)
        self.recorder.observe(facts, at(self.now_ns))
        while self._read < self.recorder.ring.next_id:
            part = self.recorder.ring.read(self._read, 7)
            self.bookkeeper.read(part.events)
            self._read = part.next_id
        return facts


@settings(deadline=None, max_examples=examples(60))
@given(several_trees, plans)
def test_the_books_that_event_records_make_are_right(files: list[Tree], plan: list[Move]) -> None:
    story = EventStory(files)
    for move in plan:
        story.play(*move)
        story.cycle(5)
        story.bookkeeper.compare(story.view())
