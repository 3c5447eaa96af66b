"""Pods come, change, and go.

| pod | here |
|---|---|
| of another scheduler, with a node | counted as occupied until it has ended |
| own, without a node | asked for (`asking`) |
| own, with the node of its allocation | bound |
| own, with any other node | its allocation is given back; counted as occupied |
| ended or deleted | ask or allocation is released, or the wanted release confirmed |
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster import applications, claims
from schedulerd.kubernetes.cluster.asking import consider, consider_all, stop_using_class
from schedulerd.kubernetes.cluster.effects import ConfirmRelease, ReleaseAllocation, ReleaseAsk
from schedulerd.kubernetes.cluster.gangs import membership, slots
from schedulerd.kubernetes.cluster.model import Model, OwnPod, PodState
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due
from schedulerd.kubernetes.metadata.pods import read_metadata
from schedulerd.kubernetes.objects.pod import Pod, is_terminal
from schedulerd.kubernetes.pod_resources import pod_requests
from schedulerd.kubernetes.predicates.storage import ClaimKey
from schedulerd.kubernetes.quantity import MalformedQuantity
from schedulerd.kubernetes.resources import scheduler_names

WAKE_AFTER_NS = SECOND_NS // 100


def put(model: Model, pod: Pod) -> None:
    if is_terminal(pod):
        gone(model, pod)
        return
    model.view.put_pod(pod)
    if pod.spec.scheduler_name not in model.settings.scheduler_names:
        if pod.spec.node_name:
            model.nodes.occupy(pod.metadata.uid, pod.spec.node_name, requests(pod))
        return
    own = model.pods.get(pod.metadata.uid)
    if own is None:
        metadata = read_metadata(pod, one_application_per_pod=model.settings.one_application_per_pod)
        own = model.pods[pod.metadata.uid] = membership.own_pod(model, pod, metadata)
    own.pod = pod
    if pod.spec.node_name:
        _has_node(model, own)
    elif model.is_started and own.state not in (PodState.ASSUMED, PodState.BOUND):
        if own.is_placeholder and pod.metadata.deletion_timestamp is not None:
            slots.stand_in(model, own)
        consider(model, own)


def gone(model: Model, pod: Pod) -> None:
    """The pod has ended or is deleted."""
    uid = pod.metadata.uid
    had_node = bool(pod.spec.node_name)
    model.view.remove_pod(uid)
    model.nodes.vacate(uid)
    own = model.pods.pop(uid, None)
    if own is not None:
        had_node = had_node or bool(own.node)
        _end(model, own)
    if had_node:
        wake_refused(model)


def wake_refused(model: Model) -> None:
    """Something has gone that may be why nodes refuse pods: these are asked for again soon."""
    if model.refused and model.is_started:
        model.timers.set(model.now_ns + WAKE_AFTER_NS, Due.ASK_REFUSED)


def claim_changed(model: Model, key: ClaimKey) -> None:
    """Pods that waited for the claim are considered again, and so are those that nodes refused."""
    if model.is_started:
        for own in claims.take_waiting(model, key):
            if own.state is PodState.HELD:
                consider(model, own)
    wake_refused(model)


def settle(model: Model, own: OwnPod) -> None:
    """A pod that is on a node without an allocation there: it is reported with the node, or counted as occupied."""
    own.state, own.uuid, own.ask = PodState.BOUND, "", None
    own.is_release_wanted = False
    stop_using_class(model, own)
    if model.nodes.is_created(own.node):
        model.nodes.occupy(own.uid, own.node, requests(own.pod))
        if own.is_placeholder and model.is_started:
            slots.replace_pod(model, own)


def requests(pod: Pod) -> dict[str, int]:
    """What the pod uses of its node; nothing if that cannot be read."""
    try:
        return scheduler_names(pod_requests(pod))
    except MalformedQuantity:
        return {}


def _has_node(model: Model, own: OwnPod) -> None:
    node = own.pod.spec.node_name
    if own.uuid and own.node == node:
        own.state = PodState.BOUND
        return
    if own.state is PodState.BOUND and own.node == node:
        if model.nodes.is_created(node):
            model.nodes.occupy(own.uid, node, requests(own.pod))  # it may have been resized
        return
    if own.is_placeholder:
        slots.stand_in(model, own)
    _give_up(model, own, "the pod is on another node")
    own.node = node
    settle(model, own)


def _end(model: Model, own: OwnPod) -> None:
    if own.is_placeholder:
        slots.stand_in(model, own)
    _give_up(model, own, "")
    stop_using_class(model, own)
    claims.stop_waiting(model, own)
    membership.gone(model, own)
    consider_all(model, applications.leave(model, own))


def _give_up(model: Model, own: OwnPod, message: str) -> None:
    """What the daemon holds for the pod is given back."""
    if own.application is None:
        return
    if own.uuid and own.is_release_wanted:
        model.effects.append(ConfirmRelease(own.uuid))
    elif own.uuid:
        model.effects.append(ReleaseAllocation(own.application.id, own.uid, own.uuid, message))
    if own.state is PodState.ASKED or own.asks_sent > 1 or own.is_placeholder:
        # The ask of a placeholder may be pending again. An ask that was repeated may come after the allocation was
        # gone, and is pending then.
        model.effects.append(ReleaseAsk(own.application.id, own.uid))
    own.uuid, own.asks_sent = "", 0
