"""Pods without a node: whether the daemon can be asked for one, and with what.

A pod that nodes refuse by their own properties alone carries a node selector and a class, and is placed without a
callback. Only before other pods are preempted for it is it asked about, because of their disruption budgets. All other
pods, daemon pods among them, are asked about always.

Pods that nodes have refused because of other pods, volumes or namespaces are asked for again when something changes
that may be why (`predicates.queueing_hints`): a moment later, so that what comes together counts once, and a hundred in
a second, in the order in which they were woken. There is one timer, however often something changes meanwhile. A pod
that is refused again waits for the next change.
"""

from __future__ import annotations

from functools import lru_cache

from schedulerd.kubernetes.cluster import applications, claims, conditions, daemon_sets, joining
from schedulerd.kubernetes.cluster.conditions import POD_SCHEDULED
from schedulerd.kubernetes.cluster.effects import Amounts, Ask, ReleaseAsk
from schedulerd.kubernetes.cluster.gangs import door
from schedulerd.kubernetes.cluster.gangs.model import ALL_MEMBERS
from schedulerd.kubernetes.cluster.model import Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import UNALLOCATED, PodState, PodTrigger
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due
from schedulerd.kubernetes.metadata.gangs import task_group_name
from schedulerd.kubernetes.metadata.pods import may_be_preempted, may_preempt
from schedulerd.kubernetes.objects.meta import epoch_seconds
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates import demands
from schedulerd.kubernetes.predicates.node_class import HOST_NAME_ATTRIBUTE, NodeClass, PlainAndRest, split
from schedulerd.kubernetes.quantity import MalformedQuantity
from schedulerd.kubernetes.reasons.waiting import Waiting, held
from schedulerd.kubernetes.resources import amounts_asked

NAMESPACE_TAG = "kubernetes.io/meta/namespace"
POD_NAME_TAG = "kubernetes.io/meta/podName"
LABEL_TAG_PREFIX = "kubernetes.io/label/"
CREATION_TIME_TAG = "creationTime"
REQUIRED_NODE_TAG = "yunikorn.apache.org/requiredNode"
VICTIMS_TAG = "schedulerd.io/victims"
LOWER_PRIORITY = "lower-priority"
NODE_SELECTOR_TAG = "schedulerd.io/node-selector"
PREDICATES_TAG = "schedulerd.io/predicates"
NO_PREDICATES = "none"
SCHEDULING_GATED = "SchedulingGated"
"""Reason of the condition that the API server gives to pods with scheduling gates."""
PREEMPTION_PREDICATES = "preemption"
TAGS_LENGTH_MAX = 65_536
"""Characters of all tags of an ask, names included; the daemon rejects one with more."""
RETRY_FIRST_NS = SECOND_NS
RETRY_MOST_NS = 60 * SECOND_NS
WAKE_AFTER_NS = SECOND_NS // 100
ASKS_AGAIN_MAX = 100
"""Pods that are asked for again together."""
ASKS_AGAIN_EVERY_NS = SECOND_NS


def consider(model: Model, own: OwnPod, *, again: bool = False) -> None:
    """Asks for a node, changes the ask, or withdraws it, as the pod is now. `again`: also if nothing has changed."""
    pod = own.pod
    if pod.metadata.deletion_timestamp is not None or own.failure is not None:
        withdraw(model, own, PodTrigger.LEAVE)
        return
    if pod.spec.scheduling_gates:
        withdraw(model, own, PodTrigger.WAIT)  # the API server says why, in a condition of its own
        return
    if why_not := demands.excess(pod.spec):
        hold(model, own, held(why_not, "SpecTooLarge", is_about_nodes=False))  # no further node would help
        return
    try:
        resources = amounts_asked(pod)
    except MalformedQuantity as error:
        hold(model, own, held(f"unreadable request: {error}"))
        return
    if (pod.spec.volumes or pod.spec.resource_claims) and (problem := claims.unusable(model, own)):
        hold(model, own, held(problem))
        return
    if own.is_unwanted:
        return
    if (why := daemon_sets.why_waits(model, own)) is not None:
        hold(model, own, why)
        return
    if (why := joining.foreign_id(model, own) or door.why_waits(model, own)) is not None:
        hold(model, own, why)
        return
    applications.join(model, own)
    if not applications.has_joined(own):
        model.stop_asking(own, PodTrigger.WAIT)
        if not own.is_placeholder and (why := applications.why_waits(model, own)) is not None:
            conditions.waits(model, own, why)
        return
    if not door.may_ask(own):
        model.stop_asking(own, PodTrigger.WAIT)  # its gang says why
        return
    if (own.volumes is not None or own.avoided_nodes) and _waits_after_failure(model, own):
        model.stop_asking(own, PodTrigger.WAIT)
        return
    _send(model, own, resources, again=again)


