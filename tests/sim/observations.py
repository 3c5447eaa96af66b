"""Counts how often a simulation reached the situations it is there for.

A simulation that never shrinks a node under its allocations proves nothing about over-commit; so the test asserts that
every sight of `EXPECTED` was seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from schedulerd.core.applications.handlers.execution_times import EXECUTION_TIMEOUT
from schedulerd.core.gangs.sentences import GANG_TIMEOUT
from schedulerd.core.language.commands import (
    Command,
    RingAlarms,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.facts.configuration import ConfigurationRejected, ConfigurationUpdated
from schedulerd.core.language.facts.fact import (
    Allocated,
    AllocationChanged,
    ApplicationChanged,
    ApplicationForgotten,
    ApplicationRejected,
    AskAdded,
    AskRejected,
    AskWithdrawn,
    CycleRan,
    Fact,
    ItemIgnored,
    NodeChanged,
    NodeRejected,
    RejectCode,
    ReleaseCause,
    Released,
    ReleaseIgnored,
    ReleaseRequested,
    ResourceManagerChanged,
    WithdrawCause,
)
from schedulerd.core.language.facts.gangs import GangCompleted, GangGaveWay, GangTimedOut, SwapRefused
from schedulerd.core.language.facts.queues import QueueChange, QueueChanged
from schedulerd.core.language.facts.unclaimed import AllocationUnclaimed, UnclaimedEnded
from schedulerd.core.language.lifecycles import ApplicationState, NodeState, ResourceManagerState
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from schedulerd.core.views.values import PartitionView, ResourceManagerView
from tests.sim import room_observations

EXPECTED = (
    "application Accepted",
    "application Completed",
    "application Completing",
    "application Failed",
    "application Failing",
    "application New",
    "application Rejected",
    "application Resuming",
    "application Running",
    "application Starting",
    "application back from Completing",
    "application forgotten",
    "ask over a quota",
    "ask that no node fits",
    "configuration refused",
    "configuration reloaded",
    "cycle that stopped at its bound",
    "draining node with allocations",
    "early ask rejected after its wait",
    "ask placed on its required node",
    "early ask taken when its application came",
    "allocation unclaimed",
    "unclaimed allocation joined",
    "unclaimed allocation released",
    "unclaimed allocation node_removed",
    "unclaimed placeholder joined",
    "allocation out of time",
    "application out of time",
    "existing allocation taken over",
    "existing placeholder taken over",
    "gang complete",
    "gang gave way",
    "gang out of time",
    "gang held back",
    "gang given up in a swap",
    "gang that waits at its gate",
    "message at the instant of an alarm",
    "node lost under a swap",
    "placeholder too small",
    "release confirmed as another type",
    "release confirmed when it is over",
    "swap begun",
    "swap done",
    "swap done on another node",
    "swap without room at its end",
    "item ignored",
    "node removed under its allocations",
    "not-ready node with allocations",
    "over-committed node",
    "paused with asks pending",
    "queue over its quota",
    "re-registration that drops allocations",
    "release asked for by the core",
    "release of a placeholder confirmed",
    "rejected access_denied",
    "rejected duplicate_id",
    "rejected empty_id",
    "rejected invalid_count",
    "rejected invalid_resources",
    "rejected not_placed",
    "rejected unknown_application",
    "rejected unknown_partition",
    "release ignored",
    "several placements in one cycle",
    "stopped because it stayed away",
    "update of a half-placed ask",
    "update that asks for no more than is placed",
    "withdrawn application_removed",
    "withdrawn released_by_rm",
    "withdrawn timeout",
    *room_observations.EXPECTED,
)


class Observations(Counter[str]):
    def __init__(self, seen: Mapping[str, int] | None = None, faults: Mapping[str, int] | None = None) -> None:
        super().__init__(seen or {})
        self.faults = Counter(faults or {})
        """What went wrong on purpose, by kind."""
        self._looked_at: dict[tuple[str, str], tuple[str, PartitionView, Counter[str]]] = {}
        """What was seen in each partition the last time, and in which state its resource manager was then."""

    def __reduce__(self) -> tuple[type[Observations], tuple[dict[str, int], dict[str, int]]]:
        return type(self), (dict(self), dict(self.faults))

    def join(self, others: Observations) -> None:
        """All that the others have seen as well."""
        self.update(others)
        self.faults.update(others.faults)

    def observe(self, command: Command, facts: Sequence[Fact], state: Iterable[ResourceManagerView]) -> None:
        """`state` is the one after the step."""
        for rm in state:
            for partition in rm.partitions:
                name = rm.rm_id, partition.name
                known = self._looked_at.get(name)
                if known is None or known[0] != rm.state or known[1] is not partition:
                    known = self._looked_at[name] = rm.state, partition, Counter(_sights(rm.state, partition))
                for sight, count in known[2].items():
                    self[sight] += count
        self._hear_of_swaps(command, facts)
        for fact in facts:
            self._hear(command, fact, facts)
        held = {(fact.application_id, fact.allocation_key) for fact in facts if isinstance(fact, AskAdded)}
        for fact in facts:
            if isinstance(fact, AskWithdrawn) and fact.cause is WithdrawCause.UPDATED:
                self._update(fact, (fact.application_id, fact.allocation_key) in held, state)

    def missing(self) -> list[str]:
        return [sight for sight in EXPECTED if not self[sight]]

    def _hear_of_swaps(self, command: Command, facts: Sequence[Fact]) -> None:
        gone = {fact.uuid: fact for fact in facts if isinstance(fact, Released)}
        for fact in facts:
            match fact:
                case Allocated(replaces=uuid) if uuid:
                    self["swap done"] += 1
                    self["swap done on another node"] += fact.node_id != gone[uuid].node_id
                    self["release confirmed as another type"] += (
                        gone[uuid].termination is not TerminationType.PLACEHOLDER_REPLACED
                    )
                case ApplicationChanged(state=ApplicationState.FAILING, cause=cause) if cause.startswith(GANG_TIMEOUT):
                    awaiting = [one for one in facts if isinstance(one, AskAdded) and one.awaited_placeholder]
                    same = [one for one in awaiting if one.application_id == fact.application_id]
                    self["gang given up in a swap"] += bool(same)
                case AskAdded(awaited_placeholder=True):
                    lost = any(isinstance(one, NodeChanged) and one.state is NodeState.REMOVED for one in facts)
                    self["node lost under a swap"] += lost
                    self["swap without room at its end"] += not lost and bool(gone)

    def _hear(self, command: Command, fact: Fact, facts: Sequence[Fact]) -> None:
        match fact:
            case ApplicationChanged():
                self[f"application {fact.state.value}"] += 1
                left = fact.old_state is ApplicationState.COMPLETING and fact.state is ApplicationState.RUNNING
                self["application back from Completing"] += left
                self["application out of time"] += EXECUTION_TIMEOUT in fact.cause
            case ApplicationForgotten():
                self["application forgotten"] += 1
            case AskRejected() | ApplicationRejected() | NodeRejected():
                self[f"rejected {fact.code.value}"] += 1
                late = isinstance(command, RingAlarms) and fact.code is RejectCode.UNKNOWN_APPLICATION
                self["early ask rejected after its wait"] += late and isinstance(fact, AskRejected)
            case AskAdded(awaited_placeholder=False):
                self["early ask taken when its application came"] += isinstance(command, UpdateApplications)
            case QueueChanged(change=QueueChange.MAX) if isinstance(command, UpdateApplications):
                self["quota of a namespace said anew"] += not any(
                    isinstance(one, QueueChanged) and one.change is QueueChange.ADDED for one in facts
                ) and not any(isinstance(one, ApplicationChanged) for one in facts)
            case AllocationUnclaimed():
                self["allocation unclaimed"] += 1
            case UnclaimedEnded():
                self[f"unclaimed allocation {fact.cause}"] += 1
                self["unclaimed placeholder joined"] += any(
                    isinstance(one, Allocated) and one.uuid == fact.uuid and one.placeholder for one in facts
                )
            case AskWithdrawn(cause=WithdrawCause.RECOVERED) if isinstance(command, UpdateNodes):
                self["pending ask found running"] += 1
            case AskWithdrawn():
                self[f"withdrawn {fact.cause.value}"] += 1
            case NodeChanged(state=NodeState.REMOVED):
                gone = any(isinstance(other, Released) and other.node_id == fact.node_id for other in facts)
                self["node removed under its allocations"] += gone
            case Allocated():
                self["existing allocation taken over"] += fact.recovered
                self["ask placed on its required node"] += REQUIRED_NODE_TAG in fact.tags and not fact.recovered
                self["existing placeholder taken over"] += fact.recovered and fact.placeholder
            case AllocationChanged():
                self[f"allocation {fact.cause}"] += 1
                self[f"placeholder {fact.cause}"] += fact.placeholder
                self["allocation resized by an ask"] += isinstance(command, UpdateAllocations)
            case ReleaseRequested():
                self["release asked for by the core"] += 1
                self["swap begun"] += fact.cause is ReleaseCause.REPLACED
                self["allocation out of time"] += fact.message.startswith("allocation ")
            case GangCompleted():
                self["gang complete"] += 1
            case GangGaveWay():
                self["gang gave way"] += 1
            case GangTimedOut():
                self["gang out of time"] += 1
            case SwapRefused():
                self["placeholder too small"] += 1
            case Released(placeholder=True, termination=TerminationType.TIMEOUT):
                self["release of a placeholder confirmed"] += 1
            case ReleaseIgnored():
                self["release ignored"] += 1
                self["release confirmed when it is over"] += isinstance(command, UpdateAllocations) and any(
                    one.uuid == fact.uuid != "" and one.termination is TerminationType.PLACEHOLDER_REPLACED
                    for one in command.releases
                )
            case ItemIgnored():
                self["item ignored"] += 1
            case ConfigurationUpdated():
                self["configuration reloaded"] += 1
            case ConfigurationRejected():
                self["configuration refused"] += 1
            case CycleRan():
                self["cycle that stopped at its bound"] += fact.more
                self["several placements in one cycle"] += fact.allocations > 1
            case ResourceManagerChanged():
                self["stopped because it stayed away"] += fact.cause == "reconnect_timeout"

    def _update(self, fact: AskWithdrawn, asked_anew: bool, state: Iterable[ResourceManagerView]) -> None:
        placed = any(
            allocation.allocation_key == fact.allocation_key
            for rm in state
            if rm.rm_id == fact.rm_id
            for partition in rm.partitions
            if partition.name == fact.partition
            for item in partition.applications
            if item.application_id == fact.application_id
            for allocation in item.allocations
        )
        self["update of a half-placed ask"] += placed
        self["update that asks for no more than is placed"] += placed and not asked_anew


def _sights(rm_state: str, partition: PartitionView) -> Iterator[str]:
    """What is to be seen in a partition as it is."""
    for node in partition.nodes:
        if any(amount < 0 for amount in node.available.values()):
            yield "over-committed node"
        if node.allocations and node.state == NodeState.DRAINING:
            yield "draining node with allocations"
        if node.allocations and node.state == NodeState.NOT_READY:
            yield "not-ready node with allocations"
    headrooms = {queue.path: queue.headroom for queue in partition.queues}
    for queue in partition.queues:
        if any(queue.allocated.get(name, 0) > limit for name, limit in queue.max.items()):
            yield "queue over its quota"
    for item in partition.applications:
        headroom = headrooms[item.queue]
        if item.waits_for_gang_of:
            yield "gang held back"
        gate = (amount > headroom.get(name, amount) for name, amount in item.placeholder_ask.items())
        if not item.gang_started and any(ask.placeholder for ask in item.asks) and any(gate):
            yield "gang that waits at its gate"
        for ask in item.asks:
            if any(amount > headroom.get(name, amount) for name, amount in ask.resources.items()):
                yield "ask over a quota"
            if rm_state == ResourceManagerState.PAUSED:
                yield "paused with asks pending"
            if "too many allocations" in ask.waiting_for:
                yield "too many of a kind together"
            if "too few allocations" in ask.waiting_for:
                yield "too few of a kind together"
    for _ in partition.outstanding:
        yield "ask that no node fits"
