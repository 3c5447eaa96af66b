"""Whether queues that an operator stopped take nothing new, until they are started or go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schedulerd.core.language.commands import Command
from schedulerd.core.language.facts.fact import ApplicationAccepted, ApplicationChanged, Fact, ResourceManagerChanged
from schedulerd.core.language.facts.queues import QueueChange, QueueChanged
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.queue_commands import SetQueueStopped
from schedulerd.core.views.values import ResourceManagerView
from tests.sim.rm_memory import plain_name

_RECOVERY = "root.@recovery@"
_Name = tuple[str, str]
"""A resource manager and a partition."""


class StopInvariants:
    """Judges the steps of one history in their order."""

    def __init__(self) -> None:
        self._stopped: dict[_Name, set[str]] = {}
        """Paths of the queues that are stopped themselves."""

    def after(self, command: Command, facts: Sequence[Fact], state: Sequence[ResourceManagerView]) -> Iterator[str]:
        """What is wrong, as sentences; `state` is the one after the step."""
        yield from self._taken(facts)
        self._forget(facts)
        queues = {
            (rm.rm_id, partition.name): {one.path: one.stopped for one in partition.queues}
            for rm in state
            for partition in rm.partitions
        }
        if isinstance(command, SetQueueStopped):
            name, path = (command.rm_id, plain_name(command.partition)), command.queue.lower()
            if path in queues.get(name, {}) and path != _RECOVERY:
                known = self._stopped.setdefault(name, set())
                known.add(path) if command.stopped else known.discard(path)
        for name, shown in queues.items():
            found, said = {path for path in shown if shown[path]}, self._stopped.get(name, set())
            if found != said:
                yield f"{name} has the stopped queues {sorted(found)}, and {sorted(said)} were stopped"

    def _taken(self, facts: Sequence[Fact]) -> Iterator[str]:
        submitted = {
            (one.rm_id, one.partition, one.application_id)
            for one in facts
            if isinstance(one, ApplicationChanged) and one.old_state is None
        }
        for fact in facts:
            if not isinstance(fact, ApplicationAccepted) or fact.queue == _RECOVERY:
                continue
            stopped = self._stopped.get((fact.rm_id, fact.partition), set())
            names = fact.queue.split(".")
            closed = [path for path in (".".join(names[:most]) for most in range(1, len(names) + 1)) if path in stopped]
            if closed and (fact.rm_id, fact.partition, fact.application_id) in submitted:
                yield f"{closed[0]} is stopped, and {fact.queue} takes {fact.application_id}"

    def _forget(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if isinstance(fact, QueueChanged) and fact.change is QueueChange.REMOVED:
                self._stopped.get((fact.rm_id, fact.partition), set()).discard(fact.queue)
            ends = (ResourceManagerState.INIT, ResourceManagerState.STOPPED)
            if isinstance(fact, ResourceManagerChanged) and fact.state in ends:
                self._stopped = {name: paths for name, paths in self._stopped.items() if name[0] != fact.rm_id}
