"""Every gauge, kept from facts alone, equals what a count over the scheduler's own state gives.

The real core is driven with a seeded random workload of two resource managers that do all they may and some of what
they may not; after every few steps the text of a scrape is compared with a fresh count over the views.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import count

from schedulerd.config import matches
from schedulerd.core import commands as c
from schedulerd.core.facts import ResourceManagerChanged
from schedulerd.core.lifecycles import ResourceManagerState
from schedulerd.core.resources import Limits, Resources
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.specs import SECOND_NS, Acl, PartitionSpec, QueueProperties, QueueSpec, Timeouts
from schedulerd.core.views import values as views
from schedulerd.core.views import view
from schedulerd.observe import families
from schedulerd.observe.families import Kind
from schedulerd.observe.metrics import Metrics
from tests.instants import at
from tests.unit.observe.scrape import Samples, all_samples

RMS = ("rm-1", "rm-2")
QUEUES = ("root.a", "root.b.c", "root.b.d", "root.nowhere")
SEEDS, STEPS, STEPS_PER_RECOUNT = 3, 600, 20

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

Counts = Counter[tuple[str, ...]]
Gauges = dict[str, Counts]


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
        for rm in view.resource_managers(self.scheduler):
            yield from rm.partitions

    def held(self) -> dict[str, Counter[str]]:
        """Per resource manager, how many allocations are asked for and not placed, placeholders and reservations."""
        return {
            partition.rm_id: Counter(
                wanted=sum(
                    app.awaiting_placeholder + sum(ask.pending for ask in app.asks) for app in partition.applications
                ),
                pending_placeholders=sum(pending_placeholders(app) for app in partition.applications),
                placeholders=sum(allocated_placeholders(app) for app in partition.applications),
                reservations=sum(len(node.reservations) for node in partition.nodes),
            )
            for partition in self.partitions()
        }

    def random_step(self) -> None:
        rm_id = self.random.choice(RMS)
        try:
            partition = view.partition(self.scheduler, rm_id, PARTITION.name)
        except KeyError:
            self.step(c.RegisterResourceManager(rm_id, (PARTITION,)))
            return
        moves: dict[Callable[[str, views.PartitionView], None], float] = {
            self.submit: 12,
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

    def ask(self, rm_id: str, partition: views.PartitionView) -> None:
        known = [app.application_id for app in partition.applications] or ["app-unknown"]
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
        if partition.applications:
            owner = self.random.choice(partition.applications).application_id
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
            owner = self.random.choice(applications).application_id
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


def pending_placeholders(app: views.ApplicationView) -> int:
    return sum(ask.pending for ask in app.asks if ask.placeholder)


def allocated_placeholders(app: views.ApplicationView) -> int:
    return sum(allocation.placeholder for allocation in app.allocations)


def path_to_root(path: str) -> Iterator[str]:
    """The queue and all above it; '' for an application without a queue stays alone."""
    while path:
        yield path
        path = path.rpartition(".")[0]


def recount(world: World) -> Gauges:
    """Every gauge that comes from facts, counted over the scheduler's state; labels in the order of their names."""
    gauges: Gauges = defaultdict(Counter)
    for rm in view.resource_managers(world.scheduler):
        gauges["schedulerd_resource_managers"][(rm.state,)] += 1
        # Nothing is reloaded here, so what was read last is what the RM registered with.
        gauges["schedulerd_config_last_reload_timestamp_seconds"][(rm.rm_id,)] = (
            at(rm.configured_at_ns).wall_ns // SECOND_NS
        )
        gauges["schedulerd_config_last_reload_successful"][(rm.rm_id,)] = 1
    for partition in world.partitions():
        name, rm_id = partition.name, partition.rm_id
        for queue in partition.queues:
            for resource, amount in queue.pending.items():
                gauges["schedulerd_pending_resources"][name, queue.path, resource, rm_id] += amount
            for resource, amount in queue.allocated.items():
                gauges["schedulerd_allocated_resources"][name, queue.path, resource, rm_id] += amount
            for resource, amount in queue.guaranteed.items():
                gauges["schedulerd_guaranteed_resources"][name, queue.path, resource, rm_id] += amount
            for resource, amount in queue.max.items():
                gauges["schedulerd_max_resources"][name, queue.path, resource, rm_id] += amount
            if queue.max_applications:
                gauges["schedulerd_max_applications"][name, queue.path, rm_id] += queue.max_applications
        for app in (*partition.applications, *partition.terminated):
            for path in tuple(path_to_root(app.queue)) or ("",):
                gauges["schedulerd_applications"][name, path, rm_id, app.state.lower()] += 1
                gauges["schedulerd_pending_allocations"][name, path, rm_id] += sum(ask.pending for ask in app.asks)
                gauges["schedulerd_asks_awaiting_placeholder"][name, path, rm_id] += app.awaiting_placeholder
                gauges["schedulerd_pending_placeholders"][name, path, rm_id] += pending_placeholders(app)
                gauges["schedulerd_allocated_placeholders"][name, path, rm_id] += allocated_placeholders(app)
        for node in partition.nodes:
            gauges["schedulerd_nodes"][name, rm_id, node.state] += 1
            for reservation in node.reservations:
                gauges["schedulerd_reservations"]["entitled" if reservation.entitled else "aging", name, rm_id] += 1
            for resource, amount in node.occupied.items():
                gauges["schedulerd_occupied_resources"][name, resource, rm_id] += amount
        for resource, amount in partition.total.items():
            gauges["schedulerd_capacity_resources"][name, resource, rm_id] += amount
    return gauges


