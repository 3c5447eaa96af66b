"""Checks that the right pods were preempted: each decision is worked out anew, by trying everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

from benchmarks.full_clusters import FullCluster, Pod
from benchmarks.measurement import WrongResult
from benchmarks.workload import Size
from schedulerd.core.language.facts.fact import Allocated, Fact
from schedulerd.core.language.facts.preemption import Preempted, PreemptionRefusal, PreemptionRefused

ELSEWHERE_MAX = 2
"""Sets of more victims are not tried on other nodes than the one that was decided for."""

Cost: TypeAlias = tuple[tuple[tuple[int, int], ...], int]
"""Weight taken of each priority, the highest first, and the number of victims."""


@dataclass(frozen=True, slots=True)
class Decided:
    """Who was asked to end for an ask, and where."""

    allocation_key: str
    node_id: str
    victims: tuple[str, ...]
    """UUIDs."""


def check(cluster: FullCluster, facts: Sequence[Fact], violations: Iterable[str]) -> None:
    """As `check_outcome`, by what the core said."""
    check_outcome(
        cluster,
        [
            Decided(fact.allocation_key, fact.node_id, tuple(uuid for _, uuid in fact.victims))
            for fact in facts
            if isinstance(fact, Preempted)
        ],
        {fact.refusal for fact in facts if isinstance(fact, PreemptionRefused)},
        {fact.allocation_key: fact.node_id for fact in facts if isinstance(fact, Allocated)},
        violations,
    )


def check_outcome(
    cluster: FullCluster,
    decisions: Sequence[Decided],
    refusals: AbstractSet[str],
    placed: Mapping[str, str],
    violations: Iterable[str],
) -> None:
    """Each decision was legal and the least harmful that there was, and each ask is where room was made for it.

    `decisions` are in order, and `placed` are nodes by allocation key. Raises `WrongResult` with all that is not so.
    """
    problems = list(violations)
    state = _State(cluster)
    if refusals != ({PreemptionRefusal.NO_VICTIMS} if cluster.hopeless else set()):
        problems.append(f"refusals are {sorted(refusals)}")
    if len(decisions) != (0 if cluster.hopeless else len(cluster.asks)):
        problems.append(f"{len(decisions)} decisions for {len(cluster.asks)} asks")
    for at, decision in enumerate(decisions):
        problems += state.problems(decision, is_first=at == 0)
        state.carry_out(decision)
    if placed != {one.allocation_key: one.node_id for one in decisions}:
        problems.append(f"{len(placed)} asks were placed, or not all of them where room was made for them")
    if problems:
        raise WrongResult("\n  ".join([f"{cluster.name}: the result is wrong", *problems[:20]]))


class _State:
    """Who stays on which node, what is free there, and how much each leaf may lose: after the decisions so far."""

    def __init__(self, cluster: FullCluster) -> None:
        self.cluster = cluster
        self.asks = {one.key: one for one in cluster.asks}
        self.staying: dict[str, dict[str, Pod]] = {node_id: {} for node_id in cluster.node_ids}
        self.free = dict.fromkeys(cluster.node_ids, cluster.node_size)
        self.spare = {path: Size(0, 0).less(guaranteed) for path, guaranteed in cluster.queues.items()}
        for pod in cluster.running:
            self.staying[pod.node_id][pod.uuid] = pod
            self.free[pod.node_id] = self.free[pod.node_id].less(pod.size)
            self._change(pod, 1)

    def carry_out(self, decision: Decided) -> None:
        """The victims end, and the ask has its room."""
        node_id = decision.node_id
        self.free[node_id] = self.free[node_id].less(self.asks[decision.allocation_key].size)
        for uuid in decision.victims:
            pod = self.staying[node_id].pop(uuid, None)
            if pod is not None:
                self.free[node_id] = self.free[node_id].plus(pod.size)
                self._change(pod, -1)

    def _change(self, pod: Pod, times: int) -> None:
        path = self.cluster.applications[pod.application_id]
        self.spare[path] = self.spare[path].plus(pod.size, times)

    def problems(self, decision: Decided, *, is_first: bool) -> Iterator[str]:
        ask, node_id = self.asks[decision.allocation_key], decision.node_id
        if ask.node_id not in ("", node_id):
            yield f"{ask.key} is for {ask.node_id}, and others end on {node_id}"
        staying = self.staying[node_id]
        if unknown := [uuid for uuid in decision.victims if uuid not in staying]:
            yield f"{ask.key}: {unknown} do not run on {node_id}, or end already"
            return
        victims = tuple(staying[uuid] for uuid in decision.victims)
        if not self._is_legal(ask, node_id, victims):
            yield f"{ask.key}: too little is preempted on {node_id}, or too much of a queue: {victims}"
        harm = self._harm(victims)
        best = self._best(ask, node_id, len(staying))
        if best is None or harm > best:
            yield f"{ask.key}: {victims} end on {node_id}, where {best} would do"
        if is_first and not ask.node_id:
            for other in self.cluster.node_ids:
                better = self._best(ask, other, ELSEWHERE_MAX)
                if better is not None and better < harm:
                    yield f"{ask.key}: {victims} end on {node_id}, and {better} would do on {other}"

    def _best(self, ask: Pod, node_id: str, victims_max: int) -> Cost | None:
        """The least harm that any set of up to so many does on the node."""
        pods = [pod for pod in self.staying[node_id].values() if self._is_candidate(ask, pod)]
        sets = (some for count in range(victims_max + 1) for some in combinations(pods, count))
        return min((self._harm(some) for some in sets if self._is_legal(ask, node_id, some)), default=None)

    def _is_candidate(self, ask: Pod, pod: Pod) -> bool:
        path = self.cluster.applications[pod.application_id]
        return pod.priority <= ask.priority and (bool(ask.node_id) or pod.size.fits(self.spare[path]))

    def _is_legal(self, ask: Pod, node_id: str, victims: Iterable[Pod]) -> bool:
        """Whether they free enough, and leave what is guaranteed to their leaves unless the ask is for this node."""
        room = self.free[node_id]
        losses: dict[str, Size] = {}
        for pod in victims:
            room = room.plus(pod.size)
            path = self.cluster.applications[pod.application_id]
            losses[path] = losses.get(path, Size(0, 0)).plus(pod.size)
        within = bool(ask.node_id) or all(loss.fits(self.spare[path]) for path, loss in losses.items())
        return ask.size.fits(room) and within

    def _harm(self, victims: Iterable[Pod]) -> Cost:
        """All nodes are alike, so weight is by the share of a node."""
        weights: Counter[int] = Counter()
        count = 0
        node_size = self.cluster.node_size
        for pod in victims:
            count += 1
            weights[pod.priority] += pod.size.memory * node_size.vcore + pod.size.vcore * node_size.memory
        return tuple(sorted(weights.items(), reverse=True)), count
