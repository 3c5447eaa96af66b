"""What must hold of predicate checks that are open, and of asks that the resource manager refused."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.callbacks import OPEN_MAX
from schedulerd.core.state.model.predicate_check import PredicateCheck, Purpose
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import ResourceManager


def calls(rm: ResourceManager) -> Iterator[str]:
    """Every open call has an alarm, a callback stream that answers it, and an ask and a node that know of it."""
    callbacks = rm.callbacks
    if len(callbacks.open_predicate_checks) > OPEN_MAX:
        yield f"{len(callbacks.open_predicate_checks)} calls are open, which is more than {OPEN_MAX}"
    for call_id, predicate_check in callbacks.open_predicate_checks.items():
        name = _name(predicate_check)
        partition = rm.partitions.get(predicate_check.application.partition_name)
        if predicate_check.call_id != call_id or partition is None:
            yield f"{name} has another id than it is known by, or no partition"
            continue
        if predicate_check.alarm is None or not predicate_check.alarm.live:
            yield f"{name} has no alarm"
        answers = (
            callbacks.preemption_predicates if predicate_check.purpose is Purpose.PREEMPT else callbacks.predicates
        )
        if not answers:
            yield f"{name} is open, and the RM has no callback stream for it"
        request_class = predicate_check.ask.request_class
        is_preemption = predicate_check.purpose is Purpose.PREEMPT
        if request_class.skips_preemption_predicates if is_preemption else request_class.skips_predicates:
            yield f"{name} is of an ask that the resource manager is not asked about"
        if (
            predicate_check.ask.predicate_history is None
            or predicate_check not in predicate_check.ask.predicate_history.predicate_checks
            or predicate_check.ask.group is None
        ):
            yield f"{name} is open, and its ask does not await it"
        known = partition.nodes.get(predicate_check.node.node_id)
        if known is not predicate_check.node or predicate_check not in predicate_check.node.predicate_checks:
            yield f"{name} is open, and its node is not in the partition or does not have it"


def predicate_checks(partition: Partition) -> Iterator[str]:
    """Partition, nodes and asks agree about the open checks, and every refused ask waits for something."""
    opened = {
        one
        for one in partition.callbacks.open_predicate_checks.values()
        if one.application.partition_name == partition.name
    }
    if {one for node in partition.nodes.values() for one in node.predicate_checks} != opened:
        yield "the predicate checks of nodes are not the open ones"
    asks = [(app, ask) for app in partition.applications.values() for ask in app.asks.values()]
    if {
        one for _, ask in asks if ask.predicate_history is not None for one in ask.predicate_history.predicate_checks
    } != opened:
        yield "the predicate checks of asks are not the open ones"
    refused_asks, remembered = {ask: app for app, ask in partition.refused_asks}, 0
    for app, ask in asks:
        remembered += len(ask.predicate_history.refused) if ask.predicate_history is not None else 0
        if (ask in refused_asks) != (ask.request_class.refused and ask.pending > 0):
            is_refused = "refused" if ask.request_class.refused else "not refused"
            yield f"ask {ask.key} of {app.application_id} is {is_refused}, and the refused asks of the partition differ"
        yield from _history(partition, ask)
    if remembered != partition.refused_asks.remembered:
        yield f"{partition.refused_asks.remembered} refusals are counted, there are {remembered}"
    for node in partition.refused_asks.nodes_to_retry:
        if partition.nodes.get(node.node_id) is not node:
            yield f"refused asks are to be retried on node {node.node_id}, which does not exist"
    alarm = partition.refused_asks.alarm
    if partition.refused_asks.due.next_ns() is not None and (alarm is None or not alarm.live):
        yield "refused asks wait for a time, and no alarm ends it"


def _history(partition: Partition, ask: Ask) -> Iterator[str]:
    predicate_history = ask.predicate_history
    if predicate_history is None:
        if ask.request_class.refused:
            yield f"ask {ask.key} is refused and has no history of predicate checks"
        return
    if (
        predicate_history.predicate_reserved != sum(one.uses_allocation for one in predicate_history.predicate_checks)
        or ask.unchecked < 0
    ):
        yield f"ask {ask.key} counts {predicate_history.predicate_reserved} on predicate check of {ask.pending} pending"
    if not ask.pending:
        yield f"ask {ask.key} has nothing pending and still a history of predicate checks"
    if ask.group is not None and ask.group.awaits_predicate(ask) != (ask.unchecked <= 0):
        counts = "counts" if ask.group.awaits_predicate(ask) else "does not count"
        yield f"ask {ask.key} has {ask.unchecked} without a predicate check, and its group {counts} it as awaiting one"
    if ask.request_class.refused and ask not in partition.refused_asks.due and predicate_history.awaits is None:
        yield f"ask {ask.key} is refused, and neither a time nor a predicate check lets it be retried"
    if predicate_history.awaits is not None and ask not in predicate_history.awaits.awaited_by:
        yield f"ask {ask.key} waits for a predicate check that does not have it"


def held(partition: Partition, predicate_check: PredicateCheck) -> Resources:
    """What the predicate check holds, from what it is for."""
    holds = predicate_check.purpose is Purpose.ALLOCATE and predicate_check.reservation is None
    return (
        Resources(predicate_check.ask.request_class.items)
        if holds and predicate_check.application.partition_name == partition.name
        else Resources()
    )


def _name(predicate_check: PredicateCheck) -> str:
    return f"call {predicate_check.call_id} about ask {predicate_check.ask.key} and node {predicate_check.node.node_id}"


def alarms_of_calls(rm: ResourceManager) -> Iterator[Alarm | None]:
    yield from [one.alarm for one in rm.callbacks.open_predicate_checks.values()]


def alarms_of_refused_asks(partition: Partition) -> Iterator[Alarm | None]:
    alarm = partition.refused_asks.alarm
    yield alarm if alarm is not None and alarm.live else None
