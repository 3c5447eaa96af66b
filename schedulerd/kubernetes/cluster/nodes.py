"""Nodes come, change, and go. A node that comes is reported with the pods that run on it already."""

from __future__ import annotations

from schedulerd.kubernetes.cluster import applications
from schedulerd.kubernetes.cluster.asking import task_group_of
from schedulerd.kubernetes.cluster.effects import CreateNode, ExistingAllocation, ObjectName, RecordEvent, RemoveNode
from schedulerd.kubernetes.cluster.gangs import life
from schedulerd.kubernetes.cluster.model import Model, OwnPod, PodState
from schedulerd.kubernetes.cluster.node_reports import NodeReport
from schedulerd.kubernetes.cluster.pods import requests
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
        own.uuid, own.is_release_wanted = "", False  # the daemon drops the allocations with the node
    if report is None or not report.is_created:
        return
    if name in model.nodes.unanswered:
        model.nodes.to_remove.add(name)
    else:
        model.effects.append(RemoveNode(name))


def report_changes(model: Model) -> None:
    """Tells the daemon what has changed in this step, but for nodes that it still has to answer."""
    nodes = model.nodes
    for name in [name for name in nodes.changed if name not in nodes.unanswered]:
        del nodes.changed[name]
        report = nodes.known[name]
        if not report.is_created:
            if not report.failures:
                create(model, report)
        elif (change := nodes.update(report)) is not None:
            model.effects.append(change)


def create(model: Model, report: NodeReport, *, with_pods: bool = True) -> None:
    """Reports the node; without its pods they are counted as occupied."""
    existing: list[ExistingAllocation] = []
    if with_pods:
        _form_gangs(model, report.name)
    for own in _pods_on(model, report.name):
        if own.state is not PodState.BOUND or own.uuid:
            continue
        taken = _existing(model, own) if with_pods else None
        if taken is None:
            model.nodes.occupy(own.uid, report.name, requests(own.pod))
        else:
            existing.append(taken)
    report.is_created = True
    model.nodes.unanswered.add(report.name)
    report.resources, report.occupied, report.attributes = model.nodes.current(report)
    model.effects.append(CreateNode(report.name, report.resources, report.occupied, report.attributes, tuple(existing)))


def accepted(model: Model, name: str) -> None:
    if not _is_awaited(model, name):
        return
    if name in model.nodes.to_remove:
        model.nodes.to_remove.discard(name)
        model.effects.append(RemoveNode(name))
    elif (report := model.nodes.known.get(name)) is not None:
        report.failures = 0


def rejected(model: Model, name: str, reason: str) -> None:
    """The daemon does not take the node: it is reported again later, and without its pods."""
    if not _is_awaited(model, name):
        return
    report = model.nodes.known.get(name)
    if name in model.nodes.to_remove or report is None:
        model.nodes.to_remove.discard(name)
        return
    report.is_created = False
    for own in _pods_on(model, name):
        own.uuid = ""
    regarding = ObjectName("Node", name, report.uid)
    model.effects.append(RecordEvent(regarding, "NodeRejected", "Registering", reason, is_warning=True))
    delay_ns = min(RETRY_FIRST_NS << min(report.failures, 10), RETRY_MOST_NS)
    report.failures += 1
    model.timers.set(model.now_ns + delay_ns, Due.CREATE_NODE, name)


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
        if own.state is PodState.BOUND and not own.uuid and own.application is None and not own.is_placeholder:
            applications.join(model, own)
    life.review(model)


def _existing(model: Model, own: OwnPod) -> ExistingAllocation | None:
    """The pod as an allocation; None if it cannot be one: its application cannot take it."""
    amounts = requests(own.pod)
    if not amounts or not applications.join(model, own) or own.application is None:
        return None
    model.nodes.vacate(own.uid)
    own.adoptions += 1
    own.uuid = own.uid if own.adoptions == 1 else f"{own.uid}-{own.adoptions}"
    priority_class = model.priority_classes.get(own.pod.spec.priority_class_name)
    tags = {} if may_be_preempted(own.pod, priority_class) else {_OPT_OUT_TAG: "false"}
    return ExistingAllocation(
        own.application.id,
        own.uid,
        own.uuid,
        {name: amount for name, amount in amounts.items() if amount > 0},
        own.pod.spec.priority or 0,
        tags,
        task_group_of(model, own),
        own.is_placeholder,
    )
