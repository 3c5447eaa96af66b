"""What a workload is: a cluster, its applications and their asks as plain data, however it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.measurement import Placed

RM_ID = "benchmark"
USER, GROUP = "testuser", "testgroup"
GANG_STYLE = "Soft"
ASKS_PER_REQUEST = 1_000


class Neighbour(StrEnum):
    """Another resource manager that is at work meanwhile (see `neighbour.py`)."""

    UNASKED = "unasked"
    """Without callbacks."""
    ASKED = "asked"
    """It has a say in where its pods run, and takes 20 ms for it."""


@dataclass(frozen=True, slots=True)
class Size:
    """Raw integers as in messages: no unit is implied."""

    memory: int
    vcore: int

    def fits(self, room: Size) -> bool:
        return self.memory <= room.memory and self.vcore <= room.vcore

    def plus(self, other: Size, times: int = 1) -> Size:
        return Size(self.memory + times * other.memory, self.vcore + times * other.vcore)

    def less(self, other: Size) -> Size:
        return self.plus(other, -1)


@dataclass(frozen=True, slots=True)
class Demand:
    """Where an ask may run."""

    wanted: tuple[str, str]
    """An attribute of the node and its value."""
    unwanted: tuple[tuple[str, str], ...]
    """What must not be so."""
    service: str
    """What it is one of; at most `most` of a service may run in the nodes that have the same value of `scope`."""
    scope: str
    most: int


@dataclass(frozen=True, slots=True)
class Ask:
    application_id: str
    key: str
    size: Size
    count: int = 1
    """maxAllocations."""
    task_group: str = ""
    placeholder: bool = False
    demand: Demand | None = None
    """None if any node will do."""


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    queue_file: str
    """YAML text."""
    nodes: int
    node_size: Size
    applications: Mapping[str, str]
    """Queue by application id, in the order of submission."""
    asks: tuple[Ask, ...]
    """Sent in this order, back to back, `asks_per_request` at a time. Those larger than a node stay pending."""
    asks_per_request: int = ASKS_PER_REQUEST
    pending_first: bool = False
    """Whether nothing is placed before all `asks` are taken in. Then the two are measured apart."""
    placed_max: int | None = None
    """The run ends when so many are placed; None: when all are that fit a node."""
    gang_size: Size | None = None
    """Of the placeholders of each application together; None if the applications bring no placeholders."""
    task_groups: Mapping[str, str] = field(default_factory=dict)
    """By application, of gangs without placeholders: the tag that declares its task groups."""
    replacements: tuple[Ask, ...] = ()
    """Sent when all `asks` are placed, in the same way: each of them takes the place of a placeholder among these."""
    single_asks: tuple[Ask, ...] = ()
    """Sent afterwards one by one, each when the one before has its allocation: their latency is the result."""
    is_watched: bool = False
    """Whether metrics and state of the daemon are read all the time while single asks are sent (see `onlooker.py`)."""
    idle_s: float = 0.0
    """Afterwards nothing is sent for so long: what the daemon burns meanwhile is the result."""
    neighbour: Neighbour | None = None
    quotas: Mapping[str, Size] = field(default_factory=dict)
    """What all in a queue and below may use, by its full name; of the queues that have a quota."""
    node_attributes: Mapping[str, int] = field(default_factory=dict)
    """How many values there are of each attribute; nodes have all their combinations in turn."""

    labels: Callable[[int], dict[str, str]] | None = None
    """Instead of these: the attributes of a node by its number."""
    result_check: Callable[[Workload, Iterable[Placed]], Iterable[str]] | None = None
    """What is wrong with the result, beside the checks of every workload."""

    @property
    def node_ids(self) -> Iterable[str]:
        return (f"node-{index:05d}" for index in range(self.nodes))

    def attributes(self, index: int) -> dict[str, str]:
        """Of the node with this number."""
        if self.labels is not None:
            return self.labels(index)
        found = {}
        for name, values in self.node_attributes.items():
            index, value = divmod(index, values)
            found[name] = str(value)
        return found

    def requests(self, asks: Sequence[Ask]) -> list[Sequence[Ask]]:
        """These asks in portions of a request each."""
        step = self.asks_per_request
        return [asks[first : first + step] for first in range(0, len(asks), step)]

    def placements(self, asks: Iterable[Ask]) -> int:
        """How many allocations these asks become: all but those that are larger than any node, up to `placed_max`."""
        fitting = sum(ask.count for ask in asks if ask.size.fits(self.node_size))
        return fitting if self.placed_max is None else min(fitting, self.placed_max)
