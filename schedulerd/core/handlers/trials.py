"""Asking the resource manager for its say on an ask and a node, and what becomes of the ask meanwhile (SEMANTICS B4).

No cycle waits for an answer. The ask holds the room it would get, leaves its line, and everybody else goes on. A
refusal is of one ask on one node and says nothing about others; it holds until the node changes. An ask that was
refused on every node with room is set aside, and tried again on nodes that change, and on all of them after a while.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from schedulerd.core import commit_room
from schedulerd.core.alarms import AlarmKind
from schedulerd.core.callback_facts import (
    PreemptionVerdictWanted,
    VerdictNotWanted,
    VerdictOutcome,
    VerdictReached,
    VerdictWanted,
)
from schedulerd.core.model import waking
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.cluster import ResourceManager
from schedulerd.core.model.node import Node
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.reservation import Reservation
from schedulerd.core.model.trial import NEVER, Hearing, Purpose, Trial
from schedulerd.core.model.turned_down import REMEMBERED_MAX
from schedulerd.core.resources import Resources
from schedulerd.core.specs import SECOND_NS
from schedulerd.core.turn import Turn

if TYPE_CHECKING:
    from schedulerd.core.decide.preemption import Search

AWAITED_MAX = 64
"""At how many open trials it is looked whether an ask may wait for their room."""
CALLED_BACK_MAX = 64
"""How many asks that have rested for long enough are called back at a time."""
CALL_BACK_EACH_NS = SECOND_NS
"""Between two such times."""


def attempt(turn: Turn, application: Application, ask: Ask, node: Node) -> None:
    """Lets the ask be tried on the node, which is the first with room for its shape, or on the first after it that did
    not refuse this ask; if there is none, it is set aside."""
    found = free_node(application.partition, ask, node)
    if found is not None:
        begin(turn, Trial(turn.now_ns, application, ask, found, Purpose.PLACE))
    else:
        set_aside(turn, application, ask)


def free_node(partition: Partition, ask: Ask, first: Node | None) -> Node | None:
    """The first node with room where the ask was not refused. `first` is the first of those with room."""
    hearing = ask.hearing
    if first is None or hearing is None or not hearing.bars_with_room(first):
        return first
    return partition.first_fit_where(ask.shape, lambda node: not hearing.bars_with_room(node))


def set_aside(turn: Turn, application: Application, ask: Ask) -> None:
    """No node with room takes the ask: it waits for the end of a trial on another one, if there is one, else rests."""
    assert ask.hearing is not None
    awaited = _awaited(application.partition, ask)
    if awaited is None:
        _rest(turn, application, ask)
    else:
        ask.hearing.awaits = awaited
        awaited.awaited_by[ask] = application
    application.turn(ask, down=True)


def place_in(turn: Turn, reservation: Reservation) -> None:
    """Asks whether the ask may be placed in the room that is kept for it."""
    trial = Trial(turn.now_ns, reservation.application, reservation.ask, reservation.node, Purpose.PLACE)
    trial.reservation = reservation
    begin(turn, trial)


def swap(turn: Turn, application: Application, ask: Ask, placeholder: Allocation, node: Node) -> None:
    """Asks whether the ask may run on the node if the placeholder, there or elsewhere, is given up for it."""
    trial = Trial(turn.now_ns, application, ask, node, Purpose.SWAP)
    trial.placeholder = placeholder
    begin(turn, trial)


def preempt(
    turn: Turn,
    application: Application,
    ask: Ask,
    node: Node,
    victims: tuple[Allocation, ...],
    further: tuple[Allocation, ...],
    *,
    search: Search | None = None,
    reservation: Reservation | None = None,
) -> None:
    """Asks whether the ask may run on the node once the victims have ended, or how many of the further ones have to as
    well; for a search, or for a reservation."""
    trial = Trial(turn.now_ns, application, ask, node, Purpose.PREEMPT)
    trial.victims, trial.further = victims, further
    trial.search, trial.reservation = search, reservation
    begin(turn, trial)


def begin(turn: Turn, trial: Trial) -> None:
    """Asks; there is an answer, or the time for it is over."""
    deadline_ns = turn.now_ns + turn.cluster.timeouts.predicates_ns
    trial.alarm = turn.cluster.alarms.set(deadline_ns, AlarmKind.VERDICT, trial)
    commit_room.put_on_trial(trial)
    partition = trial.application.partition
    place = (
        partition.rm_id,
        partition.name,
        trial.application.application_id,
        trial.ask.key,
        trial.node.node_id,
        trial.call_id,
    )
    if trial.purpose is Purpose.PREEMPT:
        keys = tuple(one.key for one in (*trial.victims, *trial.further))
        turn.say(PreemptionVerdictWanted(*place, victim_keys=keys, start_index=len(trial.victims) - 1))
    else:
        turn.say(VerdictWanted(*place, allocate=trial.purpose is not Purpose.KEEP))


def finish(turn: Turn, trial: Trial, outcome: VerdictOutcome, reason: str) -> None:
    """The call is over, and nothing is held for it any longer. What comes of that is for the caller."""
    turn.cluster.alarms.cancel(trial.alarm)
    commit_room.end_trial(trial)
    for ask, application in list(trial.awaited_by.items()):
        application.turn(ask, down=False)
    partition = trial.application.partition
    if trial.purpose is Purpose.SWAP and partition.denied:
        waking.try_denied_again(partition)
    if trial.purpose is Purpose.KEEP:
        partition.patience.look_again(trial.node, turn.now_ns - turn.cluster.timeouts.reservation_delay_ns)
    turn.say(
        VerdictReached(
            rm_id=partition.rm_id,
            partition=partition.name,
            application_id=trial.application.application_id,
            allocation_key=trial.ask.key,
            node_id=trial.node.node_id,
            call_id=trial.call_id,
            outcome=outcome,
            reason=reason,
            waited_ns=turn.now_ns - trial.asked_at_ns,
        )
    )


def give_back(trial: Trial) -> None:
    """After `finish`, if nothing came of it: the room is for everybody again, and the ask stands in its line."""
    commit_room.note_less_held(trial)
    trial.application.review(trial.ask)
    for reservation in trial.ask.reservations.values():
        trial.application.partition.ready[reservation.node] = None
    if trial.placeholder is not None:
        trial.application.look_for_swaps()


def remember(turn: Turn, trial: Trial, reason: str) -> None:
    """The ask was refused on the node. Where too much is remembered already, it rests instead."""
    application, ask = trial.application, trial.ask
    assert ask.hearing is not None
    turned_down = application.partition.turned_down
    turned_down.remembered += trial.node not in ask.hearing.refused
    ask.hearing.remember(trial, reason)
    if turned_down.remembered <= REMEMBERED_MAX:
        return
    if ask.untried > 0 and not ask.shape.turned_down:
        _rest(turn, application, ask)
        application.turn(ask, down=True)
    else:
        forgive(application.partition, ask.hearing)


def void(turn: Turn, trial: Trial) -> None:
    """The verdict does not matter any longer: the ask, if it is still wanted, is where it was before."""
    finish(turn, trial, VerdictOutcome.VOID, "")
    turn.say(VerdictNotWanted(trial.application.partition.rm_id, trial.call_id))
    give_back(trial)
    partition, ask = trial.application.partition, trial.ask
    if trial.reservation is not None and trial.reservation in partition.reservations:
        partition.ready[trial.node] = None
    elif trial.purpose is Purpose.KEEP and ask.group is not None:
        partition.patience.expect(ask.group.kind, ask.asked_at_ns)


def void_all(turn: Turn, open_trials: Iterable[Trial]) -> None:
    for trial in list(open_trials):
        void(turn, trial)


def review(turn: Turn, application: Application, ask: Ask) -> None:
    """Less of the ask is pending: no more verdicts are waited for than it needs, the last ones asked for go first, and
    none if it needs nothing; then nothing is remembered of it either."""
    hearing = ask.hearing
    assert hearing is not None
    for trial in reversed(list(hearing.trials)):
        if not ask.pending or (trial.takes_one and ask.untried < 0):
            void(turn, trial)
    if ask.pending:
        application.review(ask)
    else:
        forget(application.partition, ask)


def forget(partition: Partition, ask: Ask) -> None:
    """What it was refused for is not remembered any longer."""
    if ask.hearing is not None and not ask.hearing.trials:
        forgive(partition, ask.hearing)
        ask.hearing = None
        if ask.shape.turned_down:
            ask.shape = partition.shapes.turned(ask.shape, down=False)


def forgive(partition: Partition, hearing: Hearing) -> None:
    """It may be asked again about every node that was refused."""
    partition.turned_down.remembered -= len(hearing.refused)
    hearing.refused.clear()


def forget_all(turn: Turn, rm: ResourceManager) -> None:
    """Whoever gave the verdicts is gone: nothing is waited for, and nobody was refused anything."""
    void_all(turn, rm.callbacks.open_trials.values())
    for partition in rm.partitions.values():
        partition.patience.look_for(None)
        for reservation in partition.reservations:
            reservation.agreed_at, reservation.answer = NEVER, None
            partition.ready[reservation.node] = None
        for application, ask in list(partition.turned_down):
            application.turn(ask, down=False)
        for application in partition.applications.values():
            for ask in application.asks.values():
                forget(partition, ask)


def on_rested(turn: Turn, partition: Partition) -> None:
    """Some that were turned down have rested for long enough: they are tried everywhere anew, a few at a time."""
    turned_down = partition.turned_down
    for _ in range(CALLED_BACK_MAX):
        ask = turned_down.due.pop(turn.now_ns)
        if ask is None:
            break
        assert ask.hearing is not None
        ask.hearing.since = NEVER
        turned_down.application_of(ask).turn(ask, down=False)
    next_ns = turned_down.due.next_ns()
    if next_ns is not None:
        deadline_ns = max(next_ns, turn.now_ns + CALL_BACK_EACH_NS)
        turned_down.alarm = turn.cluster.alarms.set(deadline_ns, AlarmKind.TURNED_DOWN, partition)


def _awaited(partition: Partition, ask: Ask) -> Trial | None:
    """A trial on a node that did not refuse the ask and would have room for it without this one and those before it."""
    hearing = ask.hearing
    assert hearing is not None
    without: dict[Node, Resources] = {}
    for trial in islice(partition.callbacks.open_trials.values(), AWAITED_MAX):
        node = trial.node
        if not trial.items or trial.application.partition is not partition or hearing.bars_with_room(node):
            continue
        if partition.objection(ask.shape, node) is not None:
            continue
        free = without[node] = without.get(node, node.free).plus(dict(trial.items))
        if node.free.lacks(ask.shape.items) is not None and free.lacks(ask.shape.items) is None:
            return trial
    return None


def _rest(turn: Turn, application: Application, ask: Ask) -> None:
    """Which nodes refused it needs not be remembered one by one: all that had room did, as they are now."""
    hearing, partition = ask.hearing, application.partition
    assert hearing is not None
    turned_down = partition.turned_down
    forgive(partition, hearing)
    hearing.since = partition.changes
    deadline_ns = turn.now_ns + turn.cluster.timeouts.refusal_ns
    turned_down.due.set(ask, deadline_ns)
    if turned_down.alarm is None or not turned_down.alarm.live:
        turned_down.alarm = turn.cluster.alarms.set(deadline_ns, AlarmKind.TURNED_DOWN, partition)
