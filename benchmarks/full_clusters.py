"""The workloads `p`: clusters that are full, and asks for which others have to end.

Fifty of four hundred leaves use twice of what they are guaranteed, the others just that, but for the one that asks: it
uses nothing. Who runs where is part of the workload, and reported with the nodes as a resource manager does that comes
back: so each variant is as it is meant to be, however nodes are chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.workload import Size
from benchmarks.workloads import POD, SLOTS_10

PODS_PER_NODE = 10
ENTITLED = "root.entitled"
"""The leaf of the asks."""
ASK_PRIORITY = 100
MIXED_MEMORY = (6, 8, 10, 12, 14)
"""Two of each of these fill a node."""
ODD = Size(memory=13, vcore=1)
LARGE_AND_ODD = Size(memory=33, vcore=3)
"""No pods of the mixed sizes free just as much memory as one of these."""


@dataclass(frozen=True, slots=True)
class Pod:
    """Something that runs when the cluster is there, or an ask for it."""

    key: str
    application_id: str
    size: Size
    node_id: str = ""
    """Where it runs; of an ask, the only node that will do, if there is one."""
    priority: int = 0

    @property
    def uuid(self) -> str:
        """Of its allocation, if it runs."""
        return f"u-{self.key}"


@dataclass(frozen=True, slots=True)
class FullCluster:
    """A workload of which the result is how long decisions take."""

    name: str
    node_ids: tuple[str, ...]
    node_size: Size
    queues: Mapping[str, Size]
    """What each leaf is guaranteed, by its full name."""
    applications: Mapping[str, str]
    """Leaf by application id."""
    running: tuple[Pod, ...]
    asks: tuple[Pod, ...]
    """Sent together; all of them may preempt other pods."""
    hopeless: bool = False
    """Whether no pod is to be preempted for any of them."""

    def queue_file(self, preemption_delay: str = "30s") -> str:
        """YAML text; the delay is how old an ask has to be for others to end for it."""
        lines = ["partitions:", "  - name: default", "    queues:", "      - name: root", '        submitacl: "*"']
        lines += [f"        properties: {{preemption.delay: {preemption_delay}}}", "        queues:"]
        for path, size in self.queues.items():
            guaranteed = f"{{guaranteed: {{memory: {size.memory}, vcore: {size.vcore}m}}}}"
            lines += [f"          - name: {path.removeprefix('root.')}", f"            resources: {guaranteed}"]
        return "\n".join(lines) + "\n"


Layout = Callable[[int, int], int]
"""Index of the leaf whose pod is in a place of a node, by the number of the node and of the place."""


def _even(leaves: int, nodes: int) -> Layout:
    """All leaves in turn: one or two pods of each node are of leaves that use too much."""
    return lambda node, place: (place * nodes + node) % (leaves - 1)


def _dense(leaves: int, nodes: int, rich: int) -> Layout:
    """Nine of ten pods of each node are of leaves that use too much."""

    def leaf_of(node: int, place: int) -> int:
        if place == PODS_PER_NODE - 1:
            return rich + node % (leaves - rich - 1)
        return (place * nodes + node) % rich

    return leaf_of


def _running(nodes: int, leaf_of: Layout, *, mixed: bool) -> Iterator[Pod]:
    for node in range(nodes):
        for place in range(PODS_PER_NODE):
            leaf = leaf_of(node, place)
            size = Size(MIXED_MEMORY[(7 * node + 3 * place) % len(MIXED_MEMORY)], POD.vcore) if mixed else POD
            priority = (node + 7 * place) % 3 if mixed else 0
            yield Pod(f"pod-{node:05d}-{place}", f"app-{leaf:03d}", size, f"node-{node:05d}", priority)


def p(
    name: str = "p-even",
    *,
    nodes: int = 5_000,
    leaves: int = 400,
    rich: int = 50,
    asks: int = 1,
    ask_size: Size = POD,
    mixed: bool = False,
    dense: bool = False,
) -> FullCluster:
    """One ask, or several that come together, of a leaf that is guaranteed all of them."""
    layout = _dense(leaves, nodes, rich) if dense else _even(leaves, nodes)
    running = tuple(_running(nodes, layout, mixed=mixed))
    memory: Counter[str] = Counter()
    vcore: Counter[str] = Counter()
    for pod in running:
        memory[pod.application_id] += pod.size.memory
        vcore[pod.application_id] += pod.size.vcore
    queues, applications = {}, {}
    for leaf in range(leaves - 1):
        path, application_id = f"root.q{leaf:03d}", f"app-{leaf:03d}"
        share = 2 if leaf < rich else 1
        queues[path] = Size(memory[application_id] // share, vcore[application_id] // share)
        applications[application_id] = path
    queues[ENTITLED] = Size(ask_size.memory * asks, ask_size.vcore * asks)
    wanted = tuple(Pod(f"ask-{at:04d}", f"claim-{at % 10}", ask_size, priority=ASK_PRIORITY) for at in range(asks))
    applications.update((one.application_id, ENTITLED) for one in wanted)
    node_ids = tuple(f"node-{node:05d}" for node in range(nodes))
    return FullCluster(name, node_ids, SLOTS_10, queues, applications, running, wanted)


def p_none(nodes: int = 5_000, leaves: int = 400) -> FullCluster:
    """No queue uses more than it is guaranteed."""
    return replace(p("p-none", nodes=nodes, leaves=leaves, rich=0), hopeless=True)


def p_daemons(nodes: int = 5_000, asks: int = 1_000) -> FullCluster:
    """An ask for each of the first nodes, and for no other."""
    cluster = p("p-daemons", nodes=nodes, asks=asks, ask_size=ODD, mixed=True)
    bound = tuple(
        replace(one, node_id=node_id, application_id="claim-0")
        for one, node_id in zip(cluster.asks, cluster.node_ids, strict=False)
    )
    return replace(cluster, asks=bound)


FULL_CLUSTERS: Mapping[str, Callable[[], FullCluster]] = {
    "p-even": p,
    "p-dense": partial(p, "p-dense", dense=True),
    "p-mixed": partial(p, "p-mixed", ask_size=ODD, mixed=True),
    "p-dense-mixed": partial(p, "p-dense-mixed", ask_size=LARGE_AND_ODD, mixed=True, dense=True),
    "p-none": p_none,
    "p-many": partial(p, "p-many", asks=100, ask_size=LARGE_AND_ODD, mixed=True, dense=True),
    "p-daemons": p_daemons,
}
"""By name, in the order of the table of results."""
