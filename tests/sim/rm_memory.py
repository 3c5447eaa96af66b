"""What a resource manager knows from its own messages and the answers, and whether the scheduler keeps its word.

The resource manager runs the pods, so its memory is the truth: what it holds has to exist here, nothing may vanish
without its knowledge, and nothing ends twice (SEMANTICS F).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from schedulerd.core.commands import (
    AllocationRelease,
    Command,
    ExistingAllocation,
    TerminationType,
    UpdateAllocations,
    UpdateNodes,
)
from schedulerd.core.facts import (
    Allocated,
    ApplicationChanged,
    ApplicationForgotten,
    Fact,
    NodeChanged,
    NodeRejected,
    Released,
    ReleaseRequested,
    ResourceManagerChanged,
)
from schedulerd.core.lifecycles import TERMINAL_STATES, NodeState, ResourceManagerState
from schedulerd.core.views import ResourceManagerView


ANSWERED = (TerminationType.STOPPED_BY_RM, TerminationType.UNKNOWN_TERMINATION_TYPE)
"""A release of these types is the resource manager's wish, and has to be confirmed to it."""


@dataclass
class ResourceManagerMemory:
    rm_id: str
    state: ResourceManagerState | None = None
    """None before the first registration."""
    held: dict[str, Allocated] = field(default_factory=dict)
    """By UUID."""
    to_confirm: dict[str, ReleaseRequested] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    nodes: set[tuple[str, str]] = field(default_factory=set)
    """(partition, node id) of those that are there."""
    applications: set[tuple[str, str]] = field(default_factory=set)
    """(partition, application id) of those that are in a queue."""
    reported: dict[str, ExistingAllocation] = field(default_factory=dict)
    """Existing allocations it sent with a node, by UUID."""

    def hear(self, command: Command, facts: Sequence[Fact]) -> list[str]:
        """Takes in the answers to one command (anybody's) and returns where they break a promise."""
        found: list[str] = []
        if isinstance(command, UpdateNodes) and command.rm_id == self.rm_id:
            self.reported.update((item.uuid, item) for node in command.nodes for item in node.existing)
        sent = command.releases if isinstance(command, UpdateAllocations) and command.rm_id == self.rm_id else []
        for fact in facts:
            if getattr(fact, "rm_id", None) != self.rm_id:
                continue
            match fact:
                case ResourceManagerChanged():
                    self._changed(fact)
                case Allocated():
                    found += self._allocated(fact)
                case ReleaseRequested():
                    found += self._release_requested(fact)
                case NodeChanged():
                    _keep(self.nodes, (fact.partition, fact.node_id), fact.state is not NodeState.REMOVED)
                case ApplicationChanged() if fact.queue:
                    _keep(self.applications, (fact.partition, fact.application_id), fact.state not in TERMINAL_STATES)
                case ApplicationForgotten() if fact.state not in TERMINAL_STATES:
                    _keep(self.applications, (fact.partition, fact.application_id), there=False)
                case Released():
                    found += self._released(fact, sent, facts)
        return found

    def disagreements(self, shown: ResourceManagerView | None) -> list[str]:
        """Compares what it holds with what the scheduler has."""
        partitions = shown.partitions if shown is not None else []
        there = {item.uuid for partition in partitions for node in partition.nodes for item in node.allocations}
        lost = [f"{self.rm_id} holds {uuid}, the scheduler does not" for uuid in self.held if uuid not in there]
        return lost + [f"the scheduler has {uuid}, {self.rm_id} does not" for uuid in sorted(there - self.held.keys())]

    def _changed(self, fact: ResourceManagerChanged) -> None:
        self.state = fact.state
        if fact.state in (ResourceManagerState.INIT, ResourceManagerState.STOPPED):
            self.held.clear()
            self.to_confirm.clear()
            self.ended.clear()
            self.nodes.clear()
            self.applications.clear()
            self.reported.clear()

    def _allocated(self, fact: Allocated) -> list[str]:
        found = []
        if fact.uuid in self.held or (fact.uuid in self.ended and not fact.recovered):
            found.append(f"{fact.uuid} is given out a second time")
        if not fact.recovered and self.state is not ResourceManagerState.RUNNING:
            found.append(f"{fact.uuid} is placed while {self.rm_id} is {self.state}")
        if fact.recovered and self.reported[fact.uuid].resources != fact.resources:
            found.append(f"{fact.uuid} is taken over as {fact.resources}, not as it was reported")
        self.ended.discard(fact.uuid)
        self.held[fact.uuid] = fact
        return found

    def _release_requested(self, fact: ReleaseRequested) -> list[str]:
        found = [] if fact.uuid in self.held else [f"asked to release {fact.uuid}, which it does not hold"]
        if fact.uuid in self.to_confirm:
            found.append(f"asked twice to release {fact.uuid}")
        self.to_confirm[fact.uuid] = fact
        return found

    def _released(self, fact: Released, sent: list[AllocationRelease], facts: Sequence[Fact]) -> list[str]:
        found = []
        if fact.uuid in self.ended:
            found.append(f"{fact.uuid} ends twice")
        elif fact.uuid not in self.held:
            found.append(f"{fact.uuid} ends, which it does not hold")
        if (
            not fact.confirm
            and not _rolled_back(fact, facts)
            and not any(_ends_silently(release, fact) for release in sent)
        ):
            found.append(f"{fact.uuid} vanishes without a word")
        self.held.pop(fact.uuid, None)
        self.to_confirm.pop(fact.uuid, None)
        self.ended.add(fact.uuid)
        return found


def _rolled_back(fact: Released, facts: Sequence[Fact]) -> bool:
    """Whether it came and went with a node that was rejected, which is how the resource manager is told."""
    return any(isinstance(other, NodeRejected) and other.node_id == fact.node_id for other in facts) and any(
        isinstance(other, Allocated) and other.recovered and other.uuid == fact.uuid for other in facts
    )


def _keep(names: set[tuple[str, str]], name: tuple[str, str], there: bool) -> None:
    if there:
        names.add(name)
    else:
        names.discard(name)


def _ends_silently(release: AllocationRelease, fact: Released) -> bool:
    """Whether the release names this allocation and is of a type that is not answered (SEMANTICS F)."""
    if release.application_id != fact.application_id or release.termination in ANSWERED:
        return False
    if release.uuid:
        return release.uuid == fact.uuid
    return release.allocation_key in ("", fact.allocation_key)