def _waits_after_failure(model: Model, own: OwnPod) -> bool:
    """The pod could not be put on a node, and is tried again a little later."""
    if own.volumes is not None and own.volumes.again_ns > model.now_ns:
        return True  # what has failed with its volumes says why
    node = model.cache.daemon_sets.required_node(own.pod)
    if node in own.avoided_nodes:
        conditions.waits(model, own, held(f"node {node} has refused the pod, which is tried again soon"))
        return True
    return False


def hold(model: Model, own: OwnPod, why: Waiting) -> None:
    """The pod cannot be asked for."""
    withdraw(model, own, PodTrigger.WAIT)
    conditions.waits(model, own, why)


def ask_again(model: Model, own: OwnPod) -> None:
    """The allocation was given back: the daemon looks for another node. The pod keeps its age."""
    own.stop_asking(PodTrigger.GIVE_BACK)
    keep_age(own)
    consider(model, own)


def keep_age(own: OwnPod) -> None:
    """Further asks of the pod are as old as its first one."""
    own.asked_at_ns = own.asked_at_ns or _began_to_wait_ns(own.pod)
    own.keeps_age = bool(own.asked_at_ns)


def _began_to_wait_ns(pod: Pod) -> int:
    """When an earlier process asked for the pod first, as far as the pod says: its scheduling gates may have been
    lifted long after its creation. 0: just now."""
    said = pod.status.conditions or ()
    condition = next((one for one in said if one.type == POD_SCHEDULED and one.status == "False"), None)
    if pod.spec.scheduling_gates or (condition is not None and condition.reason == SCHEDULING_GATED):
        return 0  # they are there, or no scheduler has written since why the pod waits
    began_s = epoch_seconds(condition.last_transition_time) if condition is not None else 0
    return (began_s or epoch_seconds(pod.metadata.creation_timestamp)) * SECOND_NS


def withdraw(model: Model, own: OwnPod, trigger: PodTrigger) -> None:
    """The pod needs no node, at least for now."""
    if own.state is PodState.ASKED and own.application is not None:
        model.effects.append(ReleaseAsk(own.application.id, own.uid))
    model.stop_asking(own, trigger)
    model.stop_using_class(own)
    consider_all(model, applications.leave(model, own))


def consider_all(model: Model, pods: list[OwnPod]) -> None:
    """These pods waited for the end of an application, or for one that nobody had made known."""
    for own in pods:
        if own.state is PodState.HELD:
            consider(model, own)
        elif own.state in UNALLOCATED:
            model.nodes.arrive(own.uid, own.node)


def rejected(model: Model, own: OwnPod, reason: str) -> None:
    """The daemon has rejected the ask: it is sent again later, less and less often."""
    delay_ns = min(RETRY_FIRST_NS << min(own.failures, 10), RETRY_MOST_NS)
    own.failures += 1
    own.is_ask_rejected = True
    reason = _too_many_labels(own) or reason
    if own.state is PodState.ASKED:
        conditions.waits(model, own, held(f"the ask was rejected: {reason}", "TaskRejected", is_about_nodes=False))
    else:  # a resize of a pod that has its node
        model.record(own, "TaskRejected", "Scheduling", reason, is_warning=True)
    model.timers.set(model.now_ns + delay_ns, Due.ASK_AGAIN, own.uid)


def _too_many_labels(own: OwnPod) -> str:
    """What the daemon calls tags of the ask are the pod's labels, but for a few: the pod's author knows only those."""
    tags = own.ask.tags if own.ask is not None else _own_tags(own.pod)
    labels = own.pod.metadata.labels or {}
    if sum(map(len, tags)) + sum(map(len, tags.values())) <= TAGS_LENGTH_MAX:
        return ""
    length = sum(map(len, labels)) + sum(map(len, labels.values()))
    return (
        f"the pod has {len(labels)} labels with {length} characters in all, which are too many for the scheduler "
        f"({TAGS_LENGTH_MAX} with what it adds to each): the pod needs fewer or shorter labels"
    )


def _send(model: Model, own: OwnPod, resources: Amounts, *, again: bool) -> None:
    is_new = own.state is not PodState.ASKED
    ask = ask_of(model, own, resources)
    if ask == own.ask and not again:
        return
    own.enter(PodTrigger.ASK)
    own.ask = ask
    if is_new:
        conditions.asked(model, own)
    if is_new and own.metadata.problems:
        model.record(own, "Scheduling", "Scheduling", "; ".join(own.metadata.problems), is_warning=True)
    model.cache.refused.forget(own.uid)  # the daemon asks about all nodes anew
    own.asks_sent += 1
    own.asked_at_ns = own.asked_at_ns or model.epoch_ns + model.now_ns
    if own.is_ask_rejected and own.application is not None and own.gang is not None:
        model.gangs_due[own.application.id] = None  # nothing need stand in for a placeholder any longer
    own.is_ask_rejected = False
    own.amounts_asked, own.task_group = ask.resources, ask.task_group
    model.effects.append(ask)


