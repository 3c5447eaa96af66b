"""Makes up what happens next: which command which resource manager sends, or how much time goes by.

The same seed makes up the same history. Identifiers come from small pools, so that repetitions, updates and references
to what is already gone happen all by themselves; on top of that a share of all fields is outright garbage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import ClassVar, TypeVar

from schedulerd.core.language.commands import (
    AllocationRelease,
    ApplicationRemoval,
    AskRelease,
    Command,
    ConnectResourceManager,
    DisconnectResourceManager,
    ExistingAllocation,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    RegisterResourceManager,
    RunCycle,
    StopCause,
    StopResourceManager,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    UpdateConfiguration,
    UpdateNodes,
)
from schedulerd.core.language.facts.fact import Allocated
from schedulerd.core.language.facts.unclaimed import AllocationUnclaimed
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import MILLISECOND_NS, MINUTE_NS, SECOND_NS, PartitionSpec
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from tests.sim.clusters import PARTITIONS, QUEUES, RELOADS, USERS
from tests.sim.rm_memory import ResourceManagerMemory, plain_name

T = TypeVar("T")

GARBAGE_SHARE = 0.03
FAMILIAR_SHARE = 0.85
"""How often an item refers to something that is there."""
NODES = tuple(f"node-{number}" for number in range(1, 7))
APPLICATIONS = tuple(f"app-{number}" for number in range(1, 9))
_CREATIONS = (NodeAction.CREATE, NodeAction.CREATE, NodeAction.CREATE_DRAIN)
_CHANGES = (
    *(action for action in NodeAction if action not in _CREATIONS),
    NodeAction.UPDATE,
    NodeAction.UPDATE,
    NodeAction.DRAIN_TO_SCHEDULABLE,
)
GANGS = APPLICATIONS[:2]
"""These ask for placeholders most of the time."""
KEYS = tuple(f"k{number}" for number in range(1, 7))
STOPS = (StopCause.RECONNECT_TIMEOUT, StopCause.OUTBOX_OVERFLOW, StopCause.UNREGISTERED)
"""The core does the same for every cause; with another one here each seed would tell another history."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Time goes by."""

    duration_ns: int
    rings: bool = True
    """False: the next command is handled before the alarms that are due, as happens when the inbox is long."""
    to_deadline: bool = False
    """Until the next alarm is due, however long that is."""


Move = Command | Sleep


