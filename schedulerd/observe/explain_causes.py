"""Sentences about what allocations wait for, for users of a cluster who do not know the scheduler.

A sentence names the thing, the numbers, and what would change it. It begins with "waits", so that a count of
allocations can stand before it.
"""

from __future__ import annotations

from schedulerd.amounts import amount_text
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

SECOND_NS = 1_000_000_000

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def duration(ns: int) -> str:
    """A duration in one or two units: `40 s`, `3 min`, `2 h 5 min`, `4 d`."""
    seconds = max(0, round(ns / SECOND_NS))
    if seconds < 2 * _MINUTE:
        return f"{seconds} s"
    if seconds < _HOUR:
        return f"{round(seconds / _MINUTE)} min"
    if seconds < _DAY:
        hours, rest = divmod(seconds, _HOUR)
        return f"{hours} h {rest // _MINUTE} min" if rest >= _MINUTE else f"{hours} h"
    return f"{seconds // _DAY} d"


def amounts(resources: dict[str, int]) -> str:
    """`memory 1Gi, vcore 500m`."""
    return ", ".join(f"{name} {amount_text(name, amount)}" for name, amount in resources.items())


def cause_sentence(state: str, cause: Cause, now_ns: int) -> str:
    """What allocations in this pending state wait for, without a full stop."""
    match cause:
        case RuleCause():
            return f"waits for {rule_sentence(cause)}"
        case GangCause():
            return _gang(cause, now_ns)
        case PlaceholderCause():
            return f"waits for a placeholder on node {cause.node_id} to be released, and gets its room"
        case PredicateCause():
            since = duration(now_ns - cause.since_ns)
            return f"waits for the answer of its resource manager about node {cause.node_id}, asked {since} ago"
        case RefusedCause():
            return f"waits for another node: its resource manager refuses every node that has room{_objections(cause)}"
        case InactiveCause():
            return _inactive(cause)
        case StartOrderCause():
            return _start_order(cause, now_ns)
        case ReservedCause():
            return f"waits for the room that is reserved for it on node {cause.node_id}"
        case NoRoomCause():
            return _no_room(cause)
        case None:
            return "waits for a node with room: none has" if state == "unschedulable" else "waits for its turn"


def rule_sentence(cause: RuleCause) -> str:
    """The rule with the numbers that show why it blocks."""
    name = cause.resource
    used, asked, most = (amount_text(name, amount) for amount in (cause.used, cause.asked, cause.max))
    match cause.rule:
        case "quota":
            reserved = f" + {amount_text(name, cause.promised)} reserved for others" if cause.promised else ""
            return f"the quota of queue {cause.queue}: {name} {used} used{reserved} + {asked} asked, of max {most}"
        case "gang quota":
            return f"the quota of queue {cause.queue}: {_whole_gang(cause)}, of max {most}"
        case "max applications":
            return f"queue {cause.queue} to run fewer applications: {used} of at most {most} run"
        case "limit":
            return f"{_account(cause)}: {name} {used} used + {asked} asked, of at most {most}"
        case "gang limit":
            return f"{_account(cause)}: {_whole_gang(cause)}, of at most {most}"
        case "limit max applications":
            return f"{_account(cause)}: {used} of at most {most} applications run"


def _whole_gang(cause: RuleCause) -> str:
    """What is used, promised to gangs that have started, and asked for by the whole gang."""
    name = cause.resource
    used, promised, asked = (amount_text(name, amount) for amount in (cause.used, cause.promised, cause.asked))
    return (
        f"{name} {used} used{f' + {promised} promised to gangs' if cause.promised else ''} + {asked} for the whole gang"
    )


def rules_details(first: RuleCause, others: list[RuleCause]) -> list[str]:
    """Whose usage it is, and what would lift the rules: an ask is let in when all of them let it in."""
    found = _rule_details(first, is_only=not others)
    for one in others:
        found.append(f"It also waits for {rule_sentence(one)}.")
        found += _rule_details(one, is_only=False)
    return found


def _rule_details(cause: RuleCause, *, is_only: bool) -> list[str]:
    uses = [f"{'Used by' if cause.resource else 'Running:'} {_uses(cause)}."] if cause.uses else []
    return [*uses, _lift(cause, is_only=is_only)]


