"""What the last queue file of each resource manager changed: noted from facts, because the state does not remember."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from schedulerd.core.language.facts.configuration import ConfigurationRejected, ConfigurationUpdated
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.facts.queues import QueueChanged
from schedulerd.instant import Instant

CHANGES_MAX = 500
"""Changes of one queue file that are kept."""
LOGS_MAX = 100
"""Resource managers whose last queue file is remembered."""


class Change(NamedTuple):
    """A queue that a queue file changed."""

    partition: str
    queue: str
    """Its path, in lower case."""
    what: str
    """The kind of change, a word."""
    message: str
    amounts: dict[str, int]


class LastFile:
    """The last queue file of one resource manager."""

    def __init__(self) -> None:
        self.at_ns = 0
        """Wall time, in nanoseconds since the Unix epoch; 0 if none was applied since the registration."""
        self.source = ""
        self.changes: list[Change] = []
        self.changes_left_out = 0
        self.refused_at_ns = 0
        """Wall time of the last refusal that no accepted file came after; 0 if there is none."""
        self.refused_because: tuple[str, ...] = ()


class QueueFileLog:
    """A sink of the owner."""

    def __init__(self) -> None:
        self._by_rm: OrderedDict[str, LastFile] = OrderedDict()

    def of(self, rm_id: str) -> LastFile:
        """The log of a resource manager; an empty one if it had no new queue file."""
        return self._by_rm.get(rm_id) or LastFile()

    def observe(self, facts: Sequence[Fact], now: Instant) -> None:
        """Takes all facts of a turn. Changes of queues stand beside the fact that their file is in effect."""
        changed: dict[str, list[QueueChanged]] = {}
        for fact in facts:
            kind = type(fact)
            if kind is QueueChanged:
                assert isinstance(fact, QueueChanged)
                if fact.managed:
                    changed.setdefault(fact.rm_id, []).append(fact)
            elif kind is ConfigurationUpdated:
                assert isinstance(fact, ConfigurationUpdated)
                self._updated(fact, now)
            elif kind is ConfigurationRejected:
                assert isinstance(fact, ConfigurationRejected)
                log = self._log(fact.rm_id)
                log.refused_at_ns, log.refused_because = now.wall_ns, fact.reasons[:10]
        for rm_id, some in changed.items():
            last = self.of(rm_id)
            if last.at_ns == now.wall_ns:
                last.changes = [_change(one) for one in some[:CHANGES_MAX]]
                last.changes_left_out = len(some) - len(last.changes)

    def _updated(self, fact: ConfigurationUpdated, now: Instant) -> None:
        log = self._log(fact.rm_id)
        log.refused_at_ns, log.refused_because = 0, ()
        if fact.changed:
            log.at_ns, log.source, log.changes, log.changes_left_out = now.wall_ns, fact.configuration.source, [], 0

    def _log(self, rm_id: str) -> LastFile:
        log = self._by_rm.setdefault(rm_id, LastFile())
        self._by_rm.move_to_end(rm_id)
        if len(self._by_rm) > LOGS_MAX:
            self._by_rm.popitem(last=False)
        return log


def _change(fact: QueueChanged) -> Change:
    return Change(fact.partition, fact.queue, fact.change.value, fact.message[:1_000], dict(fact.amounts))
