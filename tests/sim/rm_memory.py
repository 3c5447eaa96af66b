"""What a resource manager knows from its own messages and the answers, and whether the scheduler keeps its word.

The resource manager runs the pods, so its memory is the truth: what it holds has to exist here, nothing may vanish
without its knowledge, and nothing ends twice (SEMANTICS F).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from schedulerd.core.language.commands import (
    AllocationRelease,
    Command,
    ExistingAllocation,
    RegisterResourceManager,
    TerminationType,
    UpdateAllocations,
    UpdateConfiguration,
    UpdateNodes,
)
from schedulerd.core.language.facts.fact import (
    Allocated,
    AllocationChanged,
    ApplicationChanged,
    ApplicationForgotten,
    ChangeCause,
    Fact,
    NodeAccepted,
    NodeChanged,
    Released,
    ReleaseRequested,
    ResourceManagerChanged,
)
from schedulerd.core.language.facts.unclaimed import AllocationUnclaimed, UnclaimedEnd, UnclaimedEnded
from schedulerd.core.language.lifecycles import TERMINAL_STATES, NodeState, ResourceManagerState
from schedulerd.core.language.specs import PartitionSpec
from schedulerd.core.views.values import AllocationView, ResourceManagerView

ANSWERED = (TerminationType.STOPPED_BY_RM, TerminationType.UNKNOWN_TERMINATION_TYPE)
"""A release of these types is the resource manager's wish, and has to be confirmed to it."""


Place = tuple[str, str]
"""The partition as in the queue file, and an id that is unique there: a UUID, node id or application id."""


