"""What a placement costs among 1,000 queues and 5,000 applications, counted and held against two queues with ten.

Two kinds of work are told apart. What is looked at (asks tried, blocks and nodes visited) must not depend on the queues
at all. What is put in order again (keys worked out, places given anew, heap operations) is done once at each line on
the way of the ask: at every queue of its path and at its application. That is five lines in the large tree and three in
the small one, so this is counted per line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from schedulerd.config import matches
from schedulerd.core import cycle
from schedulerd.core.language.commands import (
    ConnectResourceManager,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    RegisterResourceManager,
    RunCycle,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.facts.fact import Allocated
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import (
    Acl,
    ApplicationOrder,
    LimitSpec,
    PartitionSpec,
    QueueProperties,
    QueueSpec,
    Timeouts,
)
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.pending import ask_group, pending_index
from schedulerd.core.state.pending.ask_group import AskGroup

pytestmark = pytest.mark.interpreted

RM = "rm-1"
FEW, MANY = (2,), (10, 10, 10)
"""Children of each queue by level: two leaves, and a thousand on the third level below the root."""
APPLICATIONS_PER_LEAF = 5
PLACEMENTS = 1_000
PLACEMENTS_MAX = 100
WITHIN = 2
"""So many times the work among two queues may be needed among a thousand."""
LOOKED_AT = ("asks tried", "nodes visited")
PER_LINE = ("keys worked out", "places given anew", "heap operations")
NEVER_REACHED = 10**9


@dataclass(frozen=True)
class Mix:
    """What makes the asks differ."""

    priorities: int = 1
    sizes: int = 1
    users: int = 1
    limit: int = 0
    """On the memory of each user, at the root and at every leaf; 0: none."""


MIXES = {
    "all alike": Mix(),
    "priorities and sizes": Mix(priorities=4, sizes=5),
    "limits on users, priorities and sizes": Mix(priorities=4, sizes=5, users=100, limit=NEVER_REACHED),
}


class Counts:
    """How often the scheduler does what costs time, from the moment it is made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: Counter[str] = Counter()
        self._patch = monkeypatch
        self._count(cycle, "next_ask", "asks tried")
        for entity in (Queue, Application, AskGroup):
            self._count(entity, "key", "keys worked out")
        self._count(pending_index.ClassOrder, "enqueue", "places given anew")
        for module in (pending_index, ask_group):
            self._count(module, "heappush", "heap operations")
            self._count(module, "heappop", "heap operations")
        self._count(pending_index, "heapreplace", "heap operations")
        self._count(pending_index, "heapify", "heap operations", len)

    def _count(self, owner: Any, name: str, what: str, weight: Callable[..., int] = lambda *_: 1) -> None:
        original = getattr(owner, name)

        def counted(*arguments: Any) -> Any:
            self.calls[what] += weight(*arguments)
            return original(*arguments)

        self._patch.setattr(owner, name, counted)


def tree(children: tuple[int, ...], order: ApplicationOrder, mix: Mix, name: str = "root") -> QueueSpec:
    limits = (LimitSpec(users=("*",), max=Limits(memory=mix.limit)),) if mix.limit else ()
    below = range(children[0]) if children else ()
    return QueueSpec(
        name,
        parent=bool(children),
        guaranteed=Resources(memory=100),
        properties=QueueProperties(application_order=order),
        submit_acl=Acl(everybody=name == "root"),
        limits=limits if name == "root" or not children else (),
        children=tuple(tree(children[1:], order, mix, f"q{number}") for number in below),
    )


def leaves(spec: QueueSpec, path: str = "root") -> list[str]:
    found = [leaf for child in spec.children for leaf in leaves(child, f"{path}.{child.name}")]
    return found or [path]


def start(children: tuple[int, ...], order: ApplicationOrder, mix: Mix, asks_each: int) -> Scheduler:
    """All applications have their asks pending, and there is room for all of them."""
    root = tree(children, order, mix)
    uuids = count()
    scheduler = Scheduler(Timeouts(), lambda: f"uuid-{next(uuids)}", matches)
    applications = [
        NewApplication(f"app-{number}-{at}", path, user=f"user-{(3 * at + number) % mix.users}")
        for number in range(APPLICATIONS_PER_LEAF)
        for at, path in enumerate(leaves(root))
    ]
    sizes = [Resources(memory=10 + number, vcore=1) for number in range(mix.sizes)]
    asks = [
        NewAsk(
            application.application_id,
            f"ask-{number}",
            sizes[(at + number) % mix.sizes],
            priority=(7 * at + 3 * number) % mix.priorities,
        )
        for number in range(asks_each)
        for at, application in enumerate(applications)
    ]
    room = Resources(memory=10**7, vcore=10**6)
    for command in (
        RegisterResourceManager(RM, (PartitionSpec("default", root),)),
        ConnectResourceManager(RM),
        UpdateNodes(RM, [NodeUpdate(f"node-{number}", NodeAction.CREATE, capacity=room) for number in range(20)]),
        UpdateApplications(RM, new=applications),
        UpdateAllocations(RM, asks=asks),
    ):
        scheduler.step(0, command)
    return scheduler


def place(scheduler: Scheduler, placements: int) -> None:
    placed = 0
    while placed < placements:
        facts = scheduler.step(0, RunCycle(min(PLACEMENTS_MAX, placements - placed)))
        placed += sum(isinstance(fact, Allocated) for fact in facts)


def work(children: tuple[int, ...], order: ApplicationOrder, mix: Mix) -> dict[str, float]:
    """Per placement, when every application has started and still has asks for later."""
    leaf_count = len(leaves(tree(children, order, mix)))
    applications = APPLICATIONS_PER_LEAF * leaf_count
    scheduler = start(children, order, mix, asks_each=4 + 2 * PLACEMENTS // applications)
    place(scheduler, 2 * applications)
    [partition] = scheduler.cluster.partitions()
    with pytest.MonkeyPatch.context() as monkeypatch:
        counts = Counts(monkeypatch)
        visits = partition.node_order.visits
        place(scheduler, PLACEMENTS)
        counts.calls["nodes visited"] = partition.node_order.visits - visits
    lines = len(children) + 2
    return {what: calls / PLACEMENTS / (lines if what in PER_LINE else 1) for what, calls in counts.calls.items()}


@pytest.mark.slow
@pytest.mark.parametrize("mix", MIXES.values(), ids=MIXES.keys())
@pytest.mark.parametrize(
    "order",
    [
        pytest.param(ApplicationOrder.FIFO, marks=pytest.mark.nightly),
        ApplicationOrder.FAIR,
        pytest.param(ApplicationOrder.DRF, marks=pytest.mark.nightly),
    ],
)
def test_a_placement_among_a_thousand_queues_costs_what_it_costs_among_two(order: ApplicationOrder, mix: Mix) -> None:
    few, many = work(FEW, order, mix), work(MANY, order, mix)
    assert few.keys() == many.keys() == {*LOOKED_AT, *PER_LINE}
    assert [many[what] for what in LOOKED_AT] == [few[what] for what in LOOKED_AT]
    assert {what: (few[what], many[what]) for what in PER_LINE if many[what] > WITHIN * few[what]} == {}
