"""Random resource managers whose state and metrics a test compares."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import count

from schedulerd.config import matches
from schedulerd.core.language import commands as c
from schedulerd.core.language.facts.fact import ResourceManagerChanged
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import SECOND_NS, Acl, PartitionSpec, QueueProperties, QueueSpec, Timeouts
from schedulerd.core.language.task_groups import TASK_GROUPS_TAG
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.views import values as views
from schedulerd.core.views import view
from schedulerd.observe.metrics import Metrics
from tests.instants import at

RMS = ("rm-1", "rm-2")
QUEUES = ("root.a", "root.b.c", "root.b.d", "root.nowhere")
PROPERTIES = QueueProperties(preemption_delay_ns=3 * SECOND_NS)
PARTITION = PartitionSpec(
    "default",
    QueueSpec(
        "root",
        parent=True,
        submit_acl=Acl(everybody=True),
        children=(
            QueueSpec("a", max=Limits(vcore=5000), max_applications=4, properties=PROPERTIES),
            QueueSpec(
                "b",
                parent=True,
                guaranteed=Resources(vcore=20_000),
                children=(QueueSpec("c", properties=PROPERTIES), QueueSpec("d")),
            ),
        ),
    ),
)
DROPPING = (c.RegisterResourceManager, c.StopResourceManager, c.RingAlarms)
"""Commands that can end with a resource manager's state being dropped."""


