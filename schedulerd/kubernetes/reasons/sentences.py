"""The sentence that people read in `kubectl describe`: kube-scheduler's where nodes refuse the pod, else that of
`schedulerd.sentences`.

0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s).
Queue root.a is at its quota: 4 of 4 cpu used, 1 more asked. Nodes are not the cause.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from schedulerd.kubernetes.reasons.waiting import State, Waiting
from schedulerd.sentences import applications, gangs, preemption, quotas, turns
from schedulerd.sentences.nodes import too_large
from schedulerd.sentences.words import sentence, sentences

UNSCHEDULABLE = "Unschedulable"
"""Reason of the condition: the nodes refuse the pod. Autoscalers add nodes for it, or find that this would not help."""
SKIPPED = "SchedulingSkipped"
"""Everything else that a pod waits for: more nodes would not help."""
FAILED_SCHEDULING = "FailedScheduling"
REJECTED = "ApplicationRejected"
"""Event of pods whose application was rejected."""
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
    too_large: tuple[str, int, int] | None = None
    """A resource of which the pod asks for more than any node has: its name at the daemon, what it asks for, and what
    the largest node has."""


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
    kept = f" {preemption.kept(waiting.node)}." if waiting.node else ""
    if counts.too_large is not None:
        return sentence(too_large(*counts.too_large)) + kept
    found = [f"{count} {reason}" for reason, count in counts.reasons]
    if counts.passed:
        found.append(f"{counts.passed} {KEPT}")
    listed = f": {', '.join(sorted(found))}" if found else ""
    return f"0/{counts.nodes} nodes are available{listed}.{kept}"


def and_gang(waiting: Waiting) -> str:
    """What follows that sentence where the members of its gang get room together."""
    if waiting.gang_state != "gathering" or waiting.state is State.AWAITING_GANG:
        return ""
    return f" {sentence(gangs.of_it(gangs.have_room(waiting.with_room, waiting.needed)))}"


@lru_cache(_TEXTS_MAX)
def skipped(waiting: Waiting, nodes: int, *, has_node: bool = False) -> str:
    """The sentence of a pod that is not refused by nodes. `has_node`: one was found that does not refuse it."""
    if waiting.state is State.HELD:
        return f"0/{nodes} nodes are available: {waiting.text}." if waiting.is_about_nodes else waiting.text
    why = why_skipped(waiting)
    if waiting.rule is not None:
        why = quotas.and_nodes(why, has_node=True if has_node else None)
    return f"{why}." if waiting.state is State.RESERVED else sentence(why)  # it begins with the name of a node


def why_skipped(waiting: Waiting) -> str:
    """What a pod waits for by the word of the daemon."""
    if waiting.rule is not None:
        return quotas.rule(waiting.rule.value, waiting.queue, waiting)
    match waiting.state:
        case State.READY:
            return _ahead(waiting) if waiting.ahead else turns.next_in(waiting.queue)
        case State.UNSCHEDULABLE:
            return f"{turns.ONLY_BEFORE} ({_ahead(waiting)})"
        case State.AWAITING_GANG if waiting.awaited_application:
            return gangs.earlier(waiting.awaited_application)
        case State.AWAITING_GANG if waiting.gang_state == "forming" and waiting.members_asked >= waiting.needed:
            return gangs.of_it(gangs.requeued(""))
        case State.AWAITING_GANG if waiting.gang_state == "forming":
            return gangs.of_it(gangs.forming(waiting.members_asked, waiting.needed))
        case State.AWAITING_GANG if waiting.gang_state == "gathering":
            return gangs.of_it(gangs.have_room(waiting.with_room, waiting.needed))
        case State.AWAITING_GANG:
            return gangs.FULL if waiting.gang_state == "complete" else gangs.NOT_COMPLETE
        case State.AWAITING_PLACEHOLDER:
            return gangs.placeholder()
        case State.APPLICATION_INACTIVE if waiting.awaited_application or waiting.inactive == "Accepted":
            return applications.start_order(waiting.awaited_application, "")
        case State.APPLICATION_INACTIVE:
            return applications.inactive("application", waiting.inactive)
        case State.RESERVED:
            return preemption.kept(waiting.node, victims=waiting.victims)
    return "waiting for the scheduler to look at it"


def _ahead(waiting: Waiting) -> str:
    return turns.pods_ahead(waiting.ahead, waiting.queue)


def rejected(reason: str, label: str) -> tuple[str, str]:
    """Why the application of a pod with this label `queue` was rejected, and what helps if its user can help it."""
    if reason.startswith(applications.NO_QUEUE):
        return "the pod names no queue", applications.set_label(reason)
    if applications.is_missing_queue(reason, label):
        return reason.partition(";")[0], applications.CORRECT_LABEL
    return reason, ""


def for_pod(problem: Waiting | None, label: str) -> Waiting | None:
    """Why the application of a pod with this label `queue` is tried later, in the words of its user."""
    if problem is None or problem.event_reason != REJECTED:
        return problem
    return replace(problem, text=sentences(rejected(problem.text.rstrip("."), label)))
