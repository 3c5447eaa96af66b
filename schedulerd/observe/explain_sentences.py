"""An explanation as sentences: first what the ask waits for, then everything that helps to understand it."""

from __future__ import annotations

from collections.abc import Sequence

from schedulerd.amounts import amount_text
from schedulerd.core.explain.causes import NoRoomCause, RefusedCause, RuleCause
from schedulerd.core.explain.values import (
    ApplicationExplanation,
    AskExplanation,
    FitsFinding,
    Guarantee,
    Lack,
    NodeCount,
    NodeFit,
    NodeSurvey,
    Position,
    PreemptionCandidate,
    PreemptionFinding,
    QueueExplanation,
    Reason,
    ReservationFinding,
)
from schedulerd.core.language.checks import some
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.rejected_application import RejectedApplication
from schedulerd.core.views.values import UnclaimedView
from schedulerd.observe.explain_causes import amounts, cause_sentence, duration, rule_sentence, rules_details

_COUNTS_SAID_MAX = 8
"""Causes of nodes in a sentence."""


def ask_summary(found: AskExplanation) -> list[str]:
    """What the allocations of the ask wait for, a sentence each; a sentence that says so if none waits."""
    if not found.waiting:
        count = found.allocated
        return ["Nothing of it waits: " + (f"it is allocated ({count})." if count > 1 else "it is allocated.")]
    counts: dict[str, int] = {}
    for one in found.waiting:
        sentence = cause_sentence(one.state, one.cause, found.now_ns)
        if one.state == "ready" and found.position is not None:
            sentence = _turn(found.position, found.queue)
        elif one.state == "unschedulable" and found.nodes is not None:
            sentence = f"waits for a node with room: {_counts(found.nodes)}"
        counts[sentence] = counts.get(sentence, 0) + one.allocations
    return [_counted(count, sentence, found.pending) for sentence, count in counts.items()]


def ask_details(found: AskExplanation, *, is_listed: bool = False) -> list[str]:
    """Everything else that is known, the most helpful first. `is_listed`: nearest nodes, guarantees and candidates of
    preemption are listed beside it, and are left out here."""
    said = []
    states = {one.state for one in found.waiting}
    for one in found.waiting:
        if isinstance(one.cause, RuleCause):
            said += rules_details(one.cause, found.also_blocked_by)
    said += _reservations(found.reservations, found.now_ns)
    if found.nodes is not None and states & {"unschedulable", "reserved", "predicate_failed"}:
        said += _nodes(found.nodes, in_summary="unschedulable" in states, is_listed=is_listed)
    elif found.nodes is not None and not _fits_somewhere(found.nodes):
        said.append(f"No node has room for it now either: {_counts(found.nodes)}.")
        said += _nodes(found.nodes, in_summary=True, is_listed=is_listed)
    if found.preemption is not None:
        said += _preemption(found.preemption, found.now_ns, is_listed=is_listed)
    if found.position is not None:
        said.append(position_sentence(found.position, found.queue, is_said="ready" in states))
    return said


def position_sentence(position: Position, queue: str, *, is_said: bool = False) -> str:
    """What is placed before the ask. `is_said`: its place in its own queue is told already."""
    if is_said:
        first = ""
    elif position.applications_ahead:
        first = _ahead(position, queue)
    elif position.asks_ahead:
        first = f"{_asks_ahead(position)} in queue {queue}"
    else:
        first = f"it is first in queue {queue}"
    ranked = [f"queue {one.queue} is {one.rank:,} of {one.of:,}" for one in position.queues if one.of > 1]
    then = f"{', '.join(ranked)} among siblings with pending asks" if ranked else "no other queue has pending asks"
    text = "; ".join(filter(None, (first, then)))
    return f"{text[:1].upper()}{text[1:]}."


def fits_summary(found: FitsFinding) -> str:
    """Whether the supposed ask would be placed."""
    if found.fits:
        return f"It would be placed now, on node {found.node_id}."
    if found.refusal:
        return f"It would not be placed now: {found.refusal}."
    if found.rule is not None:
        return f"It would not be placed now: it would wait for {rule_sentence(found.rule)}."
    return f"It would not be placed now: no node has room: {_counts(found.nodes)}."


