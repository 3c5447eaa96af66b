"""An explanation as sentences: first what the ask waits for, then everything that helps to understand it.

Of the same moments as the explanation: with wall times, times of day are those of people.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedulerd.amounts import amount, amounts, part_of
from schedulerd.core.explain.causes import (
    Cause,
    GangCause,
    InactiveCause,
    NoRoomCause,
    PlaceholderCause,
    PredicateCause,
    RefusedCause,
    ReservedCause,
    RuleCause,
    StartOrderCause,
    Use,
)
from schedulerd.core.explain.values import (
    ApplicationExplanation,
    AskExplanation,
    FitsFinding,
    Guarantee,
    Lack,
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
from schedulerd.sentences import applications, gangs, nodes, preemption, quotas, turns
from schedulerd.sentences.words import clock_time, duration, sentence

_COUNTS_SAID_MAX = 8
"""Causes of nodes in a sentence."""


def ask_summary(found: AskExplanation) -> list[str]:
    """What the allocations of the ask wait for, a sentence each; a sentence that says so if none waits."""
    if not found.waiting:
        count = found.allocated
        return ["Nothing of it waits: " + (f"it is allocated ({count})." if count > 1 else "it is allocated.")]
    kept = {one.node_id: _reservation(one, found.now_ns) for one in found.reservations}
    counts: dict[str, int] = {}
    for one in found.waiting:
        said = _cause_clause(one.state, one.cause, found.now_ns)
        if isinstance(one.cause, RuleCause):
            said = quotas.and_nodes(said, has_node=None if found.nodes is None else _fits_somewhere(found.nodes))
        elif one.state == "ready" and found.position is not None:
            said = _turn(found.position, found.queue)
        elif isinstance(one.cause, GangCause) and found.nodes is not None:
            said = _gang(one.cause, found.now_ns, _nearest(found.nodes))
        elif one.state == "unschedulable" and found.nodes is not None:
            said = _no_room(found.nodes, found.resources)
        elif isinstance(one.cause, ReservedCause):
            said = kept.setdefault(one.cause.node_id, said)
        counts[said] = counts.get(said, 0) + one.allocations
    names = kept.values()
    return [_counted(count, said, found.pending, is_name=said in names) for said, count in counts.items()]


def ask_details(found: AskExplanation, *, is_listed: bool = False) -> list[str]:
    """Everything else that is known, the most helpful first. `is_listed`: nearest nodes, guarantees and candidates of
    preemption are listed beside it, and are left out here."""
    said = []
    states = {one.state for one in found.waiting}
    for one in found.waiting:
        if isinstance(one.cause, RuleCause):
            said += _rules_details(one.cause, found.also_blocked_by)
    in_summary = {one.cause.node_id for one in found.waiting if isinstance(one.cause, ReservedCause)}
    others = {_reservation(one, found.now_ns): None for one in found.reservations if one.node_id not in in_summary}
    said += [f"{one}." for one in others]
    if found.nodes is not None and states & {"unschedulable", "reserved", "predicate_failed"}:
        of_gang = any(isinstance(one.cause, GangCause) for one in found.waiting)
        if not (of_gang and _fits_somewhere(found.nodes)):  # the node takes one of them, but not all together
            said += _nodes(found.nodes, in_summary="unschedulable" in states and not of_gang, is_listed=is_listed)
    elif found.nodes is not None and not _fits_somewhere(found.nodes):
        said.append(sentence(_no_room(found.nodes, found.resources)))
        said += _nodes(found.nodes, in_summary=True, is_listed=is_listed)
    if found.preemption is not None:
        said += _preemption(found.preemption, found.now_ns, is_listed=is_listed)
    if found.position is not None:
        said += position_sentences(found.position, found.queue, is_said="ready" in states)
    return said


def position_sentences(position: Position, queue: str, *, is_said: bool = False) -> list[str]:
    """What is placed before the ask. `is_said`: its place in its own queue is told already."""
    first = "" if is_said else _turn(position, queue)
    levels = [one for one in reversed(position.queues) if one.rank > 1]
    left_out = sum(one.rank - 1 - len(one.first_ahead) for one in levels)
    before = turns.queues_before([one.first_ahead for one in levels], left_out)
    return [sentence(one) for one in (first, before) if one]


def fits_summary(found: FitsFinding) -> str:
    """Whether the supposed ask would be placed."""
    if found.fits:
        return f"It would be placed now, on node {found.node_id}."
    if found.refusal:
        why = found.refusal
    elif found.rule is not None:
        why = rule_clause(found.rule)
    else:
        why = _no_room(found.nodes, found.resources)
    return f"It would not be placed now: {why}."


def fits_details(found: FitsFinding) -> list[str]:
    """What would let it in."""
    said = _rules_details(found.rule, found.also_blocked_by) if found.rule is not None else []
    if found.refusal and found.rule is not None:
        said.insert(0, f"Also: {rule_clause(found.rule)}.")
    if not found.fits and not _fits_somewhere(found.nodes):
        if found.rule is not None or found.refusal:
            said.append(sentence(_no_room(found.nodes, found.resources)))
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
    if found.gang is not None:
        said.append(sentence(gangs.state(found.gang, _gang_progress(found.gang, found.now_ns))))
    said += [
        sentence(
            gangs.members(
                one.name,
                (one.asked, one.held, one.allocated),
                one.min,
                one.max,
                one.level,
                one.domain,
                required=one.required,
            )
        )
        for one in found.members
    ]
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
        text = f"{part_of(name, one.used, one.max)} used" if one.max is not None else f"{amount(name, one.used)} used"
        text += f", {amount(name, one.reserved)} reserved" if one.reserved else ""
        if one.guaranteed is not None:
            over = " (more than that is used)" if one.used > one.guaranteed else ""
            text += f", {amount(name, one.guaranteed)} guaranteed{over}"
        said.append(f"{text}.")
    return said


def reason_clause(one: Reason, now_ns: int, *, is_sized: bool = True) -> str:
    """What many allocations wait for; `is_sized`: with the size of the example."""
    if isinstance(one.cause, RefusedCause):
        return nodes.refused(())
    match one.state:
        case "reserved":
            return preemption.KEPT
        case "awaiting_predicate":
            return nodes.predicate()
        case "awaiting_placeholder":
            return gangs.placeholder()
    said = _cause_clause(one.state, one.cause, now_ns)
    if isinstance(one.cause, NoRoomCause) and one.cause.why == "insufficient" and is_sized:
        said += f", such as for {amounts(one.resources)}"
    return said


def _cause_clause(state: str, cause: Cause, now_ns: int) -> str:
    """Why allocations in this pending state wait."""
    match cause:
        case RuleCause():
            return rule_clause(cause)
        case GangCause():
            return _gang(cause, now_ns)
        case PlaceholderCause():
            return gangs.placeholder(cause.node_id)
        case PredicateCause():
            return nodes.predicate(cause.node_id, duration(now_ns - cause.since_ns))
        case RefusedCause():
            return nodes.refused((one.reason, one.times, one.last_node_id) for one in cause.objections)
        case InactiveCause():
            return applications.inactive(cause.what, cause.state)
        case StartOrderCause():
            left = "" if cause.until_ns is None else duration(cause.until_ns - now_ns)
            return applications.start_order(cause.application_id, cause.state, left=left)
        case ReservedCause():
            return preemption.kept(cause.node_id)
        case NoRoomCause():
            return _no_room_cause(cause)
        case None:
            return nodes.no_room("") if state == "unschedulable" else turns.WAITS


def rule_clause(cause: RuleCause) -> str:
    """The rule with the amounts that show why it blocks."""
    return quotas.rule(cause.rule, cause.queue, cause)


def _rules_details(first: RuleCause, others: list[RuleCause]) -> list[str]:
    """Whose usage it is, and what would lift the rules: an ask is let in when all of them let it in."""
    found = _rule_details(first, is_only=not others)
    for one in others:
        found.append(f"Also: {rule_clause(one)}.")
        found += _rule_details(one, is_only=False)
    return found


def _rule_details(cause: RuleCause, *, is_only: bool) -> list[str]:
    lift = quotas.lift(cause.rule, cause.queue, cause, cause.leaving, is_only=is_only)
    uses = [f"{'Used by' if cause.resource else 'Running:'} {_uses(cause)}."] if cause.uses else []
    return [*uses, sentence(lift)]


def _uses(cause: RuleCause) -> str:
    named = ", ".join(_use(one, cause.resource) for one in cause.uses)
    return named + (f" and {cause.uses_left_out} more" if cause.uses_left_out else "")


def _use(one: Use, name: str) -> str:
    who = f"queue {one.queue}" if one.queue else f"application {one.application_id}"
    if not name:
        return f"{who} with {one.amount}" if one.queue else who
    return f"{who} ({amount(name, one.amount)})"


def _gang(cause: GangCause, now_ns: int, nearest: str = "") -> str:
    said = _gang_progress(cause, now_ns, nearest)
    left = "" if cause.deadline_ns is None else duration(cause.deadline_ns - now_ns)
    return gangs.own(said, left) if cause.own else gangs.earlier(cause.application_id, said, left)


def _gang_progress(cause: GangCause, now_ns: int, nearest: str = "") -> str:
    rule = rule_clause(cause.needs_rule) if cause.needs_rule is not None else ""
    gathers_in = "" if cause.gathers_ns is None else duration(cause.gathers_ns - now_ns)
    return gangs.progress(cause, rule, gathers_in, nearest)


def _nearest(survey: NodeSurvey) -> str:
    """The node that is nearest to having room, with what it has free of what it lacks; '' if none is near."""
    near = next((one for one in survey.best if one.lacks), None)
    if near is None:
        return ""
    free = ", ".join(amount(one.resource, max(0, one.free)) for one in near.lacks)
    return f"the nearest node, {near.node_id}, has {free} free"


def _no_room_cause(cause: NoRoomCause) -> str:
    match cause.why:
        case "no nodes":
            return nodes.NO_NODES
        case "too large":
            return nodes.too_large(cause.resource, cause.asked, cause.largest)
        case "constraint":
            return nodes.none_suits(nodes.insufficient(cause.insufficient, cause.closed))
        case "required node":
            return nodes.required(cause.node_id)
        case "insufficient":
            counted = nodes.insufficient(cause.insufficient, cause.closed)
            return nodes.no_room(counted or "none has enough of everything")


def _counted(count: int, clause: str, pending: int, *, is_name: bool) -> str:
    """The clause with the number of allocations that it is about, if it is not the only one. `is_name`: it begins with
    the name of a node."""
    if pending == 1:
        return f"{clause}." if is_name else sentence(clause)
    return f"{count:,} of {pending:,}: {clause}." if count < pending else f"All {pending:,}: {clause}."


def _turn(position: Position, queue: str) -> str:
    if position.applications_ahead:
        return _ahead(position, queue)
    return f"{_asks_ahead(position)} in queue {queue}" if position.asks_ahead else turns.next_in(queue)


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
    said = [nodes.node(one.cause, one.detail, one.nodes) for one in survey.counts]
    rest = sum(one.nodes for one in survey.counts[_COUNTS_SAID_MAX:])
    return nodes.considered(survey.considered, said[:_COUNTS_SAID_MAX], rest)


def _no_room(survey: NodeSurvey, asked: dict[str, int]) -> str:
    for name, most in survey.too_large.items():
        return nodes.too_large(name, asked[name], most)
    return nodes.no_room(_counts(survey))


def _fits_somewhere(survey: NodeSurvey) -> bool:
    return any(one.cause == "room" for one in survey.counts)


def _nodes(survey: NodeSurvey, *, in_summary: bool, is_listed: bool = False) -> list[str]:
    said = [] if in_summary and not survey.too_large else [f"Nodes: {_counts(survey)}."]
    if survey.considered and not survey.large_enough and survey.largest and not survey.too_large:
        said.append(sentence(nodes.largest(survey.largest)))
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
    return f"{amount(one.resource, one.missing)} ({amount(one.resource, max(0, one.free))} free)"


def _reservation(one: ReservationFinding, now_ns: int) -> str:
    victims = len(one.victims) + one.victims_left_out
    said = preemption.kept(one.node_id, clock_time(one.since_ns), victims=victims)
    match one.expected:
        case "now":
            said += ": the room is free"
        case "releases":
            said += ": the room is there when what is being released has ended"
        case "timeouts" if one.expected_ns is not None:
            left = duration(one.expected_ns - now_ns)
            said += f": by execution timeouts the room is there in {left} at the latest"
        case _:
            said += f": {preemption.still_lacks({each.resource: each.missing for each in one.lacks})}"
    if one.expires_ns is not None:
        said += f". That ends in {duration(one.expires_ns - now_ns)}"
    return said


def _preemption(found: PreemptionFinding, now_ns: int, *, is_listed: bool) -> list[str]:
    left = "" if found.next_attempt_ns is None else duration(found.next_attempt_ns - now_ns)
    again = ""
    match found.state:
        case "off":
            why = preemption.OFF
        case "not_allowed":
            why = preemption.NOT_ALLOWED
        case "no_guarantee":
            return [sentence(preemption.none(found.reason))]
        case "too_young":
            why = preemption.too_young(left)
        case "refused":
            why = found.reason
            again = "" if not left else f" Next attempt: {_in(found.next_attempt_ns, now_ns)}."
        case "due":
            said = "Whether others are preempted for it is decided next."
            return [f"{said} {_rights(found, is_listed=is_listed)}".rstrip()]
        case "victims" | "not_needed":
            return []
    return [f"{sentence(preemption.none(why))}{again} {_rights(found, is_listed=is_listed)}".rstrip()]


def _rights(found: PreemptionFinding, *, is_listed: bool) -> str:
    """What its queues are guaranteed, and what could be preempted for it."""
    if not found.guarantees and found.may_take_from:
        return f"By its priority it may take from: {', '.join(found.may_take_from)}."
    if not found.guarantees:
        return ""
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
    return f"{amount(one.resource, one.guaranteed)} to {one.queue}, which uses {amount(one.resource, one.used)}"


def _candidate(one: PreemptionCandidate) -> str:
    return f"application {one.application_id} in queue {one.queue} ({amounts(one.used)})"


def _in(at_ns: int | None, now_ns: int) -> str:
    left_ns = (at_ns or now_ns) - now_ns
    return f"in {duration(left_ns)}" if left_ns > 0 else "as soon as something changes"
