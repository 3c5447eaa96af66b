"""Pods that nodes have refused because of other pods, volumes or namespaces: when they are asked for again.

Something changes that may be why (`predicates.queueing_hints`). A moment later, so that what comes together counts
once, the pods that wait for such a change are asked for again: a hundred in a second, in the order in which they were
woken. There is one timer, however often something changes meanwhile. A pod that is refused again waits for the next
change.
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster import asking
from schedulerd.kubernetes.cluster.model import Model
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due

WAKE_AFTER_NS = SECOND_NS // 100
ASKS_AGAIN_MAX = 100
"""Pods that are asked for again together."""
ASKS_AGAIN_EVERY_NS = SECOND_NS


def wake(model: Model) -> None:
    """At the end of a step: the pods that wait for what has changed in it are asked for again soon."""
    times = model.wake_times
    if model.cache.refused.settle() and times.due_ns is None:
        times.due_ns = max(model.now_ns + WAKE_AFTER_NS, times.not_before_ns)
        model.timers.set(times.due_ns, Due.ASK_REFUSED)


def ask_refused_again(model: Model) -> None:
    """The timer rang. What is left is asked for after the next one."""
    times = model.wake_times
    times.due_ns, times.not_before_ns = None, model.now_ns + ASKS_AGAIN_EVERY_NS
    for uid in model.cache.refused.take_woken(ASKS_AGAIN_MAX):
        own = model.pods.get(uid)
        if own is not None and own.state is PodState.ASKED:
            asking.consider(model, own, again=True)
        elif (placeholder := model.virtual.get(uid)) is not None:
            asking.repeat(model, placeholder)
