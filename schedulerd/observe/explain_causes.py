"""The cause for which allocations wait, in the words of `schedulerd.sentences`."""

from __future__ import annotations

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
from schedulerd.sentences import applications, gangs, nodes, preemption, quotas, turns
from schedulerd.sentences.words import amount, duration, sentence


def cause_clause(state: str, cause: Cause, now_ns: int) -> str:
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
            return _no_room(cause)
        case None:
            return nodes.no_room("") if state == "unschedulable" else turns.WAITS


def rule_clause(cause: RuleCause) -> str:
    """The rule with the amounts that show why it blocks."""
    return quotas.rule(
        cause.rule,
        cause.queue,
        cause.resource,
        used=cause.used,
        promised=cause.promised,
        asked=cause.asked,
        most=cause.max,
        account=cause.account,
        is_group=cause.is_group,
    )


def rules_details(first: RuleCause, others: list[RuleCause]) -> list[str]:
    """Whose usage it is, and what would lift the rules: an ask is let in when all of them let it in."""
    found = _rule_details(first, is_only=not others)
    for one in others:
        found.append(f"Also: {rule_clause(one)}.")
        found += _rule_details(one, is_only=False)
    return found


def _rule_details(cause: RuleCause, *, is_only: bool) -> list[str]:
    lift = quotas.lift(
        cause.rule,
        cause.queue,
        cause.resource,
        counted=cause.used + cause.promised,
        asked=cause.asked,
        most=cause.max,
        leaving=cause.leaving,
        has_promised=bool(cause.promised),
        is_only=is_only,
    )
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


def _gang(cause: GangCause, now_ns: int) -> str:
    rule = rule_clause(cause.needs_rule) if cause.needs_rule is not None else ""
    said = gangs.progress(
        cause.placed, cause.wanted, cause.needs, cause.needs_state, rule, is_restricted=cause.is_restricted
    )
    left = "" if cause.deadline_ns is None else duration(cause.deadline_ns - now_ns)
    return gangs.own(said, left) if cause.own else gangs.earlier(cause.application_id, said, left)


def _no_room(cause: NoRoomCause) -> str:
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
