"""What the predicates say of a pod on a node of the cluster. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates.callbacks import UNREADABLE, callback_plugins
from schedulerd.kubernetes.predicates.cluster_cache import ClusterCache
from schedulerd.kubernetes.predicates.cluster_state import Gone
from schedulerd.kubernetes.predicates.disruption_budgets import Exceeded
from schedulerd.kubernetes.predicates.known_pod import JudgedPod, KnownPod
from schedulerd.kubernetes.predicates.node_class import NodeClass, class_of
from schedulerd.kubernetes.predicates.plugins import ALL, FOR_PLAIN, Plugin
from schedulerd.kubernetes.predicates.pod_info import PendingPod, PodInfo, read_info, read_pending
from schedulerd.kubernetes.predicates.queueing_hints import lifting
from schedulerd.kubernetes.predicates.refusal import Code, Kind, Refusal, Refusals
from schedulerd.kubernetes.predicates.refused_pods import BUDGETS, Change, What
from schedulerd.kubernetes.predicates.volume_binding import VolumePlan, plan, unusable_claim

_UNKNOWN_NODE = (Refusal("", Kind.UNRESOLVABLE, Code.NODE_UNKNOWN),)


class Predicates:
    """A pod is best judged with the very object that was put: what was read of it is kept. Any other works too."""

    def __init__(self, cache: ClusterCache) -> None:
        self.cache = cache
        self._state = cache.state
        self._pods = cache.pods

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
                judged.release(self._state)

    def prepare(self, pod: Pod) -> bool:
        """One step of what has to be done before the pod can be judged; False if nothing is left of that. Nobody has to
        call this: `judge` does what is left."""
        known = self._pods.get(pod.metadata.uid)
        return known is not None and known.pod is pod and known.prepare(self._state)

    def work(self, pod: Pod) -> int:
        """What it costs to judge the pod on one node, where a pod that says nothing of nodes costs 1."""
        return self._pending(pod).work

    def note_refused(
        self, key: str, pod: Pod, node_name: str, refusals: Refusals, *, ignores_pods: bool = False
    ) -> None:
        """The node has refused the pod, whose ask has this key: it is woken when that may be lifted.
        `ignores_pods`: some pods that are there were counted as gone."""
        judged, is_kept = self._judged(pod)
        self._state.refused.add(key, lifting(judged, node_name, refusals, self._state, ignores_pods=ignores_pods))
        if not is_kept:
            judged.release(self._state)

    def note_budgets_exceeded(self, key: str, node_name: str) -> None:
        """Budgets do not allow the victims on the node; fewer of them may do when pods leave it."""
        self._state.refused.add(key, (BUDGETS, Change(What.ROOM, node_name)))

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
            nodes = self.cache.node_names if names is None else names
            found = {name: self._judge(judged, name, plugins, gone, first_only) for name in nodes}
        finally:
            if not is_kept:
                judged.release(self._state)
        return {name: refusals for name, refusals in found.items() if refusals}

    def sufficient_victims(
        self, pod: Pod, node_name: str, victims: Sequence[str], start: int = 0, plugins: Sequence[Plugin] = ALL
    ) -> int | None:
        """Index of the first victim with which the pod may run on the node, all victims up to it being gone.

        Victims before `start` are always gone; None if not even all of them are enough.
        """
        judged, is_kept = self._judged(pod)
        gone = self._gone(pod, victims[:start]) or Gone(self._state)
        try:
            for index in range(start, len(victims)):
                self._let_go(gone, victims[index])
                if not self._judge(judged, node_name, plugins, gone, first_only=True):
                    return index
        finally:
            if not is_kept:
                judged.release(self._state)
        return None

    def exceeded_budgets(self, victims: Iterable[str], now_ns: int = 0) -> tuple[Exceeded, ...]:
        """The PodDisruptionBudgets that do not allow all these pods to be preempted."""
        return self.cache.budgets.exceeded(self._infos(victims), now_ns)

    def expect_disruptions(self, victims: Iterable[str], now_ns: int) -> None:
        """These pods will be preempted: they count against their budgets from now on."""
        self.cache.budgets.expect(self._infos(victims), now_ns)

    def _infos(self, uids: Iterable[str]) -> list[PodInfo]:
        return [self._pods[uid].info for uid in uids if uid in self._pods]

    def unusable_claim(self, pod: Pod) -> Refusal | None:
        """Why the pod cannot run on any node before its claims change; None if it can."""
        return unusable_claim(self._pending(pod).info, self._state.storage)

    def volume_plan(self, pod: Pod, node_name: str) -> VolumePlan:
        """How the claims of the pod get their volumes on a known node."""
        facts = self._state.nodes[node_name].facts
        assert facts is not None
        return plan(self._pending(pod).info, facts, self._state.storage)

    def node_class(self, pod: Pod) -> NodeClass:
        """What decides on the pod's nodes by their own properties."""
        return class_of(self._pending(pod), self._state.storage)

    def callback_plugins(self, pod: Pod) -> tuple[str, ...]:
        """The plugins for which the daemon has to ask about the pod; empty if it need not ask."""
        return callback_plugins(self._pending(pod), self._state)

    def _pending(self, pod: Pod) -> PendingPod:
        known = self._pods.get(pod.metadata.uid)
        if known is None or known.pod is not pod:
            return read_pending(pod, read_info(pod))
        return known.read_pending()

    def _judge(
        self, judged: JudgedPod, node_name: str, plugins: Sequence[Plugin], gone: Gone | None, first_only: bool
    ) -> Refusals:
        node = self._state.nodes.get(node_name)
        if node is None or node.facts is None:
            return _UNKNOWN_NODE
        if judged.pod.problem is not None:
            return (Refusal(UNREADABLE, Kind.UNRESOLVABLE, Code.MALFORMED, judged.pod.problem),)
        self._state.judged += judged.work()
        found: Refusals = ()
        if plugins is ALL and judged.pod.is_plain:
            plugins = FOR_PLAIN
        for plugin in plugins:
            refusals = plugin.judge(judged, node.facts, node, self._state, gone)
            if refusals:
                if first_only:
                    return refusals
                found += refusals
        return found

    def _judged(self, pod: Pod) -> tuple[JudgedPod, bool]:
        """What questions about the pod need, and whether it is kept for the next question."""
        known = self._pods.get(pod.metadata.uid)
        if known is None or known.pod is not pod:
            known = KnownPod(pod, read_info(pod))
            return known.judged_by(self._state)[0], False
        return known.judged_by(self._state)

    def _gone(self, pod: Pod, uids: Iterable[str]) -> Gone | None:
        known = self._pods.get(pod.metadata.uid)
        if not uids and (known is None or known.node is None):
            return None
        gone = Gone(self._state)
        for uid in (pod.metadata.uid, *uids):
            self._let_go(gone, uid)
        return gone

    def _let_go(self, gone: Gone, uid: str) -> None:
        known = self._pods.get(uid)
        if known is not None and known.node is not None:
            gone.add(known.info, known.node)
