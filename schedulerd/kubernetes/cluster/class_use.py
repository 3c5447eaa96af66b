"""Which pods keep a class of nodes in use."""

from __future__ import annotations

from schedulerd.kubernetes.cluster.model import Model, OwnPod
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due

_IDLE_CHECK_NS = 301 * SECOND_NS


def stop_using_class(model: Model, own: OwnPod) -> None:
    attribute, own.class_attribute = own.class_attribute, ""
    model.view.refused.forget(own.uid)
    if attribute and model.nodes.classes.release(attribute, model.now_ns):
        model.timers.set(model.now_ns + _IDLE_CHECK_NS, Due.IDLE_CLASSES)
