"""Pods that nodes have refused, by the changes of the cluster that may lift a refusal.

A pod is filed under every change that may help it, and a change finds the pods that wait for it: what happens to the
cluster costs nothing for pods that wait for something else. A pod that was found is woken, and filed nowhere until it
is refused again. The same idea in kube-scheduler: queueing hints.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from itertools import islice
from typing import NamedTuple

from schedulerd.kubernetes.predicates.counters import Counters
from schedulerd.kubernetes.predicates.topology_counts import SpreadCounter, TopologyCounter


class What(Enum):
    """What changes. The comment says of what, if there is more than one of it."""

    NODES = "labels, taints or cordon of a node"
    ROOM = "amounts free on a node"  # name of the node
    PORT = "pods with a host port"  # protocol and port
    DISKS = "pods with disks that cannot be shared"
    CLAIM = "pods with a claim"  # namespace and name of the claim
    ATTACHED = "volumes attached to nodes"
    STORAGE = "volumes, claims, classes, drivers or capacities"
    NAMESPACE = "labels of a namespace"  # its name
    BUDGETS = "what PodDisruptionBudgets allow"
    FEWER = "fewer pods in a topology value"  # counter; so are all that follow
    MORE = "more pods in a topology value"
    FIRST = "a first pod in a topology value"
    NONE_LEFT = "no pods in any topology value"
    MINIMUM = "a higher minimum over all topology values, or more of these"


class Change(NamedTuple):
    what: What
    of: Hashable = None


NODES, DISKS, ATTACHED = Change(What.NODES), Change(What.DISKS), Change(What.ATTACHED)
STORAGE, BUDGETS = Change(What.STORAGE), Change(What.BUDGETS)


class RefusedPods:
    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._waiting: dict[Change, dict[str, None]] = {}
        """Uids of pods by change, the oldest refusal first."""
        self._changes: dict[str, dict[Change, None]] = {}
        """By uid of a pod that waits."""
        self._watched: dict[TopologyCounter, int] = {}
        """How many changes of a counter are waited for."""
        self._levels: dict[TopologyCounter, tuple[int, int]] = {}
        """Of counters of spread constraints that are watched: minimum and number of values as they were last."""
        self._happened: dict[Change, None] = {}
        """Changes since `settle` for which pods wait."""
        self._is_tried = False
        self._woken: dict[str, None] = {}
        """Uids, the pod that was woken first is the first."""

    def __contains__(self, uid: str) -> bool:
        return uid in self._changes or uid in self._woken

    @property
    def has_waiting(self) -> bool:
        return bool(self._changes)

    @property
    def woken(self) -> int:
        """How many pods are to be asked for again."""
        return len(self._woken)

    def add(self, uid: str, changes: Iterable[Change]) -> None:
        """The pod waits for these changes, and for those for which it waits already."""
        if uid in self._woken:
            return
        known = self._changes.get(uid, {})
        for change in changes:
            if change not in known:
                known[change] = None
                self._file(change, uid)
        if known:
            self._changes[uid] = known

    def happened(self, change: Change) -> None:
        """The pods that wait for this are woken at the next `settle`, not at once: this is called in the middle of
        loops over counters, and a pod that stops waiting may drop one of these. What happens several times counts
        once."""
        if change in self._waiting and not self._is_tried:
            self._happened[change] = None

    @contextmanager
    def nothing_happens(self) -> Iterator[None]:
        """What is changed now is only tried, and changed back."""
        self._is_tried = True
        try:
            yield
        finally:
            self._is_tried = False

    def settle(self) -> bool:
        """Wakes the pods that wait for what has happened. Whether pods are to be asked for again."""
        if self._happened:
            happened, self._happened = self._happened, {}
            for change in happened:
                for uid in list(self._waiting.get(change, ())):
                    self.wake(uid)
        return bool(self._woken)

    def wake(self, uid: str) -> None:
        """Something may have lifted what refuses the pod, if it was refused."""
        if self._drop(uid):
            self._woken[uid] = None

    def take_woken(self, count: int) -> list[str]:
        """Up to so many pods that were woken, the first ones first."""
        uids = list(islice(self._woken, count))
        for uid in uids:
            del self._woken[uid]
        return uids

    def forget(self, uid: str) -> None:
        """The pod needs no node, or every node is asked about it anew."""
        self._drop(uid)
        self._woken.pop(uid, None)

    def _drop(self, uid: str) -> bool:
        changes = self._changes.pop(uid, None)
        for change in changes or ():
            waiting = self._waiting[change]
            del waiting[uid]
            if not waiting:
                del self._waiting[change]
                if isinstance(change.of, TopologyCounter):
                    self._unwatch(change.of)
        return changes is not None

    def _file(self, change: Change, uid: str) -> None:
        waiting = self._waiting.get(change)
        if waiting is None:
            waiting = self._waiting[change] = {}
            if isinstance(change.of, TopologyCounter):
                self._watch(change.of)
        waiting[uid] = None

    def _watch(self, counter: TopologyCounter) -> None:
        """The counter is kept while pods wait for a change of it, though none of them is judged meanwhile."""
        watched = self._watched.get(counter, 0)
        self._watched[counter] = watched + 1
        if watched:
            return
        counter.on_change = self._counted
        if counter.key is not None:
            self._counters.acquire(counter.key)
        if isinstance(counter, SpreadCounter):
            self._levels[counter] = _levels(counter)

    def _unwatch(self, counter: TopologyCounter) -> None:
        self._watched[counter] -= 1
        if self._watched[counter]:
            return
        del self._watched[counter]
        counter.on_change = None
        self._levels.pop(counter, None)
        if counter.key is not None:
            self._counters.release(counter.key)

    def _counted(self, counter: TopologyCounter, value: str, by: int) -> None:
        """So many pods more (or fewer) count in the value; 0: only the nodes have changed."""
        if by > 0:
            self.happened(Change(What.MORE, counter))
            if counter.by_value.get(value, 0) == by:
                self.happened(Change(What.FIRST, counter))
        elif by < 0:
            self.happened(Change(What.FEWER, counter))
            if not counter.total:
                self.happened(Change(What.NONE_LEFT, counter))
        before = self._levels.get(counter)
        if before is not None and isinstance(counter, SpreadCounter):
            now = self._levels[counter] = _levels(counter)
            if now[0] > before[0] or now[1] > before[1]:
                self.happened(Change(What.MINIMUM, counter))


def _levels(counter: SpreadCounter) -> tuple[int, int]:
    return counter.minimum(), len(counter.values)
