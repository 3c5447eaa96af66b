"""Nodes come, change, and go. A node that comes is reported with the pods that run on it already.

Pods that turn up later are reported with an update of their node.
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster import allocations, applications
from schedulerd.kubernetes.cluster.asking import resize, task_group_of
from schedulerd.kubernetes.cluster.effects import CreateNode, ExistingAllocation, RemoveNode
from schedulerd.kubernetes.cluster.gangs import door, life, surplus
from schedulerd.kubernetes.cluster.model import ApplicationState, Model, OwnPod
from schedulerd.kubernetes.cluster.node_reports import NodeReport
from schedulerd.kubernetes.cluster.pod_lifecycle import ON_NODE, UNALLOCATED, AllocatedBy, PodState, PodTrigger
from schedulerd.kubernetes.cluster.pods import give_up, requests, withdraw_resize
from schedulerd.kubernetes.metadata.names import ALLOW_PREEMPTION, YUNIKORN_PREFIX
from schedulerd.kubernetes.metadata.pods import may_be_preempted
from schedulerd.kubernetes.objects.node import Node

_OPT_OUT_TAG = YUNIKORN_PREFIX + ALLOW_PREEMPTION


def put(model: Model, node: Node) -> None:
    model.cache.put_node(node)
    facts = model.cache.node_facts(node.metadata.name)
    assert facts is not None
    model.nodes.put(node, facts)


def gone(model: Model, node: Node) -> None:
    name = node.metadata.name
    model.cache.remove_node(name)
    report = model.nodes.remove(name)
    for own in pods_on(model, name):
        model.nodes.vacate(own.uid)
        if own.state is PodState.ASKED or allocations.node_gone(model, own):
            continue  # one that is asked for has no allocation there: room was promised to it
        if own.allocated_by is AllocatedBy.NODE_UPDATE:
            give_up(model, own, "its node is gone")  # the daemon may have it elsewhere still
        own.lose_allocation()  # the daemon drops it with the node
        own.is_release_wanted = False
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
        if own.state not in ON_NODE or own.node != report.name:
            continue
        if (existing := _existing(model, own)) is not None:
            own.allocated_by = AllocatedBy.NODE_UPDATE
            found.append(existing)
        elif not own.uuid or (own.application is not None and own.application.state is ApplicationState.WAITING):
            # The daemon keeps what was reported, though without its application: it would count twice, and outlive the
            # pod.
            give_up(model, own, "its application waits to be added again")
            own.is_release_wanted = False
            model.nodes.occupy(own.uid, report.name, requests(own.pod))
    return tuple(found)


def create(model: Model, report: NodeReport, *, with_pods: bool = True) -> None:
    """Reports the node; without its pods they are counted as occupied."""
    existing: list[ExistingAllocation] = []
    if with_pods:
        _form_gangs(model, report.name)
    for own in pods_on(model, report.name):
        if own.state not in UNALLOCATED:
            continue
        taken = _existing(model, own) if with_pods and own.state is not PodState.SET_ASIDE else None
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


def new_classes(model: Model) -> None:
    """Classes that were wanted come now."""
    classes = model.nodes.classes
    due_ns = classes.next_pass_ns
    if due_ns is not None and model.now_ns >= due_ns and classes.add_wanted(model.now_ns):
        classes.passed(model.now_ns)
        model.nodes.all_changed()


def idle_classes(model: Model) -> None:
    if model.nodes.classes.drop_idle(model.now_ns):
        model.nodes.all_changed()


def pods_on(model: Model, name: str) -> list[OwnPod]:
    """Own pods of the node, assumed ones included."""
    state = model.cache.state.nodes.get(name)
    if state is None:
        return []
    return [own for uid in state.pods if (own := model.pods.get(uid)) is not None]


def _form_gangs(model: Model, name: str) -> None:
    """Gangs whose pods run on the node are added before it."""
    for own in pods_on(model, name):
        if own.state not in UNALLOCATED or own.is_placeholder:
            continue
        if own.application is None:
            applications.join(model, own)
        elif own.application.state is ApplicationState.FORMING:
            model.gangs_due[own.application.id] = None
    if model.gangs_due or model.unwanted:
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
        own.task_group = task_group_of(own)
        if own.gang is not None:
            surplus.runs_elsewhere(model, own)
        own.adoptions += 1
        own.uuid = own.uuid_of_report(own.adoptions)
        own.enter(PodTrigger.REPORT)
    own.amounts, own.allocated_by = amounts, AllocatedBy.NODE_REPORT
    if own.amounts_asked and own.amounts_asked != amounts:
        resize(model, own, amounts)  # an earlier ask that comes after this report must not be the last word
    priority_class = model.priority_classes.get(own.pod.spec.priority_class_name)
    tags = {} if may_be_preempted(own.pod, priority_class) else {_OPT_OUT_TAG: "false"}
    return ExistingAllocation(
        own.application.id,
        own.uid,
        own.uuid,
        amounts,
        door.priority(model, own),
        tags,
        own.task_group,
        own.is_placeholder,
    )
