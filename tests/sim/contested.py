"""Queue files of a cluster that queues contend for: guarantees, priorities and fences at random, names always the same.

The names are those of the plain partitions with two leaves more, so that applications live on through every reload.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import (
    MILLISECOND_NS,
    SECOND_NS,
    ApplicationOrder,
    NodeOrder,
    OptOut,
    PartitionSpec,
    PreemptionPolicy,
    PriorityPolicy,
    QueueProperties,
    QueueSpec,
    WithinQueue,
)
from tests.sim.clusters import CREATES, EVERYBODY, LIMITS

LEAVES = ("root.batch.fifo", "root.batch.fair", "root.open", "root.deep.left", "root.deep.right.inner")
DELAYS_NS = (300 * MILLISECOND_NS, SECOND_NS, 5 * SECOND_NS)


def queue_file(random: Random) -> tuple[PartitionSpec, ...]:
    """One partition; most of what can be said of preemption is said in it somewhere."""
    properties = QueueProperties(
        preemption_delay_ns=random.choice(DELAYS_NS),
        quota_preemption_delay_ns=random.choice((0, 2 * SECOND_NS, 2 * SECOND_NS)),
    )
    batch = _queue(random, "batch", properties)
    deep = _queue(random, "deep", properties)
    right = _queue(random, "right", deep.properties)
    inner = _within(_queue(random, "inner", right.properties))
    right = replace(right, children=(inner,))
    deep = replace(deep, children=(_queue(random, "left", deep.properties), right))
    fair = _queue(random, "fair", batch.properties)
    fair = replace(fair, properties=replace(fair.properties, application_order=ApplicationOrder.FAIR))
    fifo = _within(_queue(random, "fifo", batch.properties))
    batch = replace(batch, children=(fifo, fair))
    opened = replace(_queue(random, "open", properties), limits=random.choice(((), (), (), LIMITS)))
    root = QueueSpec("root", parent=True, submit_acl=EVERYBODY, properties=properties, children=(batch, opened, deep))
    return (
        PartitionSpec(
            name="default",
            root=root,
            rules=random.choice(((), CREATES)),
            node_order=random.choice(tuple(NodeOrder)),
            preemption_enabled=random.random() < 0.9,
            quota_preemption_enabled=random.random() < 0.7,
            preemption_optout=random.choice(tuple(OptOut)),
        ),
    )


def _within(leaf: QueueSpec) -> QueueSpec:
    """A leaf in which asks preempt by priority, if they need not wait for long."""
    is_quick = leaf.properties.preemption_delay_ns <= SECOND_NS
    within = WithinQueue.PRIORITY if is_quick else WithinQueue.OFF
    return replace(leaf, properties=replace(leaf.properties, preemption_within_queue=within))


def rivals(partition: PartitionSpec) -> tuple[list[str], list[str]]:
    """Leaves that have a right to nothing, and leaves that have a right to something."""
    leaves = list(_leaves(partition.root, ""))
    poor = [path for path, one in leaves if not one.guaranteed["memory"]]
    return poor or list(LEAVES), [path for path, one in leaves if one.guaranteed["memory"]] or list(LEAVES)


def _leaves(spec: QueueSpec, above: str) -> Iterator[tuple[str, QueueSpec]]:
    path = f"{above}{spec.name}"
    if spec.is_leaf:
        yield path, spec
    for child in spec.children:
        yield from _leaves(child, f"{path}.")


def one_max_for_two(random: Random) -> tuple[PartitionSpec, ...]:
    """The same, but that one of two siblings has a right to most of what their parent may use."""
    (partition,) = queue_file(random)
    batch, *others = partition.root.children
    greedy, entitled = batch.children
    plain = QueueProperties(preemption_delay_ns=partition.root.properties.preemption_delay_ns)
    children = (
        replace(greedy, guaranteed=Resources(), max=Limits(), properties=plain),
        replace(entitled, guaranteed=Resources(memory=20), max=Limits(), properties=plain),
    )
    batch = replace(batch, max=Limits(memory=30), properties=plain, children=children)
    return (replace(partition, root=replace(partition.root, children=(batch, *others)), preemption_enabled=True),)


def _queue(random: Random, name: str, parent: QueueProperties) -> QueueSpec:
    inherited = parent.for_child()
    policy = inherited.preemption_policy
    if policy is PreemptionPolicy.DEFAULT:
        policy = random.choice((policy,) * 7 + (PreemptionPolicy.FENCE, PreemptionPolicy.DISABLED))
    properties = replace(
        inherited,
        preemption_policy=policy,
        preemption_delay_ns=random.choice((inherited.preemption_delay_ns, random.choice(DELAYS_NS))),
        priority_policy=random.choice((PriorityPolicy.DEFAULT,) * 4 + (PriorityPolicy.FENCE,)),
        priority_offset=random.choice((0, 0, 0, 5, -5)),
    )
    guaranteed = Resources(memory=random.choice((0, 0, 0, 40, 80)))
    if random.random() < 0.3:
        guaranteed["vcore"] = random.choice((3, 8))
    most = Limits(memory=random.choice((30, 60, 90))) if random.random() < 0.35 else Limits()
    return QueueSpec(name, guaranteed=guaranteed, max=most, properties=properties)
