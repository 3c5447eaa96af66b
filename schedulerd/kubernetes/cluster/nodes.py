"""Nodes come, change, and go. A node that comes is reported with the pods that run on it already.

Pods that turn up later are reported with an update of their node. The daemon answers an update only if it rejects it;
it names the pod that is to blame, and everything else is reported again.
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster import allocations, applications
from schedulerd.kubernetes.cluster.asking import resize, task_group_of
from schedulerd.kubernetes.cluster.effects import CreateNode, ExistingAllocation, ObjectName, RecordEvent, RemoveNode
from schedulerd.kubernetes.cluster.events import NodeRejected
from schedulerd.kubernetes.cluster.gangs import life, members, slots
from schedulerd.kubernetes.cluster.model import ApplicationState, Model, OwnPod, PodState
from schedulerd.kubernetes.cluster.node_reports import NodeReport
from schedulerd.kubernetes.cluster.pods import give_up, report_running, requests, withdraw_resize
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due
from schedulerd.kubernetes.metadata.names import ALLOW_PREEMPTION, YUNIKORN_PREFIX
from schedulerd.kubernetes.metadata.pods import may_be_preempted
from schedulerd.kubernetes.objects.node import Node

RETRY_FIRST_NS = 5 * SECOND_NS
RETRY_MOST_NS = 300 * SECOND_NS
_OPT_OUT_TAG = YUNIKORN_PREFIX + ALLOW_PREEMPTION


def put(model: Model, node: Node) -> None:
    model.view.put_node(node)
    facts = model.view.node_facts(node.metadata.name)
    assert facts is not None
    model.nodes.put(node, facts)


def gone(model: Model, node: Node) -> None:
    name = node.metadata.name
    model.view.remove_node(name)
    report = model.nodes.remove(name)
    for own in _pods_on(model, name):
        model.nodes.vacate(own.uid)
        if allocations.node_gone(model, own):
            continue
        if own.is_reported_late:
            give_up(model, own, "its node is gone")  # the daemon may have it elsewhere still
        own.uuid, own.is_release_wanted = "", False  # the daemon drops the allocations with the node
        withdraw_resize(model, own)
    if report is None or not report.is_created:
        return
    if name in model.nodes.unanswered:
        model.nodes.to_remove.add(name)
    else:
        model.effects.append(RemoveNode(name))


def report_changes(model: Model) -> None:
    """Tells the daemon what has changed in this step, but for nodes that it still has to answer."""
    _report_changes(model)
    if model.gangs_due:  # pods that were reported are members of gangs
        life.review(model)
        _report_changes(model)


def _report_changes(model: Model) -> None:
    nodes = model.nodes
    if not nodes.changed:
        return
    for name in [name for name in nodes.changed if name not in nodes.unanswered]:
        report = nodes.known[name]
        if report.is_created:
            change = nodes.update(report, _arrived(model, report))
            if change is not None:
                model.effects.append(change)
        elif not report.failures:
            create(model, report)
        del nodes.changed[name]


def _arrived(model: Model, report: NodeReport) -> tuple[ExistingAllocation, ...]:
    """The pods that have turned up on the node; those that cannot have an allocation are counted as occupied."""
    if not report.arrived:
        return ()
    _form_gangs(model, report.name)
    uids = list(report.arrived)
    report.arrived.clear()
    found = []
    for own in [own for uid in uids if (own := model.pods.get(uid)) is not None]:
        if own.state is not PodState.BOUND or own.node != report.name:
            continue
        if (existing := _existing(model, own)) is not None:
            own.is_reported_late = True
            found.append(existing)
        elif not own.uuid or (own.application is not None and own.application.state is ApplicationState.WAITING):
            own.uuid = ""  # the daemon does not have its application, so no allocation either
            model.nodes.occupy(own.uid, report.name, requests(own.pod))
    return tuple(found)


def create(model: Model, report: NodeReport, *, with_pods: bool = True) -> None:
    """Reports the node; without its pods they are counted as occupied."""
    existing: list[ExistingAllocation] = []
    if with_pods:
        _form_gangs(model, report.name)
    for own in _pods_on(model, report.name):
        if own.state is not PodState.BOUND or own.uuid:
            continue
        taken = _existing(model, own) if with_pods and not own.is_set_aside else None
        if taken is None:
            model.nodes.occupy(own.uid, report.name, requests(own.pod))
        else:
            existing.append(taken)
    report.is_created = True
    report.is_doubtful = False
    report.arrived.clear()
    model.nodes.unanswered.add(report.name)
    report.resources, report.occupied, report.attributes = model.nodes.current(report)
    model.effects.append(CreateNode(report.name, report.resources, report.occupied, report.attributes, tuple(existing)))


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
    for own in _pods_on(model, report.name):
        if own.state is PodState.BOUND and not own.uuid and not own.is_set_aside:
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
    for own in [one for one in _pods_on(model, name) if one.uuid]:
        if own.uid == event.key:
            _set_aside(model, own)
            is_pod_to_blame = True
        elif own.application is not None and own.application.state is ApplicationState.WAITING:
            is_pod_to_blame = True
        own.uuid, own.is_reported_late = "", False
    _tell_rejected(model, report, "Registering", event.reason)
    report.failures += 1
    if is_pod_to_blame:
        create(model, report)
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
    for own in [one for one in _pods_on(model, name) if one.state is PodState.BOUND and one.uuid]:
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
    own.uuid, own.is_reported_late, own.is_set_aside = "", False, True
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
        create(model, report, with_pods=False)


def update_again(model: Model, name: str) -> None:
    if model.nodes.is_created(name):
        model.nodes.changed[name] = None


def report_pod_again(model: Model, uid: str) -> None:
    """A pod that the daemon would not take is counted as occupied; it is tried again."""
    own = model.pods.get(uid)
    if own is None:
        return
    own.is_set_aside = False
    if own.state is PodState.BOUND and not own.uuid:
        report_running(model, own)


def new_classes(model: Model) -> None:
    """Classes that were wanted come now."""
    classes = model.nodes.classes
    due_ns = classes.next_pass_ns
    if due_ns is not None and model.now_ns >= due_ns and classes.admit_wanted(model.now_ns):
        classes.passed(model.now_ns)
        model.nodes.all_changed()


def idle_classes(model: Model) -> None:
    if model.nodes.classes.drop_idle(model.now_ns):
        model.nodes.all_changed()


def _pods_on(model: Model, name: str) -> list[OwnPod]:
    """Own pods of the node, assumed ones included."""
    state = model.view.state.nodes.get(name)
    if state is None:
        return []
    return [own for uid in state.pods if (own := model.pods.get(uid)) is not None]


def _form_gangs(model: Model, name: str) -> None:
    """Gangs whose pods run on the node are added before it."""
    for own in _pods_on(model, name):
        if own.state is not PodState.BOUND or own.uuid or own.is_placeholder:
            continue
        if own.application is None:
            applications.join(model, own)
        elif own.application.state is ApplicationState.FORMING:
            model.gangs_due[own.application.id] = None
    life.review(model)


def _existing(model: Model, own: OwnPod) -> ExistingAllocation | None:
    """The pod as an allocation; None if it cannot be one: its application cannot take it, or nobody wants it."""
    amounts = requests(own.pod)
    if not amounts or (own.is_unwanted and not own.uuid):
        return None
    applications.join(model, own)
    if own.application is None or not applications.has_joined(own):
        return None
    model.nodes.vacate(own.uid)
    if not own.uuid:
        own.task_group = task_group_of(model, own)
        members.runs_elsewhere(model, own)
        own.adoptions += 1
        own.uuid = own.uuid_of_report(own.adoptions)
    own.amounts, own.is_reported, own.is_reported_late = amounts, True, False
    if own.amounts_asked and own.amounts_asked != amounts:
        resize(model, own, amounts)  # an earlier ask that comes after this report must not be the last word
    priority_class = model.priority_classes.get(own.pod.spec.priority_class_name)
    tags = {} if may_be_preempted(own.pod, priority_class) else {_OPT_OUT_TAG: "false"}
    return ExistingAllocation(
        own.application.id,
        own.uid,
        own.uuid,
        amounts,
        own.pod.spec.priority or 0,
        tags,
        own.task_group,
        own.is_placeholder,
    )
