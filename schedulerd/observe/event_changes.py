"""Facts that change something -> event records: all of them, so that a reader can keep ledgers from events.

The table of docs/events.md says which event each change makes, in the words of SI 2023-06 `EventRecord`. Facts that
come with every pod are kept as they are, and become records when they are read; only tags, which may be much longer
than the rest of a fact, are left out at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts import fact as f
from schedulerd.core.language.facts.queues import QueueChange, QueueChanged
from schedulerd.core.language.facts.unclaimed import AllocationUnclaimed, UnclaimedEnd, UnclaimedEnded
from schedulerd.core.language.lifecycles import TERMINAL_STATES, ApplicationState, NodeState
from schedulerd.core.language.resources import Resources
from schedulerd.observe.event_record import SI, Change, Detail, Record, cut
from schedulerd.observe.event_ring import Expand

Kept: TypeAlias = tuple[int, Expand, object]
"""Number of events of a fact, the function that makes their records, and its argument."""

_RELEASE_DETAILS: Mapping[TerminationType, Detail.ValueType] = {
    TerminationType.UNKNOWN_TERMINATION_TYPE: SI.ALLOC_CANCEL,
    TerminationType.STOPPED_BY_RM: SI.ALLOC_CANCEL,
    TerminationType.TIMEOUT: SI.ALLOC_TIMEOUT,
    TerminationType.PREEMPTED_BY_SCHEDULER: SI.ALLOC_PREEMPT,
    TerminationType.PLACEHOLDER_REPLACED: SI.ALLOC_REPLACED,
}

_WITHDRAWAL_DETAILS: Mapping[f.WithdrawCause, Detail.ValueType] = {
    f.WithdrawCause.UPDATED: SI.APP_REQUEST,
    f.WithdrawCause.RELEASED_BY_RM: SI.REQUEST_CANCEL,
    f.WithdrawCause.RECOVERED: SI.REQUEST_ALLOC,
    f.WithdrawCause.APPLICATION_REMOVED: SI.REQUEST_CANCEL,
    f.WithdrawCause.APPLICATION_ENDED: SI.REQUEST_CANCEL,
    f.WithdrawCause.TIMEOUT: SI.REQUEST_TIMEOUT,
}
"""Of asks that are wanted no longer. A awaiting its placeholder one is, and has no detail."""

_STATE_DETAILS: Mapping[ApplicationState, Detail.ValueType] = {
    ApplicationState.NEW: SI.APP_NEW,
    ApplicationState.ACCEPTED: SI.APP_ACCEPTED,
    ApplicationState.STARTING: SI.APP_STARTING,
    ApplicationState.RUNNING: SI.APP_RUNNING,
    ApplicationState.COMPLETING: SI.APP_COMPLETING,
    ApplicationState.COMPLETED: SI.APP_COMPLETED,
    ApplicationState.FAILING: SI.APP_FAILING,
    ApplicationState.FAILED: SI.APP_FAILED,
}
"""Resuming and Expired have no detail of their own: the message begins with the state. Rejected is APP_REJECT."""


class _Placement(NamedTuple):
    """The values of `Allocated` that its events need, as a plain tuple: without the tags."""

    queue: str
    application_id: str
    allocation_key: str
    uuid: str
    node_id: str
    resources: Resources
    replaces: str


def _told(records: tuple[Record, ...]) -> tuple[Record, ...]:
    return records


def told(*records: Record) -> Kept:
    """Records that are made at once, as their facts are rare."""
    return len(records), _told, records


_NOTHING = told()
"""Of slots, which are nobody's news: no resource manager knows of them, and of their gang there are events."""


# asks and allocations ------------------------------------------------------------------------------------------------


def _ask_added(fact: f.AskAdded) -> Kept:
    return _NOTHING if fact.slot else (1, _ask_added_records, fact)


def _ask_added_records(fact: f.AskAdded) -> tuple[Record, ...]:
    if fact.awaited_placeholder:
        message = "its placeholder did not make room for it: it waits like any other request"
        return (_about_request(fact, "RequestWaitsAgain", message),)
    message = f"{fact.count} allocations of these resources" if fact.count > 1 else ""
    return (_of_application(fact, SI.ADD, SI.APP_REQUEST, fact.allocation_key, fact.resources, message),)


