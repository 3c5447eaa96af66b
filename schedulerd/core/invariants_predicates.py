"""What must hold of what resource managers are asked: a part of `invariants`, counted anew as well."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.model.allocation import Ask
from schedulerd.core.model.callbacks import OPEN_MAX
from schedulerd.core.model.cluster import ResourceManager
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.predicate_check import PredicateCheck, Purpose
from schedulerd.core.resources import Resources


def calls(rm: ResourceManager) -> Iterator[str]:
    """Every open call has an alarm, a callback stream that answers it, and an ask and a node that know of it."""
    callbacks = rm.callbacks
    if len(callbacks.open_predicate_checks) > OPEN_MAX:
        yield f"{len(callbacks.open_predicate_checks)} calls are open"
    for call_id, predicate_check in callbacks.open_predicate_checks.items():
        name = _name(predicate_check)
        if predicate_check.call_id != call_id or rm.partitions.get(predicate_check.application.partition.name) is None:
            yield f"{name} is not where it should be"
        if predicate_check.alarm is None or not predicate_check.alarm.live:
            yield f"{name} would never end"
        answers = (
            callbacks.preemption_predicates if predicate_check.purpose is Purpose.PREEMPT else callbacks.predicates
        )
        if not answers:
            yield f"{name} is open, and nobody answers it"
        if (
            predicate_check.ask.predicate_history is None
            or predicate_check not in predicate_check.ask.predicate_history.predicate_checks
            or predicate_check.ask.group is None
        ):
            yield f"{name} is of an ask that does not wait for it"
        known = predicate_check.application.partition.nodes.get(predicate_check.node.node_id)
        if known is not predicate_check.node or predicate_check not in predicate_check.node.predicate_checks:
            yield f"{name} is of a node that is gone, or does not know of it"


def predicate_checks(partition: Partition) -> Iterator[str]:
    """Partition, nodes and asks agree about what is asked, and who waits for what."""
    opened = {
        one for one in partition.callbacks.open_predicate_checks.values() if one.application.partition is partition
    }
    if {one for node in partition.nodes.values() for one in node.predicate_checks} != opened:
        yield "the calls that nodes know of are not those that are open"
    asks = [(app, ask) for app in partition.applications.values() for ask in app.asks.values()]
    if {
        one for _, ask in asks if ask.predicate_history is not None for one in ask.predicate_history.predicate_checks
    } != opened:
        yield "the calls that asks wait for are not those that are open"
    refused_asks, remembered = {ask: app for app, ask in partition.refused_asks}, 0
    for app, ask in asks:
        remembered += len(ask.predicate_history.refused) if ask.predicate_history is not None else 0
        if (ask in refused_asks) != (ask.request_class.refused and ask.pending > 0):
            yield f"ask {ask.key} of {app.application_id} is set aside and nobody knows, or the other way round"
        yield from _hearing(partition, ask)
    if remembered != partition.refused_asks.remembered:
        yield f"{partition.refused_asks.remembered} refusals count as remembered, there are {remembered}"
    for node in partition.refused_asks.nodes_to_retry:
        if partition.nodes.get(node.node_id) is not node:
            yield f"node {node.node_id}, which is gone, is wanted by asks that were turned down"
    alarm = partition.refused_asks.alarm
    if partition.refused_asks.due.next_ns() is not None and (alarm is None or not alarm.live):
        yield "asks that were turned down would rest for ever"


def _hearing(partition: Partition, ask: Ask) -> Iterator[str]:
    predicate_history = ask.predicate_history
    if predicate_history is None:
        if ask.request_class.refused:
            yield f"ask {ask.key} was turned down, and nobody ever asked"
        return
    if (
        predicate_history.predicate_reserved != sum(one.takes_one for one in predicate_history.predicate_checks)
        or ask.untried < 0
    ):
        yield f"ask {ask.key} has {predicate_history.predicate_reserved} on predicate check of {ask.pending} pending"
    if not ask.pending:
        yield f"ask {ask.key} is wanted no longer, and what was refused is remembered"
    if ask.group is not None and ask.group.awaits_predicate(ask) != (ask.untried <= 0):
        yield f"ask {ask.key} stands in line while all of it is on predicate check, or the other way round"
    if ask.request_class.refused and ask not in partition.refused_asks.due and predicate_history.awaits is None:
        yield f"ask {ask.key} was turned down and waits for nothing"
    if predicate_history.awaits is not None and ask not in predicate_history.awaits.awaited_by:
        yield f"ask {ask.key} waits for a call that does not know"


def held(partition: Partition, predicate_check: PredicateCheck) -> Resources:
    """What the predicate check holds, from what it is for."""
    holds = predicate_check.purpose is Purpose.PLACE and predicate_check.reservation is None
    return (
        Resources(predicate_check.ask.request_class.items)
        if holds and predicate_check.application.partition is partition
        else Resources()
    )


def _name(predicate_check: PredicateCheck) -> str:
    return f"call {predicate_check.call_id} about ask {predicate_check.ask.key} and node {predicate_check.node.node_id}"
