"""What a simulated cluster looks like and what is run on it, drawn from a seed.

The same seed gives the same nodes and the same applications in the same order, whatever the scheduler answers: a run
can be repeated and compared. Arrivals are chosen so that the cluster fills up, asks have to wait, and all is done by
the end; they come out of a generator, so that a long run costs no more memory than a short one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random

MIB = 1 << 20
GIB = 1 << 30

NODE_MEMORY_BYTES = 64 * GIB
NODE_VCORE_MILLI = 16_000
NODES_PER_RACK = 20
ZONES = ("zone-a", "zone-b", "zone-c")

STORY_S = 30.0
"""The length for which run times below are meant; a shorter run is the same story told faster."""
TAIL_S = 12.0
"""How long before the end the last application arrives, within a story of `STORY_S`."""


@dataclass(frozen=True, slots=True)
class PodSize:
    """Resources of one pod."""

    name: str
    memory_bytes: int
    vcore_milli: int

    def node_share(self) -> float:
        """Share of a node that it takes, by the resource of which it takes more."""
        return max(self.memory_bytes / NODE_MEMORY_BYTES, self.vcore_milli / NODE_VCORE_MILLI)


SMALL = PodSize("small", 2 * GIB, 500)
SERVICE = PodSize("service", 2 * GIB, 1_000)
NOTEBOOK = PodSize("notebook", 4 * GIB, 500)
MEDIUM = PodSize("medium", 4 * GIB, 1_000)
LARGE = PodSize("large", 10 * GIB, 2_000)
XLARGE = PodSize("xlarge", 16 * GIB, 4_000)


class Start(Enum):
    """When the pods of a wave are asked for."""

    AT_ONCE = "when the application was accepted"
    PREVIOUS_PLACED = "when every pod of the wave before was placed"
    PREVIOUS_FINISHED = "when every pod of the wave before has finished"


@dataclass(frozen=True, slots=True)
class WaveShape:
    """Distribution of one wave of pods: number and run time of each (least, most)."""

    start: Start
    size: PodSize
    pods: tuple[int, int]
    run_s: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of application and the waves in which its pods come.

    `load` is the share of the cluster that applications of this kind would use while they arrive, were there room:
    the sum over all kinds is above 1, so some of them have to wait.
    """

    name: str
    queue: str
    load: float
    waves: tuple[WaveShape, ...]

    def mean_work(self) -> float:
        """Work of an average application: seconds during which it would need one whole node."""
        return sum(wave.size.node_share() * sum(wave.pods) / 2 * sum(wave.run_s) / 2 for wave in self.waves)


KINDS = (
    Kind(
        "spark",
        "root.batch",
        0.36,
        (
            WaveShape(Start.AT_ONCE, SMALL, (1, 1), (5.0, 7.0)),
            WaveShape(Start.PREVIOUS_PLACED, MEDIUM, (12, 60), (1.5, 4.5)),
        ),
    ),
    Kind("etl", "root.batch", 0.10, (WaveShape(Start.AT_ONCE, LARGE, (2, 10), (2.0, 5.0)),)),
    Kind("training", "root.ml.train", 0.42, (WaveShape(Start.AT_ONCE, XLARGE, (4, 12), (3.0, 7.0)),)),
    Kind("notebook", "root.ml.notebooks", 0.08, (WaveShape(Start.AT_ONCE, NOTEBOOK, (1, 3), (4.0, 9.0)),)),
    Kind(
        "service",
        "root.services",
        0.30,
        (
            WaveShape(Start.AT_ONCE, SERVICE, (4, 12), (2.5, 4.5)),
            WaveShape(Start.PREVIOUS_FINISHED, SERVICE, (4, 12), (2.5, 4.5)),
        ),
    ),
)


def queues_for_kinds(leaves: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """The queues of each kind of application, by name of the kind: its own if it is among `leaves` or there are none to
    choose from, else all leaves that are no kind's own, which its applications take in turn."""
    own = {kind.queue for kind in KINDS}
    others = tuple(leaf for leaf in leaves if leaf not in own) or tuple(leaves)
    return {kind.name: others if leaves and kind.queue not in leaves else (kind.queue,) for kind in KINDS}


USERS = ("alice", "bob", "carol", "dave", "erin")


@dataclass(frozen=True, slots=True)
class Wave:
    """Pods that are asked for together: one run time, in seconds, for each."""

    start: Start
    size: PodSize
    run_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PlannedApplication:
    """An application to come; `arrives_s` counts from the start of the run."""

    application_id: str
    kind: str
    queue: str
    user: str
    arrives_s: float
    waves: tuple[Wave, ...]


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node of the simulated cluster, with the attributes that SI defines for racks and zones."""

    node_id: str
    memory_bytes: int
    vcore_milli: int
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Workload:
    """Everything a run needs to know in advance.

    `queues_of_kind` overrides the queues of a kind of application, `applications_per_s` the arrival rate that would
    fill the cluster.
    """

    nodes_count: int
    duration_s: float
    seed: int
    applications_per_s: float | None = None
    queues_of_kind: Mapping[str, Sequence[str]] | None = None

    @property
    def pace(self) -> float:
        """Factor on all times: below 1 for runs that are shorter than the story."""
        return min(1.0, self.duration_s / STORY_S)

    @property
    def arrivals_end_s(self) -> float:
        return self.duration_s - TAIL_S * self.pace

    def rates_per_s(self) -> list[float]:
        """Applications per second of each of `KINDS`, on average, while they arrive."""
        rates = [kind.load * self.nodes_count / (kind.mean_work() * self.pace) for kind in KINDS]
        factor = 1.0 if self.applications_per_s is None else self.applications_per_s / sum(rates)
        return [factor * rate for rate in rates]

    def nodes(self) -> Iterator[PlannedNode]:
        for number in range(self.nodes_count):
            attributes = {
                "si/hostname": f"node-{number:05}.cluster.local",
                "si/rackname": f"rack-{number // NODES_PER_RACK:03}",
                "si/zone": ZONES[number % len(ZONES)],
            }
            yield PlannedNode(f"node-{number:05}", NODE_MEMORY_BYTES, NODE_VCORE_MILLI, attributes)

    def applications(self) -> Iterator[PlannedApplication]:
        """All applications in the order they arrive."""
        random = Random(self.seed)
        rates_per_s = self.rates_per_s()
        rate_per_s = sum(rates_per_s)
        now_s, number = 0.0, 0
        while True:
            now_s += random.expovariate(rate_per_s * self._intensity(now_s))
            if now_s >= self.arrivals_end_s:
                return
            number += 1
            kind = random.choices(KINDS, rates_per_s)[0]
            queues = (self.queues_of_kind or {}).get(kind.name, (kind.queue,))
            queue = queues[number % len(queues)]
            waves = tuple(self._wave(shape, random) for shape in kind.waves)
            yield PlannedApplication(f"{kind.name}-{number:05}", kind.name, queue, random.choice(USERS), now_s, waves)

    def _wave(self, shape: WaveShape, random: Random) -> Wave:
        run_s = tuple(random.uniform(*shape.run_s) * self.pace for _ in range(random.randint(*shape.pods)))
        return Wave(shape.start, shape.size, run_s)

    def _intensity(self, now_s: float) -> float:
        """A rush first, which fills the cluster, then a lull and a second rush: something to look at."""
        told = now_s / self.arrivals_end_s
        if told < 0.25:
            return 1.6
        return 0.5 if told < 0.55 else 1.0
