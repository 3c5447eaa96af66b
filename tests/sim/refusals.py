"""What resource managers refused, and whether that holds: until the node changes, or the stream is another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from schedulerd.core.language.commands import Command, ConnectCallbacks, DisconnectCallbacks
from schedulerd.core.language.facts.fact import Fact, NodeChanged, Released, ResourceManagerChanged
from schedulerd.core.language.facts.predicates import PredicateAnswered, PredicateOutcome, PredicateWanted
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.views.values import AskView, NodeView, PartitionView

Machine = tuple[str, str, str]
"""Resource manager, partition and node."""


class Refusals:
    """Kept from what was said alone."""

    def __init__(self) -> None:
        self._changes: Counter[Machine] = Counter()
        """How often each node had more room than before, or was otherwise another one."""
        self._asked: dict[tuple[str, int], int] = {}
        """By resource manager and call: how often its node had changed then."""
        self._refused: dict[tuple[Machine, str, str], int] = {}
        """Likewise, by node, application and ask."""

    def hear(self, command: Command, facts: Sequence[Fact]) -> None:
        if isinstance(command, ConnectCallbacks | DisconnectCallbacks):
            self._forget(command.rm_id)
        for fact in facts:
            match fact:
                case ResourceManagerChanged(state=ResourceManagerState.STOPPED | ResourceManagerState.INIT):
                    self._forget(fact.rm_id)
                case NodeChanged() | Released():
                    self._changes[_machine(fact)] += 1
                case PredicateWanted():
                    self._asked[fact.rm_id, fact.call_id] = self._changes[_machine(fact)]
                case PredicateAnswered():
                    self._reached(fact)

    def bar(self, partition: PartitionView, ask: AskView, node: NodeView) -> bool:
        """Whether the ask was refused on the node, which is as it was."""
        machine = (partition.rm_id, partition.name, node.node_id)
        return self._refused.get((machine, ask.application_id, ask.allocation_key)) == self._changes[machine]

    def _reached(self, fact: PredicateAnswered) -> None:
        changes = self._asked.pop((fact.rm_id, fact.call_id), None)
        if changes is not None and fact.outcome in (PredicateOutcome.REFUSED, PredicateOutcome.TIMED_OUT):
            place = _machine(fact), fact.application_id, fact.allocation_key
            # The first to be asked may be the last to be answered: the refusal of a newer node holds.
            self._refused[place] = max(changes, self._refused.get(place, 0))

    def _forget(self, rm_id: str) -> None:
        self._refused = {key: changes for key, changes in self._refused.items() if key[0][0] != rm_id}


def _machine(fact: NodeChanged | Released | PredicateWanted | PredicateAnswered) -> Machine:
    return fact.rm_id, fact.partition, fact.node_id
