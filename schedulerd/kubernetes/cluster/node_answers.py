"""What the daemon says of nodes.

The report of a node is accepted or rejected. An update is answered only if it is rejected; the daemon names the pod
that is to blame, and everything else is reported again. What was rejected is tried again, less and less often.
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster import nodes
from schedulerd.kubernetes.cluster.effects import ObjectName, RecordEvent, RemoveNode
from schedulerd.kubernetes.cluster.events import NodeRejected
from schedulerd.kubernetes.cluster.gangs import slots
from schedulerd.kubernetes.cluster.model import ApplicationState, Model, OwnPod
from schedulerd.kubernetes.cluster.node_reports import NodeReport
from schedulerd.kubernetes.cluster.pod_lifecycle import UNALLOCATED, PodState, PodTrigger
from schedulerd.kubernetes.cluster.pods import give_up, report_running, requests
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due

RETRY_FIRST_NS = 5 * SECOND_NS
RETRY_MOST_NS = 300 * SECOND_NS


def accepted(model: Model, name: str) -> None:
    report = model.nodes.known.get(name)
    if not _is_awaited(model, name):
        # What was taken for its rejection was that of an update of the node that had this name before.
        if report is None:
            model.effects.append(RemoveNode(name))
        elif not report.is_created:
            report.is_created = report.is_doubtful = True
            _has_come(model, report)
        return
    if name in model.nodes.to_remove:
        model.nodes.to_remove.discard(name)
        model.effects.append(RemoveNode(name))
    elif report is not None:
        _has_come(model, report)


def _has_come(model: Model, report: NodeReport) -> None:
    """The daemon has the node, and is told of pods that it was reported without."""
    report.failures = 0
    for own in nodes.pods_on(model, report.name):
        if own.state is PodState.UNREPORTED:
            model.nodes.arrive(own.uid, report.name)


def rejected(model: Model, event: NodeRejected) -> None:
    """The daemon does not take the node. It is reported again: at once without the pods that are to blame, or, if none
    is known to be, later without any; these then arrive when the node is there."""
    name = event.name
    if not _is_awaited(model, name):
        _update_rejected(model, event)
        return
    report = model.nodes.known.get(name)
    if name in model.nodes.to_remove or report is None:
        model.nodes.to_remove.discard(name)
        return
    report.is_created = False
    is_pod_to_blame = False
    for own in [one for one in nodes.pods_on(model, name) if one.uuid]:
        if own.uid == event.key:
            _set_aside(model, own)
            is_pod_to_blame = True
        elif own.application is not None and own.application.state is ApplicationState.WAITING:
            is_pod_to_blame = True
        own.lose_allocation()
        own.update_answered()
    _tell_rejected(model, report, "Registering", event.reason)
    report.failures += 1
    if is_pod_to_blame:
        nodes.create(model, report)
    else:
        model.timers.set(model.now_ns + _delay_ns(report.failures), Due.CREATE_NODE, name)


def _update_rejected(model: Model, event: NodeRejected) -> None:
    """Nothing of the update has happened. The pod that is to blame is counted as occupied, and reported again later;
    all the rest is reported again now, or later if no pod is."""
    name = event.name
    report = model.nodes.known.get(name)
    if report is None or not report.is_created or name in model.nodes.unanswered:
        return
    _tell_rejected(model, report, "Updating", event.reason)
    report.is_doubtful = True
    is_pod_to_blame = False
    for own in [one for one in nodes.pods_on(model, name) if one.state is PodState.BOUND]:
        if own.uid == event.key:
            is_pod_to_blame = True
            report.arrived.pop(own.uid, None)
            if own.is_placeholder:
                slots.stand_in(model, own)
            give_up(model, own, "its report was rejected")  # it may have been another node's
            _set_aside(model, own)
            model.nodes.occupy(own.uid, name, requests(own.pod))
        else:
            model.nodes.arrive(own.uid, name)
    if is_pod_to_blame:
        model.nodes.changed[name] = None
        return
    model.nodes.changed.pop(name, None)
    report.failures += 1
    model.timers.set(model.now_ns + _delay_ns(report.failures), Due.UPDATE_NODE, name)


def _set_aside(model: Model, own: OwnPod) -> None:
    """The daemon has rejected the node because of the pod, which is counted as occupied for a while."""
    own.lose_allocation()
    own.enter(PodTrigger.REJECT)
    own.update_answered()
    own.failures += 1
    model.timers.set(model.now_ns + _delay_ns(own.failures), Due.REPORT_POD, own.uid)
    if own.is_placeholder:
        slots.stand_in(model, own)
        slots.replace_pod(model, own)


def _tell_rejected(model: Model, report: NodeReport, action: str, reason: str) -> None:
    regarding = ObjectName("Node", report.name, report.uid)
    model.effects.append(RecordEvent(regarding, "NodeRejected", action, reason, is_warning=True))


def _delay_ns(failures: int) -> int:
    return min(RETRY_FIRST_NS << min(failures - 1, 10), RETRY_MOST_NS)


def _is_awaited(model: Model, name: str) -> bool:
    """The answer is one to the report of the node, and what has changed since can be reported now."""
    if name not in model.nodes.unanswered:
        return False
    model.nodes.unanswered.discard(name)
    if name in model.nodes.known:
        model.nodes.changed[name] = None
    return True


def create_again(model: Model, name: str) -> None:
    report = model.nodes.known.get(name)
    if report is not None and not report.is_created and name not in model.nodes.unanswered:
        nodes.create(model, report, with_pods=False)


def update_again(model: Model, name: str) -> None:
    if model.nodes.is_created(name):
        model.nodes.changed[name] = None


def report_pod_again(model: Model, uid: str) -> None:
    """A pod that the daemon would not take is counted as occupied; it is tried again."""
    own = model.pods.get(uid)
    if own is not None and own.state in UNALLOCATED:
        report_running(model, own)
