"""The workloads: clusters, applications and asks as plain data, the same for every way of running them.

Each is a function of its size, because what matters as much as the speed is how the cost grows with nodes and asks.
The numbers are those in which schedulerd's goals are stated, so results can be compared over time and with its peer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

RM_ID = "benchmark"
USER, GROUP = "testuser", "testgroup"
GANG_STYLE = "Soft"
ASKS_PER_REQUEST = 1_000

QUEUES_AB = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
            resources: {guaranteed: {memory: 100000, vcore: 10000}}
          - name: b
            resources: {guaranteed: {memory: 1000000, vcore: 10000}}
"""

QUEUE_GANG = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: gang
            properties: {application.sort.policy: fifo}
"""


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
class Ask:
    application_id: str
    key: str
    size: Size
    count: int = 1
    """maxAllocations."""
    task_group: str = ""
    placeholder: bool = False


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
    gang_size: Size | None = None
    """Of the placeholders of each application together; None if the applications are no gangs."""
    replacements: tuple[Ask, ...] = ()
    """Sent when all `asks` are placed, in the same way: each of them takes the place of a placeholder among these."""
    single_asks: tuple[Ask, ...] = ()
    """Sent afterwards one by one, each when the one before has its allocation: their latency is the result."""
    idle_s: float = 0.0
    """Afterwards nothing is sent for so long: what the daemon burns meanwhile is the result."""
    neighbour: Neighbour | None = None

    @property
    def node_ids(self) -> Iterable[str]:
        return (f"node-{index:05d}" for index in range(self.nodes))

    def requests(self, asks: Sequence[Ask]) -> list[Sequence[Ask]]:
        """These asks in portions of a request each."""
        step = self.asks_per_request
        return [asks[first : first + step] for first in range(0, len(asks), step)]

    def placements(self, asks: Iterable[Ask]) -> int:
        """How many allocations these asks become: all but those that are larger than any node."""
        return sum(ask.count for ask in asks if ask.size.fits(self.node_size))


POD = Size(memory=10, vcore=1)
SLOTS_10 = Size(memory=100, vcore=10)
TWO_APPLICATIONS = {"app-1": "root.a", "app-2": "root.b"}


def _numbered(owners: Iterable[str], size: Size = POD, count: int = 1, prefix: str = "ask") -> tuple[Ask, ...]:
    return tuple(Ask(owner, f"{prefix}-{index:06d}", size, count) for index, owner in enumerate(owners))


def _node_for(asks: int, nodes: int) -> Size:
    """The node size at which the asks fill all nodes but for one pod each."""
    slots = asks // nodes + 1
    return Size(memory=POD.memory * slots, vcore=POD.vcore * slots)


def _many_applications(count: int) -> dict[str, str]:
    return {f"app-{index:03d}": "root.a" if index % 2 == 0 else "root.b" for index in range(count)}


def u(nodes: int, asks: int = 10_000, *, in_bulk: bool = False) -> Workload:
    """One application after the other, with an ask per pod or, in bulk, one ask for all its pods."""
    each = asks // len(TWO_APPLICATIONS)
    if in_bulk:
        requested = _numbered(TWO_APPLICATIONS, count=each)
    else:
        requested = _numbered(owner for owner in TWO_APPLICATIONS for _ in range(each))
    name = f"u{nodes}-bulk" if in_bulk else f"u{nodes}"
    return Workload(name, QUEUES_AB, nodes, _node_for(asks, nodes), TWO_APPLICATIONS, requested)


def a(nodes: int, asks: int = 50_000) -> Workload:
    """Two applications in turn."""
    owners = [*TWO_APPLICATIONS] * (asks // 2)
    return Workload(f"a{nodes}", QUEUES_AB, nodes, _node_for(asks, nodes), TWO_APPLICATIONS, _numbered(owners))


def m(nodes: int, asks: int = 50_000, applications_count: int = 500) -> Workload:
    """Many applications in turn."""
    applications = _many_applications(applications_count)
    owners = [*applications] * (asks // len(applications))
    return Workload(f"m{nodes}", QUEUES_AB, nodes, _node_for(asks, nodes), applications, _numbered(owners))


def b() -> Workload:
    """A hundred fair queues of ten applications, every application in turn."""
    lines = ["partitions:", "  - name: default", "    queues:", "      - name: root", '        submitacl: "*"']
    lines.append("        queues:")
    applications = {}
    for index in range(100):
        lines += [
            f"          - name: q{index:03d}",
            "            properties: {application.sort.policy: fair}",
            f"            resources: {{guaranteed: {{memory: {500 + 10 * index}, vcore: {50 + index}}}}}",
        ]
        applications.update({f"app-{index:03d}-{one}": f"root.q{index:03d}" for one in range(10)})
    requested = _numbered([*applications] * 10)
    node_size = _node_for(len(requested), 1_000)
    return Workload("b", "\n".join(lines) + "\n", 1_000, node_size, applications, requested)


def c(nodes: int = 5_000, asks: int = 4_000) -> Workload:
    """As many asks that fit no node, ahead of as many that do; all in one request."""
    owners = [*TWO_APPLICATIONS] * (asks // 4)
    requested = _numbered(owners, Size(memory=200, vcore=20), prefix="large") + _numbered(owners)
    return Workload("c", QUEUES_AB, nodes, SLOTS_10, TWO_APPLICATIONS, requested, asks_per_request=asks)


def d(nodes: int = 1_000, asks: int = 10_000, members: int = 50) -> Workload:
    """Gangs of that many members, one after the other: all their placeholders, then a real ask for each of them."""
    gangs = [f"gang-{index:03d}" for index in range(asks // members)]
    owners = [gang for gang in gangs for _ in range(members)]
    held = tuple(replace(one, task_group="tg", placeholder=True) for one in _numbered(owners, prefix="held"))
    real = tuple(replace(one, task_group="tg") for one in _numbered(owners, prefix="real"))
    return Workload(
        "d",
        QUEUE_GANG,
        nodes,
        _node_for(len(held), nodes),
        dict.fromkeys(gangs, "root.gang"),
        held,
        gang_size=Size(memory=POD.memory * members, vcore=POD.vcore * members),
        replacements=real,
    )


def e(applications: int = 2, nodes: int = 5_000, singles: int = 500) -> Workload:
    """One ask at a time on a cluster that is 80 % full."""
    names = TWO_APPLICATIONS if applications == 2 else _many_applications(applications)
    fill = _numbered([*names] * (nodes * 8 // len(names)))
    owners = list(names)
    single_asks = _numbered((owners[index % len(owners)] for index in range(singles)), prefix="single")
    name = "e" if applications == 2 else "e2"
    return Workload(name, QUEUES_AB, nodes, SLOTS_10, names, fill, single_asks=single_asks)


def idle(asks: int = 10_000, seconds: float = 10.0) -> Workload:
    """Nothing to do, with asks of a hundred sizes parked because no node is large enough.

    The one small ask behind them is there to tell that the daemon has taken them all.
    """
    parked = tuple(
        Ask(f"app-{1 + index % 2}", f"large-{index:06d}", Size(memory=200 + index % 100, vcore=20))
        for index in range(asks)
    )
    requested = parked + _numbered(["app-1"])
    return Workload("idle", QUEUES_AB, 1_000, SLOTS_10, TWO_APPLICATIONS, requested, idle_s=seconds)


def beside(neighbour: Neighbour) -> Workload:
    """a2000 while another resource manager is at work."""
    return replace(a(2_000), name=f"a2000-{neighbour}", neighbour=neighbour)


WORKLOADS: Mapping[str, Callable[[], Workload]] = {
    **{f"u{nodes}": partial(u, nodes) for nodes in (500, 1_000, 2_000, 5_000)},
    **{f"u{nodes}-bulk": partial(u, nodes, in_bulk=True) for nodes in (500, 1_000, 2_000, 5_000)},
    "a2000": partial(a, 2_000),
    "a10000": partial(a, 10_000),
    "m2000": partial(m, 2_000),
    "b": b,
    "c": c,
    "d": d,
    "e": partial(e, 2),
    "e2": partial(e, 400),
    "idle": idle,
    **{f"a2000-{one}": partial(beside, one) for one in Neighbour},
}
"""By name, in the order of the table of results."""

THROUGH_GRPC_ONLY = {"idle", *(f"a2000-{one}" for one in Neighbour)}
"""Those that are about more than the scheduler."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    letter: tuple(name for name in WORKLOADS if name.rstrip("-bulk0123456789") == letter) for letter in ("u", "a", "m")
}
"""One word for all the sizes of a workload."""


def _all_pending(build: Callable[[int, int], Workload], nodes: int, asks: int) -> Workload:
    workload = build(nodes, asks)
    return replace(workload, asks_per_request=len(workload.asks))


GROWTH: Mapping[str, Callable[[], Workload]] = {
    f"{build.__name__}: {nodes * times[0]:,} nodes, {asks * times[1]:,} asks": partial(
        _all_pending, build, nodes * times[0], asks * times[1]
    )
    for build, nodes, asks in ((u, 1_000, 10_000), (a, 2_000, 50_000), (c, 5_000, 4_000), (d, 1_000, 10_000))
    for times in ((1, 1), (1, 2), (1, 4), (2, 1), (4, 1))
}
"""Workloads at several sizes, every ask of them pending before the first one is placed."""
