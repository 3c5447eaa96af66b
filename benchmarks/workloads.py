"""The workloads by name; the numbers are those in which schedulerd's goals are stated.

Each is a function of its size, because what matters as much as the speed is how the cost grows with nodes and asks. So
results can be compared over time and with its peer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from benchmarks.constrained import SPREADS, ZONES, demand, labels, misplaced
from benchmarks.declared_gangs import dn, t
from benchmarks.large_cluster import f
from benchmarks.workload import Ask, Neighbour, Size, Workload

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


def b(queues: int = 100, applications_count: int = 1_000, asks: int = 10_000, nodes: int = 1_000) -> Workload:
    """Many fair queues of as many applications each, every application in turn."""
    lines = ["partitions:", "  - name: default", "    queues:", "      - name: root", '        submitacl: "*"']
    lines.append("        queues:")
    applications = {}
    for index in range(queues):
        lines += [
            f"          - name: q{index:03d}",
            "            properties: {application.sort.policy: fair}",
            f"            resources: {{guaranteed: {{memory: {500 + 10 * index}, vcore: {50 + index}}}}}",
        ]
        here = range(applications_count // queues)
        applications.update({f"app-{index:03d}-{one}": f"root.q{index:03d}" for one in here})
    requested = _numbered([*applications] * (asks // len(applications)))
    return Workload("b", "\n".join(lines) + "\n", nodes, _node_for(asks, nodes), applications, requested)


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


def x(selectors: int, asks: int = 10_000, nodes: int = 2_000) -> Workload:
    """So many distinct selectors, each with one of the spreads. Nodes have room for four times what is asked for, and
    zones for as much of each spread."""
    most = 4 * asks // SPREADS // ZONES
    owners = [*TWO_APPLICATIONS] * (asks // 2)
    requested = tuple(replace(one, demand=demand(at % selectors, most)) for at, one in enumerate(_numbered(owners)))
    name = "x" if selectors < asks else "x-many"
    size = _node_for(4 * asks, nodes)
    return Workload(name, QUEUES_AB, nodes, size, TWO_APPLICATIONS, requested, labels=labels, result_check=misplaced)


def g() -> Workload:
    """As e, with single asks for long enough to read metrics and state of the daemon several times."""
    return replace(e(singles=8_000), name="g", is_watched=True)


def h(asks: int = 100_000, seconds: float = 10.0) -> Workload:
    """Nothing to do, with asks of a hundred sizes parked because no node is large enough.

    The one small ask behind them is there to tell that the daemon has taken them all.
    """
    parked = tuple(
        Ask(f"app-{1 + index % 2}", f"large-{index:06d}", Size(memory=200 + index % 100, vcore=20))
        for index in range(asks)
    )
    requested = parked + _numbered(["app-1"])
    return Workload("h", QUEUES_AB, 1_000, SLOTS_10, TWO_APPLICATIONS, requested, idle_s=seconds)


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
    "dn": dn,
    "dn1024": partial(dn, asks=10_240, members=1_024),
    "dn10000": partial(dn, members=10_000),
    "e": partial(e, 2),
    "e2": partial(e, 400),
    "f": f,
    "g": g,
    "h": h,
    "t": t,
    "x": partial(x, 1_000),
    "x-many": partial(x, 10_000),
    **{f"a2000-{one}": partial(beside, one) for one in Neighbour},
}
"""By name, in the order of the table of results."""

THROUGH_GRPC_ONLY = {"g", "h", *(f"a2000-{one}" for one in Neighbour)}
"""Those that are about more than the scheduler."""

IN_PROCESS_ONLY = {"x", "x-many"}
"""Those with placement constraints, for which the messages of SI v1 have no field."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    letter: tuple(name for name in WORKLOADS if name.rstrip("-bulk0123456789") == letter) for letter in ("u", "a", "m")
}
"""One word for all the sizes of a workload."""
