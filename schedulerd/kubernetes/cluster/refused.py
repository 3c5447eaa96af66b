"""Pods that nodes have refused because of other pods, volumes or namespaces: when they are asked for again.

Something changes that may be why: a moment later, so that what comes together counts once, the pods that are refused by
then are asked for again, a hundred in a second and the oldest refusal first. There is one timer, however often
something changes meanwhile. A pod that is refused again waits for the next change.
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster import asking
from schedulerd.kubernetes.cluster.model import Model, PodState
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due

WAKE_AFTER_NS = SECOND_NS // 100
ASKS_AGAIN_MAX = 100
"""Pods that are asked for again together."""
ASKS_AGAIN_EVERY_NS = SECOND_NS


def wake_refused(model: Model) -> None:
    """Something has changed that may be why nodes refuse pods: these are asked for again soon."""
    refused = model.refused
    if not refused.pods or not model.is_started:
        return
    refused.woken = len(refused.pods)
    if refused.due_ns is None:
        _set_timer(model, max(model.now_ns + WAKE_AFTER_NS, refused.not_before_ns))


def ask_refused_again(model: Model) -> None:
    """The timer rang."""
    refused = model.refused
    refused.due_ns, refused.not_before_ns = None, model.now_ns + ASKS_AGAIN_EVERY_NS
    woken = list(refused.pods)[: min(refused.woken, ASKS_AGAIN_MAX)]
    for uid in woken:
        del refused.pods[uid]
        own = model.pods.get(uid)
        if own is not None and own.state is PodState.ASKED:
            asking.consider(model, own, again=True)
        elif (placeholder := model.virtual.get(uid)) is not None:
            asking.repeat(model, placeholder)
    refused.woken = min(refused.woken - len(woken), len(refused.pods))  # others need no node any longer
    if refused.woken:
        _set_timer(model, refused.not_before_ns)


def _set_timer(model: Model, due_ns: int) -> None:
    model.refused.due_ns = due_ns
    model.timers.set(due_ns, Due.ASK_REFUSED)