def fits_details(found: FitsFinding) -> list[str]:
    """What would let it in."""
    said = rules_details(found.rule, found.also_blocked_by) if found.rule is not None else []
    if found.refusal and found.rule is not None:
        said.insert(0, f"It would wait for {rule_sentence(found.rule)} too.")
    if not found.fits and not _fits_somewhere(found.nodes):
        if found.rule is not None:
            said.append(f"No node has room for it now either: {_counts(found.nodes)}.")
        said += _nodes(found.nodes, in_summary=True)
    return said


def application_summary(found: ApplicationExplanation) -> list[str]:
    """State and progress of the application."""
    since = duration(found.now_ns - found.state_since_ns)
    who = f"Application {found.application_id} in queue {found.queue}"
    waiting = pending_count(found)
    said = [
        f"{who} is {found.state} for {since}: {found.allocations:,} allocated, {waiting} pending.",
        *_unexplained(found),
    ]
    for one in found.task_groups:
        said.append(
            f"Task group {one.name}: {one.placed:,} of {one.wanted:,} placeholders placed, {one.replaced:,} replaced."
        )
    if found.gang_deadline_ns is not None:
        said.append(f"Its gang is given up in {duration(found.gang_deadline_ns - found.now_ns)} if it is not complete.")
    if found.execution_deadline_ns is not None:
        said.append(f"It reaches its execution timeout in {duration(found.execution_deadline_ns - found.now_ns)}.")
    return said


def pending_count(found: ApplicationExplanation | QueueExplanation) -> str:
    """How many allocations wait: `1,200`, or `at least 1,200` if there was more than is looked at."""
    return f"{'at least ' if found.at_least else ''}{found.pending:,}"


def _unexplained(found: ApplicationExplanation | QueueExplanation) -> list[str]:
    """That the reasons are not those of all that waits, if so."""
    if not found.unexplained:
        return []
    told = found.pending - found.unexplained
    return [f"The reasons are those of {told:,} of them: they wait for too many different things to look at all."]


def unclaimed(found: Sequence[UnclaimedView]) -> list[str]:
    """That allocations of an application are unclaimed, and why the first one is; nothing if there are none."""
    if not found:
        return []
    nodes = list(dict.fromkeys(one.node_id for one in found))
    what = "allocation counts" if len(found) == 1 else "allocations count"
    where = f"node{'s' if len(nodes) > 1 else ''} {some(nodes)}"
    return [f"{len(found):,} unclaimed {what} on {where} and in no queue: {found[0].reason}."]


def ended_application(found: Application | RejectedApplication, now_ns: int) -> str:
    """How an application has ended that is remembered."""
    if isinstance(found, RejectedApplication):
        since = duration(now_ns - found.submitted_at_ns)
        return f"Application {found.application_id} was rejected ({since} ago): {found.reason}."
    at_ns, state, cause = found.state_log[-1] if found.state_log else (now_ns, found.state, "")
    return (
        f"Application {found.application_id} has ended in queue {found.queue.written}: it is {state} since "
        f"{duration(now_ns - at_ns)}{f' ({cause})' if cause else ''}."
    )


def queue_summary(found: QueueExplanation) -> list[str]:
    """Use of the queue, a sentence for each resource with a quota or a guarantee."""
    state = ", and takes nothing new (draining)" if found.draining else ""
    if found.stopped_by:
        state += f"; an operator stopped {found.stopped_by}, so it takes no new applications"
    count = found.running_applications
    most = f" of at most {found.max_applications:,}" if found.max_applications else ""
    what = "application" if count == 1 and not most else "applications"
    said = [
        f"Queue {found.queue} runs {count:,}{most} {what}; {pending_count(found)} pending{state}.",
        *_unexplained(found),
    ]
    for one in found.resources:
        if one.max is None and one.guaranteed is None:
            continue
        name = one.resource
        text = f"{name}: {amount_text(name, one.used)} used"
        text += f" + {amount_text(name, one.reserved)} reserved" if one.reserved else ""
        text += f" of max {amount_text(name, one.max)}" if one.max is not None else ""
        if one.guaranteed is not None:
            over = " (more than that is used)" if one.used > one.guaranteed else ""
            text += f", {amount_text(name, one.guaranteed)} guaranteed{over}"
        said.append(f"{text}.")
    return said


