"""A user who reads what is written about pods, and a daemon that says why they wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedulerd.kubernetes.cluster.effects import Effect, PatchPodCondition, RecordEvent
from schedulerd.kubernetes.cluster.events import PendingReasonTold, Put, Tick
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.reasons.waiting import State, Waiting
from tests.kubernetes.cluster.play import Play, own

FAILED = Waiting(State.UNSCHEDULABLE, queue="root.q")


class Reader(Play):
    """Keeps what `kubectl describe` shows: the condition and the events of each pod."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.conditions: dict[str, PatchPodCondition] = {}
        self.events: dict[str, list[RecordEvent]] = {}
        self.writes: list[tuple[float, str, str]] = []
        """Second, kind, pod."""

    def all(self, *events: Any) -> list[Effect]:
        effects = super().all(*events)
        for effect in effects:
            match effect:
                case PatchPodCondition(pod, "PodScheduled"):
                    self.conditions[pod.uid] = effect
                    self._wrote("condition", pod.uid)
                case RecordEvent(regarding):
                    self.events.setdefault(regarding.uid, []).append(effect)
                    self._wrote("event", regarding.uid)
        return effects

    def say(self, key: str, waiting: Waiting) -> None:
        """The daemon says why the pod waits."""
        self.say_all([key], waiting)

    def say_all(self, keys: Sequence[str], waiting: Waiting) -> None:
        """The daemon says in one message why these pods wait."""
        applications = [self.cluster.model.pods[key].application for key in keys]
        self.all(
            *(
                PendingReasonTold(application.id, key, waiting)
                for application, key in zip(applications, keys, strict=True)
                if application is not None
            )
        )

    def pod(self, name: str = "p", **spec: Any) -> None:
        self.all(Put(own(name, **spec)))

    def told(self, name: str = "p") -> tuple[str, str]:
        """Reason and message of the condition."""
        one = self.conditions[name]
        assert not one.is_true
        return one.reason, one.message

    def last_event(self, name: str = "p") -> tuple[str, str]:
        one = self.events[name][-1]
        return one.reason, one.note

    def pass_time(self, seconds: float) -> None:
        end_ns = self.now_ns + int(seconds * SECOND_NS)
        while (due_ns := self.cluster.next_due_ns) is not None and due_ns <= end_ns:
            self.now_ns = max(self.now_ns, due_ns)
            self.all(Tick())
        self.now_ns = end_ns
        self.all(Tick())

    def _wrote(self, kind: str, uid: str) -> None:
        self.writes.append((self.now_ns / SECOND_NS, kind, uid))