@dataclass
class ResourceManagerMemory:
    rm_id: str
    state: ResourceManagerState | None = None
    """None before the first registration."""
    partitions: tuple[PartitionSpec, ...] = ()
    """As it registered with them last."""
    held: dict[Place, Allocated] = field(default_factory=dict)
    unclaimed: dict[Place, AllocationUnclaimed] = field(default_factory=dict)
    """What it reported of applications that are not known."""
    to_confirm: dict[Place, ReleaseRequested] = field(default_factory=dict)
    over: deque[ReleaseRequested] = field(default_factory=lambda: deque(maxlen=20))
    """What it was asked to release, and what went before it confirmed that."""
    ended: set[Place] = field(default_factory=set)
    nodes: set[Place] = field(default_factory=set)
    applications: set[Place] = field(default_factory=set)
    """Those that are in a queue."""
    reported: dict[Place, ExistingAllocation] = field(default_factory=dict)
    """Existing allocations it sent with a node."""
    node_reports: dict[Place, list[list[ExistingAllocation]]] = field(default_factory=dict)
    """What each node was said to have, whenever it was said; one of these holds when the node is accepted."""
    swaps: dict[Place, ReleaseRequested] = field(default_factory=dict)
    """Placeholders it was asked to release so that a real ask can take their room."""
    early_releases: deque[AllocationRelease] = field(default_factory=lambda: deque(maxlen=100))
    """What it released before it held it: that may wait behind a node registration, and be done later."""

    def hear(self, command: Command, facts: Sequence[Fact]) -> list[str]:
        """Takes in the answers to one command (anybody's) and returns where they break a promise."""
        found: list[str] = []
        if isinstance(command, RegisterResourceManager) and command.rm_id == self.rm_id:
            self.partitions = command.partitions
        if isinstance(command, UpdateNodes) and command.rm_id == self.rm_id:
            for node in command.nodes:
                partition = plain_name(node.partition)
                self.reported.update(((partition, item.uuid), item) for item in node.existing)
                self.node_reports.setdefault((partition, node.node_id), []).append(node.existing)
        sent = command.releases if isinstance(command, UpdateAllocations) and command.rm_id == self.rm_id else []
        held_uuids = {uuid for _, uuid in self.held}
        self.early_releases.extend(release for release in sent if release.uuid not in held_uuids)
        sent = [*sent, *self.early_releases]
        for fact in facts:
            if getattr(fact, "rm_id", None) != self.rm_id:
                continue
            match fact:
                case ResourceManagerChanged():
                    self._changed(fact)
                case Allocated():
                    found += self._allocated(fact)
                case AllocationChanged():
                    found += self._allocation_changed(fact, command)
                case ReleaseRequested():
                    found += self._release_requested(fact)
                case NodeAccepted():
                    found += self._node_accepted(fact)
                case NodeChanged():
                    _keep(self.nodes, (fact.partition, fact.node_id), fact.state is not NodeState.REMOVED)
                case ApplicationChanged() if fact.queue:
                    _keep(self.applications, (fact.partition, fact.application_id), fact.state not in TERMINAL_STATES)
                case ApplicationForgotten() if fact.state not in TERMINAL_STATES:
                    _keep(self.applications, (fact.partition, fact.application_id), there=False)
                case Released():
                    found += self._released(fact, command, sent)
                    if fact.confirm and isinstance(command, UpdateAllocations) and not _is_wish(fact, sent):
                        found.append(f"{fact.uuid} is confirmed to {self.rm_id}, which was only asked for it")
                case AllocationUnclaimed():
                    found += self._unclaimed(fact)
                case UnclaimedEnded():
                    found += self._unclaimed_ended(fact, sent, facts)
        return found

    def disagreements(self, shown: ResourceManagerView | None) -> list[str]:
        """Compares what it holds with what the scheduler has."""
        partitions = shown.partitions if shown is not None else []
        there = {
            (partition.name, item.uuid): item
            for partition in partitions
            for node in partition.nodes
            for item in node.allocations
            if not item.slot  # it is not told of these
        }
        unclaimed = {
            (partition.name, item.uuid)
            for partition in partitions
            for node in partition.nodes
            for item in node.unclaimed
        }
        found = [f"{place} is unclaimed on one side only" for place in sorted(self.unclaimed.keys() ^ unclaimed)]
        found += [f"{self.rm_id} holds {place}, the scheduler does not" for place in self.held if place not in there]
        found += [
            f"the scheduler has {place}, {self.rm_id} does not" for place in sorted(there.keys() - self.held.keys())
        ]
        return found + [
            f"{self.rm_id} holds {place} as {self.held[place]}, the scheduler as {item}"
            for place, item in there.items()
            if place in self.held and not _is_same(self.held[place], item)
        ]

    def _changed(self, fact: ResourceManagerChanged) -> None:
        self.state = fact.state
        if fact.state in (ResourceManagerState.INIT, ResourceManagerState.STOPPED):
            self.held.clear()
            self.unclaimed.clear()
            self.to_confirm.clear()
            self.ended.clear()
            self.nodes.clear()
            self.applications.clear()
            self.reported.clear()
            self.node_reports.clear()
            self.swaps.clear()

    def _allocated(self, fact: Allocated) -> list[str]:
        found = []
        place = fact.partition, fact.uuid
        if place in self.held or (place in self.ended and not fact.recovered):
            found.append(f"{fact.uuid} is given out a second time")
        if not fact.recovered and self.state is not ResourceManagerState.RUNNING:
            found.append(f"{fact.uuid} is placed while {self.rm_id} is {self.state}")
        if fact.recovered and not any(_is_as_reported(item, fact) for item in self._reports_of(fact)):
            found.append(f"{fact.uuid} is taken over as {fact}, not as it was reported")
        if fact.replaces:
            replaced = fact.partition, fact.replaces
            request = self.swaps.pop(replaced, None)
            if request is None or replaced in self.held or request.application_id != fact.application_id:
                found.append(f"{fact.uuid} takes the room of {fact.replaces}, which was not given up for it")
        self.ended.discard(place)
        self.held[place] = fact
        return found

    def _allocation_changed(self, fact: AllocationChanged, command: Command) -> list[str]:
        """It said so itself, of the node or with an ask."""
        old, place = (fact.partition, fact.old_uuid), (fact.partition, fact.uuid)
        if old not in self.held:
            return [f"{fact.old_uuid} changes, which {self.rm_id} does not hold"]
        before = self.held.pop(old)
        found = [] if place not in self.held else [f"{fact.old_uuid} becomes {fact.uuid}, which is there"]
        self.held[place] = replace(before, uuid=fact.uuid, node_id=fact.node_id, resources=fact.resources)
        if place != old:
            self.ended.add(old)
            self.ended.discard(place)
            if old in self.to_confirm:
                found.append(f"{fact.old_uuid} is to be released, and has another UUID now")
        elif old in self.to_confirm:
            self.to_confirm[place] = replace(self.to_confirm[old], node_id=fact.node_id)
        if fact.cause is ChangeCause.MOVED:
            reports = self.node_reports.get((fact.partition, fact.node_id), [])
            if not any(item.uuid == fact.uuid for report in reports for item in report):
                found.append(f"{fact.uuid} is moved to {fact.node_id}, where nobody reported it")
        return found

    def _reports_of(self, fact: Allocated) -> list[ExistingAllocation]:
        """All that it said of this UUID with this node, as garbage may say it again with other contents."""
        reports = self.node_reports.get((fact.partition, fact.node_id), [])
        return [item for report in reports for item in report if item.uuid == fact.uuid]

    def _node_accepted(self, fact: NodeAccepted) -> list[str]:
        held = {place for place, one in self.held.items() if one.node_id == fact.node_id}
        held |= {place for place, one in self.unclaimed.items() if one.node_id == fact.node_id}
        reports = self.node_reports.get((fact.partition, fact.node_id), [[]])
        if any({(fact.partition, item.uuid) for item in report} <= held for report in reports):
            return []
        return [f"{fact.node_id} is accepted without the allocations it was reported with"]

    def _release_requested(self, fact: ReleaseRequested) -> list[str]:
        place = fact.partition, fact.uuid
        found = [] if place in self.held else [f"asked to release {fact.uuid}, which it does not hold"]
        if place in self.to_confirm:
            found.append(f"asked twice to release {fact.uuid}")
        self.to_confirm[place] = fact
        if fact.termination is TerminationType.PLACEHOLDER_REPLACED:
            self.swaps[place] = fact
        return found

    def _released(self, fact: Released, command: Command, sent: list[AllocationRelease]) -> list[str]:
        found = []
        place = fact.partition, fact.uuid
        if place in self.held and self.held[place].placeholder is not fact.placeholder:
            found.append(f"{fact.uuid} was placed as one kind and ends as the other")
        if place in self.ended:
            found.append(f"{fact.uuid} ends twice")
        elif place not in self.held:
            found.append(f"{fact.uuid} ends, which it does not hold")
        was_told = place in self.to_confirm and (fact.node_removed or isinstance(command, UpdateConfiguration))
        silent = was_told or any(_ends_silently(release, fact) for release in sent)
        if not fact.confirm and not silent:
            found.append(f"{fact.uuid} vanishes without a word")
        if fact.confirm and was_told:
            found.append(f"{fact.uuid} is told to be gone, and was asked to go before")
        self.held.pop(place, None)
        asked = self.to_confirm.pop(place, None)
        if asked is not None and fact.termination is not asked.termination:
            self.over.append(asked)
        self.ended.add(place)
        return found

    def _unclaimed(self, fact: AllocationUnclaimed) -> list[str]:
        place = fact.partition, fact.uuid
        found = [f"{fact.uuid} is unclaimed, and is there already"] if place in self.held | self.unclaimed else []
        if (fact.partition, fact.application_id) in self.applications:
            found.append(f"{fact.uuid} is unclaimed, and its application is there")
        if not any(
            _is_as_reported_unclaimed(item, fact)
            for report in self.node_reports.get((fact.partition, fact.node_id), [])
            for item in report
        ):
            found.append(f"{fact.uuid} is unclaimed as {fact}, not as it was reported")
        self.ended.discard(place)
        self.unclaimed[place] = fact
        return found

    def _unclaimed_ended(self, fact: UnclaimedEnded, sent: list[AllocationRelease], facts: Sequence[Fact]) -> list[str]:
        place = fact.partition, fact.uuid
        found = [] if place in self.unclaimed else [f"{fact.uuid} is unclaimed no longer, and was not"]
        self.unclaimed.pop(place, None)
        match fact.cause:
            case UnclaimedEnd.JOINED:
                is_there = (fact.partition, fact.application_id) in self.applications
                goes_on = any(isinstance(one, Allocated | AllocationChanged) and one.uuid for one in facts)
                if fact.confirm or not is_there or not goes_on:
                    found.append(f"{fact.uuid} joins an application, and is not its allocation")
            case UnclaimedEnd.REPORTED_ANEW:
                if fact.confirm or not any(isinstance(one, AllocationUnclaimed) for one in facts):
                    found.append(f"{fact.uuid} is reported anew, and is not there")
            case UnclaimedEnd.NODE_REMOVED:
                if not fact.confirm:
                    found.append(f"{fact.uuid} vanishes with its node without a word")
                self.ended.add(place)
            case UnclaimedEnd.RELEASED:
                if not fact.confirm and not any(_ends_silently(release, fact) for release in sent):
                    found.append(f"{fact.uuid} vanishes without a word")
                self.ended.add(place)
        return found


