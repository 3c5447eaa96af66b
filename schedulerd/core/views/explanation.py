"""Why an ask waits, and why nothing is preempted for it, in the words of `schedulerd.sentences`.

The cause is that of the ask's state (`pending.rules.states`), with the current amounts.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice

from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.request_class import RequestClass
from schedulerd.core.state.pending.retry_timers import attempts_of
from schedulerd.core.state.pending.rules.states import Cause, PendingState, group_state
from schedulerd.core.state.quotas.rules import Blocked
from schedulerd.core.views.gang_progress import GangProgress, gang_progress
from schedulerd.core.views.node_causes import node_cause
from schedulerd.core.views.state_query import StateQuery
from schedulerd.sentences import applications, gangs, nodes, preemption

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
        self._gangs: dict[Application, GangProgress] = {}

    def waiting(self, app: Application, ask: Ask) -> str:
        """Why the ask is not allocated; '' if it has not been tried since something changed for it."""
        if ask.group is None:
            return ""
        state, cause = group_state(self._partition, self._rm_state, app, ask.group)
        if state in _NOTHING_IS_TRIED:
            return self._sentence(app, ask, state, cause)
        if ask.unchecked <= 0 and ask.predicate_history is not None:
            checks = islice(ask.predicate_history.predicate_checks, 1)
            return "".join(nodes.predicate(one.node.node_id) for one in checks)
        reason = self._sentence(app, ask, state, cause)
        if reason and self._partition.retry_timers.is_not_helped(app, ask.group.pending_class):
            return reason + _unhelped(app)
        return reason and reason + _reserved(ask)

    def gang(self, app: Application) -> GangProgress:
        """How far the gang of the application is."""
        found = self._gangs.get(app)
        if found is None:
            found = self._gangs[app] = gang_progress(app)
        return found

    def _sentence(self, app: Application, ask: Ask, state: PendingState, cause: Cause) -> str:
        match state, cause:
            case PendingState.APPLICATION_INACTIVE, ResourceManagerState():
                return applications.inactive("resource manager", cause)
            case PendingState.APPLICATION_INACTIVE, _ if app.starts_after is not None:
                first = app.starts_after
                return applications.start_order(first.application_id, first.state)
            case PendingState.APPLICATION_INACTIVE, _:
                return applications.inactive("application", app.state)
            case PendingState.AWAITING_GANG, Application() if cause is not app:
                return gangs.earlier(cause.application_id, self._progress(cause))
            case _, Application():
                return gangs.own(self._progress(cause))
            case _, Blocked():
                return cause.clause()
            case PendingState.PREDICATE_FAILED, _:
                history = ask.predicate_history
                found = history.reasons.items() if history is not None else ()
                return nodes.refused((reason, times, node) for reason, (times, node) in found)
            case PendingState.UNSCHEDULABLE, _:
                if ask.request_class not in self._no_node:
                    self._no_node[ask.request_class] = self._without_node(ask.request_class)
                return self._no_node[ask.request_class]
        return ""

    def _progress(self, app: Application) -> str:
        found = self.gang(app)
        return gangs.progress(found, found.needs_rule.clause() if found.needs_rule is not None else "")

    def no_preemption(self, app: Application, ask: Ask) -> str:
        """Why nothing was preempted for a pending ask; '' if victims were released, or if `waiting` gives the whole
        reason."""
        if ask.group is None or group_state(self._partition, self._rm_state, app, ask.group)[0] in _NOTHING_IS_TRIED:
            return ""
        if not ask.request_class.required_node and ask.pending <= ask.entitled:
            return ""
        if not self._partition.spec.preemption_enabled:
            return preemption.OFF
        if ask.request_class.required_node:
            return next((one.refused for one in ask.reservations if not one.victims), "")
        if not ask.spec.allow_preempt_other:
            return preemption.NOT_ALLOWED
        if ask.predicate_history is not None and ask.predicate_history.no_preemption:
            return ask.predicate_history.no_preemption
        refused = self._partition.retry_timers.refused.get(attempts_of(app, app.groups[ask.group_key].pending_class))
        if refused is not None and ask.spec.priority <= refused.priority:
            return refused.reason
        return preemption.too_young()

    def _without_node(self, request_class: RequestClass) -> str:
        if request_class.required_node:
            return self._without_required(request_class)
        largest = self._partition.largest() if self._nodes else {}
        for name, amount in request_class.items if self._nodes else ():
            if amount > largest[name]:
                return nodes.too_large(name, amount, largest[name])
        asked = self._query.take("nodes asked why they have no room", self._nodes.values(), len(self._nodes))
        causes = Counter(node_cause(self._partition, request_class, node) for node in asked)
        most = sorted(causes.items(), key=lambda one: (-one[1], one[0]))
        said = [nodes.node(kind, detail, count) for (kind, detail), count in most[:_REASONS_SAID]]
        rest = sum(count for _, count in most[_REASONS_SAID:])
        of_how_many = f" (of {len(asked)} checked)" if said and len(asked) < len(self._nodes) else ""
        return nodes.no_room(nodes.considered(len(self._nodes), said, rest)) + of_how_many

    def _without_required(self, request_class: RequestClass) -> str:
        node_id = request_class.required_node
        required = self._nodes.get(node_id)
        if required is None:
            return nodes.required_is_missing(node_id)
        cause = node_cause(self._partition, request_class, required)
        return nodes.required(node_id, cause.kind, cause.detail)


def _unhelped(app: Application) -> str:
    if app.gang is None or not app.gang.pending:
        return "; no room is reserved, as allocations of the application itself are in the way"
    count = app.gang.pending
    what = "1 pending placeholder of its gang fits" if count == 1 else f"{count} pending placeholders of its gang fit"
    return f"; room is reserved when the {what} on the nodes"


def _reserved(ask: Ask) -> str:
    """Where room is kept for the ask, each node once."""
    victims: dict[str, int] = {}
    for one in ask.reservations:
        victims[one.node.node_id] = victims.get(one.node.node_id, 0) + len(one.victims)
    return "".join(f"; {preemption.kept(node_id, victims=count)}" for node_id, count in victims.items())