class World:
    node_ids: ClassVar = NODES
    sleeps_ns: ClassVar = (*(MILLISECOND_NS, SECOND_NS, 10 * SECOND_NS) * 4, MINUTE_NS, 20 * MINUTE_NS)
    """How long it may sleep at most."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._serial = 0
        self._partitions: Mapping[str, tuple[PartitionSpec, ...]] = PARTITIONS
        """By resource manager, as it registers with them."""
        self.memories = {rm_id: ResourceManagerMemory(rm_id) for rm_id in self._partitions}

    def next_move(self) -> Move:
        rm = self.memories[self._random.choice(tuple(self.memories))]
        if rm.state is not ResourceManagerState.RUNNING and self._random.random() < 0.5:
            return self._come_back(rm)
        kinds = self.kinds()
        moves = [move for _, move in kinds]
        (move,) = self._random.choices(moves, [weight for weight, _ in kinds])
        return move(rm)

    def last_moves(self) -> list[Move]:
        """What happens at the very end, so that there is something left to settle."""
        return []

    def kinds(self) -> tuple[tuple[float, Callable[[ResourceManagerMemory], Move]], ...]:
        """What may happen next, with how often it does compared with the others."""
        return (
            (24, self._cycle),
            (18, self._ask),
            (12, self._release),
            (9, self._sleep),
            (8, self._update_nodes),
            (7, self._submit),
            (5, self._confirm),
            (4, self._release_asks),
            (2, self._remove_applications),
            (0.6, self._disconnect),
            (0.6, self._reload),
            (0.2, self._register),
            (0.1, self._stop),
        )

    # The resource manager itself

    def _come_back(self, rm: ResourceManagerMemory) -> Move:
        if rm.state in (None, ResourceManagerState.STOPPED):
            return self._register(rm)
        return ConnectResourceManager(rm.rm_id)

    def _register(self, rm: ResourceManagerMemory) -> Move:
        return RegisterResourceManager(rm.rm_id, self._partitions[rm.rm_id], version="1", policy_group="queues")

    def _reload(self, rm: ResourceManagerMemory) -> Move:
        return UpdateConfiguration(rm.rm_id, self._queue_file(rm))

    def _queue_file(self, rm: ResourceManagerMemory) -> tuple[PartitionSpec, ...]:
        return self._random.choice(RELOADS[rm.rm_id])

    def _disconnect(self, rm: ResourceManagerMemory) -> Move:
        return DisconnectResourceManager(rm.rm_id)

    def _stop(self, rm: ResourceManagerMemory) -> Move:
        return StopResourceManager(rm.rm_id, self._random.choice(STOPS))

    # Time and cycles

    def _cycle(self, _: ResourceManagerMemory) -> Move:
        return RunCycle(self._random.choice((1, 2, 5, 50)))

    def _sleep(self, _: ResourceManagerMemory) -> Move:
        longest_ns = self._random.choice(self.sleeps_ns)
        return Sleep(self._random.randrange(longest_ns), rings=self._random.random() < 0.8)

    # Nodes

    def _update_nodes(self, rm: ResourceManagerMemory) -> Move:
        return UpdateNodes(rm.rm_id, [self._node(rm) for _ in range(self._random.choice((1, 1, 1, 3)))])

    def _node(self, rm: ResourceManagerMemory) -> NodeUpdate:
        partition = self._partition(rm)
        node_id = self._or_garbage(self._random.choice(self.node_ids), "")
        known = (plain_name(partition), node_id) in rm.nodes
        familiar = self._random.random() < FAMILIAR_SHARE
        action = self._random.choice(_CHANGES if known == familiar else _CREATIONS)
        creates = action in _CREATIONS
        existing = []
        if creates and self._random.random() < 0.4:
            existing = [self._existing(rm, partition, node_id) for _ in range(self._random.randint(1, 3))]
        ready = self._random.choice(("true", "true", "true", "false"))
        return NodeUpdate(
            node_id=node_id,
            action=action,
            partition=partition,
            capacity=self._capacity() if creates or self._random.random() < 0.5 else None,
            occupied=self._size(20) if self._random.random() < 0.2 else None,
            attributes={"ready": ready} if self._random.random() < 0.3 else {},
            existing=existing,
        )

    def _capacity(self) -> Resources:
        capacity = Resources(memory=self._random.randrange(20, 100), vcore=self._random.randrange(4, 20))
        if self._random.random() < 0.5:
            capacity["gpu"] = self._random.randrange(3)
        return self._or_garbage(capacity, Resources(memory=-5))

    def _existing(self, rm: ResourceManagerMemory, partition: str, node_id: str) -> ExistingAllocation:
        held = self._held(rm)
        return ExistingAllocation(
            application_id=self._application_id(rm, partition),
            allocation_key=self._random.choice((*KEYS, "ph-g0-0", "r-g0-0")),
            uuid=self._or_garbage(self._new_id("existing"), held.uuid if held is not None else ""),
            resources=self._or_garbage(self._size(30), Resources(memory=-1)),
            node_id=node_id,
            priority=self._random.choice((0, 0, 5)),
            task_group=self._random.choice(("", "workers", "g0")),
            placeholder=self._random.random() < 0.3,
        )

    # Applications

    def _submit(self, rm: ResourceManagerMemory) -> Move:
        new = [self._application(rm) for _ in range(self._random.choice((1, 1, 2)))]
        return UpdateApplications(rm.rm_id, new=new)

    def _application(self, rm: ResourceManagerMemory) -> NewApplication:
        partition = self._partition(rm)
        return NewApplication(
            application_id=self._or_garbage(self._new_application_id(rm), ""),
            queue=self._or_garbage(
                self._random.choice(self._leaves(partition)),
                self._random.choice(("", "root", "root.batch", "root.nosuch", "other.open")),
            ),
            partition=partition,
            user=self._random.choice(USERS),
            groups=self._random.choice(((), ("staff",))),
            tags={"kind": "simulated"},
            execution_timeout_ms=self._random.choice((0, 0, 5_000)),
            placeholder_ask=self._random.choice((Resources(), Resources(memory=20))),
            gang_style=self._random.choice(("", "Soft", "Hard")),
        )

    def _leaves(self, partition: str) -> tuple[str, ...]:
        return QUEUES["gpu" if partition.endswith("gpu") else "default"]

    def _new_application_id(self, rm: ResourceManagerMemory) -> str:
        """Often one of which an allocation was reported already: its node may be waiting for it."""
        known = {application_id for _, application_id in rm.applications}
        awaited = [one.application_id for one in rm.reported.values() if one.application_id not in known]
        if awaited and self._random.random() < 0.3:
            return awaited[-1]
        return self._random.choice(APPLICATIONS)

    def _remove_applications(self, rm: ResourceManagerMemory) -> Move:
        partition = self._partition(rm)
        removal = ApplicationRemoval(self._application_id(rm, partition), partition)
        return UpdateApplications(rm.rm_id, remove=[removal] * self._random.choice((1, 1, 2)))

    # Asks

    def _ask(self, rm: ResourceManagerMemory) -> Move:
        return UpdateAllocations(rm.rm_id, asks=[self._new_ask(rm) for _ in range(self._random.randint(1, 4))])

    def _new_ask(self, rm: ResourceManagerMemory) -> NewAsk:
        partition = self._partition(rm)
        application_id = self._application_id(rm, partition)
        gang = application_id in GANGS
        return NewAsk(
            application_id=application_id,
            allocation_key=self._or_garbage(self._random.choice(KEYS), ""),
            resources=self._or_garbage(self._size(40), self._bad_size()),
            partition=partition,
            max_allocations=self._or_garbage(
                self._random.choice((1, 1, 2, 4)), self._random.choice((0, -1, 2**31 - 1))
            ),
            priority=self._random.choice((0, 0, 0, 10, -10)),
            tags=self._tags(),
            task_group="workers" if gang else "",
            placeholder=gang and self._random.random() < 0.8,
        )

    def _tags(self) -> dict[str, str]:
        tags = {"simulated": "yes"}
        if self._random.random() < 0.1:
            tags[REQUIRED_NODE_TAG] = self._random.choice(self.node_ids)
        return tags

    def _release_asks(self, rm: ResourceManagerMemory) -> Move:
        partition = self._partition(rm)
        release = AskRelease(
            application_id=self._application_id(rm, partition),
            partition=partition,
            allocation_key=self._random.choice((*KEYS, "")),
            termination=self._random.choice((TerminationType.STOPPED_BY_RM,) * 4 + tuple(TerminationType)),
        )
        return UpdateAllocations(rm.rm_id, ask_releases=[release] * self._random.choice((1, 1, 2)))

    # Releases

    def _release(self, rm: ResourceManagerMemory) -> Move:
        releases = [self._release_one(rm) for _ in range(self._random.randint(1, 3))]
        return UpdateAllocations(rm.rm_id, releases=releases * self._random.choice((1, 1, 1, 2)))

    def _release_one(self, rm: ResourceManagerMemory) -> AllocationRelease:
        termination = self._or_garbage(TerminationType.STOPPED_BY_RM, self._random.choice(tuple(TerminationType)))
        here: tuple[Allocated | AllocationUnclaimed, ...] = (*rm.held.values(), *rm.unclaimed.values())
        allocation = self._random.choice(here) if here else None
        if allocation is None or self._random.random() < 0.15:
            key = self._random.choice((*KEYS, ""))
            uuid = self._random.choice(("", "", "nosuch"))
            partition = self._partition(rm)
            return AllocationRelease(self._application_id(rm, partition), partition, uuid, key, termination)
        return AllocationRelease(
            application_id=self._or_garbage(allocation.application_id, self._random.choice((*APPLICATIONS, ""))),
            partition=self._or_garbage(allocation.partition, self._partition(rm)),
            uuid=allocation.uuid,
            allocation_key=self._random.choice((allocation.allocation_key, "")),
            termination=termination,
        )

    def _confirm(self, rm: ResourceManagerMemory) -> Move:
        """Confirms what the core asked for; now and then with the wrong type, or what it did not ask for."""
        if not rm.to_confirm:
            return self._release(rm)
        asked = rm.to_confirm[self._random.choice(tuple(rm.to_confirm))]
        termination = self._or_garbage(asked.termination, self._random.choice(tuple(TerminationType)))
        release = AllocationRelease(
            asked.application_id, asked.partition, asked.uuid, asked.allocation_key, termination
        )
        return UpdateAllocations(rm.rm_id, releases=[release] * self._random.choice((1, 1, 2)))

    # Fields

    def _or_garbage(self, good: T, garbage: T) -> T:
        return garbage if self._random.random() < GARBAGE_SHARE else good

    def _new_id(self, prefix: str) -> str:
        self._serial += 1
        return f"{prefix}-{self._serial}"

    def _application_id(self, rm: ResourceManagerMemory, partition: str) -> str:
        plain = plain_name(partition)
        known = [application_id for application_id in APPLICATIONS if (plain, application_id) in rm.applications]
        familiar = known and self._random.random() < FAMILIAR_SHARE
        good = self._random.choice(known if familiar else APPLICATIONS)
        return self._or_garbage(good, self._random.choice(("", "nosuch")))

    def _partition(self, rm: ResourceManagerMemory) -> str:
        name = self._random.choice([spec.name for spec in self._partitions[rm.rm_id]])
        spelled = self._random.choice((name, f"[{rm.rm_id}]{name}", "" if name == "default" else name))
        return self._or_garbage(spelled, "nosuch")

    def _held(self, rm: ResourceManagerMemory) -> Allocated | None:
        return rm.held[self._random.choice(tuple(rm.held))] if rm.held else None

    def _size(self, memory_max: int) -> Resources:
        size = Resources(memory=self._random.randrange(1, memory_max), vcore=self._random.randrange(4))
        if self._random.random() < 0.15:
            size["gpu"] = 1
        return size

    def _bad_size(self) -> Resources:
        bad: tuple[dict[str, int], ...] = (
            {},
            {"memory": 0},
            {"memory": -1, "vcore": 1},
            {"memory": 2**62},
            {"nosuch": 1},
        )
        return Resources(self._random.choice(bad))
