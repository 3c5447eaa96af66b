"""The slow and obvious way to tell whether an ask could be placed, to hold the fast way against.

It looks at every ask, node, quota and limit, and adds up anew what users and groups use. Where over-commit makes the
answer a matter of taste (a negative amount that the ask does not mention), it stays silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from schedulerd.core.language.facts.fact import Allocated, Fact
from schedulerd.core.language.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import ApplicationOrder
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from schedulerd.core.views.values import (
    Amounts,
    ApplicationView,
    AskView,
    LimitView,
    NodeView,
    PartitionView,
    QueueView,
    ResourceManagerView,
    UserView,
)

May: TypeAlias = Callable[[PartitionView, AskView, NodeView], bool]
"""Whether anything that is not about room and order lets the ask have the node."""
PLACEABLE_STATES = {ApplicationState.ACCEPTED, ApplicationState.STARTING, ApplicationState.RUNNING}


def overlooked(state: Iterable[ResourceManagerView], may: May = lambda *_: True) -> list[str]:
    """Asks that could be placed now: there must be none while the scheduler wants no cycle."""
    found = []
    for rm in state:
        if rm.state == ResourceManagerState.RUNNING:
            for partition in rm.partitions:
                found += _overlooked(partition, may)
    return found


def misplaced(state: Iterable[ResourceManagerView], facts: Iterable[Fact]) -> list[str]:
    """Placements of one step that a node or a quota had no room for; `state` is the one after the step."""
    partitions = {(rm.rm_id, partition.name): partition for rm in state for partition in rm.partitions}
    found = []
    for fact in facts:
        if isinstance(fact, Allocated) and not fact.recovered and not fact.replaces:
            found += _misplaced(partitions[fact.rm_id, fact.partition], fact)
    return found


def _overlooked(partition: PartitionView, may: May) -> list[str]:
    queues = {queue.path: queue for queue in partition.queues}
    accounts = Accounts(partition)
    found = _waiting_for_no_gang(partition)
    for item in partition.applications:
        if item.state not in PLACEABLE_STATES or accounts.has_to_wait(item) or awaits_start(partition, item):
            continue
        headroom = queues[item.queue].headroom
        waits_for_gang = any(ask.placeholder for ask in item.asks)
        for ask in item.asks:
            if waits_for_gang and not ask.placeholder:
                continue
            if ask.placeholder and accounts.gated(item):
                continue
            if ask.placeholder and item.waits_for_gang_of:
                continue
            if not _within(ask.resources, headroom) or accounts.limited(item, ask.resources):
                continue
            for node in partition.nodes:
                has_room = _takes(node, ask.required_node) and _fits(ask.resources, _room(node, item, ask))
                if has_room and may(partition, ask, node):
                    where = f"[{partition.rm_id}]{partition.name}"
                    found.append(f"{where}: {item.application_id}|{ask.allocation_key} fits {node.node_id} and sleeps")
                    break
    return found


def _room(node: NodeView, item: ApplicationView, ask: AskView) -> Resources:
    """What the ask may have of the node: nothing that is kept for others with the same right, or a better one."""
    kept = Resources(node.entitled_reserved if ask.required_node else node.reserved)
    for one in node.reservations:
        if (one.application_id, one.allocation_key) == (item.application_id, ask.allocation_key):
            kept.subtract(one.resources.items())
    return Resources(node.available).minus(kept)


def _takes(node: NodeView, required_node: str) -> bool:
    """A node that drains takes what requires it, and nothing else."""
    if required_node:
        return node.ready and node.node_id == required_node
    return node.schedulable and node.ready


def awaits_start(partition: PartitionView, item: ApplicationView) -> bool:
    """Where one application starts at a time: whether another does, or came before it or with it."""
    queue = next(queue for queue in partition.queues if queue.path == item.queue)
    if queue.application_order != ApplicationOrder.STATE_AWARE or item.state != ApplicationState.ACCEPTED:
        return False
    others = [one for one in partition.applications if one.queue == item.queue]
    if any(one.state == ApplicationState.STARTING for one in others):
        return True
    waiting = [
        one for one in others if one.state == ApplicationState.ACCEPTED and (one.asks or one.awaiting_placeholder)
    ]
    return any(one is not item and one.asked_at_ns <= item.asked_at_ns and not one.lets_next_start for one in waiting)


def _waiting_for_no_gang(partition: PartitionView) -> list[str]:
    """Gangs wait for an earlier one only as long as that has its time, and needs something."""
    first = {
        item.application_id: item.submitted_at_ns
        for item in partition.applications
        if item.gang_started and any(ask.placeholder for ask in item.asks)
    }
    return [
        f"{item.application_id} is held back for {item.waits_for_gang_of}, which is not a gang that needs it"
        for item in partition.applications
        if item.waits_for_gang_of and first.get(item.waits_for_gang_of, item.submitted_at_ns + 1) > item.submitted_at_ns
    ]


class Accounts:
    """What limits on users, groups and running applications allow, from the applications themselves."""

    def __init__(self, partition: PartitionView) -> None:
        self._queues = partition.queues
        self._applications = partition.applications
        self._users = partition.users
        self._groups = partition.groups
        self.running = {name for user in partition.users for name in user.applications.get("root", ())}
        """From their first allocation until they have neither asks nor allocations: one look alone cannot tell."""

    def has_to_wait(self, item: ApplicationView) -> bool:
        """Whether it would have to start first, and there is no place for it in some queue or for its user or group."""
        if item.application_id in self.running or item.state != ApplicationState.ACCEPTED:
            return False
        return any(0 < most <= count for _, most, count in self._counts(item))

    def crowded(self, item: ApplicationView) -> list[str]:
        """Where more applications run than may, of those it counts among, as names of queues."""
        return [path for path, most, count in self._counts(item) if 0 < most < count]

    def _counts(self, item: ApplicationView) -> Iterator[tuple[str, int, int]]:
        """Queue, how many applications may run there, and how many do: of all, and for each limit on it."""
        for queue in self._lineage(item.queue):
            yield queue.path, queue.max_applications, self._count(self._members(queue))
            for limit, members, _ in self._limits(queue, item):
                yield queue.path, limit.max_applications, self._count(members)

    def limited(self, item: ApplicationView, size: Amounts) -> list[str]:
        """The limits that leave no room for so much more, as names of their queues."""
        return [
            queue.path
            for queue in self._lineage(item.queue)
            for limit, members, _ in self._limits(queue, item)
            if any(
                _used(members)[name] + amount > limit.max[name] for name, amount in size.items() if name in limit.max
            )
        ]

    def gated(self, item: ApplicationView) -> bool:
        """Whether a gang that was not let start yet would not fit whole (SEMANTICS G2)."""
        return not item.gang_started and any(
            used.get(name, 0) + promised.get(name, 0) + amount > most[name]
            for queue in self._lineage(item.queue)
            for most, used, promised in (
                (queue.max, queue.allocated, queue.gang_quota_promised),
                *((limit.max, _used(members), promised) for limit, members, promised in self._limits(queue, item)),
            )
            for name, amount in item.placeholder_ask.items()
            if name in most
        )

    def _limits(
        self, queue: QueueView, item: ApplicationView
    ) -> Iterator[tuple[LimitView, list[ApplicationView], Amounts]]:
        """The limits of the queue that hold for it, each with the applications that count towards it and what is
        promised to their gangs."""
        named = {user for limit in queue.limits for user in limit.users}
        for limit in queue.limits:
            if item.user in limit.users or ("*" in limit.users and item.user not in named):
                members = [one for one in self._members(queue) if one.user == item.user]
                yield limit, members, self._promised(self._users, item.user, queue)
            if item.group and item.group in limit.groups:
                members = [one for one in self._members(queue) if one.group == item.group]
                yield limit, members, self._promised(self._groups, item.group, queue)

    def _promised(self, accounts: Iterable[UserView], name: str, queue: QueueView) -> Amounts:
        return next((one.gang_promised.get(queue.path, {}) for one in accounts if one.user == name), {})

    def _members(self, queue: QueueView) -> list[ApplicationView]:
        return [one for one in self._applications if f"{one.queue}.".startswith(f"{queue.path}.")]

    def _lineage(self, path: str) -> list[QueueView]:
        return [queue for queue in self._queues if f"{path}.".startswith(f"{queue.path}.")]

    def _count(self, members: Iterable[ApplicationView]) -> int:
        return sum(one.application_id in self.running for one in members)


def _used(applications: Iterable[ApplicationView]) -> Resources:
    used = Resources()
    for one in applications:
        used.add(one.allocated.items())
        used.add(one.placeholder_allocated.items())
    return used


def _within(size: Amounts, headroom: Amounts) -> bool:
    return all(left >= 0 for left in headroom.values()) and all(
        amount <= headroom.get(name, amount) for name, amount in size.items()
    )


def _fits(size: Amounts, available: Amounts) -> bool:
    return all(left >= 0 for left in available.values()) and all(
        amount <= available.get(name, 0) for name, amount in size.items()
    )


def _misplaced(partition: PartitionView, fact: Allocated) -> list[str]:
    found = []
    node = next((node for node in partition.nodes if node.node_id == fact.node_id), None)
    if node is None or not _takes(node, fact.tags.get(REQUIRED_NODE_TAG, "")):
        found.append(f"{fact.uuid} is placed on {fact.node_id}, which takes nothing new")
    else:
        found += [f"{fact.uuid} over-commits {name} of {node.node_id}" for name in _negative(fact, node.available)]
    for queue in partition.queues:
        if f"{fact.queue}.".startswith(f"{queue.path}."):
            left = {name: limit - queue.allocated.get(name, 0) for name, limit in queue.max.items()}
            found += [f"{fact.uuid} is over the {name} of {queue.path}" for name in _negative(fact, left)]
    accounts = Accounts(partition)
    nothing_more = dict.fromkeys(fact.resources, 0)
    for item in partition.applications:
        if item.application_id == fact.application_id:
            found += [f"{fact.uuid} is over a limit in {path}" for path in accounts.limited(item, nothing_more)]
            if not fact.placeholder and any(ask.placeholder for ask in item.asks):
                found.append(f"{fact.uuid} is placed while placeholders of {item.application_id} are pending")
    return found


def _negative(fact: Allocated, left: Amounts) -> list[str]:
    return [name for name, amount in fact.resources.items() if amount and left.get(name, 0) < 0]
