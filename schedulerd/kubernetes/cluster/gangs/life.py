"""From the pods that form a gang to its end.

What happens marks the application as due, and `review` looks at it at the end of the step: so a gang sees all pods of
a batch, or of a start, before it is declared.
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster import applications, asking, conditions, failing, namespace_following
from schedulerd.kubernetes.cluster.effects import ReleaseAsk
from schedulerd.kubernetes.cluster.gangs import (
    declaration,
    declared,
    earlier_run,
    late_declaration,
    membership,
    slots,
    surplus,
    waiting,
)
from schedulerd.kubernetes.cluster.gangs.forming import form, real_pods
from schedulerd.kubernetes.cluster.gangs.lifecycle import GangProgress, GangStage, GangTrigger
from schedulerd.kubernetes.cluster.gangs.model import ALL_MEMBERS, Gang, GangTime, GroupKey, KnownGroup
from schedulerd.kubernetes.cluster.model import Application, ApplicationState, Model
from schedulerd.kubernetes.cluster.pod_lifecycle import UNALLOCATED, PodState, PodTrigger
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.metadata.application_ids import ApplicationId
from schedulerd.kubernetes.metadata.gangs import GangStyle
from schedulerd.kubernetes.reasons.waiting import held

FAILED_REASON = "ResourceReservationTimeout"
_RUN_STATES = frozenset({"Starting", "Running"})
_GIVEN_UP = frozenset({"Resuming", "Failing"})


def review(model: Model) -> None:
    """Does what is due for gangs."""
    for uid in list(model.unwanted):
        del model.unwanted[uid]
        if (own := model.pods.get(uid)) is not None and own.slot is None:
            slots.remove_pod(model, own)
    while model.gangs_due:
        application_id = next(iter(model.gangs_due))
        del model.gangs_due[application_id]
        application = model.applications.get(application_id)
        if application is not None and application_id in model.waiting_for_declaration:
            asking.consider_all(model, late_declaration.take_waiting(model, application))
        if application is not None and application.next_run:
            asking.consider_all(model, earlier_run.review(model, application))
        if application is not None and application.gang is not None:
            _review(model, application, application.gang)
            waiting.show(model, application)


def due(model: Model, application_id: ApplicationId) -> None:
    """A wait is over."""
    if application_id in model.applications:
        model.gangs_due[application_id] = None


def declaration_due(model: Model, uid: str) -> None:
    """The pod has waited long enough for the one that declares its task group, or for one that did."""
    own = model.pods.get(uid)
    if own is not None and own.application is None:
        late_declaration.due(model, own)
        asking.consider_all(model, [own])


def remove_unwanted(model: Model) -> None:
    """After a start: placeholder pods that no gang has adopted are deleted."""
    for own in list(model.pods.values()):
        if own.is_placeholder and own.slot is None:
            slots.remove_pod(model, own)


def in_words(model: Model, application: Application, message: str) -> str:
    """What the daemon says of the application. That the time of its gang is over is said in the words of Kubernetes."""
    gang = application.gang
    if gang is None or not message.startswith(FAILED_REASON):
        return message
    waiting.note_timed_out(model, application)
    return f"{FAILED_REASON}: {gang.shortfall}" if gang.shortfall else message


def updated(model: Model, application: Application, gang: Gang, state: str, message: str) -> None:
    """The daemon says of the application in which state it is."""
    if state in _RUN_STATES:
        gang.reach(GangProgress.RUNS)
        gang.has_failed_pods = False
        model.gangs_due[application.id] = None  # it may be complete
    elif state in _GIVEN_UP and not gang.has_run:
        _end(model, application, gang, message or f"the application is {state}")


def timed_out(model: Model, application: Application) -> None:
    """The daemon says so of a placeholder. An application that waits for its gang gets another state as well; one that
    runs already, as somebody else has bound a member, goes on without the placeholders that are left."""
    waiting.note_timed_out(model, application)
    gang = application.gang
    if gang is not None and gang.has_run and not gang.was_complete:
        _end(model, application, gang, in_words(model, application, FAILED_REASON))


def failed(model: Model, application: Application, gang: Gang, message: str, *, is_rejected: bool) -> None:
    """The application waits to be added again. With the style Hard its pods fail, once."""
    if gang.style is GangStyle.HARD and not is_rejected and not gang.has_failed_pods:
        gang.has_failed_pods = True
        for own in real_pods(application):
            if not own.node:
                model.record(own, "ApplicationFailed", "Scheduling", message, is_warning=True)
                failing.fail(model, own, FAILED_REASON, message)
    _start_over(model, application, gang)


def _start_over(model: Model, application: Application, gang: Gang) -> None:
    """The daemon has forgotten the application: its gang has to be formed anew."""
    slots.clear(model, application, gang)
    gang.clear_slots()
    gang.enter(GangTrigger.START_OVER)
    gang.short_since_ns, gang.first_placed_ns, gang.first_placed_s, gang.said = None, None, 0, ""
    model.gangs_due[application.id] = None


def form_anew(model: Model, application: Application, gang: Gang) -> None:
    """The daemon has forgotten the application, or forgets it now, and pods of it wait."""
    application.state = ApplicationState.FORMING
    is_asked_for = False
    for own in application.pods.values():
        if own.state is PodState.ASKED and not own.is_placeholder:
            # Its ask may be on the way to the application of before, and must not wait for the next one.
            model.effects.append(ReleaseAsk(application.id, own.uid))
            model.stop_asking(own, PodTrigger.WAIT)
            is_asked_for = True
            model.stop_using_class(own)
        elif own.state in UNALLOCATED:
            model.nodes.arrive(own.uid, own.node)
    _start_over(model, application, gang)
    if is_asked_for and not any(own.node for own in application.pods.values()):
        membership.form_later(model, application, gang, model.now_ns + membership.FORM_AGAIN_NS)


def group_changed(model: Model, key: GroupKey) -> None:
    """A PodGroup is new, or says something else."""
    if not model.is_started:
        return
    for uid in model.waiting_for_groups.pop(key, {}):
        own = model.pods.get(uid)
        if own is not None and own.state is PodState.HELD:
            asking.consider(model, own)
    for application in model.applications.values():
        gang = application.gang
        if gang is None or gang.key is None:
            continue
        if gang.stage is GangStage.FORMING:
            model.gangs_due[application.id] = None
        elif gang.tag and (known := declaration.known_group(model, gang.key)) is not None:
            _min_changed(model, application, gang, known)


def _min_changed(model: Model, application: Application, gang: Gang, known: KnownGroup) -> None:
    """The PodGroup needs another number of members than when the gang was formed."""
    group = gang.groups[ALL_MEMBERS]
    if group.members != known.min_member and known.min_member > 0:
        group.members = known.min_member
        gang.tag = declared.tag(model, gang)
        namespace_following.follow(model, application)


def task_groups(model: Model, application_id: ApplicationId) -> str:
    """What a new daemon has to know of the gang; empty if that is nothing."""
    application = model.applications.get(application_id)
    gang = application.gang if application is not None else None
    return declared.tag(model, gang) if gang is not None and gang.tag else ""


def gang_time(model: Model, application_id: ApplicationId) -> GangTime | None:
    """What a new daemon has to know of the time of a gang; None if it has not begun, or does not count any longer."""
    application = model.applications.get(application_id)
    gang = application.gang if application is not None else None
    if gang is None or gang.was_complete or gang.is_past or (gang.first_placed_ns is None and not gang.first_placed_s):
        return None
    if membership.all_hold_room(gang):
        return None
    return GangTime(membership.timeout_ns(model, gang) / SECOND_NS, gang.first_placed_ns, gang.first_placed_s)


def _review(model: Model, application: Application, gang: Gang) -> None:
    if application.state is ApplicationState.WAITING:
        return
    has_pods = application.has_real_pods
    if gang.has_placeholders and gang.stage in (GangStage.RESERVING, GangStage.OPEN) and not has_pods:
        slots.clear(model, application, gang)
        gang.enter(GangTrigger.ABANDON)
    if gang.stage is GangStage.OVER or (gang.stage is GangStage.ABANDONED and not has_pods):
        return
    if gang.stage is GangStage.ABANDONED:
        gang.enter(GangTrigger.START_OVER)
    if gang.stage is GangStage.FORMING:
        if model.now_ns < gang.not_before_ns:
            return
        stage = form(model, application, gang)
        if stage is None:
            return
        if stage is not GangStage.RESERVING:
            _ask_for_pods(model, application, gang)
    if _is_too_late(model, gang):
        _give_up(model, application, gang)
        return
    if gang.has_placeholders and not gang.is_past:
        surplus.give_up_surplus(model, application, gang)
        if gang.progress is GangProgress.RUNS and membership.all_hold_room(gang):
            gang.reach(GangProgress.WAS_COMPLETE)
        slots.place(model, application, gang)
        slots.end_stand_ins(model, application, gang)
    if gang.stage is GangStage.OPEN and not gang.to_come:
        gang.short_since_ns = None
    if gang.stage is GangStage.RESERVING and not gang.to_come:
        gang.enter(GangTrigger.OPEN)
        _ask_for_pods(model, application, gang)


def _is_too_late(model: Model, gang: Gang) -> bool:
    """Not all placeholders could be created in time. A gang that was complete continues without them."""
    if gang.is_past or (gang.was_complete and gang.stage is GangStage.OPEN):
        return False
    return gang.short_since_ns is not None and model.now_ns >= gang.short_since_ns + membership.timeout_ns(model, gang)


def _give_up(model: Model, application: Application, gang: Gang) -> None:
    problem = next((slot.problem for slot in gang.slots.values() if slot.problem), "they were not created in time")
    message = f"{FAILED_REASON}: {len(gang.to_come)} of {len(gang.slots)} placeholders are missing: {problem}"
    if gang.style is GangStyle.SOFT or gang.has_run:  # what runs does not fail
        _end(model, application, gang, message)
    else:
        slots.clear(model, application, gang)
        why = held(message, "GangSchedulingFailed", is_about_nodes=False)
        applications.remove_and_wait(model, application, why)
        for own in real_pods(application):
            if own.state is PodState.ASKED:
                model.stop_asking(own, PodTrigger.WAIT)
                model.stop_using_class(own)
            if own.state is PodState.HELD:
                conditions.waits(model, own, why)
        failed(model, application, gang, message, is_rejected=False)


def _end(model: Model, application: Application, gang: Gang, message: str) -> None:
    """The gang is given up, and its room given back; with the style Soft its pods go on without it."""
    if gang.is_past:
        return
    if gang.originator is not None:
        model.record(gang.originator, "GangSchedulingFailed", "Scheduling", message, is_warning=True)
    slots.clear(model, application, gang)
    gang.enter(GangTrigger.END)
    _ask_for_pods(model, application, gang)


def _ask_for_pods(model: Model, application: Application, gang: Gang) -> None:
    """Real pods need not be held any longer."""
    gang.short_since_ns = None
    for own in real_pods(application):
        if own.state is PodState.HELD and membership.may_ask(gang):
            asking.consider(model, own)
