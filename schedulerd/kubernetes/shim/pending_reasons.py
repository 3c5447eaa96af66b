"""Why an ask waits, from the message of the daemon."""

from __future__ import annotations

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import PendingReason
from schedulerd.kubernetes.metadata.application_ids import ApplicationIds
from schedulerd.kubernetes.reasons.waiting import Rule, State, Waiting
from schedulerd.kubernetes.shim.application_ids import from_daemon

_NAMES = frozenset(PendingReason.State.keys())
_STATES = {PendingReason.State.Value(one.name): one for one in State if one.name in _NAMES}
_RULES = {PendingReason.Rule.Value(one.name): one for one in Rule}


def waiting_of(reason: PendingReason, ids: ApplicationIds) -> Waiting:
    """A state of a newer daemon counts as one that nothing is known of."""
    return Waiting(
        _STATES.get(reason.state, State.UNANSWERED),
        reason.schedulingState == si_pb2.UpdateContainerSchedulingStateRequest.SKIPPED,
        _RULES.get(reason.rule),
        reason.queue,
        reason.resource,
        reason.used,
        reason.promised,
        reason.asked,
        reason.max,
        reason.account,
        reason.isGroup,
        reason.ahead,
        _awaited(reason, ids),
        reason.inactive,
        reason.nodeID,
        reason.victims,
        reason.gangState,
        reason.membersWithRoom,
        reason.membersNeeded,
        reason.membersAsked,
    )


def _awaited(reason: PendingReason, ids: ApplicationIds) -> str:
    """The application that is placed first, in the words of people."""
    if not reason.awaitedApplicationID:
        return ""
    awaited, own = from_daemon(reason.awaitedApplicationID, ids), from_daemon(reason.applicationID, ids)
    return awaited.name if awaited.namespace == own.namespace else f"{awaited.name} of namespace {awaited.namespace}"
