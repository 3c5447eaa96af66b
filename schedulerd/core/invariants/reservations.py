"""What must hold of reservations, and of resources that are reserved or being released on nodes and in queues."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.invariants.predicates import held
from schedulerd.core.language.alarms import Alarm
from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.footprint import Footprint
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.partition import Partition


def reservations(partition: Partition) -> Iterator[str]:
    """Partition, nodes, asks and applications agree about reservations, and no ask has more than it has pending."""
    on_nodes = [one for node in partition.nodes.values() for one in node.reservations]
    asks = [ask for app in partition.applications.values() for ask in app.asks.values()]
    of_asks = [one for ask in asks for one in ask.reservations]
    known = list(partition.reservations)
    if not set(on_nodes) == set(of_asks) == set(known) or not len(on_nodes) == len(of_asks) == len(known):
        yield f"{len(known)} reservations are known, nodes have {len(on_nodes)}, asks {len(of_asks)}"
    of_applications = {one for app in partition.applications.values() for one in app.reservations}
    if of_applications != set(known) or any(one not in one.application.reservations for one in known):
        yield f"{len(known)} reservations are known, applications have {len(of_applications)}"
    for ask in asks:
        if ask.unreserved < 0:
            yield f"ask {ask.key} has {len(ask.reservations)} reservations, and {ask.pending} pending"
        entitled = sum(one.is_entitled for one in ask.reservations)
        if ask.entitled != entitled:
            yield f"ask {ask.key} counts {ask.entitled} entitled reservations, and has {entitled}"
    aging = sum(not one.is_entitled for one in known)
    if partition.aging_reservations != aging:
        yield f"{partition.aging_reservations} aging reservations are counted, there are {aging}"
    for one in known:
        yield from _reservation(one)
    for application in partition.applications.values():
        footprint = application.footprint
        if footprint is not None and footprint.by_node != Footprint(application.allocations.values()).by_node:
            yield f"application {application.application_id} has a footprint that is not what it uses on each node"


def _reservation(one: Reservation) -> Iterator[str]:
    name = f"the reservation of ask {one.ask.key} on node {one.node.node_id}"
    if one not in one.ask.reservations or one not in one.node.reservations:
        yield f"{name} is not at its ask or not at its node"
    if one.alarm is None or not one.alarm.live:
        yield f"{name} has no alarm"
    for victim in one.victims:
        if victim.makes_room is not one or victim.releasing is not TerminationType.PREEMPTED_BY_SCHEDULER:
            yield f"{name} has the victim {victim.uuid}, which is not preempted for it"
        if victim.application is one.application:
            yield f"{name} has the victim {victim.uuid} of its own application"


def reserved_room(partition: Partition) -> Iterator[str]:
    """The ledgers of reserved and leaving resources, on nodes and in queues, are the sums of what they count."""
    leaving: dict[str, Resources] = {}
    quota_reserved: dict[str, Resources] = {}
    for node in partition.nodes.values():
        yield from _node(partition, node)
        for allocation in node.allocations.values():
            if _leaves(allocation):
                for queue in allocation.application.queue.path_to_root:
                    leaving.setdefault(queue.path, Resources()).add(allocation.request_class.items)
            if allocation.makes_room is not None and allocation not in allocation.makes_room.victims:
                yield f"{allocation.uuid} is preempted for a reservation that does not have it as a victim"
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
    reserved, entitled, leaving = Resources(), Resources(), Resources()
    for one in node.reservations:
        reserved.add(one.items)
        if one.is_entitled:
            entitled.add(one.items)
    predicate_reserved = Resources()
    for predicate_check in node.predicate_checks:
        for ledger in (reserved, entitled, predicate_reserved):
            ledger.add(held(partition, predicate_check).items())
    for allocation in node.allocations.values():
        if _leaves(allocation):
            leaving.add(allocation.request_class.items)
    for what, has, counted in (
        ("reserved", node.reserved, reserved),
        ("reserved with entitlement", node.entitled_reserved, entitled),
        ("on predicate check", node.predicate_reserved, predicate_reserved),
        ("leaving", node.leaving, leaving),
    ):
        if has != counted:
            yield f"{what} on node {node.node_id} is {has.nonzero()}, counted {counted.nonzero()}"
    if node.free != node.available.minus(node.reserved):
        yield f"free of node {node.node_id} is {node.free.nonzero()}, not available minus reserved"


def _leaves(allocation: Allocation) -> bool:
    return allocation.releasing not in (None, TerminationType.PLACEHOLDER_REPLACED)


def alarms(partition: Partition) -> Iterator[Alarm | None]:
    yield from [one.alarm for one in partition.reservations]
