"""What a step works on: the cluster with its resource managers, the facts so far, and how items are taken.

`Cluster` is everything that the scheduler knows.

Every item is first checked, then carried out. A check reads the state and the item, and returns what is to happen as a
function without arguments: the change that the item asks for, its wait for something else, or its rejection. A check
changes nothing and says nothing, so an exception in a check is a bug that has done no harm yet: the item is rejected,
and the rest goes on (SEMANTICS I20). After an exception in a change the state cannot be trusted; it leaves the step and
ends the daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias, TypeVar

from schedulerd.core.language.alarms import Alarm, Alarms
from schedulerd.core.language.checks import Mistake
from schedulerd.core.language.commands import (
    AllocationRelease,
    ApplicationRemoval,
    AskRelease,
    NewApplication,
    NewAsk,
    NodeUpdate,
    PredicateResult,
    RegisterResourceManager,
    UpdateConfiguration,
    Utilization,
)
from schedulerd.core.language.facts.fact import CheckFailed, Fact, RejectCode
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.queue_commands import SetQueueStopped
from schedulerd.core.language.specs import Timeouts
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.callbacks import Callbacks
from schedulerd.core.state.model.dismantling import Dismantling
from schedulerd.core.state.model.early import EarlyItems
from schedulerd.core.state.model.rejected_application import RejectedApplication
from schedulerd.core.state.model.scheduling_state_tracker import SchedulingStateTracker
from schedulerd.core.state.partition import Partition

Item: TypeAlias = (
    NodeUpdate
    | NewApplication
    | ApplicationRemoval
    | NewAsk
    | AllocationRelease
    | AskRelease
    | PredicateResult
    | Utilization
    | RegisterResourceManager
    | UpdateConfiguration
    | SetQueueStopped
)
Change: TypeAlias = Callable[[], None]
"""What an item that was checked does to the state, with everything it needs bound to it."""

ItemT = TypeVar("ItemT", bound=Item)
SenderT = TypeVar("SenderT", bound="ResourceManager | None")


class ResourceManager:
    __slots__ = (
        "alarm",
        "build_info",
        "callbacks",
        "configuration",
        "configured_at_ns",
        "early",
        "extra_config",
        "partitions",
        "policy_group",
        "rm_id",
        "scheduling_state_tracker",
        "state",
        "version",
    )

    def __init__(self, command: RegisterResourceManager, timeouts: Timeouts, now_ns: int) -> None:
        self.rm_id = command.rm_id
        self.version = command.version
        self.policy_group = command.policy_group
        self.build_info = command.build_info
        self.extra_config = command.extra_config
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
        self.partitions = {
            spec.name: Partition(command.rm_id, spec, timeouts, self.callbacks) for spec in command.partitions
        }
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

    def partitions(self) -> list[Partition]:
        return [partition for rm in self.resource_managers.values() for partition in rm.partitions.values()]

    def running_partitions(self) -> list[Partition]:
        """The partitions of Running resource managers, which can receive allocations (SEMANTICS C3)."""
        return [
            partition
            for rm in self.resource_managers.values()
            if rm.state is ResourceManagerState.RUNNING
            for partition in rm.partitions.values()
        ]

    def wants_cycle(self) -> bool:
        """Whether a cycle could do something in any partition (`Partition.wants_cycle`)."""
        return any(partition.wants_cycle for partition in self.running_partitions())


class StepContext:
    """Passed to every handler. `emit` appends a fact; facts are in the order in which things happened."""

    __slots__ = ("cluster", "emit", "facts", "failed_checks", "now_ns")

    def __init__(self, cluster: Cluster, now_ns: int) -> None:
        self.cluster = cluster
        self.now_ns = now_ns
        self.facts: list[Fact] = []
        self.failed_checks: list[Exception] = []
        """Exceptions in checks of items; the items were rejected. For the log, not part of the facts."""
        self.emit = self.facts.append

    def partition_of(self, application: Application | RejectedApplication) -> Partition:
        """The partition that the application is in, or was in until it terminated."""
        return self.cluster.resource_managers[application.rm_id].partitions[application.partition_name]


def take(
    context: StepContext,
    sender: SenderT,
    items: Iterable[ItemT],
    check: Callable[[StepContext, SenderT, ItemT], Change],
    reject: Callable[[StepContext, SenderT, ItemT, Mistake], None],
) -> None:
    """Checks one item after the other and carries out what the check returns; `reject` says why one is refused.

    `sender` is the resource manager that the items are from, None if an unknown one registers.
    """
    for item in items:
        try:
            change = check(context, sender, item)
        except Exception as error:  # noqa: BLE001  # whatever it is, nothing has changed yet
            context.failed_checks.append(error)
            change = partial(_fail, context, sender, item, type(error).__name__, reject)
        change()


def _fail(
    context: StepContext,
    sender: SenderT,
    item: ItemT,
    exception: str,
    reject: Callable[[StepContext, SenderT, ItemT, Mistake], None],
) -> None:
    rm_id = sender.rm_id if sender is not None else getattr(item, "rm_id", "")
    code = RejectCode.CHECK_FAILED
    context.emit(CheckFailed(rm_id, type(item).__name__, _object_id(item), code, exception))
    reason = f"{exception} while this {type(item).__name__} was checked: a bug of schedulerd; its log has the details"
    reject(context, sender, item, Mistake(code, reason))


def _object_id(item: Item) -> str:
    match item:
        case NodeUpdate():
            return item.node_id
        case NewApplication() | ApplicationRemoval():
            return item.application_id
        case NewAsk() | AskRelease():
            return item.allocation_key or item.application_id
        case AllocationRelease():
            return item.uuid or item.allocation_key or item.application_id
        case PredicateResult():
            return str(item.call_id)
        case Utilization():
            return item.object_id
        case SetQueueStopped():
            return item.queue
        case RegisterResourceManager() | UpdateConfiguration():
            return item.rm_id
