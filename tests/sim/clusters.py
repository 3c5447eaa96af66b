"""The partitions and timeouts of the simulated world: so small that quotas, nodes and deadlines are hit often."""

from __future__ import annotations

from dataclasses import replace

from schedulerd.core.language.commands import Command, RegisterResourceManager, UpdateConfiguration
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import (
    MINUTE_NS,
    SECOND_NS,
    Acl,
    ApplicationOrder,
    LimitSpec,
    NodeOrder,
    PartitionSpec,
    QueueOrder,
    QueueProperties,
    QueueSpec,
    RuleKind,
    RuleSpec,
    Timeouts,
)

EVERYBODY = Acl(everybody=True)
FIFO = QueueProperties()
PRIORITY_LAST = QueueProperties(priority_sort=False)
LIMITS = (
    LimitSpec(users=("ann",), max=Limits(memory=50)),
    LimitSpec(users=("*",), max=Limits(memory=40), max_applications=2),
    LimitSpec(groups=("staff",), max=Limits(memory=60)),
    LimitSpec(groups=("*",), max=Limits(memory=30)),
)
CREATES = (RuleSpec(RuleKind.PROVIDED, create=True),)
STATE_AWARE = QueueProperties(application_order=ApplicationOrder.STATE_AWARE)
FAIR = QueueProperties(application_order=ApplicationOrder.FAIR)
IDLE_NS = FIFO.gang_placeholder_idle_timeout_ns
"""How long placeholders of a complete gang may be idle; the same in all queues."""
USERS = ("ann", "bob", "eve")
"""Eve is in no queue's ACL but that of root.open."""

TIMEOUTS = Timeouts(
    completing_ns=30 * SECOND_NS,
    starting_ns=5 * MINUTE_NS,
    retention_ns=60 * MINUTE_NS,
    reconnect_ns=5 * MINUTE_NS,
    placeholder_ns=20 * SECOND_NS,
    gang_deadlock_timeout_ns=5 * SECOND_NS,
    early_message_ns=2 * SECOND_NS,
    reservation_ns=30 * SECOND_NS,
    preemption_attempt_ns=3 * SECOND_NS,
)


def _busy() -> PartitionSpec:
    """Quotas at several levels, fifo and fair leaves, a closed queue."""
    batch = QueueSpec(
        name="batch",
        parent=True,
        max=Limits(memory=120),
        guaranteed=Resources(memory=60),
        children=(
            QueueSpec(name="fifo", max=Limits(memory=80, vcore=20)),
            QueueSpec(name="fair", guaranteed=Resources(memory=30), properties=FAIR),
        ),
    )
    root = QueueSpec(
        name="root",
        parent=True,
        submit_acl=Acl(users=frozenset({"ann"}), groups=frozenset({"staff"})),
        children=(
            batch,
            QueueSpec(name="open", submit_acl=EVERYBODY),
            QueueSpec(name="nothing", max=Limits(memory=0)),
        ),
    )
    return PartitionSpec(name="default", root=root)


def _limited() -> PartitionSpec:
    """The same with limits on users, groups and running applications, priorities, and queues that are created."""
    busy = _busy()
    batch, opened, nothing = busy.root.children
    fifo, fair = batch.children
    batch = replace(
        batch,
        max_applications=3,
        properties=QueueProperties(priority_offset=3),
        limits=(LimitSpec(groups=("staff",), max_applications=2),),
        children=(replace(fifo, max_applications=2), fair),
    )
    opened = replace(opened, limits=LIMITS, properties=PRIORITY_LAST)
    return replace(busy, root=replace(busy.root, children=(batch, opened, nothing)), rules=CREATES)


def _packed() -> PartitionSpec:
    """Few quotas, nodes filled one after the other, and a leaf in which one application starts at a time."""
    root = QueueSpec(
        name="root",
        parent=True,
        submit_acl=EVERYBODY,
        children=(
            QueueSpec(name="open"),
            QueueSpec(name="limited", max=Limits(gpu=2)),
            QueueSpec(name="turns", properties=STATE_AWARE),
        ),
    )
    return PartitionSpec(
        name="gpu", root=root, node_order=NodeOrder.BINPACKING, node_weights={"gpu": 2.0, "memory": 1.0}
    )


PARTITIONS = {"rm-a": (_limited(), _packed()), "rm-b": (_busy(),)}
"""By resource manager."""


def _without(root: QueueSpec, name: str) -> QueueSpec:
    return replace(root, children=tuple(child for child in root.children if child.name != name))


def _turned(leaves: tuple[QueueSpec, ...]) -> tuple[QueueSpec, ...]:
    """Where one application started at a time all may, and the other way round."""
    return tuple(replace(one, properties=FIFO if one.properties == STATE_AWARE else STATE_AWARE) for one in leaves)


def _reloads(rm_id: str) -> tuple[tuple[PartitionSpec, ...], ...]:
    """Other queue files this RM may get: quotas gone or lower, orders swapped, queues gone, new, of another kind."""
    default, *others = PARTITIONS[rm_id]
    batch, opened, nothing = default.root.children
    fifo, fair = batch.children
    swapped = replace(
        batch,
        max=Limits(memory=60),
        children=(
            replace(fifo, max=Limits(), properties=FAIR),
            replace(fair, properties=FIFO),
        ),
    )
    roots = (
        replace(default.root, children=(swapped, opened, replace(nothing, max=Limits(memory=50)))),
        _without(default.root, "open"),
        _without(default.root, "batch"),
        replace(default.root, children=(replace(batch, children=()), opened, nothing)),
        replace(default.root, children=(replace(batch, limits=(), max_applications=0), replace(opened, limits=()))),
        replace(default.root, children=(batch, replace(opened, parent=True), QueueSpec(name="new"))),
    )
    packed = replace(default, node_order=NodeOrder.BINPACKING)
    turned = [replace(one, root=replace(one.root, children=_turned(one.root.children))) for one in others]
    return (
        PARTITIONS[rm_id],
        (packed, *others),
        (default, *turned),
        *((replace(default, root=root), *others) for root in roots),
    )


RELOADS = {rm_id: _reloads(rm_id) for rm_id in PARTITIONS}


def by_drf(command: Command) -> Command:
    """The command with a queue file in which fair leaves have the order `drf`, and so have all parents."""
    if not isinstance(command, RegisterResourceManager | UpdateConfiguration):
        return command
    return replace(command, partitions=tuple(replace(one, root=_by_drf(one.root)) for one in command.partitions))


def _by_drf(queue: QueueSpec) -> QueueSpec:
    order = queue.properties.application_order
    properties = replace(
        queue.properties,
        application_order=ApplicationOrder.DRF if order is ApplicationOrder.FAIR else order,
        queue_order=QueueOrder.DRF,
    )
    return replace(queue, properties=properties, children=tuple(map(_by_drf, queue.children)))


QUEUES = {
    "default": ("root.batch.fifo", "root.batch.fair", "root.open", "root.nothing"),
    "gpu": ("root.open", "root.limited", "root.turns"),
}
"""The leaves by partition."""
