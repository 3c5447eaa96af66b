"""For whom room is kept next: asks that find no node for a while, and those that may run on a single one.

The first have the node kept for them that lacks least, as far as their quotas reach and as long as not too many nodes
are kept already; the others have theirs at once. Who is old enough is lined up a few at a time, so that the many who
wait in a full cluster cost nothing while no more room can be kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from operator import itemgetter

from schedulerd.core.decide.own_room import fits_beside_own, gang_fits
from schedulerd.core.handlers import reservations, trials
from schedulerd.core.model.allocation import Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.host import Host
from schedulerd.core.model.node import Node
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.shape import Shape
from schedulerd.core.model.trial import Purpose, Trial
from schedulerd.core.turn import Turn

LINED_UP_MAX = 64
"""How many asks are lined up at most."""
ASKS_MAX = 2_000
"""How many asks of one shape are looked at in one go; if that was not all, it goes on after the usual delay."""


def look(turn: Turn, partition: Partition) -> None:
    """Lines up who has waited for long enough, of the shapes that are due; of those due at once, the next in line."""
    patience = partition.patience
    shapes, until_ns = patience.reservations_due, turn.now_ns - turn.cluster.timeouts.reservation_delay_ns
    due = []
    while (at_ns := shapes.next_ns()) is not None and (shape := shapes.pop(until_ns)) is not None:
        if not shape.parked:
            continue
        if partition.largest().lacks(shape.items) is not None:
            patience.nodeless[shape] = None
            continue
        firsts = ((*one.place(), one.groups[ask.band].key()) for one, ask in _asks_of(partition.root, shape))
        due.append((at_ns, next(firsts, ()), shape))
    for _, _, shape in sorted(due, key=itemgetter(0, 1)):
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
    """All that wait for a node here and below, in order, have none kept for them, and may be helped by that."""
    if isinstance(host, Application) and host.partition.patience.is_unhelped(host, shape):
        return
    for contender in host.lines.in_order(shape):
        if isinstance(contender, AskGroup):
            assert isinstance(host, Application)
            for ask in contender.in_order():
                if ask.unreserved > 0:
                    yield host, ask
        elif isinstance(contender, Host):
            yield from _asks_of(contender, shape)


def reserve_next(turn: Turn, partition: Partition, visits_end: int) -> bool:
    """Keeps room for the next ask for which that can be done; False if there is none, or none was found up to
    `visits_end`."""
    patience = partition.patience
    while patience.requiring:
        application, ask = patience.requiring.popleft()
        if _waits(application, ask):
            required = _required_node(partition, ask)
            if required is not None:
                _keep(turn, application, ask, required)
                return True
            patience.nodeless[application.groups[ask.band].kind] = None
    while partition.reservable > 0 and (patience.reserving or patience.unserved):
        if patience.effort.visits >= visits_end:
            return False
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
        if patience.is_unhelped(application, kind):
            continue
        node = None if kind in patience.nodeless else _best_node(turn, partition, application, ask)
        if node is None:
            if not patience.is_unhelped(application, kind) and not _rests_for_refusals(turn, application, ask):
                patience.nodeless[kind] = None
            continue
        if ask.unreserved > 1 and not partition.callbacks.predicates:
            patience.reserving.appendleft((application, ask))
        _keep(turn, application, ask, node)
        return True
    return False


def _keep(turn: Turn, application: Application, ask: Ask, node: Node) -> None:
    """At once, or when the resource manager agrees where it has a say; firmly if the ask may run nowhere else."""
    if application.partition.callbacks.predicates:
        trials.begin(turn, Trial(turn.now_ns, application, ask, node, Purpose.KEEP))
    else:
        reservations.keep(turn, application, ask, node, is_firm=bool(ask.shape.required_node))


def keep_agreed(turn: Turn, trial: Trial) -> None:
    """Room may be kept there, if the ask still waits for it, and the node is still one to keep it on."""
    application, ask, node = trial.application, trial.ask, trial.node
    partition = application.partition
    if not _waits(application, ask):
        return
    if ask.shape.required_node:
        if _required_node(partition, ask) is node:
            reservations.keep(turn, application, ask, node, is_firm=True)
        return
    is_within = partition.reservable > 0 and _is_within_quotas(partition, application, ask)
    is_good = partition.nodes.get(node.node_id) is node and _may_keep(turn, partition, ask, node)
    if is_within and is_good and gang_fits(application) and fits_beside_own(application, ask.shape, node):
        reservations.keep(turn, application, ask, node, is_firm=False)
    if ask.unreserved > 0:
        partition.patience.reserving.appendleft((application, ask))


def keep_refused(turn: Turn, trial: Trial) -> None:
    """The next best node is asked about; of an ask that has no other, the same one after a while."""
    application, ask = trial.application, trial.ask
    if not _waits(application, ask):
        return
    is_remembered = ask.hearing is not None and ask.hearing.bars(trial.node)
    if ask.shape.required_node or not is_remembered:
        _rest(turn, application, ask)
    else:
        application.partition.patience.reserving.appendleft((application, ask))


def _rests_for_refusals(turn: Turn, application: Application, ask: Ask) -> bool:
    """Whether it is for the resource manager that no room is kept for the ask, while others of its kind may have more
    luck: then it rests."""
    if ask.hearing is None or not ask.hearing.refused:
        return False
    _rest(turn, application, ask)
    return True


def _rest(turn: Turn, application: Application, ask: Ask) -> None:
    """No room is looked for where it could be kept for the ask for a while, and everywhere after that."""
    partition = application.partition
    if ask.hearing is not None:
        trials.forgive(partition, ask.hearing)
    ask.rests_until_ns = max(ask.rests_until_ns, turn.now_ns + turn.cluster.timeouts.refusal_ns)
    delay_ns = turn.cluster.timeouts.reservation_delay_ns
    partition.patience.reservations_due.hurry(application.groups[ask.band].kind, ask.rests_until_ns - delay_ns)


def _waits(application: Application, ask: Ask) -> bool:
    group = application.groups.get(ask.band)
    if group is None or ask not in group or not group.needs or not group.kind.parked or ask.unreserved <= 0:
        return False
    return ask.hearing is None or not ask.hearing.trials


def _required_node(partition: Partition, ask: Ask) -> Node | None:
    node = partition.nodes.get(ask.shape.required_node)
    if node is None or node in ask.reservations or not node.ready or not node.can_ever_fit(ask.shape.items):
        return None
    if ask.hearing is not None and ask.hearing.bars(node):
        return None
    return node if partition.objection(ask.shape, node) is None else None


def _best_node(turn: Turn, partition: Partition, application: Application, ask: Ask) -> Node | None:
    """The node that lacks least; None if there is none, or if a quota has no room for what is kept already and it.

    If the application itself is what is in the way, that is noted.
    """
    if not _is_within_quotas(partition, application, ask):
        return None
    is_own_fault = not gang_fits(application)

    def may(node: Node) -> bool:
        nonlocal is_own_fault
        if not _may_keep(turn, partition, ask, node):
            return False
        is_beside_own = fits_beside_own(application, ask.shape, node)
        is_own_fault = is_own_fault or not is_beside_own
        return is_beside_own

    nodes = partition.candidates(ask.shape)
    before = nodes.visits
    found = None if is_own_fault else nodes.least_short(ask.shape, may)
    partition.patience.effort.visits += nodes.visits - before
    if found is None and is_own_fault:
        unhelped = partition.patience.unhelped.setdefault(application, {})
        unhelped[application.groups[ask.band].kind] = None
    return found


def _may_keep(turn: Turn, partition: Partition, ask: Ask, node: Node) -> bool:
    if node.reservations or node.rests_until_ns > turn.now_ns or not node.can_ever_fit(ask.shape.items):
        return False
    if partition.callbacks.predicates and not _may_ask_to_keep(ask, node):
        return False
    return partition.objection(ask.shape, node) is None


def _may_ask_to_keep(ask: Ask, node: Node) -> bool:
    """Where there is room it is asked for a placement, and on one node for one ask at a time."""
    if node.free.lacks(ask.shape.items) is None or (ask.hearing is not None and ask.hearing.bars(node)):
        return False
    return not any(one.purpose is Purpose.KEEP for one in node.trials)


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
