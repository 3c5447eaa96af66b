"""Everything that the scheduler knows: the resource managers with their partitions, and the alarms."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from schedulerd.core.alarms import Alarm, Alarms
from schedulerd.core.commands import RegisterResourceManager
from schedulerd.core.lifecycles import ResourceManagerState
from schedulerd.core.partition import Partition
from schedulerd.core.predicates.callbacks import Callbacks
from schedulerd.core.recovery.early import EarlyItems
from schedulerd.core.resource_managers.dismantling import Dismantling
from schedulerd.core.scheduling_states.scheduling_state_tracker import SchedulingStateTracker
from schedulerd.core.specs import Timeouts


class ResourceManager:
    __slots__ = (
        "alarm",
        "build_info",
        "callbacks",
        "configuration",
        "configured_at_ns",
        "early",
        "partitions",
        "policy_group",
        "rm_id",
        "scheduling_state_tracker",
        "state",
        "version",
    )

    def __init__(self, command: RegisterResourceManager, now_ns: int) -> None:
        self.rm_id = command.rm_id
        self.version = command.version
        self.policy_group = command.policy_group
        self.build_info = command.build_info
        self.state = ResourceManagerState.STOPPED
        """Moved by its handlers only (`lifecycles.RESOURCE_MANAGER`)."""
        self.alarm: Alarm | None = None
        """The reconnect timeout while the RM is Init or Paused."""
        self.configuration = command.configuration
        """The text from which the partitions were read."""
        self.configured_at_ns = now_ns
        """Since when that text is in effect."""
        self.callbacks = Callbacks()
        self.scheduling_state_tracker: SchedulingStateTracker | None = None
        """What the RM was told of the scheduling states of its asks; None if it did not ask for them."""
        self.partitions = {spec.name: Partition(command.rm_id, spec, self.callbacks) for spec in command.partitions}
        self.early = EarlyItems()

    def known_partition_name(self, name: str) -> str:
        """The name of the partition that an item names; '' if there is none, so that facts do not repeat garbage."""
        partition = self.partition(name)
        return partition.name if partition is not None else ""

    def partition(self, name: str) -> Partition | None:
        """The partition that an item names: `name`, `[rmID]name`, or '' for the default one."""
        plain = name.removeprefix(f"[{self.rm_id}]")
        return self.partitions.get(plain or "default") or self.partitions.get(plain.lower())


class Cluster:
    __slots__ = ("alarms", "cycle_turn", "dismantling", "matches", "new_uuid", "resource_managers", "timeouts")

    def __init__(self, timeouts: Timeouts, new_uuid: Callable[[], str], matches: Callable[[str, str], bool]) -> None:
        self.timeouts = timeouts
        self.new_uuid = new_uuid
        self.matches = matches
        self.alarms = Alarms()
        self.dismantling = Dismantling()
        """Dropped state that is still to be freed."""
        self.resource_managers: dict[str, ResourceManager] = {}
        self.cycle_turn = 0
        """Cycles so far. Each cycle begins with another partition, so none starves behind the others."""

    def partitions(self) -> Iterator[Partition]:
        for rm in self.resource_managers.values():
            yield from rm.partitions.values()

    def running_partitions(self) -> list[Partition]:
        """The partitions of Running resource managers, which can receive allocations (SEMANTICS C3)."""
        return [
            partition
            for rm in self.resource_managers.values()
            if rm.state is ResourceManagerState.RUNNING
            for partition in rm.partitions.values()
        ]