class World:
    """Random resource managers, the core they talk to, and the metrics that only hear of it by facts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.metrics = Metrics()
        self.metrics.watch_state(lambda: self.scheduler.cluster.resource_managers.values())
        uuids = count()
        self.scheduler = Scheduler(
            Timeouts(completing_ns=5 * SECOND_NS, retention_ns=60 * SECOND_NS, reconnect_ns=30 * SECOND_NS),
            lambda: f"uuid-{next(uuids)}",
            matches,
        )
        self.now_ns = 10**18
        self.applications = count()
        self.keys = count()
        self.reached: Counter[str] = Counter()
        self.dropped: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """Per resource manager, what it held (see `held`) and lost when its state was dropped."""

    def step(self, command: c.Command) -> None:
        """Time goes by, and every alarm rings at its own deadline; then the command is carried out."""
        end_ns = self.now_ns + self.random.randrange(SECOND_NS)
        while (deadline_ns := self.scheduler.next_deadline_ns()) is not None and deadline_ns <= end_ns:
            self.now_ns = max(self.now_ns, deadline_ns)
            self.carry_out(c.RingAlarms())
        self.now_ns = end_ns
        self.carry_out(command)

    def carry_out(self, command: c.Command) -> None:
        held = self.held() if isinstance(command, DROPPING) else {}
        facts = self.scheduler.step(self.now_ns, command)
        self.metrics.observe(facts, at(self.now_ns))
        for fact in facts:
            self.reached[type(fact).__name__] += 1
            if isinstance(fact, ResourceManagerChanged):
                self.reached[fact.state] += 1
                if fact.state in (ResourceManagerState.INIT, ResourceManagerState.STOPPED):
                    self.dropped[fact.rm_id] += held.get(fact.rm_id, Counter())

    def partitions(self) -> Iterator[views.PartitionView]:
        for rm in view.resource_managers(self.scheduler.cluster):
            yield from rm.partitions

    def held(self) -> dict[str, Counter[str]]:
        """Per resource manager, how many allocations are asked for and not placed, placeholders and reservations."""
        return {
            partition.rm_id: Counter(
                wanted=sum(app.awaiting_placeholder + pending_asks(app) for app in partition.applications),
                pending_placeholders=sum(pending_placeholders(app) for app in partition.applications),
                placeholders=sum(allocated_placeholders(app) for app in partition.applications),
                reservations=sum(len(node.reservations) for node in partition.nodes),
            )
            for partition in self.partitions()
        }

    def random_step(self) -> None:
        rm_id = self.random.choice(RMS)
        try:
            partition = view.partition(self.scheduler.cluster, rm_id, PARTITION.name)
        except KeyError:
            self.step(c.RegisterResourceManager(rm_id, (PARTITION,)))
            return
        moves: dict[Callable[[str, views.PartitionView], None], float] = {
            self.submit: 12,
            self.declare: 6,
            self.ask_for_members: 8,
            self.ask: 20,
            self.ask_for_gang: 10,
            self.contend: 5,
            self.cycle: 20,
            self.update_node: 10,
            self.release: 10,
            self.confirm: 20,
            self.withdraw: 5,
            self.remove: 4,
            self.wait: 5,
            self.connect: 10,
            self.disconnect: 2,
            self.start_over: 0.5,
            self.stop: 0.5,
        }
        (move,) = self.random.choices(list(moves), list(moves.values()))
        move(rm_id, partition)

    def submit(self, rm_id: str, _partition: views.PartitionView) -> None:
        new = c.NewApplication(
            f"app-{next(self.applications)}",
            self.random.choice(QUEUES),
            user="u",
            placeholder_ask=Resources(vcore=self.random.choice([0, 0, 1000, 2000])),
            gang_style=self.random.choice(["Soft", "Hard"]),
            execution_timeout_ms=self.random.choice([0, 5_000, 20_000]),
        )
        self.step(c.UpdateApplications(rm_id, new=[new]))

    def declare(self, rm_id: str, _partition: views.PartitionView) -> None:
        """A gang without placeholders, in a queue of its own, where nothing else takes the room."""
        groups = [{"name": "workers", "min": self.random.choice([1, 2, 3])}]
        if self.random.random() < 0.5:
            groups[0]["resources"] = {"vcore": 300}
        new = c.NewApplication(
            f"gang-{next(self.applications)}",
            "root.b.d",
            user="u",
            tags={TASK_GROUPS_TAG: json.dumps(groups)},
            gang_style=self.random.choice(["Soft", "Hard", "Requeue"]),
            execution_timeout_ms=20_000,
        )
        self.step(c.UpdateApplications(rm_id, new=[new]))

    def ask_for_members(self, rm_id: str, partition: views.PartitionView) -> None:
        owners = [app.application_id for app in partition.applications if app.gang_state]
        if owners:
            key, owner = f"key-{next(self.keys)}", self.random.choice(owners)
            count = self.random.choice([1, 2, 3])
            ask = c.NewAsk(owner, key, Resources(vcore=300), max_allocations=count, task_group="workers")
            self.step(c.UpdateAllocations(rm_id, asks=[ask]))

    def ask(self, rm_id: str, partition: views.PartitionView) -> None:
        known = [app.application_id for app in partition.applications if not app.gang_state] or ["app-unknown"]
        keys = [ask.allocation_key for app in partition.applications for ask in app.asks]
        new_key = f"key-{next(self.keys)}"
        ask = c.NewAsk(
            self.random.choice(known),
            self.random.choice([new_key, new_key, *keys[:1]]),
            Resources(vcore=self.random.choice([0, 500, 1000]), memory=self.random.choice([0, 100]), gpu=0),
            max_allocations=self.random.choice([1, 1, 3]),
            task_group=self.random.choice(["", "workers", "workers"]),
            placeholder=self.random.random() < 0.5,
            allow_preempt_other=self.random.random() < 0.5,
        )
        self.step(c.UpdateAllocations(rm_id, asks=[ask]))

    def ask_for_gang(self, rm_id: str, partition: views.PartitionView) -> None:
        """Placeholders, and real asks of which most fit."""
        owners = [app.application_id for app in partition.applications if not app.gang_state]
        if owners:
            owner = self.random.choice(owners)
            asks = [
                c.NewAsk(
                    owner,
                    f"key-{next(self.keys)}",
                    Resources(vcore=vcore),
                    max_allocations=self.random.choice([1, 2]),
                    task_group="workers",
                    placeholder=placeholder,
                )
                for vcore, placeholder in ((300, True), (self.random.choice([200, 300, 300, 400]), False))
            ]
            self.step(c.UpdateAllocations(rm_id, asks=asks))

    def contend(self, rm_id: str, partition: views.PartitionView) -> None:
        """One queue takes all it can get, and another wants what it is guaranteed."""
        for queue, many in (("root.a", True), ("root.b.c", False)):
            owners = [app.application_id for app in partition.applications if app.queue == queue]
            if owners:
                ask = c.NewAsk(
                    self.random.choice(owners),
                    f"key-{next(self.keys)}",
                    Resources(vcore=1000 if many else 2000),
                    max_allocations=8 if many else 1,
                    allow_preempt_other=not many,
                )
                self.step(c.UpdateAllocations(rm_id, asks=[ask]))

    def cycle(self, _rm_id: str, _partition: views.PartitionView) -> None:
        self.step(c.RunCycle(self.random.choice([1, 5, 100])))

    def update_node(self, rm_id: str, partition: views.PartitionView) -> None:
        node_id = f"node-{self.random.randrange(6)}"
        known = any(node.node_id == node_id for node in partition.nodes)
        others = [c.NodeAction.UPDATE, c.NodeAction.DRAIN_NODE, c.NodeAction.DRAIN_TO_SCHEDULABLE]
        node = c.NodeUpdate(
            node_id,
            self.random.choice([*others * 2, c.NodeAction.DECOMISSION]) if known else c.NodeAction.CREATE,
            capacity=Resources(vcore=self.random.choice([2000, 4000]), memory=1000),
            occupied=Resources(vcore=self.random.choice([0, 100])),
        )
        applications = partition.applications
        if not known and applications and self.random.random() < 0.5:
            owner = self.random.choice([*(one.application_id for one in applications), "app-unknown"])
            uuid = f"existing-{next(self.keys)}"
            existing = c.ExistingAllocation(owner, f"key-{uuid}", uuid, Resources(vcore=300), node_id)
            if self.random.random() < 0.3:
                existing.task_group, existing.placeholder = "workers", True
            node.existing.append(existing)
        self.step(c.UpdateNodes(rm_id, [node]))

    def release(self, rm_id: str, partition: views.PartitionView) -> None:
        allocations = [allocation for app in partition.applications for allocation in app.allocations]
        if allocations and self.random.random() < 0.95:
            one = self.random.choice(allocations)
            release = c.AllocationRelease(one.application_id, uuid=one.uuid, allocation_key=one.allocation_key)
        else:
            release = c.AllocationRelease("app-unknown", uuid="uuid-unknown")
        self.step(c.UpdateAllocations(rm_id, releases=[release]))

    def confirm(self, rm_id: str, partition: views.PartitionView) -> None:
        releasing = [one for app in partition.applications for one in app.allocations if one.releasing]
        if releasing:
            one = self.random.choice(releasing)
            termination = c.TerminationType[one.releasing]
            release = c.AllocationRelease(one.application_id, uuid=one.uuid, termination=termination)
            self.step(c.UpdateAllocations(rm_id, releases=[release]))

    def withdraw(self, rm_id: str, partition: views.PartitionView) -> None:
        asks = [ask for app in partition.applications for ask in app.asks]
        if asks:
            one = self.random.choice(asks)
            release = c.AskRelease(one.application_id, allocation_key=one.allocation_key)
            self.step(c.UpdateAllocations(rm_id, ask_releases=[release]))

    def remove(self, rm_id: str, partition: views.PartitionView) -> None:
        if partition.applications:
            removal = c.ApplicationRemoval(self.random.choice(partition.applications).application_id)
            self.step(c.UpdateApplications(rm_id, remove=[removal]))

    def wait(self, _rm_id: str, _partition: views.PartitionView) -> None:
        deadline_ns = self.scheduler.next_deadline_ns()
        if deadline_ns is not None:
            self.now_ns = max(self.now_ns, deadline_ns)
        self.step(c.RingAlarms())

    def connect(self, rm_id: str, _partition: views.PartitionView) -> None:
        self.step(c.ConnectResourceManager(rm_id))

    def disconnect(self, rm_id: str, _partition: views.PartitionView) -> None:
        self.step(c.DisconnectResourceManager(rm_id))

    def start_over(self, rm_id: str, _partition: views.PartitionView) -> None:
        self.step(c.RegisterResourceManager(rm_id, (PARTITION,)))

    def stop(self, rm_id: str, _partition: views.PartitionView) -> None:
        self.step(c.StopResourceManager(rm_id, c.StopCause.UNREGISTERED))


def pending_asks(app: views.ApplicationView) -> int:
    return sum(ask.pending for ask in app.asks if not ask.slot)


def pending_placeholders(app: views.ApplicationView) -> int:
    return sum(ask.pending for ask in app.asks if ask.placeholder and not ask.slot)


def allocated_placeholders(app: views.ApplicationView) -> int:
    return sum(allocation.placeholder and not allocation.slot for allocation in app.allocations)
