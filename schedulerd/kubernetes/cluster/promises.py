"""Nodes that the daemon was told suit a pod, until it has allocated the pod there or not.

It asks about many pods at once. Two pods that exclude each other would both be told that a node suits them, and both be
allocated: one of them would then be given back, and of a gang the daemon has taken that for a placeholder that holds
room. So a pod counts on the node from the answer on. The room of a member that replaces a placeholder counts anyway.
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster.model import Model, OwnPod, PodState
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due

KEPT_NS = 5 * SECOND_NS
"""The daemon waits for an answer for so long, and an allocation comes right after it."""


def make(model: Model, own: OwnPod, node: str) -> None:
    """The daemon is told that the node suits the pod, which it has asked for."""
    if own.state is PodState.ASKED:
        model.view.assume(own.judged, node, for_now=True)
        model.promised[own.uid] = model.now_ns + KEPT_NS
        model.timers.set(model.now_ns + KEPT_NS, Due.PROMISE, own.uid)


def withdraw(model: Model, uid: str) -> None:
    """The pod is allocated elsewhere, or nowhere."""
    if model.promised.pop(uid, None) is not None:
        model.view.forget_assumed(uid)


def expired(model: Model, uid: str) -> None:
    if model.promised.get(uid, model.now_ns + 1) <= model.now_ns:
        withdraw(model, uid)
