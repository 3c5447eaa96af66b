"""Random queues, and what runs and asks there: guarantees, quotas, priorities and policies such that some have to end.

Like a tree, a scene is made up from one number.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import strategies as st

from schedulerd.core.language.commands import NewAsk
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import (
    SECOND_NS,
    OptOut,
    PreemptionPolicy,
    PriorityPolicy,
    QueueProperties,
    QueueSpec,
    WithinQueue,
)
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from tests.property.trees import Tree, seeds
from tests.unit.core.builders import EVERYBODY, an_ask

UNITS = {"memory": 10, "vcore": 3, "gpu": 1}
"""All amounts are multiples of these."""
DEPTH_MAX = 3
QUEUES_MAX = 8


class Scene:
    """Queues, and a source of what runs and asks there. Some leaves are guaranteed much and use little."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.resources = self.random.sample(list(UNITS), self.random.choice((1, 2, 2, 3)))
        self.preempts = not self.chance(20)
        self.opt_out = self.random.choice((OptOut.NEVER, OptOut.LAST, OptOut.LAST))
        self.priorities = self.random.choice(((0,), (-1, 0, 0, 1, 2)))
        self.special_one_in = self.random.choice((5, 1000))
        """How many of those that run are the originator of their application, or do not want to be ended. Where all are
        alike, it is sizes that matter."""
        self._left = QUEUES_MAX
        self._richer = self.chance(2)
        self._depth = self.random.choice((1, 2, 2, DEPTH_MAX))
        self.tree = Tree(self._queue("root", 0))
        self.leaves = [leaf for leaf in self.tree.leaves for _ in range(self.random.randint(1, 2))]
        """Of each application."""
        entitled = [number for number, leaf in enumerate(self.leaves) if self._is_rich(self.tree.specs[leaf])]
        others = [number for number in range(len(self.leaves)) if number not in entitled]
        anybody = range(len(self.leaves))
        self.fillers = [*others * 4, *anybody]
        self.askers = [*entitled * 4, *anybody]
        """Applications whose leaves are guaranteed much ask more often, the others fill the cluster."""

    def __repr__(self) -> str:
        return f"Scene({self.seed})"

    def chance(self, one_in: int) -> bool:
        return self.random.randrange(one_in) == 0

    def _queue(self, name: str, depth: int) -> QueueSpec:
        wanted = self.random.randint(0 if depth > 1 else 2, 3) if depth < self._depth else 0
        count = min(wanted, self._left)
        self._left -= count
        children = tuple(self._queue(one, depth + 1) for one in ("p", "q", "r")[:count])
        pick = self.random.choice
        self._richer = not self._richer
        capped = 4 if children else 20
        spec = QueueSpec(
            name=name,
            guaranteed=Resources({one: UNITS[one] * self._guaranteed(bool(children)) for one in self.resources}),
            max=Limits({one: UNITS[one] * self.random.randint(8, 24) for one in self.resources if self.chance(capped)}),
            properties=QueueProperties(
                priority_policy=pick((PriorityPolicy.DEFAULT,) * 6 + (PriorityPolicy.FENCE,)),
                priority_offset=pick((0, 0, 0, 1, -1)),
                preemption_policy=pick((PreemptionPolicy.DEFAULT,) * 6 + (*PreemptionPolicy,)),
                preemption_within_queue=pick((WithinQueue.OFF,) * 4 + (WithinQueue.PRIORITY,)),
                preemption_delay_ns=pick((SECOND_NS, 5 * SECOND_NS, 30 * SECOND_NS)),
            ),
            submit_acl=replace(EVERYBODY, everybody=not depth),
        )
        return replace(spec, children=children, parent=bool(children))

    def _guaranteed(self, is_parent: bool) -> int:
        if is_parent:
            return self.random.choice((0, 0, 0, 0, 8, 30, 60))
        return self.random.choice((0, 8, 16, 30, 30) if self._richer else (0, 0, 0, 1, 2, 4))

    def _is_rich(self, spec: QueueSpec) -> bool:
        return any(amount >= 8 * UNITS[name] for name, amount in spec.guaranteed.items())

    def size(self, least: int, most: int) -> Resources:
        """An amount of at least one of the resources."""
        names = self.random.sample(self.resources, self.random.randint(1, len(self.resources)))
        return Resources({name: UNITS[name] * self.random.randint(least, most) for name in names})

    def filler(self, key: str, node_id: str) -> NewAsk:
        """One of those that run when the story begins; at times a daemon, or something that ends soon."""
        return an_ask(
            key,
            app=f"a{self.random.choice(self.fillers)}",
            resources=self.size(1, 4),
            priority=self.random.choice(self.priorities),
            originator=self.chance(self.special_one_in),
            allow_preempt_self=not self.chance(self.special_one_in),
            execution_timeout_ms=self.random.choice((0,) * 12 + (1, 10_000, 60_000)),
            tags={REQUIRED_NODE_TAG: node_id} if self.chance(10) else {},
        )

    def asker(self, key: str, nodes: int, there: list[Resources]) -> NewAsk:
        """One of those that find the cluster full; it asks for about as much as a few of the sizes that are there."""
        size = Resources()
        for one in self.random.sample(there, min(len(there), self.random.randint(1, 3))):
            size = size.plus(one)
        return an_ask(
            key,
            app=f"a{self.random.choice(self.askers)}",
            count=self.random.choice((1, 1, 2, 4)),
            resources=self.size(1, 7) if size.is_zero() or self.chance(3) else size,
            priority=self.random.choice((0, 1, 1, 2)),
            allow_preempt_other=not self.chance(7),
            tags={REQUIRED_NODE_TAG: f"n{self.random.randrange(nodes)}"} if self.chance(6) else {},
        )


scenes = st.builds(Scene, seeds)
