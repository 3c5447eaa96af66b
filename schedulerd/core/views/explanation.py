"""Sentences for people: why an ask waits, and why nothing is preempted for it.

A sentence is made of the ask's state and its cause (`pending.rules.states`), with the current amounts.
"""

from __future__ import annotations

from itertools import islice

from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.predicate_check import PredicateCheck
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.request_class import RequestClass
from schedulerd.core.state.pending.retry_timers import attempts_of
from schedulerd.core.state.pending.rules.states import Cause, PendingState, group_state
from schedulerd.core.state.quotas.rules import Blocked
from schedulerd.core.state.quotas.sentences import sentence
from schedulerd.core.views.state_query import StateQuery

_REASONS_SAID = 20
"""Reasons why nodes have no room that a sentence counts."""
_NOTHING_IS_TRIED = (PendingState.APPLICATION_INACTIVE, PendingState.AWAITING_GANG)


class Explanation:
    """Makes the sentences for the asks of one partition. What holds for all asks of a request class is computed
    once."""

    def __init__(self, partition: Partition, state: ResourceManagerState, query: StateQuery) -> None:
        self._partition = partition
        self._nodes = partition.nodes
        self._query = query
        self._rm_state = state
        self._no_node: dict[RequestClass, str] = {}

    def waiting(self, app: Application, ask: Ask) -> str:
        """Why the ask is not allocated; '' if it has not been tried since something changed for it."""
        if ask.group is None:
            return ""
        state, cause = group_state(self._partition, self._rm_state, app, ask.group)
        if state in _NOTHING_IS_TRIED:
            return self._sentence(app, ask, state, cause)
        if ask.unchecked <= 0 and ask.predicate_history is not None:
            return "".join(map(_awaits, islice(ask.predicate_history.predicate_checks, 1)))
        reason = self._sentence(app, ask, state, cause)
        if reason and self._partition.retry_timers.is_not_helped(app, ask.group.pending_class):
            return reason + _unhelped(app)
        return reason and reason + _reserved(ask)

    def _sentence(self, app: Application, ask: Ask, state: PendingState, cause: Cause) -> str:
        match state, cause:
            case PendingState.APPLICATION_INACTIVE, ResourceManagerState():
                return f"the resource manager is {cause}: nothing is placed for it"
            case PendingState.APPLICATION_INACTIVE, _ if app.starts_after is not None:
                first = app.starts_after.application_id
                return f"its queue starts one application at a time: application {first} has to start first"
            case PendingState.APPLICATION_INACTIVE, _:
                return f"application is {cause}: its asks are not placed in this state"
            case PendingState.AWAITING_GANG, Application() if cause is not app:
                return f"waits for the earlier gang of application {cause.application_id} to be complete"
            case PendingState.AWAITING_GANG, _:
                return "waits until the placeholders of its application are placed"
            case _, Blocked():
                return sentence(cause)
            case PendingState.PREDICATE_FAILED, _:
                return _refused(ask)
            case PendingState.UNSCHEDULABLE, _:
                if ask.request_class not in self._no_node:
                    self._no_node[ask.request_class] = self._count_refusals(ask.request_class)
                return self._no_node[ask.request_class]
        return ""

    def no_preemption(self, app: Application, ask: Ask) -> str:
        """Why nothing was preempted for a pending ask; '' if victims were released, or if `waiting` gives the whole
        reason."""
        if ask.group is None or group_state(self._partition, self._rm_state, app, ask.group)[0] in _NOTHING_IS_TRIED:
            return ""
        if not ask.request_class.required_node and ask.pending <= ask.entitled:
            return ""
        if not self._partition.spec.preemption_enabled:
            return "preemption is off in this partition"
        if ask.request_class.required_node:
            return next((one.refused for one in ask.reservations if not one.victims), "")
        if not ask.spec.allow_preempt_other:
            return "the ask may not preempt others (allowPreemptOther)"
        if ask.predicate_history is not None and ask.predicate_history.no_preemption:
            return ask.predicate_history.no_preemption
        refused = self._partition.retry_timers.refused.get(attempts_of(app, app.groups[ask.group_key].pending_class))
        if refused is not None and ask.spec.priority <= refused.priority:
            return refused.reason
        delay_s = app.queue.properties.preemption_delay_ns / SECOND_NS
        return f"preemption is first tried when the ask is {delay_s:g} s old (preemption.delay)"

    def _count_refusals(self, request_class: RequestClass) -> str:
        if request_class.required_node:
            required = self._nodes.get(request_class.required_node)
            if required is None:
                return f"required node {request_class.required_node} is not registered"
            lacks = required.capacity.minus(required.occupied).lacks(request_class.items)
            if lacks is not None:
                return f"required node {request_class.required_node} could never hold it: not enough {lacks} in all"
            why_not = self._partition.refusal(request_class, required) or "has room now"
            return f"required node {request_class.required_node}: {why_not}"
        refusals: dict[str, int] = {}
        asked = self._query.take("nodes asked why they have no room", self._nodes.values(), len(self._nodes))
        for node in asked:
            reason = self._partition.refusal(request_class, node) or "has room now"
            refusals[reason] = refusals.get(reason, 0) + 1
        most = sorted(refusals.items(), key=lambda one: (-one[1], one[0]))
        rest = sum(count for _, count in most[_REASONS_SAID:])
        said = [f"{count} {reason}" for reason, count in sorted(most[:_REASONS_SAID])]
        counted = ", ".join([*said, f"{rest} for other reasons"] if rest else said)
        of_how_many = f" (of {len(asked)} checked)" if len(asked) < len(self._nodes) else ""
        text = f"no node has room: {len(self._nodes)} considered"
        return text + (f": {counted}{of_how_many}" if counted else "")


def _awaits(one: PredicateCheck) -> str:
    return f"waits for the result of the resource manager on node {one.node.node_id}"


def _refused(ask: Ask) -> str:
    reasons = ask.predicate_history.reasons.items() if ask.predicate_history is not None else ()
    said = (
        f"node {node_id}: {reason}"
        if count == 1
        else f"{reason} ({count} refusals so far, the last for node {node_id})"
        for reason, (count, node_id) in reasons
    )
    return f"the resource manager refuses it on every node with room: {'; '.join(said)}"


def _unhelped(app: Application) -> str:
    if app.gang is None or not app.gang.pending:
        return "; no room is reserved, as allocations of the application itself are in the way"
    count = app.gang.pending
    what = "1 pending placeholder of its gang fits" if count == 1 else f"{count} pending placeholders of its gang fit"
    return f"; room is reserved when the {what} on the nodes"


def _reserved(ask: Ask) -> str:
    """Where room is reserved for the ask, each node once."""
    victims: dict[str, int] = {}
    for one in ask.reservations:
        victims[one.node.node_id] = victims.get(one.node.node_id, 0) + len(one.victims)
    said = ""
    for node_id, count in victims.items():
        who = "1 allocation has" if count == 1 else f"{count} allocations have"
        said += f"; room is reserved for it on node {node_id}{f', {who} to be released first' if count else ''}"
    return said
