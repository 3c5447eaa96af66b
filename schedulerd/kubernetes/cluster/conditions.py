"""Why a pod waits, as its condition PodScheduled and as an event: written when it changes, and not too often."""

from __future__ import annotations

from schedulerd.kubernetes.cluster.effects import PatchPodCondition
from schedulerd.kubernetes.cluster.events import SchedulingState, SchedulingStateTold
from schedulerd.kubernetes.cluster.model import Model, OwnPod, PodState
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due

POD_SCHEDULED = "PodScheduled"
UNSCHEDULABLE = "Unschedulable"
SKIPPED = "SchedulingSkipped"
EVERY_NS = 10 * SECOND_NS
"""Between two writes for one pod."""

_REASONS = {SchedulingState.FAILED: UNSCHEDULABLE, SchedulingState.SKIPPED: SKIPPED}


def told(model: Model, event: SchedulingStateTold) -> None:
    """The daemon says how far an ask has come."""
    own = model.pods.get(event.key)
    if own is not None and own.state is PodState.ASKED and event.state in _REASONS:
        note(model, own, event.state, event.reason)


def note(model: Model, own: OwnPod, state: SchedulingState, text: str) -> None:
    """The pod is to show this."""
    own.to_tell = (_REASONS[state], text)
    if own.told_ns is None or model.now_ns - own.told_ns >= EVERY_NS:
        _tell(model, own)
    else:
        model.timers.set(own.told_ns + EVERY_NS, Due.TELL_CONDITION, own.uid)


def tell_again(model: Model, uid: str) -> None:
    """Enough time has passed since the last write."""
    own = model.pods.get(uid)
    if own is not None and own.state in (PodState.ASKED, PodState.HELD):
        _tell(model, own)


def _tell(model: Model, own: OwnPod) -> None:
    if own.to_tell == own.told:
        return
    own.told, own.told_ns = own.to_tell, model.now_ns
    reason, message = own.told
    is_known = any(one.type == POD_SCHEDULED and one.status == "False" for one in own.pod.status.conditions or ())
    model.effects.append(PatchPodCondition(own.name, POD_SCHEDULED, False, reason, message, not is_known))
    event_reason = "FailedScheduling" if reason == UNSCHEDULABLE else reason
    model.record(own, event_reason, "Scheduling", message, is_warning=True)
