"""Why asks wait, and why nobody ends for them, in sentences for people.

The numbers are those of the moment; what was found out earlier is said as it was found.
"""

from __future__ import annotations

from itertools import islice

from schedulerd.core.lifecycles import ResourceManagerState
from schedulerd.core.model.allocation import Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.predicate_check import PredicateCheck
from schedulerd.core.model.request_class import RequestClass
from schedulerd.core.model.reservation import Reservation
from schedulerd.core.quotas.rules import blocked
from schedulerd.core.quotas.sentences import sentence
from schedulerd.core.specs import SECOND_NS
from schedulerd.core.state_query import StateQuery


class Explanation:
    """Of the asks of one partition; what holds for all of a request class is worked out once."""

    def __init__(self, partition: Partition, state: ResourceManagerState, look: StateQuery) -> None:
        self._partition = partition
        self._nodes = partition.nodes
        self._query = look
        running = state is ResourceManagerState.RUNNING
        self._paused = "" if running else f"the resource manager is {state}: nothing is placed for it"
        self._no_node: dict[RequestClass, str] = {}

    def waiting(self, app: Application, ask: Ask) -> str:
        """Why it is not placed; '' if it has not been tried since something changed for it."""
        if not ask.pending:
            return ""
        hindrance = self._hindrance(app, ask)
        if hindrance:
            return hindrance
        if ask.untried <= 0 and ask.predicate_history is not None:
            return "".join(map(_on_trial, islice(ask.predicate_history.predicate_checks, 1)))
        pending_class = app.groups[ask.band].pending_class
        request_class, items, key = ask.request_class, pending_class.items, pending_class.quota_key
        all_blocked = (
            blocked(queue, items, key)
            for queue in app.queue.path_to_root
            if pending_class in queue.pending_index.blocked_by
        )
        reason = next((sentence(one) for one in all_blocked if one is not None), "")
        if not reason and request_class.refused:
            reason = _turned_down(ask)
        elif not reason and pending_class.unschedulable:
            if request_class not in self._no_node:
                self._no_node[request_class] = self._count_refusals(request_class)
            reason = self._no_node[request_class]
        if reason and self._partition.retry_timers.is_unhelped(app, pending_class):
            return reason + _unhelped(app)
        return reason and reason + "".join(map(_kept, ask.reservations.values()))

    def no_preemption(self, app: Application, ask: Ask) -> str:
        """Why nobody was asked to end for an ask that waits; '' if somebody was, or if `waiting` says it all."""
        if self._hindrance(app, ask):
            return ""
        if not ask.request_class.required_node and ask.pending <= sum(
            one.is_entitled for one in ask.reservations.values()
        ):
            return ""
        if not self._partition.spec.preemption_enabled:
            return "preemption is off in this partition"
        if ask.request_class.required_node:
            return next((one.refused for one in ask.reservations.values() if not one.victims), "")
        if not ask.spec.allow_preempt_other:
            return "it may not have others end for it (allowPreemptOther)"
        if ask.predicate_history is not None and ask.predicate_history.no_preemption:
            return ask.predicate_history.no_preemption
        for one in (None, ask):
            refused = self._partition.retry_timers.refused.get((app.queue, app.groups[ask.band].pending_class, one))
            if refused is not None and ask.spec.priority <= refused.priority:
                return refused.reason
        delay_s = app.queue.properties.preemption_delay_ns / SECOND_NS
        return f"it is looked at who could end for it when it is {delay_s:g} s old (preemption.delay)"

    def _hindrance(self, app: Application, ask: Ask) -> str:
        """Why it is not tried to place it at all; '' if it is."""
        if self._paused:
            return self._paused
        if not app.admits_group(app.groups[ask.band]):
            first = app.gang_ahead
            if first is not None:
                return f"waits until the gang of application {first.application_id} is complete, which came first"
            return "waits until the placeholders of its application are placed"
        if not app.propagates_demand:
            return f"application is {app.state}: its asks are not placed in this state"
        return ""

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
        counted = ", ".join(f"{count} {reason}" for reason, count in sorted(refusals.items()))
        of_how_many = f" (of {len(asked)} looked at)" if len(asked) < len(self._nodes) else ""
        text = f"no node has room: {len(self._nodes)} considered"
        return text + (f": {counted}{of_how_many}" if counted else "")


def _on_trial(one: PredicateCheck) -> str:
    return f"waits for the result of the resource manager on node {one.node.node_id}"


def _turned_down(ask: Ask) -> str:
    reasons = ask.predicate_history.reasons.items() if ask.predicate_history is not None else ()
    said = (
        f"node {node_id}: {reason}" + (f" ({count} times so far)" if count > 1 else "")
        for reason, (count, node_id) in reasons
    )
    return f"the resource manager refuses it on every node with room: {'; '.join(said)}"


def _unhelped(app: Application) -> str:
    if app.gang is None or not app.gang.pending:
        return "; no room is reserved, as allocations of the application itself are in the way"
    count = app.gang.pending
    what = "1 pending placeholder of its gang fits" if count == 1 else f"{count} pending placeholders of its gang fit"
    return f"; room is reserved when the {what} on the nodes"


def _kept(one: Reservation) -> str:
    count = len(one.victims)
    who = "1 allocation has" if count == 1 else f"{count} allocations have"
    victims = f", {who} to end first" if count else ""
    return f"; room is kept for it on node {one.node.node_id}{victims}"