def _ask_withdrawn(fact: f.AskWithdrawn) -> Kept:
    return (
        _NOTHING
        if fact.slot or (fact.cause is f.WithdrawCause.AWAITING_PLACEHOLDER and not fact.message)
        else (1, _ask_withdrawn_records, fact)
    )


def _ask_withdrawn_records(fact: f.AskWithdrawn) -> tuple[Record, ...]:
    detail = _WITHDRAWAL_DETAILS.get(fact.cause)
    if detail is None:
        return (_about_request(fact, "RequestTakesPlaceholder", fact.message),)
    of_several = f"{fact.count} allocations of these resources" if fact.count > 1 else ""
    message = "; ".join(part for part in (of_several, fact.message) if part)
    return (_of_application(fact, SI.REMOVE, detail, fact.allocation_key, fact.resources, message),)


def _allocated(fact: f.Allocated) -> Kept:
    if fact.slot:
        return _NOTHING
    placement = (
        fact.queue,
        fact.application_id,
        fact.allocation_key,
        fact.uuid,
        fact.node_id,
        fact.resources,
        "" if fact.replaces_slot else fact.replaces,
    )
    return (3, _taken_over_records, placement) if fact.recovered else (4, _placed_records, placement)


def _placed_records(what: tuple[Any, ...]) -> tuple[Record, ...]:
    fact = _Placement(*what)
    request = _of_application(fact, SI.REMOVE, SI.REQUEST_ALLOC, fact.allocation_key, fact.resources)
    return (request, *_allocation(fact, f"takes the room of placeholder {fact.replaces}" if fact.replaces else ""))


def _taken_over_records(what: tuple[Any, ...]) -> tuple[Record, ...]:
    return _allocation(_Placement(*what), "reported with its node")


def _allocation(fact: _Placement, message: str) -> tuple[Record, ...]:
    uuid, resources = fact.uuid, fact.resources
    return (
        _of_application(fact, SI.ADD, SI.APP_ALLOC, uuid, resources, message),
        Record(SI.NODE, fact.node_id, SI.ADD, SI.NODE_ALLOC, uuid, resources),
        Record(SI.QUEUE, fact.queue, SI.ADD, SI.QUEUE_ALLOC, uuid, resources),
    )


def _allocation_changed(fact: f.AllocationChanged) -> Kept:
    return 6, _allocation_changed_records, fact


def _allocation_changed_records(fact: f.AllocationChanged) -> tuple[Record, ...]:
    """It goes and comes, so that a reader that keeps ledgers needs not know of changes."""
    if fact.cause is f.ChangeCause.RESIZED:
        message = "resized"
    else:
        message = cut(f"reported as {fact.uuid} on node {fact.node_id}; it was {fact.old_uuid} on {fact.old_node_id}")
    old_uuid, old_resources, uuid, resources = fact.old_uuid, fact.old_resources, fact.uuid, fact.resources
    return (
        _of_application(fact, SI.REMOVE, SI.ALLOC_CANCEL, old_uuid, old_resources, message),
        Record(SI.NODE, fact.old_node_id, SI.REMOVE, SI.NODE_ALLOC, old_uuid, old_resources),
        Record(SI.QUEUE, fact.queue, SI.REMOVE, SI.QUEUE_ALLOC, old_uuid, old_resources),
        _of_application(fact, SI.ADD, SI.APP_ALLOC, uuid, resources, message),
        Record(SI.NODE, fact.node_id, SI.ADD, SI.NODE_ALLOC, uuid, resources),
        Record(SI.QUEUE, fact.queue, SI.ADD, SI.QUEUE_ALLOC, uuid, resources),
    )


def _unclaimed(fact: AllocationUnclaimed) -> Kept:
    """It is on its node alone: no application and no queue has it."""
    resources, message = fact.resources, cut(f"unclaimed: {fact.reason}")
    return told(Record(SI.NODE, fact.node_id, SI.ADD, SI.NODE_ALLOC, cut(fact.uuid), resources, message))


