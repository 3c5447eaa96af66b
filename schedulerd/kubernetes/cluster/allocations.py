"""From the daemon's allocation to the bound pod, and back.

    ASKED ──allocated, all predicates hold──▶ ASSUMED ──bound──▶ BOUND ──ended──▶ released
      ▲            │ a predicate refuses         │ refused, failed, not in time
      └────────────┴── released and asked again ─┘ (elsewhere, for a minute)

Every allocation is judged again by all predicates against the cluster with what is assumed already: two allocations of
one batch know nothing of each other's ports and labels.
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster import asking, conditions
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
)
from schedulerd.kubernetes.cluster.gangs import answers as gang_answers
from schedulerd.kubernetes.cluster.gangs import slots
from schedulerd.kubernetes.cluster.model import Model, OwnPod, PodState
from schedulerd.kubernetes.cluster.pods import follow_resize, found_on, report_running, withdraw_resize
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due
from schedulerd.kubernetes.predicates.words import reasons

BIND_AGAIN_NS = 5 * SECOND_NS
DELETE_AGAIN_NS = 5 * SECOND_NS

_DISRUPTION_REASONS = {
    Cause.PREEMPTED: "PreemptionByScheduler",
    Cause.TIMEOUT: "TerminationByScheduler",
    Cause.REPLACED: "TerminationByScheduler",
}
_EVENT_REASONS = {Cause.PREEMPTED: "Preempted", Cause.TIMEOUT: "TimedOut", Cause.REPLACED: "Replaced"}


def allocated(model: Model, event: Allocated) -> None:
    if gang_answers.allocated(model, event):
        return
    own = model.pods.get(event.key)
    application_id = own.application.id if own is not None and own.application is not None else ""
    if own is None or own.state is not PodState.ASKED or application_id != event.application_id:
        message = "the pod needs no node any longer"
        model.effects.append(ReleaseAllocation(event.application_id, event.key, event.uuid, message))
        return
    refusals = model.view.judge(own.pod, event.node, first_only=True)
    if refusals:
        message = f"{event.node}: {', '.join(reasons(refusals))}"
        slots.stand_in(model, own)
        model.effects.append(ReleaseAllocation(event.application_id, event.key, event.uuid, message))
        if own.needs_callback:  # it was asked about: the daemon knows less of the node, and would allocate it again
            _leave_out(model, own, event.node)
        own.needs_callback = True
        asking.ask_again(model, own)
        return
    own.state, own.node, own.uuid = PodState.ASSUMED, event.node, event.uuid
    own.failures = 0
    own.amounts = own.ask.resources if own.ask is not None and not own.is_ask_rejected else {}
    own.is_reported = own.is_reported_late = False
    asking.stop_using_class(model, own)
    if own.is_placeholder:
        gang_answers.note_placed(model, own)
    model.view.assume(own.pod, event.node)
    model.effects.append(Bind(own.name, event.node))


def bind_ended(model: Model, event: BindEnded) -> None:
    own = model.pods.get(event.uid)
    if own is None or own.node != event.node or own.state not in (PodState.ASSUMED, PodState.BOUND):
        return
    match event.result:
        case BindResult.DONE:
            _bound(model, own)
        case BindResult.UNKNOWN:
            # The watch tells if it was performed; else the same binding is tried again.
            model.timers.set(model.now_ns + BIND_AGAIN_NS, Due.BIND_AGAIN, own.uid)
        case _ if own.state is PodState.BOUND:
            return  # the watch was faster, and knows
        case BindResult.GONE:
            _give_back(model, own, event.message)
            own.state = PodState.LEAVING
        case BindResult.ELSEWHERE:
            model.view.assume(own.pod, event.is_at)
            found_on(model, own, event.is_at)
        case BindResult.FAILED:
            _bind_failed(model, own, event)


def bind_again(model: Model, uid: str) -> None:
    """The end of a binding is still not known."""
    own = model.pods.get(uid)
    if own is not None and own.state is PodState.ASSUMED and own.node:
        model.effects.append(Bind(own.name, own.node))


def released(model: Model, event: AllocationReleased) -> None:
    """The daemon has released the allocation by itself. A pod that is on its node still runs there."""
    model.unconfirmed.pop(event.uuid, None)
    if gang_answers.released(model, event):
        return
    own = model.pods.get(event.key)
    if own is None or own.uuid != event.uuid:
        return
    own.uuid = ""
    withdraw_resize(model, own)
    if own.state is PodState.BOUND:
        report_running(model, own)


def release_wanted(model: Model, event: ReleaseWanted) -> None:
    if gang_answers.release_wanted(model, event):
        return
    own = model.pods.get(event.key)
    if own is None or own.uuid != event.uuid:
        model.effects.append(ConfirmRelease(event.uuid))
        return
    own.is_release_wanted, own.cause = True, event.cause
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


def _bound(model: Model, own: OwnPod) -> None:
    own.state = PodState.BOUND
    own.left_out.clear()
    conditions.done(own)
    pod = own.name
    note = f"Successfully assigned {pod.namespace}/{pod.name} to {own.node}"
    model.record(own, "Scheduled", "Binding", note)
    if not own.uuid and not own.is_release_wanted:
        report_running(model, own)  # its node was removed meanwhile, and may be back
    else:
        follow_resize(model, own)


def _bind_failed(model: Model, own: OwnPod, event: BindEnded) -> None:
    """Another node is tried; this one is left out for a while."""
    model.record(own, "FailedBinding", "Binding", f"node {event.node}: {event.message}", is_warning=True)
    slots.stand_in(model, own)
    _give_back(model, own, event.message)
    _leave_out(model, own, event.node)
    asking.ask_again(model, own)


def _leave_out(model: Model, own: OwnPod, node: str) -> None:
    until_ns = model.now_ns + model.settings.left_out_ns
    own.left_out[node] = until_ns
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
    own.uuid, own.node, own.is_release_wanted = "", "", False
    model.view.forget_assumed(own.uid)
