"""From the daemon's allocation to the bound pod, and back.

    ASKED ──allocated, all predicates hold──▶ ASSUMED ──bound──▶ BOUND ──ended──▶ released
      ▲            │ a predicate refuses         │ refused, failed, not in time
      └────────────┴── released and asked again ─┘ (elsewhere, for a while)

A pod with claims that wait for their first consumer is bound once these have their volumes (`volumes`).

Every allocation is judged again by all predicates against the cluster with what is assumed already: two allocations of
one batch know nothing of each other's ports and labels.
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster import asking, conditions, volumes
from schedulerd.kubernetes.cluster.effects import (
    Bind,
    ConfirmRelease,
    DeletePod,
    PatchPodCondition,
    ReleaseAllocation,
)
from schedulerd.kubernetes.cluster.events import (
    Allocated,
    AllocationReleased,
    BindEnded,
    BindResult,
    Cause,
    DeleteEnded,
    ReleaseWanted,
    VolumeResult,
    VolumeWritten,
)
from schedulerd.kubernetes.cluster.gangs import answers as gang_answers
from schedulerd.kubernetes.cluster.gangs import held_rooms, slots, surplus
from schedulerd.kubernetes.cluster.model import Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import ON_NODE, AllocatedBy, PodState, PodTrigger
from schedulerd.kubernetes.cluster.pods import follow_resize, found_on, report_running, withdraw_resize
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due
from schedulerd.kubernetes.cluster.volumes import Progress
from schedulerd.kubernetes.metadata.gangs import task_group_name
from schedulerd.kubernetes.metadata.pods import PLACED
from schedulerd.kubernetes.predicates.plugins import ALL, ALL_IN_PLACE
from schedulerd.kubernetes.predicates.storage import ClaimKey
from schedulerd.kubernetes.predicates.words import reasons
from schedulerd.kubernetes.reasons.waiting import held

BIND_AGAIN_NS = 5 * SECOND_NS
AVOIDED_FIRST_NS = 2 * SECOND_NS
"""For so long the first node that a pod could not be put on is avoided; twice as long for each further one."""
DELETE_AGAIN_NS = 5 * SECOND_NS

_DISRUPTION_REASONS = {
    Cause.PREEMPTED: "PreemptionByScheduler",
    Cause.TIMEOUT: "TerminationByScheduler",
    Cause.REPLACED: "TerminationByScheduler",
}
_EVENT_REASONS = {Cause.PREEMPTED: "Preempted", Cause.TIMEOUT: "TimedOut", Cause.REPLACED: "Replaced"}


def allocated(model: Model, event: Allocated) -> None:
    own = model.pods.get(event.key)
    application_id = own.application.id if own is not None and own.application is not None else None
    if own is None or own.state is not PodState.ASKED or application_id != event.application_id:
        message = "the pod needs no node any longer"
        model.effects.append(ReleaseAllocation(event.application_id, event.key, event.uuid, message))
        return
    model.promised.pop(own.uid, None)
    own.hold_id = ""
    kept = held_rooms.kept_on(model, own.gang, own, event.node) if own.gang is not None else []
    refusals = model.predicates.judge(own.judged, event.node, ALL_IN_PLACE if kept else ALL, kept, first_only=True)
    if own.gang is not None:
        held_rooms.taken(model, own.gang, own, event.node)
    if refusals:
        message = f"{event.node}: {', '.join(reasons(refusals))}"
        if own.slot is not None:
            slots.stand_in(model, own)
        model.cache.forget_assumed(own.uid)
        model.effects.append(ReleaseAllocation(event.application_id, event.key, event.uuid, message))
        if own.needs_callback:  # it was asked about: the daemon knows less of the node, and would allocate it again
            _avoid(model, own, event.node)
        own.needs_callback = True
        asking.ask_again(model, own)
        if own.state is PodState.ASKED:  # a node that is avoided is not asked about, so it is noted here
            model.predicates.note_refused(own.uid, own.judged, event.node, refusals)
        return
    own.enter(PodTrigger.ALLOCATE)
    own.node, own.uuid = event.node, event.uuid
    own.failures = 0
    conditions.allocated(model, own)
    own.amounts = own.ask.resources if own.ask is not None and not own.is_ask_rejected else {}
    own.allocated_by = AllocatedBy.DAEMON
    model.stop_using_class(own)
    if own.is_placeholder:
        gang_answers.note_placed(model, own)
    elif own.gang is not None:
        surplus.allocated(model, own)
    plan = model.predicates.volume_plan(own.pod, event.node) if own.pod.spec.volumes else None
    model.cache.assume(own.judged, event.node)
    if plan is not None and (plan.to_bind or plan.to_provision):
        volumes.begin(model, own, plan)
        _follow_volumes(model, own)
    else:
        _bind(model, own)


def volume_written(model: Model, event: VolumeWritten) -> None:
    own = model.pods.get(event.uid)
    awaited = volumes.awaited_of(own) if own is not None else None
    if own is None or own.volumes is None or awaited is None or own.volumes.attempt != event.attempt:
        return
    awaited.unanswered.discard(event.written)
    what = f'{event.written.kind.value} "{event.written.name}": {event.message}'
    match event.result:
        case VolumeResult.DONE if event.resource_version:
            awaited.versions[event.written] = event.resource_version
            _follow_volumes(model, own)
        case VolumeResult.DONE | VolumeResult.UNKNOWN:
            # The watch tells if it was performed; else it is tried again.
            model.timers.set(model.now_ns + volumes.WRITE_AGAIN_NS, Due.VOLUMES, own.uid)
        case VolumeResult.CHANGED:
            _volumes_failed(model, own, what)
        case VolumeResult.FAILED:
            _volumes_failed(model, own, what, avoids_node=True)


def volumes_changed(model: Model, claim: ClaimKey | None = None, volume: str = "") -> None:
    """The claim or the volume is another one than before, or is gone."""
    for own in volumes.affected(model, claim, volume):
        _follow_volumes(model, own)


def volumes_due(model: Model, uid: str) -> None:
    """A write is to be repeated, the wait for volumes is over, or the pod may be asked for again after a failure."""
    own = model.pods.get(uid)
    if own is None or own.volumes is None:
        return
    if own.volumes.awaited is not None:
        volumes.write(model, own)
        _follow_volumes(model, own)
    elif own.state is PodState.HELD and own.volumes.again_ns <= model.now_ns:
        asking.consider(model, own)


def node_gone(model: Model, own: OwnPod) -> bool:
    """The node of the pod is gone: volumes are not waited for any longer. False if they were not."""
    if volumes.awaited_of(own) is None:
        return False
    # Not left to the removal of the node: the next ask could come before that, and would be one of a placed pod.
    _follow_volumes(model, own)
    return True


def bind_ended(model: Model, event: BindEnded) -> None:
    own = model.pods.get(event.uid)
    if own is None or own.node != event.node or (own.state is not PodState.ASSUMED and own.state not in ON_NODE):
        return
    match event.result:
        case BindResult.DONE:
            _bound(model, own)
        case BindResult.UNKNOWN:
            # The watch tells if it was performed; else the same binding is tried again.
            model.timers.set(model.now_ns + BIND_AGAIN_NS, Due.BIND_AGAIN, own.uid)
        case _ if own.state in ON_NODE:
            return  # the watch was faster, and knows
        case BindResult.GONE:
            if own.slot is not None:
                slots.stand_in(model, own)
            _give_back(model, own, event.message)
            own.enter(PodTrigger.LEAVE)
            if own.slot is not None:  # not when the watch tells it: the daemon may have placed real pods by then
                slots.replace_pod(model, own)
        case BindResult.ELSEWHERE:
            model.cache.assume(own.judged, event.is_at)
            found_on(model, own, event.is_at)
        case BindResult.FAILED:
            _bind_failed(model, own, event)


def bind_again(model: Model, uid: str) -> None:
    """The end of a binding is still not known."""
    own = model.pods.get(uid)
    if own is not None and own.state is PodState.ASSUMED and own.node and volumes.awaited_of(own) is None:
        _bind(model, own)


def released(model: Model, event: AllocationReleased) -> None:
    """The daemon has released the allocation by itself. A pod that is on its node still runs there."""
    model.unconfirmed.pop(event.uuid, None)
    own = model.pods.get(event.key)
    if own is None or own.uuid != event.uuid:
        if own is not None and own.state is PodState.ASKED:
            # It was asked for before the release had come. A daemon that has lost its state meanwhile was told of the
            # allocation and its release, and does not have the ask.
            asking.consider(model, own, again=True)
        return
    own.lose_allocation()
    withdraw_resize(model, own)
    if own.state is PodState.UNREPORTED:
        report_running(model, own)
    elif volumes.awaited_of(own) is not None:
        _volumes_failed(model, own, "the allocation was released")


def release_wanted(model: Model, event: ReleaseWanted) -> None:
    own = model.pods.get(event.key)
    if own is None or own.uuid != event.uuid:
        model.effects.append(ConfirmRelease(event.uuid))
        return
    own.is_release_wanted, own.cause = True, event.cause
    if event.cause is Cause.PREEMPTED and not own.is_placeholder:
        model.predicates.expect_disruptions((own.uid,), model.now_ns)
    if own.pod.metadata.deletion_timestamp is not None or own.is_unwanted:
        return
    if own.is_placeholder:
        model.effects.append(DeletePod(own.name))
        return
    note = event.message or "the scheduler needs the room"
    if model.settings.has_disruption_condition:
        reason = _DISRUPTION_REASONS[event.cause]
        model.effects.append(PatchPodCondition(own.name, "DisruptionTarget", True, reason, note, True))
    model.record(own, _EVENT_REASONS[event.cause], "Preempting", note)
    model.effects.append(DeletePod(own.name))


def delete_ended(model: Model, event: DeleteEnded) -> None:
    """The watch tells when the pod is gone; a deletion that failed is tried again."""
    own = model.pods.get(event.uid)
    if own is None or event.is_done:
        return
    model.record(own, "FailedDelete", "Preempting", event.message or "the pod could not be deleted", is_warning=True)
    model.timers.set(model.now_ns + DELETE_AGAIN_NS, Due.DELETE_AGAIN, own.uid)


def delete_again(model: Model, uid: str) -> None:
    own = model.pods.get(uid)
    is_to_go = own is not None and (own.is_release_wanted or own.is_unwanted)
    if own is not None and is_to_go and own.pod.metadata.deletion_timestamp is None:
        model.effects.append(DeletePod(own.name))


def _bind(model: Model, own: OwnPod) -> None:
    model.effects.append(Bind(own.name, own.node, {PLACED: own.uid} if _says_who_binds(own) else None))


def _says_who_binds(own: OwnPod) -> bool:
    """Members of gangs, and pods that name a user: a later shim has to tell those that were bound from here from those
    that somebody else has bound, and nothing else says it."""
    if own.is_placeholder:
        return False
    if own.group is not None or own.metadata.user is not None:
        return True
    return bool(own.pod.metadata.annotations) and (own.declares_gang or bool(task_group_name(own.pod.metadata)))


def _bound(model: Model, own: OwnPod) -> None:
    volumes.stop(model, own)
    own.volumes = None
    own.enter(PodTrigger.BIND if own.uuid else PodTrigger.FIND)
    own.avoided_nodes.clear()
    own.times_avoided = 0
    conditions.done(own)
    pod = own.name
    note = f"Successfully assigned {pod.namespace}/{pod.name} to {own.node}"
    model.record(own, "Scheduled", "Binding", note, happens_once=True)
    if not own.uuid and not own.is_release_wanted:
        report_running(model, own)  # its node was removed meanwhile, and may be back
    else:
        follow_resize(model, own)


def _bind_failed(model: Model, own: OwnPod, event: BindEnded) -> None:
    """Another node is tried; this one is avoided for a while."""
    model.record(own, "FailedBinding", "Binding", f"node {event.node}: {event.message}", is_warning=True)
    if own.slot is not None:
        slots.stand_in(model, own)
    _give_back(model, own, event.message)
    _avoid(model, own, event.node)
    asking.ask_again(model, own)


def _follow_volumes(model: Model, own: OwnPod) -> None:
    """The pod is bound when all its claims are."""
    progress, problem = volumes.look(model, own)
    if progress is Progress.BOUND:
        volumes.stop(model, own)
        _bind(model, own)
    elif progress is not Progress.WAITING:
        _volumes_failed(model, own, problem, avoids_node=progress is Progress.REFUSED)


def _volumes_failed(model: Model, own: OwnPod, problem: str, *, avoids_node: bool = False) -> None:
    """The pod is asked for again a little later, elsewhere if the node is to be avoided. What was written stays."""
    node, message = own.node, f"node {own.node}: {problem}"
    if own.slot is not None:
        slots.stand_in(model, own)
    _give_back(model, own, message)
    if avoids_node:
        _avoid(model, own, node)
    volumes.back_off(model, own)
    conditions.waits(model, own, held(message, "FailedBinding", is_about_nodes=False))
    asking.ask_again(model, own)


def _avoid(model: Model, own: OwnPod, node: str) -> None:
    """Other nodes are tried for a while: short at first, so that a pod with few nodes to go to does not wait for long
    after a failure that has nothing to do with them."""
    until_ns = model.now_ns + min(AVOIDED_FIRST_NS << min(own.times_avoided, 16), model.settings.avoided_ns)
    own.times_avoided += 1
    own.avoided_nodes[node] = until_ns
    model.timers.set(until_ns, Due.ASK_AGAIN, own.uid)


def _give_back(model: Model, own: OwnPod, message: str) -> None:
    """The pod is not on the node of its allocation."""
    if own.application is not None and own.uuid:
        effect = (
            ConfirmRelease(own.uuid)
            if own.is_release_wanted
            else ReleaseAllocation(own.application.id, own.uid, own.uuid, message)
        )
        model.effects.append(effect)
    own.lose_allocation()
    own.node, own.is_release_wanted = "", False
    volumes.stop(model, own)
    model.cache.forget_assumed(own.uid)
