"""The cluster as its objects' events tell it, and what the predicates say of a pod on a node of it.

Pure: no I/O, no clock. Events may come in any order: pods of nodes that are not known yet wait for them, and an object
that comes again replaces the former one. A pod occupies a node if its spec names one, or if it is assumed there, and
until it is deleted or terminal.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from schedulerd.kubernetes.objects.cluster import Namespace
from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.objects.pod import Pod, is_terminal
from schedulerd.kubernetes.predicates.callbacks import UNREADABLE, callback_plugins
from schedulerd.kubernetes.predicates.cluster_state import ClusterState, Gone, JudgedPod
from schedulerd.kubernetes.predicates.disruption_budgets import DisruptionBudgets, Exceeded
from schedulerd.kubernetes.predicates.known_pod import KnownPod
from schedulerd.kubernetes.predicates.node_classes import NodeClass, class_of
from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState, change, read_facts
from schedulerd.kubernetes.predicates.plugins import ALL, FOR_PLAIN, Plugin
from schedulerd.kubernetes.predicates.pod_changes import counts_alike, holds_alike, is_alike, occupies_alike
from schedulerd.kubernetes.predicates.pod_info import PendingPod, PodInfo, read_info, read_pending
from schedulerd.kubernetes.predicates.queueing_hints import freed_by, lifting
from schedulerd.kubernetes.predicates.refusal import Code, Kind, Refusal, Refusals
from schedulerd.kubernetes.predicates.refused_pods import BUDGETS, NODES, Change, What
from schedulerd.kubernetes.predicates.volume_binding import VolumePlan, plan, unusable_claim

_UNKNOWN_NODE = (Refusal("", Kind.UNRESOLVABLE, Code.NODE_UNKNOWN),)


class ClusterView:
    """A pod is best judged with the very object that was put: what was read of it is kept. Any other works too."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.storage = self.state.storage
        """Volumes, claims and classes are put here."""
        self.refused = self.state.refused
        """Pods that are to be asked for again when something changes."""
        self.budgets = DisruptionBudgets()
        self._pods: dict[str, KnownPod] = {}

    @property
    def node_names(self) -> list[str]:
        return [node.name for node in self.state.nodes.values() if node.facts is not None]

    def put_node(self, node: Node) -> None:
        name = node.metadata.name
        state = self.state.nodes.get(name)
        if state is None:
            state = self.state.nodes[name] = NodeState(name)
        self._set_facts(state, read_facts(node))

    def remove_node(self, name: str) -> None:
        """Pods that are still there wait for the node to come back."""
        state = self.state.nodes.get(name)
        if state is not None:
            self._set_facts(state, None)
            self._drop_if_unused(state)

    def put_namespace(self, namespace: Namespace) -> None:
        self._set_namespace(namespace.metadata.name, namespace.metadata.labels or {})

    def remove_namespace(self, name: str) -> None:
        self._set_namespace(name, {})
        self.state.namespaces.pop(name, None)

    def put_pod(self, pod: Pod) -> bool:
        """A pod was added or has changed. A pod without a node stays where it is assumed. False if nothing has changed
        that predicates read."""
        if is_terminal(pod):
            self.remove_pod(pod.metadata.uid)
            return True
        if pod.metadata.deletion_timestamp is not None:
            self.budgets.ends(pod.metadata.uid)
        known = self._pods.get(pod.metadata.uid)
        if known is None:
            self._place(self._know(pod), pod.spec.node_name)
            return True
        is_at = known.node.name if known.node is not None else ""
        node_name = pod.spec.node_name or is_at
        if is_at == node_name and (occupies_alike if node_name else is_alike)(known.pod, pod):
            known.pod = pod
            return False
        if known.node is None:
            self.refused.wake(pod.metadata.uid)  # what it asks of nodes is something else now
        elif is_at == node_name:
            self._replace(known, pod, known.node)
            return True
        self._forget(known)
        self._place(self._know(pod), node_name)
        return True

    def remove_pod(self, uid: str) -> None:
        self.budgets.ends(uid)
        self.refused.forget(uid)
        known = self._pods.pop(uid, None)
        if known is not None:
            self._forget(known)

    def assume(self, pod: Pod, node_name: str) -> None:
        """The pod counts on the node from now on, until an event names another, it is forgotten or deleted."""
        known = self._pods.get(pod.metadata.uid) or self._know(pod)
        self._unplace(known, node_name)
        self._place(known, node_name)

    def forget_assumed(self, uid: str) -> None:
        """The pod is on no node after all, unless an event has named one."""
        known = self._pods.get(uid)
        if known is not None and not known.pod.spec.node_name:
            self._unplace(known)

    def has_node(self, uid: str) -> bool:
        """The pod is on a node, or assumed there."""
        known = self._pods.get(uid)
        return known is not None and known.node is not None

    def node_facts(self, name: str) -> NodeFacts | None:
        """What decides whether a class admits the node; None if the node is not known."""
        node = self.state.nodes.get(name)
        return node.facts if node is not None else None

    def judge(
        self,
        pod: Pod,
        node_name: str,
        plugins: Sequence[Plugin] = ALL,
        gone: Iterable[str] = (),
        first_only: bool = False,
    ) -> Refusals:
        """Why the pod may not run on the node; nothing if it may.

        Pods whose uids are in `gone` are not counted, nor is the pod itself, where it is assumed. With `first_only` the
        refusals of the first plugin that has any, which is what kube-scheduler tells; else those of all.
        """
        judged, is_kept = self._judged(pod)
        try:
            return self._judge(judged, node_name, plugins, self._gone(pod, gone), first_only)
        finally:
            if not is_kept:
                judged.release(self.state)

    def note_refused(
        self, key: str, pod: Pod, node_name: str, refusals: Refusals, *, ignores_pods: bool = False
    ) -> None:
        """The node has refused the pod, whose ask has this key: it is woken when that may be lifted.
        `ignores_pods`: some pods that are there were counted as gone."""
        judged, is_kept = self._judged(pod)
        self.refused.add(key, lifting(judged, node_name, refusals, self.state, ignores_pods=ignores_pods))
        if not is_kept:
            judged.release(self.state)

    def note_budgets_exceeded(self, key: str, node_name: str) -> None:
        """Budgets do not allow the victims on the node; fewer of them may do when pods leave it."""
        self.refused.add(key, (BUDGETS, Change(What.ROOM, node_name)))

    def judge_all(
        self,
        pod: Pod,
        plugins: Sequence[Plugin] = ALL,
        first_only: bool = True,
        names: Sequence[str] | None = None,
    ) -> dict[str, Refusals]:
        """What every node that refuses the pod says, by node name; with `names`, of these nodes."""
        judged, is_kept = self._judged(pod)
        gone = self._gone(pod, ())
        try:
            nodes = self.node_names if names is None else names
            found = {name: self._judge(judged, name, plugins, gone, first_only) for name in nodes}
        finally:
            if not is_kept:
                judged.release(self.state)
        return {name: refusals for name, refusals in found.items() if refusals}

    def sufficient_victims(
        self, pod: Pod, node_name: str, victims: Sequence[str], start: int = 0, plugins: Sequence[Plugin] = ALL
    ) -> int | None:
        """Index of the first victim with which the pod may run on the node, all victims up to it being gone.

        Victims before `start` are always gone; None if not even all of them are enough.
        """
        judged, is_kept = self._judged(pod)
        gone = self._gone(pod, victims[:start]) or Gone(self.state)
        try:
            for index in range(start, len(victims)):
                self._let_go(gone, victims[index])
                if not self._judge(judged, node_name, plugins, gone, first_only=True):
                    return index
        finally:
            if not is_kept:
                judged.release(self.state)
        return None

    def exceeded_budgets(self, victims: Iterable[str], now_ns: int = 0) -> tuple[Exceeded, ...]:
        """The PodDisruptionBudgets that do not allow all these pods to be preempted."""
        return self.budgets.exceeded(self._infos(victims), now_ns)

    def expect_disruptions(self, victims: Iterable[str], now_ns: int) -> None:
        """These pods will be preempted: they count against their budgets from now on."""
        self.budgets.expect(self._infos(victims), now_ns)

    def _infos(self, uids: Iterable[str]) -> list[PodInfo]:
        return [self._pods[uid].info for uid in uids if uid in self._pods]

    def unusable_claim(self, pod: Pod) -> Refusal | None:
        """Why the pod cannot run on any node before its claims change; None if it can."""
        return unusable_claim(self._pending(pod).info, self.storage)

    def volume_plan(self, pod: Pod, node_name: str) -> VolumePlan:
        """How the claims of the pod get their volumes on a known node."""
        facts = self.state.nodes[node_name].facts
        assert facts is not None
        return plan(self._pending(pod).info, facts, self.storage)

    def node_class(self, pod: Pod) -> NodeClass:
        """What decides on the pod's nodes by their own properties."""
        return class_of(self._pending(pod), self.storage)

    def callback_plugins(self, pod: Pod) -> tuple[str, ...]:
        """The plugins for which the daemon has to ask about the pod; empty if it need not ask."""
        return callback_plugins(self._pending(pod), self.state)

    def _pending(self, pod: Pod) -> PendingPod:
        known = self._pods.get(pod.metadata.uid)
        if known is None or known.pod is not pod:
            return read_pending(pod, read_info(pod))
        return known.read_pending()

    def _judge(
        self, judged: JudgedPod, node_name: str, plugins: Sequence[Plugin], gone: Gone | None, first_only: bool
    ) -> Refusals:
        node = self.state.nodes.get(node_name)
        if node is None or node.facts is None:
            return _UNKNOWN_NODE
        if judged.pod.problem is not None:
            return (Refusal(UNREADABLE, Kind.UNRESOLVABLE, Code.MALFORMED, judged.pod.problem),)
        found: Refusals = ()
        if plugins is ALL and judged.pod.is_plain:
            plugins = FOR_PLAIN
        for plugin in plugins:
            refusals = plugin.judge(judged, node.facts, node, self.state, gone)
            if refusals:
                if first_only:
                    return refusals
                found += refusals
        return found

    def _judged(self, pod: Pod) -> tuple[JudgedPod, bool]:
        """What questions about the pod need, and whether it is kept for the next question."""
        known = self._pods.get(pod.metadata.uid)
        if known is None or known.pod is not pod:
            return JudgedPod(read_pending(pod, read_info(pod)), self.state), False
        return known.judged_by(self.state)

    def _gone(self, pod: Pod, uids: Iterable[str]) -> Gone | None:
        known = self._pods.get(pod.metadata.uid)
        if not uids and (known is None or known.node is None):
            return None
        gone = Gone(self.state)
        for uid in (pod.metadata.uid, *uids):
            self._let_go(gone, uid)
        return gone

    def _let_go(self, gone: Gone, uid: str) -> None:
        known = self._pods.get(uid)
        if known is not None and known.node is not None:
            gone.add(known.info, known.node)

    def _know(self, pod: Pod) -> KnownPod:
        known = self._pods[pod.metadata.uid] = KnownPod(pod, read_info(pod))
        self.state.anti_affinity.known(known.info, 1)
        return known

    def _forget(self, known: KnownPod, stays_on: str = "") -> None:
        self._unplace(known, stays_on)
        known.stop_judging(self.state)
        self.state.anti_affinity.known(known.info, -1)

    def _place(self, known: KnownPod, node_name: str) -> None:
        if not node_name:
            return
        node = self.state.nodes.get(node_name)
        if node is None:
            node = self.state.nodes[node_name] = NodeState(node_name)
        known.node = node
        node.add(known.info)
        self._count(known.info, node, 1)
        known.stop_judging(self.state)

    def _unplace(self, known: KnownPod, stays_on: str = "") -> None:
        node = known.node
        if node is not None:
            known.node = None
            node.remove(known.info)
            self._count(known.info, node, -1)
            if node.name != stays_on and self.refused.has_waiting:
                self._freed(known.info, node)
            self._drop_if_unused(node)

    def _replace(self, known: KnownPod, pod: Pod, node: NodeState) -> None:
        """A pod has changed and is still on its node. If it only requests something else, no counter changes to and
        fro, which would wake pods for nothing."""
        before, info = known.info, read_info(pod)
        if counts_alike(before, info):
            node.remove(before)
            node.add(info)
            known.stop_judging(self.state)
            known.pod, known.info = pod, info
        else:
            self._forget(known, node.name)
            self._place(self._know(pod), node.name)
        if not holds_alike(before, info):
            self._freed(before, node)
        if any(amount > info.requests.get(name, 0) for name, amount in before.requests.items()):
            self._happened(What.ROOM, node.name)

    def _freed(self, pod: PodInfo, node: NodeState) -> None:
        for freed in freed_by(pod, node.name):
            self.refused.happened(freed)

    def _happened(self, what: What, of: Hashable = None) -> None:
        if self.refused.has_waiting:
            self.refused.happened(Change(what, of))

    def _count(self, pod: PodInfo, node: NodeState, by: int) -> None:
        self.state.counters.pod_changed(pod, node, by)
        self.state.anti_affinity.pod_changed(pod, node, by)
        for use in pod.claims:
            change(self.state.claim_users, (pod.namespace, use.name), by)

    def _set_facts(self, node: NodeState, facts: NodeFacts | None) -> None:
        old, node.facts = node.facts, facts
        if old is None or facts is None or (old.labels, old.taints) != (facts.labels, facts.taints):
            self.state.counters.node_changed(node.name, old, facts)
            self.state.anti_affinity.node_changed(node.name, old, facts)
        if old is None or facts is None:
            return
        if (old.labels, old.taints, old.unschedulable) != (facts.labels, facts.taints, facts.unschedulable):
            self.refused.happened(NODES)
        if old.allocatable != facts.allocatable:
            self._happened(What.ROOM, node.name)

    def _drop_if_unused(self, node: NodeState) -> None:
        if node.is_unused:
            del self.state.nodes[node.name]

    def _set_namespace(self, name: str, labels: dict[str, str]) -> None:
        if self.state.namespaces.get(name, {}) == labels:
            self.state.namespaces[name] = labels
            return
        self.state.namespaces[name] = labels
        self.state.counters.namespace_changed(name)
        self.state.anti_affinity.namespace_changed()
        self._happened(What.NAMESPACE, name)
