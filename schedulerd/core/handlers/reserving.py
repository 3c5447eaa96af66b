"""For whom room is kept next: asks that find no node for a while, and those that may run on a single one.

The first have the node kept for them that lacks least, as far as their quotas reach and as long as not too many nodes
are kept already; the others have theirs at once. Who is old enough is lined up a few at a time, so that the many who
wait in a full cluster cost nothing while no more room can be kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from schedulerd.core.handlers import reservations
from schedulerd.core.model.allocation import Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.host import Host
from schedulerd.core.model.node import Node
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.shape import Shape
from schedulerd.core.turn import Turn

LINED_UP_MAX = 64
"""How many asks are lined up at most."""
ASKS_MAX = 2_000
"""How many asks of one shape are looked at in one go; if that was not all, it goes on after the usual delay."""


def look(turn: Turn, partition: Partition) -> None:
    """Lines up who has waited for long enough, of the shapes that are due."""
    patience, delay_ns = partition.patience, turn.cluster.timeouts.reservation_delay_ns
    while (shape := patience.reservations_due.pop(turn.now_ns - delay_ns)) is not None:
        if shape.parked:
            _line_up(turn, partition, shape)


def _line_up(turn: Turn, partition: Partition, shape: Shape) -> None:
    """The asks of the shape that are old enough, in the order in which they would be placed."""
    patience, delay_ns = partition.patience, turn.cluster.timeouts.reservation_delay_ns
    line = patience.requiring if shape.required_node else patience.reserving
    looked_at, again_ns = 0, None
    for application, ask in islice(_asks_of(partition.root, shape), ASKS_MAX):
        if not shape.required_node and len(line) >= LINED_UP_MAX:
            patience.unserved[shape] = None
            break
        looked_at += 1
        due_ns = reservations.due_ns(turn, ask)
        if due_ns <= turn.now_ns:
            line.append((application, ask))
        elif again_ns is None or due_ns < again_ns:
            again_ns = due_ns
    patience.effort.visits += looked_at
    if looked_at == ASKS_MAX:
        again_ns = turn.now_ns + delay_ns if again_ns is None else min(again_ns, turn.now_ns + delay_ns)
    if again_ns is not None:
        patience.reservations_due.hurry(shape, again_ns - delay_ns)


def _asks_of(host: Host, shape: Shape) -> Iterator[tuple[Application, Ask]]:
    """All that wait for a node here and below, in order, and have none kept for them."""
    for contender in host.lines.in_order(shape):
        if isinstance(contender, AskGroup):
            assert isinstance(host, Application)
            for ask in contender.in_order():
                if ask.unreserved > 0:
                    yield host, ask
        elif isinstance(contender, Host):
            yield from _asks_of(contender, shape)


def reserve_next(turn: Turn, partition: Partition) -> bool:
    """Keeps room for the next ask for which that can be done; False if there is none."""
    patience = partition.patience
    while patience.requiring:
        application, ask = patience.requiring.popleft()
        if _waits(application, ask):
            required = _required_node(partition, ask)
            if required is not None:
                reservations.keep(turn, application, ask, required, is_firm=True)
                return True
            patience.nodeless[application.groups[ask.band].kind] = None
    while partition.reservable > 0 and (patience.reserving or patience.unserved):
        if not patience.reserving:
            shape = next(iter(patience.unserved))
            del patience.unserved[shape]
            if shape.parked and shape not in patience.nodeless:
                _line_up(turn, partition, shape)
            continue
        application, ask = patience.reserving.popleft()
        if not _waits(application, ask) or reservations.due_ns(turn, ask) > turn.now_ns:
            continue
        kind = application.groups[ask.band].kind
        node = None if kind in patience.nodeless else _best_node(turn, partition, application, ask)
        if node is None:
            patience.nodeless[kind] = None
            continue
        if ask.unreserved > 1:
            patience.reserving.appendleft((application, ask))
        reservations.keep(turn, application, ask, node, is_firm=False)
        return True
    return False


def _waits(application: Application, ask: Ask) -> bool:
    group = application.groups.get(ask.band)
    return group is not None and ask in group and bool(group.needs) and group.kind.parked and ask.unreserved > 0


def _required_node(partition: Partition, ask: Ask) -> Node | None:
    node = partition.nodes.get(ask.shape.required_node)
    if node is None or node in ask.reservations or not node.ready or not node.can_ever_fit(ask.shape.items):
        return None
    return node if partition.objection(ask.shape, node) is None else None


def _best_node(turn: Turn, partition: Partition, application: Application, ask: Ask) -> Node | None:
    """The node that lacks least; None if there is none, or if a quota has no room for what is kept already and it."""
    if not _is_within_quotas(partition, application, ask):
        return None

    def may(node: Node) -> bool:
        return (
            not node.reservations
            and node.rests_until_ns <= turn.now_ns
            and node.can_ever_fit(ask.shape.items)
            and partition.objection(ask.shape, node) is None
        )

    before = partition.node_order.visits
    found = partition.node_order.least_short(ask.shape, may)
    partition.patience.effort.visits += partition.node_order.visits - before
    return found


def _is_within_quotas(partition: Partition, application: Application, ask: Ask) -> bool:
    assert application.queue is not None
    for queue in application.queue.lineage:
        if queue.max:
            used = queue.allocated.plus(queue.claimed)
            for one in partition.reservations:
                assert one.application.queue is not None
                if not one.is_firm and queue in one.application.queue.lineage:
                    used.add(one.items)
            if queue.max.exceeded_by(used, ask.shape.items) is not None:
                return False
    return True
