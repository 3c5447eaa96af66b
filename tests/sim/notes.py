"""What a resource manager would know of its own cluster after a crash, from what it sent and what it was told.

It writes down what it has now and then, so that there is something stale to report.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from schedulerd.core.language.commands import (
    Command,
    ConnectResourceManager,
    ExistingAllocation,
    NewApplication,
    NodeAction,
    NodeUpdate,
    RegisterResourceManager,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.facts.fact import Allocated
from tests.sim.rm_memory import Place, ResourceManagerMemory, plain_name

FORGOTTEN_SHARE = 0.3
"""How much is missing in a partial report."""
PAGES_MAX = 8
"""How far back it remembers."""


@dataclass(frozen=True, slots=True)
class Page:
    """What it had at one time."""

    nodes: tuple[Place, ...]
    applications: tuple[Place, ...]
    held: tuple[Allocated, ...]


@dataclass
class Notes:
    """Of one resource manager."""

    rm: ResourceManagerMemory
    pages: deque[Page] = field(default_factory=lambda: deque(maxlen=PAGES_MAX))
    """The oldest first."""
    _applications: dict[Place, NewApplication] = field(default_factory=dict)
    """As submitted last."""
    _nodes: dict[Place, NodeUpdate] = field(default_factory=dict)
    """As they were said to be last."""

    def hear(self, command: Command) -> None:
        """Takes down what it sends."""
        match command:
            case UpdateApplications():
                for new in command.new:
                    self._applications[plain_name(new.partition), new.application_id] = new
            case UpdateNodes():
                for node in command.nodes:
                    place = plain_name(node.partition), node.node_id
                    known = self._nodes.get(place, node)
                    self._nodes[place] = replace(
                        node,
                        capacity=node.capacity if node.capacity is not None else known.capacity,
                        attributes=node.attributes or known.attributes,
                    )

    def page(self) -> Page:
        return Page(tuple(sorted(self.rm.nodes)), tuple(sorted(self.rm.applications)), tuple(self.rm.held.values()))

    def write(self) -> None:
        """Writes down what it has now."""
        self.pages.append(self.page())

    def node(self, place: Place, page: Page) -> NodeUpdate | None:
        """Its registration with all that ran there by the page; None if nothing was ever said of it."""
        known = self._nodes.get(place)
        if known is None:
            return None
        existing = [_existing(one) for one in page.held if (one.partition, one.node_id) == place]
        return replace(known, action=NodeAction.CREATE, existing=existing)

    def report(self, random: Random, page: Page, *, forgets: float = 0.0) -> list[Command]:
        """Comes back with what the page says, but for a share that it forgets; nodes or applications first."""

        def remembered(places: Sequence[Place]) -> list[Place]:
            return [place for place in places if random.random() >= forgets]

        held = tuple(one for one in page.held if random.random() >= forgets)
        page = replace(page, held=held)
        nodes = [self.node(place, page) for place in remembered(page.nodes)]
        applications = [self._applications.get(place) for place in remembered(page.applications)]
        said: list[Command] = [
            UpdateNodes(self.rm.rm_id, [one for one in nodes if one is not None]),
            UpdateApplications(self.rm.rm_id, [one for one in applications if one is not None]),
        ]
        random.shuffle(said)
        return [
            RegisterResourceManager(self.rm.rm_id, self.rm.partitions),
            ConnectResourceManager(self.rm.rm_id),
            *said,
        ]


def _existing(fact: Allocated) -> ExistingAllocation:
    return ExistingAllocation(
        application_id=fact.application_id,
        allocation_key=fact.allocation_key,
        uuid=fact.uuid,
        resources=fact.resources,
        node_id=fact.node_id,
        priority=fact.priority,
        tags=fact.tags,
        task_group=fact.task_group,
        placeholder=fact.placeholder,
    )