def resize(model: Model, own: OwnPod, amounts: Amounts) -> None:
    """The pod of an allocation uses other amounts: an ask with its key changes the allocation."""
    own.amounts = own.amounts_asked = amounts
    own.asks_sent += 1
    model.effects.append(ask_of(model, own, amounts, is_resize=True))


def ask_of(model: Model, own: OwnPod, resources: Amounts, *, is_resize: bool = False) -> Ask:
    """The ask of a pod that is in an application. For a resize, it asks nothing of nodes, and the pod stays in its task
    group."""
    assert own.application is not None
    pod = own.pod
    return Ask(
        own.application.id,
        own.uid,
        resources,
        door.priority(model, own),
        _own_tags(pod) if is_resize else _tags(model, own),
        may_be_preempted(pod, model.priority_classes.get(pod.spec.priority_class_name)),
        may_preempt(pod),
        own.asked_at_ns if own.keeps_age and not is_resize else 0,
        own.task_group if is_resize else task_group_of(own),
        own.is_placeholder,
        door.is_originator(own),
    )


def task_group_of(own: OwnPod) -> str:
    """The task group of the pod in the gang of its application; empty if it is in none."""
    if own.is_placeholder:
        return own.task_group
    gang = own.gang
    if gang is None:
        return ""
    name = ALL_MEMBERS if gang.key is not None else task_group_name(own.pod.metadata)
    return name if name in gang.groups else ""


def _own_tags(pod: Pod) -> dict[str, str]:
    metadata = pod.metadata
    tags = {
        NAMESPACE_TAG: metadata.namespace,
        POD_NAME_TAG: metadata.name,
        CREATION_TIME_TAG: str(epoch_seconds(metadata.creation_timestamp)),
    }
    if metadata.labels:
        for key, value in metadata.labels.items():
            tags[LABEL_TAG_PREFIX + key] = value
    return tags


def _tags(model: Model, own: OwnPod) -> dict[str, str]:
    return _own_tags(own.pod) | node_tags(model, own)


def node_tags(model: Model, own: OwnPod) -> dict[str, str]:
    """What the daemon has to know to find a node for the pod, or for those like this pattern."""
    pod, tags = own.pod, {}
    node = model.cache.daemon_sets.required_node(pod)
    needs_callback = bool(node) or own.needs_callback or bool(model.predicates.callback_plugins(own.judged))
    if node:
        tags[REQUIRED_NODE_TAG] = node  # one class per node would be too many, so the node is asked about
        if pod.metadata.namespace not in model.settings.daemon_set_namespaces:
            tags[VICTIMS_TAG] = LOWER_PRIORITY  # the right to make DaemonSets is none to the room of others
    else:
        selector, has_class = _selector(model, own)
        needs_callback = needs_callback or not has_class
        if selector:
            tags[NODE_SELECTOR_TAG] = selector
    if not needs_callback:
        has_victims_checked = model.settings.respects_budgets and may_preempt(pod)
        tags[PREDICATES_TAG] = PREEMPTION_PREDICATES if has_victims_checked else NO_PREDICATES
    return tags


def _selector(model: Model, own: OwnPod) -> tuple[str, bool]:
    """The node selector of the ask, and whether it covers everything that nodes decide by themselves."""
    parts, attribute = _split(model.predicates.node_class(own.judged))
    classes = model.nodes.classes
    if attribute != own.class_attribute:
        model.stop_using_class(own)
        own.class_attribute, is_new = classes.acquire(parts.rest, attribute, model.now_ns)
        if is_new and model.is_started:
            classes.passed(model.now_ns)
            model.nodes.all_changed()
        elif (due_ns := classes.next_pass_ns) is not None:
            model.timers.set(due_ns, Due.NEW_CLASSES)
    said = [text for text in (parts.selector, own.class_attribute) if text]
    if own.avoided_nodes:
        said.append(f"{HOST_NAME_ATTRIBUTE} notin ({','.join(sorted(own.avoided_nodes))})")
    return ",".join(said), bool(own.class_attribute)


@lru_cache(4_096)
def _split(node_class: NodeClass) -> tuple[PlainAndRest, str]:
    """Pods of one template have equal classes."""
    parts = split(node_class)
    return parts, parts.rest.attribute


def wake_refused(model: Model) -> None:
    """At the end of a step: the pods that wait for what has changed in it are asked for again soon."""
    times = model.wake_times
    if model.cache.refused.settle() and times.due_ns is None:
        times.due_ns = max(model.now_ns + WAKE_AFTER_NS, times.not_before_ns)
        model.timers.set(times.due_ns, Due.ASK_REFUSED)


def ask_refused_again(model: Model) -> None:
    """The timer rang. What is left is asked for after the next one."""
    times = model.wake_times
    times.due_ns, times.not_before_ns = None, model.now_ns + ASKS_AGAIN_EVERY_NS
    for uid in model.cache.refused.take_woken(ASKS_AGAIN_MAX):
        own = model.pods.get(uid)
        if own is not None and own.state is PodState.ASKED:
            consider(model, own, again=True)
