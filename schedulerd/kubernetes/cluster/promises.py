"""For each pod, the node that the shim has just called suitable, until the daemon allocates the pod there or elsewhere.

The daemon asks about many pods at once. If two pods that exclude each other were asked about, the node would be called
suitable for both, and the daemon would allocate both. The shim would have to give one back; if that is a placeholder,
the daemon has by then counted it as room that its gang holds. So a pod counts on the node from the answer on. The room
of a member that replaces a placeholder counts anyway.
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster.model import Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due

KEPT_NS = 5 * SECOND_NS
"""The daemon waits for an answer for so long, and an allocation comes right after it."""


def make(model: Model, own: OwnPod, node: str) -> None:
    """The daemon is told that the node suits the pod, which it has asked for."""
    if own.state is PodState.ASKED:
        model.cache.assume(own.judged, node, for_now=True)
        model.promised[own.uid] = model.now_ns + KEPT_NS
        model.timers.set(model.now_ns + KEPT_NS, Due.PROMISE, own.uid)


def withdraw(model: Model, uid: str) -> None:
    """The pod is allocated elsewhere, or nowhere."""
    if model.promised.pop(uid, None) is not None:
        model.cache.forget_assumed(uid)


def expired(model: Model, uid: str) -> None:
    if model.promised.get(uid, model.now_ns + 1) <= model.now_ns:
        withdraw(model, uid)