def reason_sentence(one: Reason, now_ns: int, *, is_sized: bool = True) -> str:
    """What many allocations wait for, without a full stop; `is_sized`: with the size of the example."""
    sentence = cause_sentence(one.state, one.cause, now_ns)
    if isinstance(one.cause, NoRoomCause) and one.cause.why == "insufficient" and is_sized:
        sentence += f", such as for {amounts(one.resources)}"
    if isinstance(one.cause, RefusedCause):
        sentence = "waits for a node that its resource manager does not refuse"
    elif one.state == "reserved":
        sentence = "waits for the room that is reserved for it"
    elif one.state == "awaiting_predicate":
        sentence = "waits for the answer of its resource manager about a node"
    elif one.state == "awaiting_placeholder":
        sentence = "waits for a placeholder to be released, whose room it gets"
    return sentence


def _counted(count: int, sentence: str, pending: int) -> str:
    """The sentence with the number of allocations that it is about, if it is not the only one."""
    if pending == 1:
        return f"{sentence[0].upper()}{sentence[1:]}."
    return f"{count:,} of {pending:,}: {sentence}." if count < pending else f"All {pending:,}: {sentence}."


def _turn(position: Position, queue: str) -> str:
    if not position.applications_ahead and not position.asks_ahead:
        return f"waits for its turn: it is next in queue {queue}"
    if not position.applications_ahead:
        return f"waits for its turn: {_asks_ahead(position)}"
    return f"waits for its turn: {_ahead(position, queue)}"


def _asks_ahead(position: Position) -> str:
    comes = "comes" if position.asks_ahead == 1 and not position.at_least else "come"
    return f"{_many(position.asks_ahead, 'ask', position)} of its application {comes} before it"


def _ahead(position: Position, queue: str) -> str:
    count = position.applications_ahead
    named = ", ".join(position.first_ahead)
    more = f" and {count - len(position.first_ahead):,} more" if count > len(position.first_ahead) else ""
    verb = "is" if count == 1 and not position.at_least else "are"
    return f"{_many(count, 'application', position)} {verb} ahead of it in queue {queue}: {named}{more}"


def _many(count: int, what: str, position: Position) -> str:
    number = f"at least {count:,}" if position.at_least else f"{count:,}"
    return f"{number} {what}" + ("" if count == 1 and not position.at_least else "s")


def _counts(survey: NodeSurvey) -> str:
    if not survey.considered:
        return "there are no nodes"
    said = [node_count(one) for one in survey.counts[:_COUNTS_SAID_MAX]]
    rest = sum(one.nodes for one in survey.counts[_COUNTS_SAID_MAX:])
    more = f", {rest:,} for other reasons" if rest else ""
    count = survey.considered
    return f"{count:,} {'node is' if count == 1 else 'nodes are'} considered, {', '.join(said)}{more}"


def node_count(one: NodeCount) -> str:
    """`3 have too little memory`."""
    count = one.nodes
    verb, have = ("is", "has") if count == 1 else ("are", "have")
    match one.cause:
        case "room":
            return f"{count:,} {have} room now"
        case "insufficient":
            return f"{count:,} {have} too little {one.detail}"
        case "too_small":
            return f"{count:,} would have too little {one.detail} even if {'it' if count == 1 else 'they'} were empty"
        case "reserved":
            return f"{count:,} {have} room only for others, for which it is reserved"
        case "state":
            return f"{count:,} {verb} {one.detail}"
        case "constraint":
            return f"{count:,} {verb} ruled out by its placement constraint" + (
                f" ({one.detail})" if one.detail else ""
            )
        case "not_required":
            return f"{count:,} {verb} not the required node"
        case "refused":
            return f"{count:,} {verb} refused by its resource manager"
        case "unregistered":
            return f"and the required node {one.detail} is not registered"


def _fits_somewhere(survey: NodeSurvey) -> bool:
    return any(one.cause == "room" for one in survey.counts)


def _nodes(survey: NodeSurvey, *, in_summary: bool, is_listed: bool = False) -> list[str]:
    said = [] if in_summary else [f"Nodes: {_counts(survey)}."]
    if survey.considered and not survey.large_enough and survey.largest:
        said.append(f"No node is large enough, even if it were empty: the largest have {amounts(survey.largest)}.")
    near = [one for one in survey.best if one.lacks]
    if near and not is_listed:
        said.append(f"Nearest: {'; '.join(map(_near, near))}.")
    return said


