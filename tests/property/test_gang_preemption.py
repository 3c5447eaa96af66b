"""Victims for gangs that gather, on small full clusters, compared with every set of allocations there is.

They are legal, enough for all slots together, and none of them can be left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, combinations
from random import Random

from schedulerd.core.language.facts.fact import Allocated, ReleaseRequested
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.language.task_groups import TASK_GROUPS_TAG
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.application import DISRUPTED_AS_ONE, DISRUPTION_TAG, Application
from tests.loops import examples
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    an_existing,
    of,
)


class Cluster:
    """A gang in queue `a`, and nodes that others fill."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.guaranteed = {"a": random.choice((20, 40, 60, 100)), "b": random.choice((0, 10, 30)), "c": 0}
        queues = [a_queue_spec(name, guaranteed={"memory": most}) for name, most in self.guaranteed.items()]
        self.talk: Conversation = a_conversation(root=a_root(*queues))
        self.as_one = [name for name in "bc" if random.random() < 0.25]
        """Of these applications all is preempted or nothing."""
        for name in "bc":
            tags = {DISRUPTION_TAG: DISRUPTED_AS_ONE} if name in self.as_one else {}
            self.talk.apps(an_app(name, f"root.{name}", tags=tags))
        for number in range(random.randint(1, 4)):
            self._add_node(random, f"n{number}")
        self.is_of_one_size = random.random() < 0.6
        sizes = [random.choice((10, 10, 20)) for _ in range(random.randint(2, 4))]
        self.sizes = [sizes[0]] * len(sizes) if self.is_of_one_size else sizes
        self.priority = random.choice((0, 1))
        self.room: dict[str, int] = {}

    def _add_node(self, random: Random, name: str) -> None:
        memory, left, running = random.choice((20, 30, 40)), 0, []
        left = memory
        while left > 0 and random.random() < 0.9:
            size = min(left, random.choice((5, 10, 20, 30)))
            left -= size
            tags = {"yunikorn.apache.org/allow-preemption": "false"} if random.random() < 0.1 else {}
            running.append(
                an_existing(
                    f"{name}-{left}",
                    f"k-{name}-{left}",
                    random.choice("bc"),
                    size,
                    tags=tags,
                    priority=random.choice((0, 0, 0, 1)),
                )
            )
        self.talk.nodes(a_node(name, {"memory": memory}, *running))

    def gang(self) -> Application:
        return self.talk.model().applications["gang"]

    def ask(self) -> None:
        tags = {TASK_GROUPS_TAG: json.dumps([{"name": "w", "min": len(self.sizes)}])}
        self.talk.apps(an_app("gang", "root.a", tags=tags))
        self.talk.asks(
            *[
                an_ask(f"m{at}", size, 1, "gang", task_group="w", priority=self.priority, allow_preempt_other=True)
                for at, size in enumerate(self.sizes)
            ]
        )
        self.talk.schedule()
        self.talk.sleep(5 * SECOND_NS)
        self.talk.schedule()

    def missing(self) -> list[int]:
        """Sizes of the slots without room; and notes what is free."""
        self.room = {node.node_id: node.available["memory"] for node in self.talk.model().nodes.values()}
        slots = [ask for ask in self.gang().asks.values() if ask.spec.slot]
        return [one.request_class.resources["memory"] for one in slots for _ in range(one.pending)]

    def others(self) -> list[list[Allocation]]:
        """What may be preempted as far as it itself says: what goes together, in one list."""
        others = [one for one in self.talk.model().allocations.values() if one.application.application_id != "gang"]
        singles = [[one] for one in others if one.application.application_id not in self.as_one]
        wholes = [[one for one in others if one.application.application_id == name] for name in self.as_one]
        return [some for some in (*singles, *wholes) if some and all(map(self.may_go, some))]

    def may_go(self, one: Allocation) -> bool:
        return one.spec.allow_preempt_self and one.spec.priority <= self.priority

    def is_legal(self, victims: Iterable[Allocation], missing: list[int]) -> bool:
        """A queue keeps its guarantee; but what goes as a whole may go if it was above it before."""
        queues = self.talk.model().root.children
        if queues["a"].allocated["memory"] + sum(missing) > self.guaranteed["a"]:
            return False
        gone = Counter[str]()
        for one in victims:
            gone[one.application.queue.name] += size_of(one)
        return all(
            queues[name].allocated["memory"] - (1 if name in self.as_one else gone[name]) >= self.guaranteed[name]
            for name in gone
        )

    def is_enough(self, victims: Iterable[Allocation], missing: list[int]) -> bool:
        room = dict(self.room)
        for one in victims:
            room[one.node.node_id] += size_of(one)
        return has_packing(list(room.values()), sorted(missing, reverse=True))


def size_of(allocation: Allocation) -> int:
    return allocation.request_class.resources["memory"]


def subsets(things: list[list[Allocation]]) -> Iterator[list[Allocation]]:
    for count in range(len(things) + 1):
        for some in combinations(things, count):
            yield list(chain.from_iterable(some))


def has_packing(room: list[int], sizes: list[int]) -> bool:
    if not sizes:
        return True
    for at in range(len(room)):
        if room[at] >= sizes[0] and room[at] not in room[:at]:
            rest = [*room]
            rest[at] -= sizes[0]
            if has_packing(rest, sizes[1:]):
                return True
    return False


def check(seed: int) -> str:
    """What was met."""
    cluster = Cluster(seed)
    cluster.ask()
    missing = cluster.missing()
    if not missing:
        return "there is room"
    legal = [some for some in subsets(cluster.others()) if cluster.is_legal(some, missing)]
    could = any(cluster.is_enough(some, missing) for some in legal)
    facts = cluster.talk.sleep(31 * SECOND_NS) + cluster.talk.schedule()
    requests = of(ReleaseRequested, facts)
    victims = [cluster.talk.model().allocations[one.uuid] for one in requests]
    entitled = [one for one in cluster.gang().reservations if one.is_entitled]
    if not victims:
        assert not entitled, "all or nothing"
        return "none, but there is a set" if could else "none, as there is no set"
    assert set(victims) in map(set, legal)
    assert cluster.is_enough(victims, missing)
    for some in cluster.others() if cluster.is_of_one_size else ():
        rest = [one for one in victims if one not in some]
        assert len(rest) == len(victims) or not cluster.is_enough(rest, missing), f"{some[0].key} is not needed"
    assert len(entitled) + cluster.gang().placeholders == len(cluster.sizes)
    for request in requests:
        cluster.talk.release(application_id=request.application_id, uuid=request.uuid, termination=request.termination)
    there = [one.allocation_key for one in of(Allocated, cluster.talk.schedule()) if not one.slot]
    assert sorted(there) == [f"m{at}" for at in range(len(cluster.sizes))]
    return f"{min(3, len(victims))} victims"


def test_victims_of_gangs_are_legal_enough_and_needed() -> None:
    seen = Counter(check(seed) for seed in range(examples(600)))
    assert all(seen[what] for what in ("1 victims", "2 victims", "3 victims", "none, as there is no set"))
    assert seen["none, but there is a set"] * 20 <= seen.total(), "sets are hardly ever missed"
