"""Facts that explain -> event records: rejections, refusals, ignored items, gangs that are released in a deadlock.

They change nothing that can be counted, so their change type is NONE, except for a rejected application. They may come
repeatedly for the same object, and are limited for that reason (`event_limits.py`). Their texts contain input of
resource managers of any length, so they are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from schedulerd.core.language.facts import configuration as configuration_facts
from schedulerd.core.language.facts import fact as f
from schedulerd.core.language.facts import gangs as g
from schedulerd.core.language.facts import preemption as p
from schedulerd.core.language.facts import queues as q
from schedulerd.core.language.facts import reservations as r
from schedulerd.core.language.facts.nodes import NodeRecommended
from schedulerd.core.language.facts.predicates import PredicateAnswered, PredicateOutcome
from schedulerd.core.language.lifecycles import GangState, GangTrigger
from schedulerd.core.language.task_groups import SLOT_KEYS
from schedulerd.observe.event_record import NO_RESOURCES, SI, Kind, Record, cut
from schedulerd.sentences import preemption
from schedulerd.sentences.words import many


def _about(
    kind: Kind.ValueType,
    object_id: str,
    reason: str,
    message: str,
    reference_id: str = "",
    resources: Mapping[str, int] = NO_RESOURCES,
    group: str = "",
) -> Record:
    return Record(
        kind,
        cut(object_id),
        SI.NONE,
        SI.DETAILS_NONE,
        cut(reference_id),
        resources,
        cut(message),
        cut(group),
        reason,
    )


def _request(fact: Any, reason: str, message: str, resources: Mapping[str, int] = NO_RESOURCES) -> Record:
    """What is about a slot, of which no resource manager knows, is told of its application."""
    application_id = fact.application_id
    if fact.allocation_key.startswith(SLOT_KEYS):
        said = f"for a member of its gang: {message}"
        return _about(SI.APP, application_id, reason, said, "", resources, getattr(fact, "queue", ""))
    return _about(SI.REQUEST, fact.allocation_key, reason, message, application_id, resources, application_id)


def _application(
    fact: g.GangCompleted | g.GangTimedOut | g.GangGaveWay | g.GangStateChanged | g.GangBelowMin,
    reason: str,
    message: str,
) -> Record:
    return _about(SI.APP, fact.application_id, reason, message, group=fact.queue)


def _node_rejected(fact: f.NodeRejected) -> Record:
    return _about(SI.NODE, fact.node_id, "NodeRejected", fact.reason)


def _application_rejected(fact: f.ApplicationRejected) -> Record:
    """The change type is REMOVE, unless another application with this id exists."""
    lives_on = fact.code is f.RejectCode.DUPLICATE_ID
    change = SI.NONE if lives_on else SI.REMOVE
    return Record(SI.APP, cut(fact.application_id), change, SI.APP_REJECT, message=cut(fact.reason))


def _ask_rejected(fact: f.AskRejected) -> Record:
    return _request(fact, "RequestRejected", fact.reason)


def _release_ignored(fact: f.ReleaseIgnored) -> Record:
    object_id = fact.uuid or fact.allocation_key
    if not object_id:
        return _about(SI.APP, fact.application_id, "ReleaseIgnored", fact.reason)
    application_id = fact.application_id
    return _about(SI.REQUEST, object_id, "ReleaseIgnored", fact.reason, application_id, group=application_id)


def _item_ignored(fact: f.ItemIgnored) -> Record:
    return _about(SI.UNKNOWN_EVENTRECORD_TYPE, fact.object_id, "ItemIgnored", fact.reason)


def _tag_ignored(fact: q.TagIgnored) -> Record:
    return _about(SI.APP, fact.application_id, "TagIgnored", fact.reason, fact.tag, group=fact.queue)


def _queue_name_unused(fact: q.QueueNameUnused) -> Record:
    return _about(SI.APP, fact.application_id, "QueueNameUnused", fact.reason, group=fact.queue)


def _configuration_rejected(fact: configuration_facts.ConfigurationRejected) -> Record:
    message = f"the new queue file is refused, nothing changed: {'; '.join(fact.reasons)}"
    return _about(SI.QUEUE, "root", "ConfigurationRejected", message)


_GANG_REASONS: Mapping[GangState, str] = {
    GangState.FORMING: "GangForming",
    GangState.GATHERING: "GangGathering",
    GangState.COMPLETE: "GangComplete",
    GangState.SHORT: "GangShort",
    GangState.GIVEN_UP: "GangGivenUp",
}
_GANG_TRIGGERS: Mapping[str, str] = {GangTrigger.REQUEUE: "GangRequeued", GangTrigger.REPAIR: "GangRepaired"}


def _gang_state_changed(fact: g.GangStateChanged) -> Record | None:
    if fact.state is None or fact.old_state is None:
        return None  # its application has an event
    reason = _GANG_TRIGGERS.get(fact.cause) or _GANG_REASONS[fact.state]
    needs = f"the gang needs {many(fact.needed, 'member')}, {fact.members} are allocated"
    return _application(fact, reason, f"{fact.cause}; {needs}")


def _gang_completed(fact: g.GangCompleted) -> Record | None:
    if fact.declared:
        return None  # its state has an event
    return _application(fact, "GangComplete", f"all {fact.placeholders} placeholders are placed")


def _gang_timed_out(fact: g.GangTimedOut) -> Record | None:
    if fact.declared:
        return None
    message = (
        f"the gang timeout has expired: of {fact.wanted} placeholders {fact.placed} were placed, {fact.replaced} of "
        f"them replaced, and {fact.timed_out} timed out"
    )
    return _application(fact, "GangTimedOut", message)


def _gang_gave_way(fact: g.GangGaveWay) -> Record:
    what = f"give back the room of {many(fact.placeholders, 'member')}"
    what = what if fact.declared else f"release its {fact.placeholders} placeholders"
    why = f"so that the earlier gang of application {fact.in_favour_of} can be complete"
    return _application(fact, "GangGaveWay", f"the incomplete gang has to {what}, {why}")


def _gang_below_min(fact: g.GangBelowMin) -> Record:
    end = "its application fails" if fact.fails else "it goes on without them"
    return _application(fact, "GangBelowMin", f"{fact.reason}; {end}")


def _swap_refused(fact: g.SwapRefused) -> Record:
    message = (
        f"{fact.reason}; it continues as an ordinary request, and {fact.placeholders} placeholders of task group "
        f"{fact.task_group} are to be released"
    )
    return _request(fact, "PlaceholderTooSmall", message)


def _reserved(fact: r.Reserved) -> Record:
    return _request(fact, "AppReservedNode", preemption.kept(fact.node_id), fact.resources)


def _reservation_ended(fact: r.ReservationEnded) -> Record:
    return _request(fact, "AppUnreservedNode", preemption.kept_no_longer(fact.node_id, fact.end.value))


def _preempted(fact: p.Preempted) -> Record:
    return _request(fact, "OthersPreempted", preemption.victims(len(fact.victims), fact.node_id, fact.why))


def _room_made(fact: p.RoomMade) -> Record:
    return _request(fact, "RoomMade", f"the last allocation that had to leave node {fact.node_id} for it is gone")


def _preemption_refused(fact: p.PreemptionRefused) -> Record:
    return _request(fact, "PreemptionRefused", fact.reason)


def _quota_preempted(fact: p.QuotaPreempted) -> Record:
    message = f"{fact.why}; {many(fact.victims, 'allocation')} {'is' if fact.victims == 1 else 'are'} preempted"
    return _about(SI.QUEUE, fact.queue, "QuotaPreemption", message)


def _node_recommended(fact: NodeRecommended) -> Record:
    return _about(SI.NODE, fact.node_id, "NodeRecommended", fact.message, resources=fact.schedulable)


def _predicate_answered(fact: PredicateAnswered) -> Record | None:
    if fact.outcome not in (PredicateOutcome.REFUSED, PredicateOutcome.TIMED_OUT):
        return None
    return _request(fact, "PredicatesRefused", f"it may not run on node {fact.node_id}: {fact.reason}")


EXPLANATIONS: Mapping[type, Callable[[Any], Record | None]] = {
    f.NodeRejected: _node_rejected,
    f.ApplicationRejected: _application_rejected,
    f.AskRejected: _ask_rejected,
    f.ReleaseIgnored: _release_ignored,
    f.ItemIgnored: _item_ignored,
    q.TagIgnored: _tag_ignored,
    q.QueueNameUnused: _queue_name_unused,
    configuration_facts.ConfigurationRejected: _configuration_rejected,
    g.GangCompleted: _gang_completed,
    g.GangTimedOut: _gang_timed_out,
    g.GangGaveWay: _gang_gave_way,
    g.GangStateChanged: _gang_state_changed,
    g.GangBelowMin: _gang_below_min,
    g.SwapRefused: _swap_refused,
    r.Reserved: _reserved,
    r.ReservationEnded: _reservation_ended,
    p.Preempted: _preempted,
    p.RoomMade: _room_made,
    p.PreemptionRefused: _preemption_refused,
    p.QuotaPreempted: _quota_preempted,
    NodeRecommended: _node_recommended,
    PredicateAnswered: _predicate_answered,
}
