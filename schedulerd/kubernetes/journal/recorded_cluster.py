"""The cluster, with a journal of everything that it is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.effects import Effect
from schedulerd.kubernetes.cluster.events import Event
from schedulerd.kubernetes.cluster.settings import ClusterSettings
from schedulerd.kubernetes.journal.codec import PreemptionQuestion, Question, Step
from schedulerd.kubernetes.journal.recorder import EventRecorder


class RecordedCluster(Cluster):
    def __init__(self, settings: ClusterSettings, journal: EventRecorder) -> None:
        super().__init__(settings)
        self._journal = journal

    def step(self, now_ns: int, events: Iterable[Event]) -> list[Effect]:
        events = list(events)
        effects: list[Effect] | None = None
        try:
            effects = super().step(now_ns, events)
        finally:  # a step that raises is the last one
            self._journal.put(Step(now_ns, events, effects))
        return effects

    def predicates(self, key: str, node: str, *, allocate: bool) -> str | None:
        answer = super().predicates(key, node, allocate=allocate)
        self._journal.put(Question(key, node, allocate, answer))
        return answer

    def preemption_predicates(self, key: str, node: str, victims: Sequence[str], start: int) -> int | None:
        answer = super().preemption_predicates(key, node, victims, start)
        self._journal.put(PreemptionQuestion(key, node, list(victims), start, answer))
        return answer
