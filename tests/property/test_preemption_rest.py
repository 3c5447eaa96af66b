"""Preemption comes to rest: in a cluster in which nothing ends by itself, no two asks take room from each other again.

Every pod that is preempted is asked for again by its controller, so that a pair of rules that disagree about who may
have what would show as an endless exchange. What is guaranteed names some of three resources, in two or three queues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from schedulerd.core.language.commands import NewAsk
from schedulerd.core.language.facts.fact import Fact, ReleaseRequested
from schedulerd.core.language.facts.preemption import Preempted
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS, QueueSpec
from tests.loops import examples
from tests.property.trees import seeds
from tests.unit.core.builders import Conversation, a_conversation, a_node, a_queue_spec, a_root, an_app, an_ask, of
from tests.unit.core.preemption_builders import wait

TYPES = ("gpu", "memory", "vcore")
ROUNDS_MAX = 60
QUIET_ROUNDS = 8
"""So long without a victim, in rounds of `ROUND_NS`, is rest: no attempt and no reservation is left that could act."""
ROUND_NS = 50 * SECOND_NS


class Rivals:
    """Queues with guarantees in some of the types, each with an application whose pods are asked for again and again.

    The queues are siblings or, one in four, two levels deep.
    """

    def __init__(self, seed: int, queues: int) -> None:
        self.seed = seed
        self.random = random = Random(seed)
        self.types = random.sample(TYPES, random.choice((2, 3, 3)))
        leaves = [self._queue(f"q{number}", least=int(number < queues - 1)) for number in range(queues)]
        nested = random.randrange(4) == 0
        self.root = a_root(*([self._queue("p", *leaves[:-1]), leaves[-1]] if nested else leaves))
        self.queues = [f"root.p.q{n}" if nested and n < queues - 1 else f"root.q{n}" for n in range(queues)]
        self.capacities = [self._size(6, 14) for _ in range(random.choice((1, 1, 2)))]
        kinds = [[self._size(0, random.choice((2, 4))) for _ in range(random.randint(1, 3))] for _ in self.queues]
        self.sizes = [[random.choice(kinds[n]) for _ in range(random.randint(4, 10))] for n in range(queues)]
        """Of the asks of each queue."""
        self.arrival = [n for n in range(queues) for _ in self.sizes[n]]
        if random.randrange(3):
            self.arrival.reverse()
        else:
            random.shuffle(self.arrival)

    def __repr__(self) -> str:
        guaranteed = {path: dict(spec.guaranteed) for path, spec in _specs(self.root)}
        sizes = [[dict(one) for one in some] for some in self.sizes]
        return f"Rivals({self.seed}, {len(self.queues)}): {guaranteed} {self.capacities} {sizes} {self.arrival}"

    def _queue(self, name: str, *children: QueueSpec, least: int = 0) -> QueueSpec:
        """A queue with a guarantee that names at least so many types."""
        named = self.random.sample(self.types, self.random.randint(least, len(self.types)))
        guaranteed = {one: self.random.randint(2, 10) for one in named}
        return a_queue_spec(name, *children, guaranteed=guaranteed, preemption_delay_ns=SECOND_NS)

    def _size(self, least: int, most: int) -> dict[str, int]:
        size = {one: self.random.randint(least, most) for one in self.types}
        return size if any(size.values()) else {self.types[0]: 1}


def _specs(queue: QueueSpec, above: str = "") -> list[tuple[str, QueueSpec]]:
    path = f"{above}{queue.name}"
    return [(path, queue), *(one for child in queue.children for one in _specs(child, f"{path}."))]


class Contest:
    """The cluster, and the controllers of all pods."""

    def __init__(self, rivals: Rivals) -> None:
        nodes = [a_node(f"n{at}", dict(size)) for at, size in enumerate(rivals.capacities)]
        self.talk: Conversation = a_conversation(*nodes, root=rivals.root)
        self.talk.apps(*(an_app(f"a{n}", queue) for n, queue in enumerate(rivals.queues)))
        self.sizes: dict[str, tuple[str, Mapping[str, int]]] = {}
        self.taken: Counter[tuple[str, str]] = Counter()
        """How often the second of two asks was preempted for the first."""
        self.victims = 0
        left = [list(sizes) for sizes in rivals.sizes]
        for n in rivals.arrival:
            key = f"k{n}-{len(left[n])}"
            self.sizes[key] = f"a{n}", left[n].pop()
            self.ask(key)
            self.confirm(self.talk.schedule())

    def ask(self, key: str) -> None:
        app, size = self.sizes[key]
        ask: NewAsk = an_ask(key, app=app, resources=Resources(size), allow_preempt_other=True)
        self.talk.asks(ask)

    def confirm(self, facts: list[Fact]) -> bool:
        """All that is asked to go goes at once, and is asked for again; whether there was any."""
        uuids = {uuid: fact.allocation_key for fact in of(Preempted, facts) for _, uuid in fact.victims}
        requests = of(ReleaseRequested, facts)
        for one in requests:
            self.taken[uuids[one.uuid], one.allocation_key] += 1
            self.victims += 1
            self.talk.release(application_id=one.application_id, uuid=one.uuid, termination=one.termination)
        for one in requests:
            self.ask(one.allocation_key)
        return bool(requests)

    def comes_to_rest(self) -> bool:
        quiet = 0
        for _ in range(ROUNDS_MAX):
            quiet = 0 if self.confirm(wait(self.talk, ROUND_NS)) else quiet + 1
            if quiet == QUIET_ROUNDS:
                return True
        return False


def check_rest(rivals: Rivals) -> int:
    contest = Contest(rivals)
    assert contest.comes_to_rest(), f"still exchanged: {contest.taken}"
    again = {pair: times for pair, times in contest.taken.items() if times > 1}
    assert not again, f"taken again by the same ask: {again}"
    return contest.victims


@pytest.mark.parametrize("queues", [2, 3])
def test_no_two_asks_take_room_from_each_other_again_and_the_cluster_comes_to_rest(queues: int) -> None:
    seen: Counter[bool] = Counter()

    @settings(max_examples=examples(100), phases=[Phase.generate])
    @given(st.builds(Rivals, seeds, st.just(queues)))
    def check(rivals: Rivals) -> None:
        seen[check_rest(rivals) > 0] += 1

    check()
    assert seen[True] >= examples(10), "hardly anything was preempted"