def _unclaimed_ended(fact: UnclaimedEnded) -> Kept:
    words = "unclaimed no longer" if fact.cause is UnclaimedEnd.JOINED else fact.message
    resources, message = fact.resources, cut(words)
    return told(Record(SI.NODE, fact.node_id, SI.REMOVE, SI.NODE_ALLOC, cut(fact.uuid), resources, message))


def _released(fact: f.Released) -> Kept:
    return _NOTHING if fact.slot else (3, _released_records, fact)


def _released_records(fact: f.Released) -> tuple[Record, ...]:
    uuid, resources = fact.uuid, fact.resources
    detail = SI.ALLOC_NODEREMOVED if fact.node_removed else _RELEASE_DETAILS[fact.termination]
    return (
        _of_application(fact, SI.REMOVE, detail, uuid, resources, fact.message),
        Record(SI.NODE, fact.node_id, SI.REMOVE, SI.NODE_ALLOC, uuid, resources),
        Record(SI.QUEUE, fact.queue, SI.REMOVE, SI.QUEUE_ALLOC, uuid, resources),
    )


def _release_requested(fact: f.ReleaseRequested) -> Kept:
    return 1, _release_requested_records, fact


def _release_requested_records(fact: f.ReleaseRequested) -> tuple[Record, ...]:
    return (_about_request(fact, _RELEASE_REASONS[fact.cause], fact.message),)


_RELEASE_REASONS: Mapping[f.ReleaseCause, str] = {
    f.ReleaseCause.REPLACED: "PlaceholderReplaced",
    f.ReleaseCause.TIMED_OUT: "AllocationTimedOut",
    f.ReleaseCause.TOO_SMALL: "PlaceholderTooSmall",
    f.ReleaseCause.UNUSED: "PlaceholderUnused",
    f.ReleaseCause.GAVE_WAY: "PlaceholderGivesWay",
    f.ReleaseCause.PREEMPTED: "AllocationPreempted",
}


def _about_request(fact: f.AskAdded | f.AskWithdrawn | f.ReleaseRequested, reason: str, message: str) -> Record:
    """A record about a request that is not changed."""
    application_id = fact.application_id
    return Record(
        SI.REQUEST,
        fact.allocation_key,
        SI.NONE,
        SI.DETAILS_NONE,
        application_id,
        message=message,
        group=application_id,
        reason=reason,
    )


def _of_application(
    fact: f.AskAdded | f.AskWithdrawn | f.AllocationChanged | f.Released | _Placement,
    change: Change.ValueType,
    detail: Detail.ValueType,
    reference_id: str,
    resources: Mapping[str, int],
    message: str = "",
) -> Record:
    return Record(SI.APP, fact.application_id, change, detail, reference_id, resources, message, fact.queue)


# applications --------------------------------------------------------------------------------------------------------


def _application_changed(fact: f.ApplicationChanged) -> Kept:
    state, in_queue = fact.state, bool(fact.queue)
    if state is ApplicationState.REJECTED:  # told by ApplicationRejected
        return told()
    if fact.old_state is None:
        return told(_state(fact, SI.ADD), _application_in_queue(fact, SI.ADD))
    if in_queue and state in TERMINAL_STATES and fact.old_state not in TERMINAL_STATES:
        return told(_state(fact, SI.SET), _application_in_queue(fact, SI.REMOVE))
    return told(_state(fact, SI.SET))


def _state(fact: f.ApplicationChanged, change: Change.ValueType) -> Record:
    detail = _STATE_DETAILS.get(fact.state, SI.DETAILS_NONE)
    message = fact.cause if detail else f"{fact.state}: {fact.cause}"
    return Record(
        SI.APP,
        fact.application_id,
        change,
        detail,
        message=cut(message),
        group=fact.queue,
        reason="" if detail else f"App{fact.state}",
        at_ns=fact.at_ns,
    )


def _application_forgotten(fact: f.ApplicationForgotten) -> Kept:
    gone = Record(SI.APP, fact.application_id, SI.REMOVE, SI.DETAILS_NONE, group=fact.queue, reason="AppRemoved")
    if fact.state in TERMINAL_STATES or not fact.queue:
        return told(gone)
    return told(gone, _application_in_queue(fact, SI.REMOVE))


