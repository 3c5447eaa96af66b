"""Pods come, change, and go.

| pod | here |
|---|---|
| of another scheduler, with a node | counted as occupied until it has ended |
| own, without a node | asked for (`asking`) |
| own, with the node of its allocation | bound |
| own, with any other node | reported as running there |
| ended or deleted | ask or allocation is released, or the wanted release confirmed |
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster import applications, claims, daemon_sets, volumes
from schedulerd.kubernetes.cluster.asking import consider, consider_all, resize
from schedulerd.kubernetes.cluster.effects import Amounts, ConfirmRelease, ReleaseAllocation, ReleaseAsk
from schedulerd.kubernetes.cluster.events import Cause, DaemonSetsListed
from schedulerd.kubernetes.cluster.gangs import door, held_rooms, slots, surplus
from schedulerd.kubernetes.cluster.model import Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import ON_NODE, AllocatedBy, PodState, PodTrigger
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due
from schedulerd.kubernetes.metadata.pods import read_metadata
from schedulerd.kubernetes.objects.cluster import DaemonSet
from schedulerd.kubernetes.objects.pod import Pod, is_terminal
from schedulerd.kubernetes.predicates.refused_pods import STORAGE
from schedulerd.kubernetes.predicates.storage import ClaimKey
from schedulerd.kubernetes.quantity import MalformedQuantity
from schedulerd.kubernetes.resources import amounts_asked

RELEASE_AGAIN_NS = 5 * SECOND_NS
RELEASES_AGAIN = 3


def put(model: Model, pod: Pod) -> None:
    if is_terminal(pod):
        gone(model, pod)
        return
    own = model.pods.get(pod.metadata.uid)
    is_changed = model.cache.put_pod(
        held_rooms.note_placeholder(own, pod) if own is not None and own.is_placeholder else pod
    )
    if pod.spec.scheduler_name not in model.settings.scheduler_names:
        if pod.spec.node_name:
            model.nodes.occupy(pod.metadata.uid, pod.spec.node_name, requests(pod))
        return
    if own is None:
        settings = model.settings
        metadata = read_metadata(
            pod, one_application_per_pod=settings.one_application_per_pod, ids=settings.application_ids
        )
        own = model.pods[pod.metadata.uid] = door.own_pod(model, pod, metadata)
    own.pod = pod
    door.note(model, own)
    if pod.spec.node_name:
        _has_node(model, own, is_changed=is_changed)
    elif model.is_started and own.state is not PodState.ASSUMED and own.state not in ON_NODE:
        if own.is_placeholder and pod.metadata.deletion_timestamp is not None:
            slots.stand_in(model, own)
        consider(model, own)
    elif own.state in ON_NODE and is_changed:
        follow_resize(model, own)  # an event from before the binding
    elif pod.metadata.deletion_timestamp is not None and volumes.awaited_of(own) is not None:
        _leave(model, own)


def release_again(model: Model, uuid: str) -> None:
    """The release of an allocation may have come before the update of the node that reported it."""
    found = model.unconfirmed.pop(uuid, None)
    if found is None:
        return
    release, again = found
    model.effects.append(release)
    if again > 1:
        model.unconfirmed[uuid] = release, again - 1
        model.timers.set(model.now_ns + RELEASE_AGAIN_NS, Due.RELEASE_AGAIN, uuid)


def gone(model: Model, pod: Pod) -> None:
    """The pod has ended or is deleted."""
    uid = pod.metadata.uid
    own = model.pods.pop(uid, None)
    if own is not None and own.is_release_wanted and own.cause is Cause.REPLACED:
        held_rooms.keep(model, own)
    else:
        model.cache.remove_pod(uid)
    model.nodes.vacate(uid)
    if own is not None:
        application_id = own.application.id.name if own.application is not None else ""
        model.ended_pods.remember(pod, own.node or pod.spec.node_name, application_id)
        if (
            own.gang is not None
            and pod.spec.node_name in model.nodes.known
            and not own.node
            and pod.status.phase == "Succeeded"
        ):
            surplus.runs_elsewhere(model, own)  # somebody else had bound it, and it has ended since
        _end(model, own)


def claim_changed(model: Model, key: ClaimKey) -> None:
    """Pods that waited for the claim are considered again, and so are those that nodes refused."""
    if model.is_started:
        consider_all(model, claims.take_waiting(model, key))
    model.cache.refused.happened(STORAGE)


def daemon_set_seen(model: Model, daemon_set: DaemonSet) -> None:
    """Pods that name it as their controller were held, or asked for like any other."""
    for own in daemon_sets.seen(model, daemon_set):
        consider(model, own)


def daemon_sets_listed(model: Model, event: DaemonSetsListed) -> None:
    for own in daemon_sets.set_watched(model, is_watched=event.is_allowed):
        consider(model, own)


def daemon_set_awaited(model: Model, uid: str) -> None:
    """The pod has waited long enough for its DaemonSet."""
    own = model.pods.get(uid)
    if own is not None and own.state is PodState.HELD:
        consider(model, own)


def class_changed(model: Model) -> None:
    """Claims of the storage class may be bound in another way than before."""
    if model.is_started:
        consider_all(model, claims.all_waiting(model))
    model.cache.refused.happened(STORAGE)


def found_on(model: Model, own: OwnPod, node: str) -> None:
    """The pod runs on a node where the daemon has not placed it. An allocation elsewhere moves, if the daemon has that
    node; else it is given back, and the pod reported with its node. A placeholder there is replaced."""
    volumes.stop(model, own)
    if own.is_placeholder:
        slots.stand_in(model, own)
    keeps_allocation = model.nodes.is_there(node) and not own.is_placeholder
    give_up(model, own, "the pod is on another node", keeps_allocation=keeps_allocation)
    own.node = node
    report_running(model, own)


def report_running(model: Model, own: OwnPod) -> None:
    """The pod is on its node, and the daemon has to be told so. Not of a placeholder, in whose place another one is
    made: its gang would lack it until the daemon has the node and the report."""
    own.stop_asking(PodTrigger.BIND if own.uuid else PodTrigger.FIND)
    own.hold_id = ""
    own.is_release_wanted = own.is_release_wanted and bool(own.uuid)
    model.stop_using_class(own)
    if own.is_placeholder and model.is_started:
        model.nodes.occupy(own.uid, own.node, requests(own.pod))
        slots.replace_pod(model, own)
    else:
        model.nodes.arrive(own.uid, own.node)


def follow_resize(model: Model, own: OwnPod) -> None:
    """The pod is bound: its allocation follows what it requests now."""
    amounts = requests(own.pod)
    if not amounts:
        return
    if not own.uuid:
        model.nodes.recount(own.uid, amounts)
    elif amounts == own.amounts:
        return
    elif own.allocated_by is not AllocatedBy.DAEMON:
        model.nodes.arrive(own.uid, own.node)  # after what has reported it
    else:
        resize(model, own, amounts)  # after its asks


def requests(pod: Pod) -> Amounts:
    """What the pod uses of its node; nothing if that cannot be read."""
    try:
        return amounts_asked(pod)
    except MalformedQuantity:
        return {}


def _has_node(model: Model, own: OwnPod, *, is_changed: bool) -> None:
    node = own.pod.spec.node_name
    if own.node != node or (own.state not in ON_NODE and not own.uuid):
        found_on(model, own, node)
        return
    volumes.stop(model, own)
    if own.state is PodState.ASSUMED:
        own.enter(PodTrigger.BIND)
        is_changed = True
    if is_changed:
        follow_resize(model, own)


def _leave(model: Model, own: OwnPod) -> None:
    """The pod is being deleted before its volumes were bound."""
    volumes.stop(model, own)
    give_up(model, own, "the pod is being deleted")
    own.node, own.is_release_wanted = "", False
    model.cache.forget_assumed(own.uid)
    consider(model, own)


def _end(model: Model, own: OwnPod) -> None:
    volumes.stop(model, own)
    if own.is_placeholder:
        slots.stand_in(model, own)
    give_up(model, own, "")
    model.stop_using_class(own)
    claims.stop_waiting(model, own)
    daemon_sets.stop_waiting(model, own)
    door.gone(model, own)
    consider_all(model, applications.leave(model, own))


def give_up(model: Model, own: OwnPod, message: str, *, keeps_allocation: bool = False) -> None:
    """What the daemon holds for the pod is given back."""
    if own.application is None:
        return
    if own.uuid and not keeps_allocation:
        release = ReleaseAllocation(own.application.id, own.uid, own.uuid, message)
        model.effects.append(ConfirmRelease(own.uuid) if own.is_release_wanted else release)
        if own.allocated_by is AllocatedBy.NODE_UPDATE or own.node in model.nodes.unanswered:
            _repeat(model, release)  # the update of the node may come after it, and bring the allocation back
    for uuid in () if keeps_allocation else own.earlier_uuids:
        # A report that was taken for rejected may not have been.
        release = ReleaseAllocation(own.application.id, own.uid, uuid, message)
        model.effects.append(release)
        _repeat(model, release)
    may_be_pending = (
        own.asks_sent > 1
        or (own.allocated_by is not AllocatedBy.DAEMON and bool(own.amounts_asked))
        or own.is_placeholder
    )
    if own.state is PodState.ASKED or may_be_pending:
        # An ask that was repeated may come after the allocation was gone, and is pending then. That of a placeholder
        # may be pending again.
        model.effects.append(ReleaseAsk(own.application.id, own.uid))
    own.asks_sent = 0
    if not keeps_allocation:
        own.lose_allocation()


def withdraw_resize(model: Model, own: OwnPod) -> None:
    """The allocation went without the pod: an ask that was to resize it may come after that, and would be pending."""
    if own.application is not None and own.asks_sent > 1:
        model.effects.append(ReleaseAsk(own.application.id, own.uid))
        own.asks_sent = 0


def _repeat(model: Model, release: ReleaseAllocation) -> None:
    """The release is sent again, some times, until the daemon confirms it."""
    model.unconfirmed[release.uuid] = release, RELEASES_AGAIN
    model.timers.set(model.now_ns + RELEASE_AGAIN_NS, Due.RELEASE_AGAIN, release.uuid)