INTERESTING = (
    *("Allocated", "Released", "AskWithdrawn", "ApplicationForgotten", "ReleaseIgnored"),
    *("GangCompleted", "GangTimedOut", "SwapRefused"),
    *("Reserved", "ReservationEnded", "Preempted", "PreemptionRefused", "RoomMade"),
)
STATES = tuple(ResourceManagerState)
READ_AT_SCRAPE = (
    *(families.INBOX_DEPTH, families.OUTBOX_DEPTH, families.BUILD_INFO, families.CONFIG_INFO),
    *(families.EVENT_FOLLOWERS, families.CALLBACK_STREAMS, families.JOURNAL_RECORDING, families.JOURNAL_WAITING),
    *(families.OUTSTANDING, families.OUTSTANDING_RESOURCES, families.USED, families.ALLOCATIONS_USED),
    *(families.PENDING_ASKS, families.LEAF_PENDING_ASKS),
    families.SERIES_LEFT_OUT,
)
"""Gauges that are asked for when somebody looks and cannot drift; `test_metrics` and the contract tests look."""
GAUGES = {family.name for family in families.FAMILIES if family.kind is Kind.GAUGE and family not in READ_AT_SCRAPE}


def scraped(found: Mapping[str, Samples]) -> Gauges:
    gauges: Gauges = {name: Counter({labels: int(value) for labels, value in found[name].items()}) for name in GAUGES}
    del gauges["schedulerd_resource_managers"][("stopped",)]  # the core forgets whom it stopped
    return gauges


def nonzero(gauges: Gauges) -> dict[str, dict[tuple[str, ...], int]]:
    found = {name: {labels: value for labels, value in counts.items() if value} for name, counts in gauges.items()}
    return {name: counts for name, counts in found.items() if counts}


def assert_every_ask_is_accounted_for(found: Mapping[str, Samples], dropped: Mapping[str, Counter[str]]) -> None:
    """The sums that `docs/metrics.md` promises."""
    added, placed = found["schedulerd_asks_added_total"], found["schedulerd_placements_total"]
    withdrawn, placeholders = found["schedulerd_asks_withdrawn_total"], found["schedulerd_placeholders_total"]
    requested, victims = found["schedulerd_release_requests_total"], found["schedulerd_preemption_victims_total"]
    for rm_id in RMS:

        def root(name: str, rm_id: str = rm_id) -> float:
            return found[name].get(("default", "root", rm_id), 0)

        def event(name: str, rm_id: str = rm_id) -> float:
            return placeholders.get((name, "default", rm_id), 0)

        lost = dropped.get(rm_id, Counter())
        gone = sum(value for (_, _, rm), value in withdrawn.items() if rm == rm_id)
        waiting = root("schedulerd_pending_allocations") + root("schedulerd_asks_awaiting_placeholder")
        key = ("default", rm_id)
        assert added.get(key, 0) == placed.get(key, 0) + gone + waiting + lost["wanted"]
        waiting = root("schedulerd_pending_placeholders")
        assert event("asked") == event("placed") + event("withdrawn") + waiting + lost["pending_placeholders"]
        there = root("schedulerd_allocated_placeholders")
        assert event("placed") + event("recovered") == event("released") + there + lost["placeholders"]
        assert victims.get(("default", "root", rm_id), 0) == requested.get((*key, "preempted_by_scheduler"), 0)

        def of_all_kinds(name: str, rm_id: str = rm_id) -> float:
            return sum(value for labels, value in found[name].items() if rm_id in labels)

        there = of_all_kinds("schedulerd_reservations")
        made, ended = (
            of_all_kinds("schedulerd_reservations_made_total"),
            of_all_kinds("schedulerd_reservations_ended_total"),
        )
        assert made == ended + there + lost["reservations"]


def test_gauges_equal_a_recount_of_the_state() -> None:
    reached: Counter[str] = Counter()
    for seed in range(SEEDS):
        world = World(seed)
        drive(world, f"seed {seed}")
        reached += world.reached
    for interesting in (*INTERESTING, *STATES):
        assert reached[interesting], f"the workload never reached {interesting}"


def drive(world: World, name: str) -> None:
    """Random steps; every few of them all is counted anew."""
    most: Counter[str] = Counter()
    for step in range(STEPS):
        world.random_step()
        if step % STEPS_PER_RECOUNT == 0:
            counted = nonzero(recount(world))
            found = all_samples(world.metrics)
            assert nonzero(scraped(found)) == counted, f"{name}, step {step}"
            assert_every_ask_is_accounted_for(found, world.dropped)
            most |= Counter({name: len(counts) for name, counts in counted.items()})
    assert set(most) == GAUGES, "every gauge is counted anew here, and had something to count"
