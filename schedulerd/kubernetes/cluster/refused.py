"""Pods that nodes have refused because of other pods, volumes or namespaces: when they are asked for again."""

from __future__ import annotations

from schedulerd.kubernetes.cluster.model import Model
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due

WAKE_AFTER_NS = SECOND_NS // 100


def wake_refused(model: Model) -> None:
    """Something has changed that may be why nodes refuse pods: these are asked for again soon."""
    if model.refused and model.is_started:
        model.timers.set(model.now_ns + WAKE_AFTER_NS, Due.ASK_REFUSED)
