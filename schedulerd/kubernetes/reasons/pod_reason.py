"""What is known and written of why one pod waits, and the same of all pods."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates.predicates import Predicates
from schedulerd.kubernetes.reasons.backlog import Backlog
from schedulerd.kubernetes.reasons.node_counts import NodeCounts
from schedulerd.kubernetes.reasons.waiting import Waiting


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
        if self.counts.is_idle and self.backlog.is_idle and self.nodes_due_ns is None:
            return silent_ns
        due = (silent_ns, self.nodes_due_ns, self.counts.next_due_ns(), self.backlog.next_due_ns(now_ns))
        return min((one for one in due if one is not None), default=None)