def plain_name(partition: str) -> str:
    """The partition as in the queue file, for any spelling a message may use."""
    return partition.rpartition("]")[2] or "default"


def _is_as_reported(item: ExistingAllocation, fact: Allocated) -> bool:
    names = ("application_id", "allocation_key", "resources", "priority", "task_group")
    is_same = all(getattr(item, name) == getattr(fact, name) for name in names)
    return is_same and fact.placeholder is (item.placeholder and bool(item.task_group))


def _is_as_reported_unclaimed(item: ExistingAllocation, fact: AllocationUnclaimed) -> bool:
    names = ("application_id", "allocation_key", "uuid", "resources")
    return all(getattr(item, name) == getattr(fact, name) for name in names)


def _is_same(fact: Allocated, item: AllocationView) -> bool:
    names = ("application_id", "allocation_key", "node_id", "resources", "priority", "task_group", "placeholder")
    return all(getattr(fact, name) == getattr(item, name) for name in names)


def _keep(names: set[Place], name: Place, there: bool) -> None:
    if there:
        names.add(name)
    else:
        names.discard(name)


def _ends_silently(release: AllocationRelease, fact: Released | UnclaimedEnded) -> bool:
    """Whether the release names this allocation and is of a type that is not answered (SEMANTICS F)."""
    return release.termination not in ANSWERED and _names(release, fact)


def _is_wish(fact: Released, sent: Sequence[AllocationRelease]) -> bool:
    """Whether one of these names the allocation and is of a type that is answered."""
    return any(release.termination in ANSWERED and _names(release, fact) for release in sent)


def _names(release: AllocationRelease, fact: Released | UnclaimedEnded) -> bool:
    if release.uuid:
        return release.uuid == fact.uuid and release.application_id in ("", fact.application_id)
    if release.application_id != fact.application_id:
        return False
    return release.allocation_key in ("", fact.allocation_key)
