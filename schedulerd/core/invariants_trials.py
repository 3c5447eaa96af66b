"""What must hold of what resource managers are asked: a part of `invariants`, counted anew as well."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.model.allocation import Ask
from schedulerd.core.model.callbacks import OPEN_MAX
from schedulerd.core.model.cluster import ResourceManager
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.trial import Purpose, Trial
from schedulerd.core.resources import Resources


def calls(rm: ResourceManager) -> Iterator[str]:
    """Every open call has an alarm, a callback stream that answers it, and an ask and a node that know of it."""
    callbacks = rm.callbacks
    if len(callbacks.open_trials) > OPEN_MAX:
        yield f"{len(callbacks.open_trials)} calls are open"
    for call_id, trial in callbacks.open_trials.items():
        name = _name(trial)
        if trial.call_id != call_id or rm.partitions.get(trial.application.partition.name) is None:
            yield f"{name} is not where it should be"
        if trial.alarm is None or not trial.alarm.live:
            yield f"{name} would never end"
        answers = callbacks.preemption_predicates if trial.purpose is Purpose.PREEMPT else callbacks.predicates
        if not answers:
            yield f"{name} is open, and nobody answers it"
        if trial.ask.hearing is None or trial not in trial.ask.hearing.trials or trial.ask.group is None:
            yield f"{name} is of an ask that does not wait for it"
        known = trial.application.partition.nodes.get(trial.node.node_id)
        if known is not trial.node or trial not in trial.node.trials:
            yield f"{name} is of a node that is gone, or does not know of it"


def trials(partition: Partition) -> Iterator[str]:
    """Partition, nodes and asks agree about what is asked, and who waits for what."""
    opened = {one for one in partition.callbacks.open_trials.values() if one.application.partition is partition}
    if {one for node in partition.nodes.values() for one in node.trials} != opened:
        yield "the calls that nodes know of are not those that are open"
    asks = [(app, ask) for app in partition.applications.values() for ask in app.asks.values()]
    if {one for _, ask in asks if ask.hearing is not None for one in ask.hearing.trials} != opened:
        yield "the calls that asks wait for are not those that are open"
    turned_down, remembered = {ask: app for app, ask in partition.turned_down}, 0
    for app, ask in asks:
        remembered += len(ask.hearing.refused) if ask.hearing is not None else 0
        if (ask in turned_down) != (ask.shape.turned_down and ask.pending > 0):
            yield f"ask {ask.key} of {app.application_id} is set aside and nobody knows, or the other way round"
        yield from _hearing(partition, ask)
    if remembered != partition.turned_down.remembered:
        yield f"{partition.turned_down.remembered} refusals count as remembered, there are {remembered}"
    for node in partition.turned_down.wanted:
        if partition.nodes.get(node.node_id) is not node:
            yield f"node {node.node_id}, which is gone, is wanted by asks that were turned down"
    alarm = partition.turned_down.alarm
    if partition.turned_down.due.next_ns() is not None and (alarm is None or not alarm.live):
        yield "asks that were turned down would rest for ever"


def _hearing(partition: Partition, ask: Ask) -> Iterator[str]:
    hearing = ask.hearing
    if hearing is None:
        if ask.shape.turned_down:
            yield f"ask {ask.key} was turned down, and nobody ever asked"
        return
    if hearing.on_trial != sum(one.takes_one for one in hearing.trials) or ask.untried < 0:
        yield f"ask {ask.key} has {hearing.on_trial} on trial of {ask.pending} pending"
    if not ask.pending:
        yield f"ask {ask.key} is wanted no longer, and what was refused is remembered"
    if ask.group is not None and ask.group.is_aside(ask) != (ask.untried <= 0):
        yield f"ask {ask.key} stands in line while all of it is on trial, or the other way round"
    if ask.shape.turned_down and ask not in partition.turned_down.due and hearing.awaits is None:
        yield f"ask {ask.key} was turned down and waits for nothing"
    if hearing.awaits is not None and ask not in hearing.awaits.awaited_by:
        yield f"ask {ask.key} waits for a call that does not know"


def held(partition: Partition, trial: Trial) -> Resources:
    """What the trial holds, from what it is for."""
    holds = trial.purpose is Purpose.PLACE and trial.reservation is None
    return Resources(trial.ask.shape.items) if holds and trial.application.partition is partition else Resources()


def _name(trial: Trial) -> str:
    return f"call {trial.call_id} about ask {trial.ask.key} and node {trial.node.node_id}"
