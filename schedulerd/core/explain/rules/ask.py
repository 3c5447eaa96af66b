"""The explanation of one ask."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace
from itertools import islice

from schedulerd.core.explain.causes import (
    Cause,
    GangCause,
    InactiveCause,
    Objection,
    PlaceholderCause,
    PredicateCause,
    RefusedCause,
    ReservedCause,
    RuleCause,
    StartOrderCause,
)
from schedulerd.core.explain.rules import nodes, position, preemption, quotas, reservations
from schedulerd.core.explain.values import AskExplanation, Waiting
from schedulerd.core.language.ask_tags import pod_of
from schedulerd.core.language.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.predicate_check import PredicateCheck, PredicateHistory
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.rules.states import STATES, PendingState, pod_reason, states_of
from schedulerd.core.state.pending.rules.states import Cause as StateCause
from schedulerd.core.state.pending.rules.states import Waiting as StateWaiting
from schedulerd.core.state.pending.start_order import next_start_ns
from schedulerd.core.state.quotas.rules import Blocked
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.core.views.gang_progress import gang_progress

WAITING_MAX = 50
"""States of allocations of one ask that are listed; an ask may have as many open checks and reservations as it has
allocations."""

_WANT_NODES = frozenset(
    {
        PendingState.UNSCHEDULABLE,
        PendingState.PREDICATE_FAILED,
        PendingState.RESERVED,
        PendingState.READY,
        PendingState.QUOTA_BLOCKED,
    }
)
"""States in which it matters which nodes have room: more quota is of no use where no node fits."""


def explain_ask(
    rm: ResourceManager, partition: Partition, application: Application, ask: Ask, now_ns: int
) -> Generator[None, None, AskExplanation]:
    """Everything but the nodes is found before the first stop, so it is of one moment."""
    found = explain_without_nodes(rm, partition, application, ask, now_ns)
    if ask.group is None or not {one.state for one in found.waiting} & _WANT_NODES:
        return found
    return replace(found, nodes=(yield from nodes.survey(partition, ask.request_class, ask)))


def explain_without_nodes(
    rm: ResourceManager, partition: Partition, application: Application, ask: Ask, now_ns: int
) -> AskExplanation:
    """The explanation without a survey of the nodes: a fraction of a millisecond."""
    group = ask.group
    states = states_of(partition, rm.state, application, ask)
    kinds = {one.state for one in states}
    return AskExplanation(
        rm_id=rm.rm_id,
        partition=partition.name,
        application_id=application.application_id,
        allocation_key=ask.key,
        pod=pod_of(ask.spec.tags),
        queue=application.queue.written,
        user=application.spec.user,
        resources=ask.request_class.resources.nonzero(),
        priority=ask.spec.priority,
        placeholder=ask.placeholder,
        task_group=ask.spec.task_group,
        required_node=ask.request_class.required_node,
        asked_at_ns=ask.asked_at_ns,
        now_ns=now_ns,
        allocated=len(ask.allocations),
        pending=ask.pending + ask.awaiting_placeholder,
        waiting=[
            Waiting(
                state=one.state.value,
                allocations=one.allocations,
                waits_for=STATES[one.state].waits_for,
                ends_when=STATES[one.state].ends_when,
                pod_reason=pod_reason(one.state, one.cause),
                cause=cause_of(partition, application, one.cause),
            )
            for one in islice(states, WAITING_MAX)
        ],
        also_blocked_by=_further_causes(partition, application, ask, states),
        quotas=quotas.quota_levels(application.queue, ask.request_class.items),
        nodes=None,
        reservations=reservations.findings(ask),
        preemption=preemption.finding(partition, application, ask, group, kinds, now_ns) if group is not None else None,
        position=position.position(application, ask, group) if group is not None else None,
    )


def _further_causes(
    partition: Partition, application: Application, ask: Ask, states: Iterable[StateWaiting]
) -> list[RuleCause]:
    """The rules that block beside that of the pending state."""
    first = next((one.cause for one in states if isinstance(one.cause, Blocked)), None)
    if ask.group is None:
        return []
    pending_class = ask.group.pending_class
    return quotas.further_causes(partition, application.queue, pending_class.items, pending_class.quota_key, first)


def cause_of(partition: Partition, application: Application, cause: StateCause) -> Cause:
    """The cause of a pending state with everything about it."""
    match cause:
        case Blocked():
            return quotas.rule_cause(partition, cause)
        case Application():
            return _gang(partition, cause, own=cause is application)
        case Allocation():
            return PlaceholderCause("placeholder", cause.uuid, cause.swap_node.node_id)
        case PredicateCheck():
            until_ns = cause.alarm.deadline_ns if cause.alarm is not None else None
            return PredicateCause("predicate", cause.node.node_id, cause.asked_at_ns, until_ns)
        case PredicateHistory():
            objections = [Objection(reason, count, node) for reason, (count, node) in cause.reasons.items()]
            return RefusedCause("refused", objections)
        case Reservation():
            return ReservedCause("reserved", cause.node.node_id)
        case ResourceManagerState():
            return InactiveCause("inactive", "resource manager", cause.value)
        case ApplicationState() if application.starts_after is not None:
            first = application.starts_after
            return StartOrderCause("start order", first.application_id, first.state.value, next_start_ns(first))
        case ApplicationState():
            return InactiveCause("inactive", "application", cause.value)
        case None:
            return None


def _gang(partition: Partition, application: Application, *, own: bool) -> GangCause:
    found = gang_progress(application)
    return GangCause(
        kind="gang",
        application_id=application.application_id,
        own=own,
        placed=found.placed,
        wanted=found.wanted,
        deadline_ns=application.gang_alarm.deadline_ns if application.gang_alarm is not None else None,
        needs=dict(found.needs),
        needs_state=found.state or "",
        needs_rule=quotas.rule_cause(partition, found.rule) if found.rule is not None else None,
        is_restricted=found.is_restricted,
    )
