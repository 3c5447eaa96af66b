"""What must hold of room that is kept for asks or about to come free: a part of `invariants`, counted anew as well."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.commands import TerminationType
from schedulerd.core.invariants_predicates import held
from schedulerd.core.model.allocation import Allocation
from schedulerd.core.model.footprint import Footprint
from schedulerd.core.model.node import Node
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.reservation import Reservation
from schedulerd.core.resources import Resources


def reservations(partition: Partition) -> Iterator[str]:
    """Partition, nodes and asks agree about who has what kept where, and nobody has more kept than is pending."""
    on_nodes = [one for node in partition.nodes.values() for one in node.reservations.values()]
    asks = [ask for app in partition.applications.values() for ask in app.asks.values()]
    of_asks = [one for ask in asks for one in ask.reservations.values()]
    known = list(partition.reservations)
    if not set(on_nodes) == set(of_asks) == set(known) or not len(on_nodes) == len(of_asks) == len(known):
        yield f"{len(known)} reservations are known, nodes have {len(on_nodes)}, asks {len(of_asks)}"
    of_applications = {one for app in partition.applications.values() for one in app.reservations}
    if of_applications != set(known) or any(one not in one.application.reservations for one in known):
        yield f"{len(known)} reservations are known, applications have {len(of_applications)}"
    for ask in asks:
        if ask.unreserved < 0:
            yield f"ask {ask.key} has {len(ask.reservations)} reservations, and {ask.pending} pending"
    if partition.aging_reservations != sum(not one.is_entitled for one in known):
        yield f"{partition.aging_reservations} reservations count that are not entitled"
    for one in known:
        yield from _reservation(one)
    for application in partition.applications.values():
        footprint = application.footprint
        if footprint is not None and footprint.by_node != Footprint(application.allocations.values()).by_node:
            yield f"application {application.application_id} has a wrong account of what it uses on each node"


def _reservation(one: Reservation) -> Iterator[str]:
    name = f"the reservation of ask {one.ask.key} on node {one.node.node_id}"
    if one.ask.reservations.get(one.node) is not one or one.node.reservations.get(one.ask) is not one:
        yield f"{name} is not where it should be"
    if one.alarm is None or not one.alarm.live:
        yield f"{name} would never end"
    for victim in one.victims:
        if victim.makes_room is not one or victim.releasing is not TerminationType.PREEMPTED_BY_SCHEDULER:
            yield f"{name} has {victim.uuid} for a victim that does not go for it"
        if victim.application is one.application:
            yield f"{name} has {victim.uuid} for a victim, which is of the same application"


def rooms(partition: Partition) -> Iterator[str]:
    """What is kept on nodes and reserved in queues, and what is on its way out of both, counted anew."""
    leaving: dict[str, Resources] = {}
    quota_reserved: dict[str, Resources] = {}
    for node in partition.nodes.values():
        yield from _node(partition, node)
        for allocation in node.allocations.values():
            if _leaves(allocation):
                for queue in allocation.application.queue.path_to_root:
                    leaving.setdefault(queue.path, Resources()).add(allocation.request_class.items)
            if allocation.makes_room is not None and allocation not in allocation.makes_room.victims:
                yield f"{allocation.uuid} goes for the sake of somebody who does not know"
    for one in partition.reservations:
        if one.is_entitled:
            for queue in one.application.queue.path_to_root:
                quota_reserved.setdefault(queue.path, Resources()).add(one.items)
    predicate_reserved: dict[str, Resources] = {}
    for node in partition.nodes.values():
        for predicate_check in node.predicate_checks:
            for queue in predicate_check.application.queue.path_to_root:
                for ledger in (quota_reserved, predicate_reserved):
                    ledger.setdefault(queue.path, Resources()).add(held(partition, predicate_check).items())
    nothing = Resources()
    for queue in partition.root.subtree():
        for what, has, counted in (
            ("leaving", queue.leaving, leaving),
            ("reserved in", queue.quota_reserved, quota_reserved),
            ("on predicate check in", queue.predicate_reserved, predicate_reserved),
        ):
            if has != counted.get(queue.path, nothing):
                yield f"{what} {queue.path} is {has.nonzero()}, counted {counted.get(queue.path, {})}"


def _node(partition: Partition, node: Node) -> Iterator[str]:
    kept, firmly, leaving = Resources(), Resources(), Resources()
    for one in node.reservations.values():
        kept.add(one.items)
        if one.is_entitled:
            firmly.add(one.items)
    predicate_reserved = Resources()
    for predicate_check in node.predicate_checks:
        for ledger in (kept, firmly, predicate_reserved):
            ledger.add(held(partition, predicate_check).items())
    for allocation in node.allocations.values():
        if _leaves(allocation):
            leaving.add(allocation.request_class.items)
    if (node.reserved, node.entitled_reserved, node.predicate_reserved, node.leaving) != (
        kept,
        firmly,
        predicate_reserved,
        leaving,
    ):
        yield f"node {node.node_id} has a wrong account of what is kept there, or on its way out"
    if node.free != node.available.minus(node.reserved):
        yield f"free of node {node.node_id} is {node.free.nonzero()}, not what is available less what is kept"


def _leaves(allocation: Allocation) -> bool:
    return allocation.releasing not in (None, TerminationType.PLACEHOLDER_REPLACED)