def _near(one: NodeFit) -> str:
    lacks = ", ".join(map(_lack, one.lacks))
    leaving = f", {amounts(one.leaving)} being released there" if one.leaving else ""
    reserved = ", as room is reserved for others" if one.cause == "reserved" else ""
    return f"node {one.node_id} lacks {lacks}{reserved}{leaving}"


def _lack(one: Lack) -> str:
    free = amount_text(one.resource, max(0, one.free))
    return f"{one.resource} {amount_text(one.resource, one.missing)} ({free} free)"


def _reservations(found: Sequence[ReservationFinding], now_ns: int) -> list[str]:
    """A sentence about each, or about all of which the same is to be said."""
    alike: dict[str, list[ReservationFinding]] = {}
    for one in found:
        alike.setdefault(_reservation(one, 1, now_ns), []).append(one)
    return [_reservation(same[0], len(same), now_ns) for same in alike.values()]


def _reservation(one: ReservationFinding, allocations: int, now_ns: int) -> str:
    count = len(one.victims) + one.victims_left_out
    what = "Room is reserved for it" if allocations == 1 else f"Room is reserved for {allocations} of its allocations"
    said = f"{what} on node {one.node_id} since {duration(now_ns - one.since_ns)}"
    if count:
        said += f", where {count} preempted {'allocation has' if count == 1 else 'allocations have'} to end first"
        said += " for each" if allocations > 1 else ""
    match one.expected:
        case "now":
            said += "; the room is free"
        case "releases":
            said += "; it is there when what is being released has ended"
        case "timeouts" if one.expected_ns is not None:
            said += f"; by execution timeouts it is there in {duration(one.expected_ns - now_ns)} at the latest"
        case _:
            said += f"; it still lacks {', '.join(map(_lack, one.lacks))}, and when that ends is not known"
    if one.expires_ns is not None:
        said += f". The reservation ends in {duration(one.expires_ns - now_ns)}"
    return f"{said}."


def _preemption(found: PreemptionFinding, now_ns: int, *, is_listed: bool) -> list[str]:
    again = "" if found.next_attempt_ns is None else f" Next attempt: {_in(found.next_attempt_ns - now_ns)}."
    match found.state:
        case "off":
            said = "Nothing is preempted for it: preemption is off in this partition."
        case "not_allowed":
            said = "Nothing is preempted for it: this ask may not preempt others (allowPreemptOther is false)."
        case "too_young":
            said = f"Nothing is preempted for it yet: it is too young.{again}"
        case "refused":
            said = f"Nothing is preempted for it: {found.reason}.{again}"
        case "due":
            said = "Whether others are preempted for it is decided next."
        case "victims" | "not_needed":
            return []
    return [f"{said} {_rights(found, is_listed=is_listed)}"]


def _rights(found: PreemptionFinding, *, is_listed: bool) -> str:
    """What its queues are guaranteed, and what could be preempted for it."""
    if not found.guarantees and found.may_take_from:
        return f"By its priority it may take from: {', '.join(found.may_take_from)}."
    if not found.guarantees:
        return "None of its queues has a guarantee, with which it could take from others."
    said = f"Guaranteed: {', '.join(map(_guarantee, found.guarantees))}."
    if is_listed and found.may_take_from:
        return f"By its guarantees it may take from: {', '.join(found.may_take_from)}."
    if found.candidates:
        return f"{said} May be preempted for it: {'; '.join(map(_candidate, found.candidates))}."
    if found.may_take_from:
        return f"{said} It may take from: {', '.join(found.may_take_from)}."
    is_within = all(one.used + one.asked <= one.guaranteed for one in found.guarantees)
    why = "no other queue uses more than its guarantee" if is_within else "with it, its queue uses more than that"
    return f"{said} It may take from no queue: {why}."


def _guarantee(one: Guarantee) -> str:
    used, least = (amount_text(one.resource, amount) for amount in (one.used, one.guaranteed))
    return f"{one.resource} {least} to {one.queue}, which uses {used}"


def _candidate(one: PreemptionCandidate) -> str:
    return f"application {one.application_id} in queue {one.queue} ({amounts(one.used)})"


def _in(ns: int) -> str:
    return f"in {duration(ns)}" if ns > 0 else "as soon as something changes"
