"""How long pods wait: from when they were first seen and could be scheduled, until they are bound."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from schedulerd.kubernetes.api.metrics import Histogram
from schedulerd.kubernetes.cluster.events import BindEnded, BindResult, Event, Gone, Put
from schedulerd.kubernetes.objects.pod import Pod

BINDING_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)


class BindingTimes:
    def __init__(self, scheduler_names: Collection[str]) -> None:
        self.seconds = Histogram(BINDING_SECONDS)
        self.is_counting = True
        """This process schedules: what a standby sees bound is counted by the leader."""
        self._names = scheduler_names
        self._seen_s: dict[str, float] = {}
        """By uid: pods without a node that no gate holds."""

    def observe(self, now_s: float, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Put):
                if isinstance(event.object, Pod):
                    self._put(now_s, event.object)
            elif isinstance(event, BindEnded):
                if event.result is BindResult.DONE:  # else the watch tells, or nobody
                    self._bound(now_s, event.uid)
            elif isinstance(event, Gone) and isinstance(event.object, Pod):
                self._seen_s.pop(event.object.metadata.uid, None)

    def _put(self, now_s: float, pod: Pod) -> None:
        uid = pod.metadata.uid
        if pod.spec.node_name:
            self._bound(now_s, uid)
        elif uid not in self._seen_s and pod.spec.scheduler_name in self._names and not pod.spec.scheduling_gates:
            self._seen_s[uid] = now_s

    def _bound(self, now_s: float, uid: str) -> None:
        seen_s = self._seen_s.pop(uid, None)
        if seen_s is not None and self.is_counting:
            self.seconds.observe(now_s - seen_s)
