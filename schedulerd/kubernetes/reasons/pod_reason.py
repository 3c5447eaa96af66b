"""What is known and written of why one pod waits, and the same of all pods.

So many writes leave in a second, conditions before events, oldest first.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict

import msgspec

from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates.predicates import Predicates
from schedulerd.kubernetes.reasons.node_counts import NodeCounts
from schedulerd.kubernetes.reasons.waiting import Waiting

SECOND_NS = 1_000_000_000
BURST_MAX = 1_000
"""Writes at once: a condition and an event for 500 pods."""


class PodReason(msgspec.Struct, eq=False):
    waiting: Waiting | None = None
    """What the pod waits for; None before that is known."""
    shared: Waiting | None = None
    """What the whole gang of the pod waits for: goes before `waiting`."""
    shared_like: Pod | None = None
    """The placeholder of the gang that no node has room for: nodes are counted for it, and not for the pod."""
    condition: tuple[str, str] = ("", "")
    """Reason and message of the condition that was written last."""
    condition_ns: int | None = None
    """When."""
    is_lost: bool = False
    """It has not come to the API server."""
    event_kind: tuple[object, ...] = ()
    """Kind of the reason in the last event."""
    event_ns: int = 0

    @property
    def current(self) -> Waiting | None:
        return self.shared or self.waiting


class Backlog:
    """Pods by uid. What is written of a pod is found out when it is its turn, so it is always the newest."""

    def __init__(self, writes_per_s: float) -> None:
        self.conditions: OrderedDict[str, None] = OrderedDict()
        self.events: OrderedDict[str, None] = OrderedDict()
        self.written = 0
        self._interval_ns = max(1, int(SECOND_NS / writes_per_s))
        self._burst_ns = self._interval_ns * BURST_MAX
        self._free_ns = -self._burst_ns
        """When the bucket was, or will be, full of writes that may leave."""
        self._later: list[tuple[int, str]] = []
        self._repeats: OrderedDict[str, int] = OrderedDict()
        """When the event of a pod is due again, in order."""

    def __len__(self) -> int:
        """Writes that wait."""
        return len(self.conditions) + len(self.events)

    def may_write(self, now_ns: int) -> bool:
        return self._free_ns + self._interval_ns <= now_ns

    def count_write(self, now_ns: int) -> None:
        self.written += 1
        self._free_ns = max(self._free_ns, now_ns - self._burst_ns) + self._interval_ns

    def later(self, due_ns: int, uid: str) -> None:
        """The condition is due then."""
        heapq.heappush(self._later, (due_ns, uid))

    def repeat_event(self, due_ns: int, uid: str) -> None:
        """The event is due again then, which is later than for all others."""
        self._repeats[uid] = due_ns
        self._repeats.move_to_end(uid)

    def forget(self, uid: str) -> None:
        self.conditions.pop(uid, None)
        self.events.pop(uid, None)
        self._repeats.pop(uid, None)

    def add_due(self, now_ns: int) -> None:
        while self._later and self._later[0][0] <= now_ns:
            self.conditions.setdefault(heapq.heappop(self._later)[1])
        while self._repeats and (uid := next(iter(self._repeats))) and self._repeats[uid] <= now_ns:
            del self._repeats[uid]
            self.events.setdefault(uid)

    def next_due_ns(self, now_ns: int) -> int | None:
        due = [self._later[0][0]] if self._later else []
        if self._repeats:
            due.append(next(iter(self._repeats.values())))
        if self.conditions or self.events:
            due.append(max(now_ns, self._free_ns + self._interval_ns))
        return min(due, default=None)


class PodReasons:
    def __init__(self, predicates: Predicates, writes_per_s: float) -> None:
        self.counts = NodeCounts(predicates)
        self.backlog = Backlog(writes_per_s)
        self.silent: OrderedDict[str, int] = OrderedDict()
        """Pods that were asked for and of which nothing was said: when something has to be written."""
        self.nodes_said = 0
        """The number of nodes in conditions about other things than nodes."""
        self.nodes_due_ns: int | None = None
        """When that number is corrected; None if it is right."""
        self.timer_ns: int | None = None
        """The timer that is set."""

    def next_due_ns(self, now_ns: int) -> int | None:
        """When something is to be written or counted, or said of silence; None if not before something changes."""
        silent_ns = next(iter(self.silent.values())) if self.silent else None
        due = (silent_ns, self.nodes_due_ns, self.counts.next_due_ns(), self.backlog.next_due_ns(now_ns))
        return min((one for one in due if one is not None), default=None)