def _lift(cause: RuleCause, *, is_only: bool) -> str:
    name, whose = cause.resource, _whose(cause)
    if not name:
        begin = "It starts when one of them completes" if is_only else "That ends when one of them completes"
        return f"{begin}, or when {whose} is raised to {cause.used + 1}."
    raised = amount_text(name, cause.used + cause.promised + cause.asked)
    if not cause.fits_alone:
        least = amount_text(name, cause.asked)
        return f"It can never start like this: {least} is more than {whose} allows in all. Ask for less, or raise it."
    missing = amount_text(name, cause.missing)
    leaving = f" ({amount_text(name, cause.leaving)} is being released now)" if cause.leaving else ""
    begin = "It goes on" if is_only else "That ends"
    kept = " or no longer promised" if cause.promised and cause.rule in ("gang quota", "gang limit") else ""
    return f"{begin} when {name} {missing} is released{leaving}{kept}, or when {whose} is raised to {raised}."


def _whose(cause: RuleCause) -> str:
    match cause.rule:
        case "quota" | "gang quota":
            return f"the max of {cause.queue}"
        case "max applications":
            return f"maxapplications of {cause.queue}"
        case "limit" | "gang limit" | "limit max applications":
            return "this limit"


def _account(cause: RuleCause) -> str:
    return f"the limit of {'group' if cause.is_group else 'user'} {cause.account!r} in queue {cause.queue}"


def _uses(cause: RuleCause) -> str:
    named = ", ".join(_use(one, cause.resource) for one in cause.uses)
    return named + (f" and {cause.uses_left_out} more" if cause.uses_left_out else "")


def _use(one: Use, name: str) -> str:
    who = f"queue {one.queue}" if one.queue else f"application {one.application_id}"
    if not name:
        return f"{who} with {one.amount}" if one.queue else who
    return f"{who} ({amount_text(name, one.amount)})"


def _gang(cause: GangCause, now_ns: int) -> str:
    until = "" if cause.deadline_ns is None else f"; the gang is given up in {duration(cause.deadline_ns - now_ns)}"
    progress = f"{cause.placed:,} of {cause.wanted:,} are placed{until}"
    if cause.own:
        return f"waits for the placeholders of its gang: {progress}"
    return (
        f"waits for the gang of application {cause.application_id}, which came earlier and is placed first: {progress}"
    )


def _no_room(cause: NoRoomCause) -> str:
    match cause.why:
        case "no nodes":
            return "waits, as there are no nodes"
        case "too large":
            asked, most = (amount_text(cause.resource, amount) for amount in (cause.asked, cause.largest))
            return f"waits, as it is too large for every node: {cause.resource} {asked} asked, the largest has {most}"
        case "constraint":
            lacking = _lacking(cause)
            both = "waits, as no node both has room and is allowed by its placement constraint"
            return f"{both}: {lacking}" if lacking else both
        case "required node":
            return f"waits for room on the node that it requires, {cause.node_id}"
        case "insufficient":
            return f"waits, as no node has room: {_lacking(cause) or 'none has enough of everything'}"


def _lacking(cause: NoRoomCause) -> str:
    """How many nodes lack each resource, or take nothing; '' if none does."""
    said = [f"{count:,} Insufficient {name}" for name, count in cause.insufficient.items()]
    return ", ".join([*said, *([f"{cause.closed:,} draining or not ready"] if cause.closed else [])])


def _objections(cause: RefusedCause) -> str:
    said = [
        f"{one.reason} (node {one.last_node_id})"
        if one.times == 1
        else f"{one.reason} ({one.times} times, last node {one.last_node_id})"
        for one in cause.objections
    ]
    return f": {'; '.join(said)}" if said else ""


def _start_order(cause: StartOrderCause, now_ns: int) -> str:
    first = cause.application_id
    left = "" if cause.until_ns is None else duration(max(0, cause.until_ns - now_ns))
    if cause.state == "Starting":
        until = left and f", in {left} at the latest"
        return f"waits, as its queue starts one application at a time: the next one may start when {first} runs{until}"
    until = left and f"; {first} is blocked, and the next one may start in {left}"
    return f"waits, as its queue starts one application at a time: application {first} has to start first{until}"


def _inactive(cause: InactiveCause) -> str:
    match cause.what:
        case "application":
            return f"waits for its application, which is {cause.state}: nothing is placed in that state"
        case "resource manager":
            return f"waits for its resource manager, which is {cause.state}: nothing is placed for it"
