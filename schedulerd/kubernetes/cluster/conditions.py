"""Why pods wait, as their condition PodScheduled and as events: written when it changes, at a bounded rate.

| pod | condition PodScheduled=False | event |
|---|---|---|
| refused by nodes or predicates | `Unschedulable` | `FailedScheduling` |
| waits for anything else | `SchedulingSkipped` | `SchedulingSkipped`, or one that says more |
| of a DaemonSet | none | as above |
| with scheduling gates | that of the API server | none |

Whoever finds out that a pod waits says so with `waits`. The words are made when it is the pod's turn to be written, so
they are always the newest. An event is repeated after half an hour, as the API server forgets events after an hour.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from schedulerd.kubernetes.cluster.effects import PatchPodCondition
from schedulerd.kubernetes.cluster.events import ConditionLost, PendingReasonTold
from schedulerd.kubernetes.cluster.gangs import group_status
from schedulerd.kubernetes.cluster.gangs.declaration import GANG_CONDITION
from schedulerd.kubernetes.cluster.model import Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.reasons.pod_reason import PodReason
from schedulerd.kubernetes.reasons.sentences import (
    SKIPPED,
    UNSCHEDULABLE,
    and_gang,
    condition_reason,
    event_reason,
    refused,
    skipped,
)
from schedulerd.kubernetes.reasons.waiting import UNANSWERED, State, Waiting

POD_SCHEDULED = "PodScheduled"
EVERY_NS = 3 * SECOND_NS
"""Between two conditions of one pod."""
NUMBERS_EVERY_NS = 300 * SECOND_NS
"""Between two events of one pod that differ in numbers only."""
REPEAT_NS = 1800 * SECOND_NS
"""Until an event whose reason has not changed is written again."""
LOST_NS = 10 * SECOND_NS
"""Until a condition that was not written is written again."""
NODES_NS = 10 * SECOND_NS
"""Between two corrections of the number of nodes in conditions that are not about nodes."""
NODES_TRIED_MAX = 20
"""Nodes that are judged to find one with room for a pod that a quota or limit keeps out."""
SILENT_NS = 10 * SECOND_NS
"""After so long without a word from the daemon, that is the reason."""
_WAIT = (PodState.ASKED, PodState.HELD)


def told(model: Model, event: PendingReasonTold) -> None:
    """The daemon says why an ask waits."""
    own = model.pods.get(event.key)
    if own is not None and own.state is PodState.ASKED:
        waits(model, own, event.waiting)


def waits(model: Model, own: OwnPod, waiting: Waiting) -> None:
    """This is why the pod waits, from now on."""
    model.reasons.silent.pop(own.uid, None)
    if own.reason.waiting != waiting:
        own.reason.waiting = waiting
        model.reasons.backlog.conditions.setdefault(own.uid)


def share(model: Model, pods: Iterable[OwnPod], waiting: Waiting | None, like: Pod | None = None) -> None:
    """All these pods say that they wait for this, whatever each of them waits for; None: each says its own again.
    `like` is the pod for which no node has room."""
    for own in pods:
        if own.reason.shared != waiting:
            own.reason.shared, own.reason.shared_like = waiting, like
            model.reasons.backlog.conditions.setdefault(own.uid)


def asked(model: Model, own: OwnPod) -> None:
    """The pod is asked for: what kept it from that does so no longer."""
    if own.reason.waiting is not None and own.reason.waiting.state is State.HELD:
        own.reason.waiting = None
    if own.reason.waiting is None:
        model.reasons.silent[own.uid] = model.now_ns + SILENT_NS
        model.reasons.silent.move_to_end(own.uid)
    if own.reason.is_lost:
        model.reasons.backlog.conditions.setdefault(own.uid)


def allocated(model: Model, own: OwnPod) -> None:
    """The pod has a node: if it is asked for again, what it waited for is not known."""
    model.reasons.silent.pop(own.uid, None)
    own.reason.waiting = None


def lost(model: Model, event: ConditionLost) -> None:
    """The condition was not written. It is written again, unless there is a newer one or the pod has its node."""
    own = model.pods.get(event.uid)
    if own is None:
        return
    if event.type == GANG_CONDITION:
        model.timers.set(model.now_ns + LOST_NS, Due.TELL_GANG, own.uid)
    elif event.type == POD_SCHEDULED and own.reason.condition == (event.reason, event.message):
        own.reason.is_lost = True
        model.reasons.backlog.later(model.now_ns + LOST_NS, own.uid)


def done(own: OwnPod) -> None:
    """The pod is on its node, and waits for nothing any longer."""
    own.reason = PodReason()


def report(model: Model) -> None:
    """Writes what may be written now, and sets a timer for the rest."""
    reasons = model.reasons
    due_ns = reasons.next_due_ns(model.now_ns)
    if due_ns is not None and due_ns <= model.now_ns:
        _report_due(model)
        due_ns = reasons.next_due_ns(model.now_ns)
    if due_ns is not None and (reasons.timer_ns is None or due_ns < reasons.timer_ns):
        reasons.timer_ns = max(due_ns, model.now_ns + 1)
        model.timers.set(reasons.timer_ns, Due.TELL_CONDITION)


def _report_due(model: Model) -> None:
    reasons = model.reasons
    _note_silent(model)
    _correct_nodes(model)
    reasons.backlog.add_due(model.now_ns)
    _write_conditions(model)
    for uid in reasons.counts.count_due(model.now_ns, lambda uid: _waiting(model, uid) is not None):
        reasons.backlog.conditions.setdefault(uid)
    _write_conditions(model)
    _write_events(model)


def timer_rang(model: Model) -> None:
    if model.reasons.timer_ns is not None and model.reasons.timer_ns <= model.now_ns:
        model.reasons.timer_ns = None


def _waiting(model: Model, uid: str) -> OwnPod | None:
    own = model.pods.get(uid)
    return own if own is not None and own.state in _WAIT and not own.pod.spec.scheduling_gates else None


def _note_silent(model: Model) -> None:
    silent = model.reasons.silent
    while silent and (uid := next(iter(silent))) and silent[uid] <= model.now_ns:
        del silent[uid]
        own = _waiting(model, uid)
        if own is not None and own.reason.waiting is None:
            waits(model, own, UNANSWERED)


def note_nodes(model: Model) -> None:
    """A node has come or changed, or is gone: conditions that name another number of nodes are due in a while."""
    reasons = model.reasons
    if reasons.nodes_due_ns is None and reasons.nodes_said != len(model.nodes.known):
        reasons.nodes_due_ns = model.now_ns + NODES_NS


def _correct_nodes(model: Model) -> None:
    reasons = model.reasons
    if reasons.nodes_due_ns is None or reasons.nodes_due_ns > model.now_ns:
        return
    reasons.nodes_due_ns, reasons.nodes_said = None, len(model.nodes.known)
    for uid, own in model.pods.items():
        if own.reason.condition[0] == SKIPPED and own.reason.current is not None and own.reason.current.is_about_nodes:
            reasons.backlog.conditions.setdefault(uid)


def _write_conditions(model: Model) -> None:
    backlog = model.reasons.backlog
    while backlog.conditions and backlog.may_write(model.now_ns):
        uid, _ = backlog.conditions.popitem(last=False)
        own = _waiting(model, uid)
        if own is None:
            backlog.forget(uid)
            model.reasons.counts.forget(uid)
            continue
        _write_condition(model, own)


def _write_condition(model: Model, own: OwnPod) -> None:
    reason, backlog = own.reason, model.reasons.backlog
    found = said(model, own)
    if found is None or reason.current is None:
        return
    found = found[0], found[1] + and_gang(reason.current)
    if found == reason.condition and not reason.is_lost:
        _want_event(model, own)
        return
    if reason.condition_ns is not None and model.now_ns - reason.condition_ns < EVERY_NS:
        backlog.later(reason.condition_ns + EVERY_NS, own.uid)
        return
    reason.condition, reason.condition_ns, reason.is_lost = found, model.now_ns, False
    if not model.cache.daemon_sets.required_node(own.pod) and not _has_condition(own, *found):
        # It tells the next process how long the pod waits. The API server writes one without a time for gates.
        has_time = any(
            one.type == POD_SCHEDULED and one.status == "False" and one.last_transition_time
            for one in own.pod.status.conditions or ()
        )
        model.effects.append(PatchPodCondition(own.name, POD_SCHEDULED, False, *found, not has_time, own.asked_at_ns))
        backlog.count_write(model.now_ns)
    if own.group is not None:
        group_status.waits(model, own, *found)
    _want_event(model, own)


def said(model: Model, own: OwnPod) -> tuple[str, str] | None:
    """Reason and message; None if nothing is known, or nodes are to be counted first."""
    waiting = own.reason.current
    if waiting is None:
        return None
    reason = condition_reason(waiting)
    if reason != UNSCHEDULABLE:
        model.reasons.counts.forget(own.uid)
        has_node = waiting.rule is not None and _has_node(model, own.reason.shared_like or own.judged)
        return reason, skipped(waiting, len(model.nodes.known), has_node=has_node)
    counts = model.reasons.counts.get(own.reason.shared_like or own.judged, own.uid)
    return (reason, refused(waiting, counts)) if counts is not None else None


def _has_node(model: Model, pod: Pod) -> bool:
    """Whether one of the first nodes does not refuse the pod: then nodes are not what it waits for."""
    nodes = (node.name for node in model.cache.state.nodes.values() if node.facts is not None)
    names = list(islice(nodes, NODES_TRIED_MAX))
    return len(model.predicates.judge_all(pod, names=names)) < len(names)


def _has_condition(own: OwnPod, reason: str, message: str) -> bool:
    """The API server has it already, from before this process."""
    return any(
        (one.type, one.status, one.reason, one.message) == (POD_SCHEDULED, "False", reason, message)
        for one in own.pod.status.conditions or ()
    )


def _want_event(model: Model, own: OwnPod) -> None:
    waiting = own.reason.current
    if waiting is not None and (
        own.reason.event_kind != waiting.kind or model.now_ns - own.reason.event_ns >= NUMBERS_EVERY_NS
    ):
        model.reasons.backlog.events.setdefault(own.uid)


def _write_events(model: Model) -> None:
    backlog = model.reasons.backlog
    while backlog.events and not backlog.conditions and backlog.may_write(model.now_ns):
        uid, _ = backlog.events.popitem(last=False)
        own = _waiting(model, uid)
        waiting = own.reason.current if own is not None else None
        if own is None or waiting is None or not own.reason.condition[1]:
            backlog.forget(uid)
            continue
        own.reason.event_kind, own.reason.event_ns = waiting.kind, model.now_ns
        model.record(own, event_reason(waiting), "Scheduling", own.reason.condition[1], is_warning=True)
        backlog.count_write(model.now_ns)
        backlog.repeat_event(model.now_ns + REPEAT_NS, uid)