def _application_in_queue(fact: f.ApplicationChanged | f.ApplicationForgotten, change: Change.ValueType) -> Record:
    return Record(SI.QUEUE, fact.queue, change, SI.QUEUE_APP, fact.application_id)


# nodes, queues, resource managers ------------------------------------------------------------------------------------


def _node_changed(fact: f.NodeChanged) -> Kept:
    node_id, cause, changed = fact.node_id, cut(fact.cause), fact.changed
    if fact.state is NodeState.REMOVED:
        return told(Record(SI.NODE, node_id, SI.REMOVE, SI.NODE_DECOMISSION, message=cause))
    records = []
    if fact.old_state is None:
        added = Record(SI.NODE, node_id, SI.ADD, SI.DETAILS_NONE, "", fact.capacity, cause, reason="NodeAdded")
        records.append(added)
    elif f.NodeAspect.CAPACITY in changed:
        records.append(Record(SI.NODE, node_id, SI.SET, SI.NODE_CAPACITY, resources=fact.capacity))
    if f.NodeAspect.OCCUPIED in changed:
        records.append(Record(SI.NODE, node_id, SI.SET, SI.NODE_OCCUPIED, resources=fact.occupied))
    if f.NodeAspect.READY in changed:
        message = f"ready: {str(fact.ready).lower()}"
        records.append(Record(SI.NODE, node_id, SI.SET, SI.NODE_READY, message=message))
    if f.NodeAspect.SCHEDULABLE in changed:
        message = f"schedulable: {str(fact.state is not NodeState.DRAINING).lower()}"
        records.append(Record(SI.NODE, node_id, SI.SET, SI.NODE_SCHEDULABLE, message=message))
    return told(*records)


def _queue_changed(fact: QueueChanged) -> Kept:
    detail = SI.QUEUE_CONFIG if fact.managed else SI.QUEUE_DYNAMIC
    change, message, reason = SI.SET, fact.message, ""
    match fact.change:
        case QueueChange.ADDED:
            change, reason = SI.ADD, "QueueAdded"
            detail = SI.DETAILS_NONE if fact.managed else SI.QUEUE_DYNAMIC
            message = f"leaf queue: {str(fact.is_leaf).lower()}"
        case QueueChange.REMOVED:
            change = SI.REMOVE
        case QueueChange.TYPE:
            detail, message = SI.QUEUE_TYPE, f"leaf queue: {str(fact.is_leaf).lower()}"
        case QueueChange.MAX:
            detail = SI.QUEUE_MAX
        case QueueChange.GUARANTEED:
            detail = SI.QUEUE_GUARANTEED
        case QueueChange.CONFIGURATION:
            pass
    return told(Record(SI.QUEUE, fact.queue, change, detail, "", fact.amounts, cut(message), reason=reason))


def _resource_manager_changed(fact: f.ResourceManagerChanged) -> Kept:
    """The interface has no object for a resource manager, but its events explain why all of its objects are removed."""
    kind, rm_id, state = SI.UNKNOWN_EVENTRECORD_TYPE, fact.rm_id, fact.state.value
    reason = f"ResourceManager{state.capitalize()}"
    return told(
        Record(kind, rm_id, SI.NONE, SI.DETAILS_NONE, message=cut(f"{state}: {fact.cause}"), reason=reason),
    )


CHANGES: Mapping[type, Callable[[Any], Kept]] = {
    f.AskAdded: _ask_added,
    f.AskWithdrawn: _ask_withdrawn,
    f.Allocated: _allocated,
    f.AllocationChanged: _allocation_changed,
    AllocationUnclaimed: _unclaimed,
    UnclaimedEnded: _unclaimed_ended,
    f.ReleaseRequested: _release_requested,
    f.Released: _released,
    f.ApplicationChanged: _application_changed,
    f.ApplicationForgotten: _application_forgotten,
    f.NodeChanged: _node_changed,
    QueueChanged: _queue_changed,
    f.ResourceManagerChanged: _resource_manager_changed,
}
