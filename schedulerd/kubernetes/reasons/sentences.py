"""The sentence that people read in `kubectl describe`: kube-scheduler's, with what this scheduler adds in its place.

0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s).
0/5 nodes are available: quota of queue root.a: cpu 3500m used + 1 asked is more than max 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from schedulerd.kubernetes.reasons.amounts import amount_text, resource_name
from schedulerd.kubernetes.reasons.waiting import Rule, State, Waiting

UNSCHEDULABLE = "Unschedulable"
"""Reason of the condition: the nodes refuse the pod. Autoscalers add nodes for it, or find that this would not help."""
SKIPPED = "SchedulingSkipped"
"""Everything else that a pod waits for: more nodes would not help."""
FAILED_SCHEDULING = "FailedScheduling"
NO_NODES = "no nodes available to schedule pods"
KEPT = "node(s) had room only for other pods"
"""Of nodes that no predicate refuses: the daemon has reserved their room, or has just given it away."""

_TEXTS_MAX = 4_096
"""Pods of one class say the same, and share the text."""


class Counts(NamedTuple):
    """What the nodes say of a pod."""

    nodes: int
    reasons: tuple[tuple[str, int], ...]
    """With how many nodes give the reason; a node may give several."""
    passed: int
    """Nodes that no predicate refuses."""


def condition_reason(waiting: Waiting) -> str:
    match waiting.state:
        case State.UNSCHEDULABLE if not waiting.is_skipped:
            return UNSCHEDULABLE
        case State.PREDICATE_FAILED:
            return UNSCHEDULABLE
        case State.RESERVED if not waiting.victims:
            return UNSCHEDULABLE
    return SKIPPED


def event_reason(waiting: Waiting) -> str:
    if waiting.event_reason:
        return waiting.event_reason
    return FAILED_SCHEDULING if condition_reason(waiting) == UNSCHEDULABLE else SKIPPED


@lru_cache(_TEXTS_MAX)
def refused(waiting: Waiting, counts: Counts) -> str:
    """The sentence of a pod that is Unschedulable."""
    if not counts.nodes:
        return NO_NODES
    found = [f"{count} {reason}" for reason, count in counts.reasons]
    if counts.passed:
        found.append(f"{counts.passed} {KEPT}")
    listed = f": {', '.join(sorted(found))}" if found else ""
    kept = f" Room is reserved for the pod on node {waiting.node}." if waiting.node else ""
    return f"0/{counts.nodes} nodes are available{listed}.{kept}"


def for_member(waiting: Waiting) -> str:
    """What follows that sentence where it is not about the pod itself."""
    return f" Its gang waits for room for {waiting.member}." if waiting.member else ""


@lru_cache(_TEXTS_MAX)
def skipped(waiting: Waiting, nodes: int) -> str:
    """The sentence of a pod that is not refused by nodes."""
    why = why_skipped(waiting)
    return f"0/{nodes} nodes are available: {why}." if waiting.is_about_nodes else why


def why_skipped(waiting: Waiting) -> str:
    if waiting.rule is not None:
        return _RULES[waiting.rule](waiting)
    match waiting.state:
        case State.HELD:
            return waiting.text
        case State.READY:
            return f"{_ahead(waiting)} in queue {waiting.queue}" if waiting.ahead else f"next in queue {waiting.queue}"
        case State.UNSCHEDULABLE:
            return f"quotas and limits have room only for pods before it, which fit on no node ({_ahead(waiting)})"
        case State.AWAITING_GANG if waiting.awaited_application:
            return f"the gang of application {waiting.awaited_application} came earlier and is placed first"
        case State.AWAITING_GANG:
            return "waiting for the placeholders of its gang to be placed"
        case State.AWAITING_PLACEHOLDER:
            return "waiting for a placeholder to end, whose room it gets"
        case State.APPLICATION_INACTIVE if waiting.awaited_application:
            first = waiting.awaited_application
            return (
                f"application {first} has to start first, as queue {waiting.queue} starts one application at a time:"
                f" the next one may start when {first} runs or has been blocked for stateaware.timeout"
            )
        case State.APPLICATION_INACTIVE if waiting.inactive == "Accepted":
            return f"another application of queue {waiting.queue} has to start first"
        case State.APPLICATION_INACTIVE:
            return f"its application is {waiting.inactive}, and pods are not placed in that state"
        case State.RESERVED:
            who = "1 preempted pod has" if waiting.victims == 1 else f"{waiting.victims} preempted pods have"
            return f"room is reserved on node {waiting.node}, where {who} to end first"
    return "waiting for the scheduler to look at it"


def _ahead(waiting: Waiting) -> str:
    return "1 pod is ahead of it" if waiting.ahead == 1 else f"{waiting.ahead} pods are ahead of it"


def _quota(one: Waiting) -> str:
    others = f" + {_amount(one, one.promised)} reserved for others" if one.promised else ""
    used, asked, most = _amounts(one)
    return f"quota of queue {one.queue}: {_name(one)} {used} used{others} + {asked} asked is more than max {most}"


def _gang_quota(one: Waiting) -> str:
    return f"quota of queue {one.queue}: {_whole_gang(one)} is more than max {_amount(one, one.max)}"


def _max_applications(one: Waiting) -> str:
    return f"queue {one.queue} runs {one.used} applications, its maxapplications is {one.max}"


def _limit(one: Waiting) -> str:
    used, asked, most = _amounts(one)
    return f"{_of_account(one)}: {_name(one)} {used} used + {asked} asked is more than maxresources {most}"


def _gang_limit(one: Waiting) -> str:
    return f"{_of_account(one)}: {_whole_gang(one)} is more than maxresources {_amount(one, one.max)}"


def _whole_gang(one: Waiting) -> str:
    used, promised, asked = (_amount(one, amount) for amount in (one.used, one.promised, one.asked))
    return f"{_name(one)} {used} used + {promised} promised to gangs + {asked} for the whole gang"


def _limit_max_applications(one: Waiting) -> str:
    return f"{_of_account(one)}: {one.used} applications run, maxapplications is {one.max}"


def _of_account(one: Waiting) -> str:
    return f"limit of {'group' if one.is_group else 'user'} {one.account!r} in {one.queue}"


def _name(one: Waiting) -> str:
    return resource_name(one.resource)


def _amount(one: Waiting, amount: int) -> str:
    return amount_text(one.resource, amount)


def _amounts(one: Waiting) -> tuple[str, str, str]:
    return _amount(one, one.used), _amount(one, one.asked), _amount(one, one.max)


_RULES: Mapping[Rule, Callable[[Waiting], str]] = {
    Rule.QUOTA: _quota,
    Rule.GANG_QUOTA: _gang_quota,
    Rule.MAX_APPLICATIONS: _max_applications,
    Rule.LIMIT: _limit,
    Rule.GANG_LIMIT: _gang_limit,
    Rule.LIMIT_MAX_APPLICATIONS: _limit_max_applications,
}
