"""Pods that fail before they run, because their gang was not placed in time.

Such a pod waits for nothing any longer: it is not asked for, and gets no condition. Its failure is written again until
the pod has ended or is gone.
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster.asking import withdraw
from schedulerd.kubernetes.cluster.effects import FailPod
from schedulerd.kubernetes.cluster.events import FailEnded
from schedulerd.kubernetes.cluster.model import Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import PodTrigger
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due

FAIL_AGAIN_FIRST_NS = 5 * SECOND_NS
FAIL_AGAIN_MOST_NS = 300 * SECOND_NS


def fail(model: Model, own: OwnPod, reason: str, message: str) -> None:
    own.failure = FailPod(own.name, reason, message)
    own.failures = 0
    withdraw(model, own, PodTrigger.LEAVE)
    model.effects.append(own.failure)


def fail_ended(model: Model, event: FailEnded) -> None:
    """The watch tells when the pod has ended; a failure that was not written is written again, less and less often."""
    own = model.pods.get(event.uid)
    if own is None or event.is_done:
        return
    note = event.message or "the pod could not be failed"
    model.record(own, "FailedUpdate", "Scheduling", note, is_warning=True)
    delay_ns = min(FAIL_AGAIN_FIRST_NS << min(own.failures, 10), FAIL_AGAIN_MOST_NS)
    own.failures += 1
    model.timers.set(model.now_ns + delay_ns, Due.FAIL_AGAIN, own.uid)


def fail_again(model: Model, uid: str) -> None:
    own = model.pods.get(uid)
    if own is not None and own.failure is not None and own.pod.metadata.deletion_timestamp is None:
        model.effects.append(own.failure)
