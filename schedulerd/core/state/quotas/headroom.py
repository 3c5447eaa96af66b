"""What quotas and limits would leave if some asks were allocated, counted without changing any ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import LimitSpec
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.pending.request_class import PendingClass
from schedulerd.core.state.quotas.limit_subject import LimitSubject
from schedulerd.core.state.quotas.usage import UNUSED, Usages


class _Supposed:
    """What is counted in addition to the ledgers of one queue, or of one user or group in it."""

    __slots__ = ("applications", "promised", "used")

    def __init__(self) -> None:
        self.used = Resources()
        self.applications = 0
        """Applications that are supposed to start running."""
        self.promised = Resources()
        """What gangs that are supposed to start still lack (SEMANTICS G2)."""


class _Account(NamedTuple):
    """One limit of a user or group in a queue, with the real usage and the counted one."""

    limit: LimitSpec
    used: Mapping[str, int]
    promised: Mapping[str, int]
    running: int
    supposed: _Supposed

    def spoken_for(self) -> Resources:
        """What is used or promised to gangs, real and supposed."""
        return Resources(self.used).plus(self.promised).plus(self.supposed.used).plus(self.supposed.promised)


class Headroom:
    """Counts asks as if they were allocated one after the other. `room_for` does not check whether an application may
    start; `lets_start` does."""

    def __init__(self, usages: Usages) -> None:
        self._usages = usages
        self._queues: dict[Queue, _Supposed] = {}
        self._accounts: dict[tuple[Queue, str, bool], _Supposed] = {}
        """By queue, name, and whether the name is a group's."""

    def room_for(self, leaf: Queue, pending_class: PendingClass, count: int) -> int:
        """How many of `count` asks of the class in this leaf have room in quotas and limits."""
        for queue in leaf.path_to_root:
            if queue.max:
                supposed = self._of(queue).used
                for name, amount in pending_class.items:
                    if name in queue.max:
                        used = queue.allocated[name] + queue.quota_reserved[name] + supposed[name]
                        count = min(count, max(0, queue.max[name] - used) // amount)
            for one in self._limits(queue, pending_class.quota_key.limit_subject):
                for name, amount in pending_class.items:
                    if one.limit.max is not None and name in one.limit.max:
                        used = one.used.get(name, 0) + one.supposed.used[name]
                        count = min(count, max(0, one.limit.max[name] - used) // amount)
        return count

    def take(self, leaf: Queue, pending_class: PendingClass, count: int) -> None:
        """Counts `count` asks of the class as allocated."""
        for supposed in self._touched(leaf, pending_class.quota_key.limit_subject):
            supposed.used.add(pending_class.items, count)

    def free(self, leaf: Queue, limit_subject: LimitSubject | None, freed: Resources) -> None:
        """Counts `freed`, which applications with this limit subject use in the leaf, as released."""
        for supposed in self._touched(leaf, limit_subject):
            supposed.used.subtract(freed.items())

    def lets_start(self, leaf: Queue, pending_class: PendingClass) -> bool:
        """Whether one more application, and its gang if the class has a gang gate, may start with an ask of the
        class."""
        for queue in leaf.path_to_root:
            supposed = self._of(queue)
            if (
                pending_class.quota_key.starts_application
                and 0 < queue.max_applications <= queue.running + supposed.applications
            ):
                return False
            gate = pending_class.quota_key.gang_gate
            if gate and queue.max:
                spoken_for = queue.allocated.plus(queue.gang_quota_promised).plus(supposed.used).plus(supposed.promised)
                if queue.max.exceeded_by(spoken_for, gate) is not None:
                    return False
            for one in self._limits(queue, pending_class.quota_key.limit_subject):
                if (
                    pending_class.quota_key.starts_application
                    and 0 < one.limit.max_applications <= one.running + one.supposed.applications
                ):
                    return False
                if gate and one.limit.max is not None and one.limit.max.exceeded_by(one.spoken_for(), gate) is not None:
                    return False
        return True

    def start(self, leaf: Queue, pending_class: PendingClass, promised: Resources) -> None:
        """Counts an application as started with an ask of the class, with `promised` still to come of its gang."""
        for supposed in self._touched(leaf, pending_class.quota_key.limit_subject):
            supposed.promised.add(promised.items())
        if pending_class.quota_key.starts_application:
            self.run(leaf, pending_class)

    def run(self, leaf: Queue, pending_class: PendingClass) -> None:
        """Counts one more application as running, started by an ask of the class."""
        for supposed in self._touched(leaf, pending_class.quota_key.limit_subject):
            supposed.applications += 1

    def keep_promise(self, leaf: Queue, pending_class: PendingClass, items: Resources) -> None:
        """`items` of what is counted as allocated were promised to gangs that have started already."""
        for supposed in self._touched(leaf, pending_class.quota_key.limit_subject):
            supposed.promised.subtract(items.items())

    def _of(self, queue: Queue) -> _Supposed:
        known = self._queues.get(queue)
        if known is None:
            known = self._queues[queue] = _Supposed()
        return known

    def _limits(self, queue: Queue, limit_subject: LimitSubject | None) -> Iterable[_Account]:
        if limit_subject is None:
            return
        for limit, name, is_group in limit_subject.limits_among(queue.limits):
            ledger = (self._usages.groups if is_group else self._usages.users).find(name, queue.path) or UNUSED
            supposed = self._accounts.setdefault((queue, name, is_group), _Supposed())
            yield _Account(limit, ledger.usage, ledger.promised, len(ledger.applications), supposed)

    def _touched(self, leaf: Queue, limit_subject: LimitSubject | None) -> Iterable[_Supposed]:
        """Everything that an allocation with the limit subject counts for; each once, even if several limits are for
        it."""
        if limit_subject is None:
            return map(self._of, leaf.path_to_root)
        found = {
            id(one.supposed): one.supposed for queue in leaf.path_to_root for one in self._limits(queue, limit_subject)
        }
        return *map(self._of, leaf.path_to_root), *found.values()
