"""In which calls an RM takes part, and its open predicate checks. All partitions of the RM share one object.

Without predicates, only the flags here are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedulerd.core.language.commands import ConnectCallbacks
    from schedulerd.core.state.model.predicate_check import PredicateCheck

OPEN_MAX = 1_000
"""Maximum number of open calls of one RM. At this number no ask is tried before a result arrives."""


class Callbacks:
    __slots__ = ("_last_call_id", "holds", "open_predicate_checks", "predicates", "preemption_predicates")

    def __init__(self) -> None:
        self.predicates = False
        """Whether the RM is asked before an ask is allocated or gets a reservation."""
        self.preemption_predicates = False
        """Whether the RM is asked before allocations are preempted for an ask."""
        self.holds = False
        """Whether the RM is told of held slots, so that it can be asked about them."""
        self.open_predicate_checks: dict[int, PredicateCheck] = {}
        """By call id, oldest first."""
        self._last_call_id = 0

    @property
    def is_full(self) -> bool:
        """Whether no further call may be made until a result arrives."""
        return len(self.open_predicate_checks) >= OPEN_MAX

    def next_call_id(self) -> int:
        """A call id that is unique while the RM is registered, also across streams."""
        self._last_call_id += 1
        return self._last_call_id

    def connect(self, command: ConnectCallbacks) -> None:
        self.predicates = command.predicates
        self.preemption_predicates = command.preemption_predicates
        self.holds = command.holds

    def disconnect(self) -> None:
        self.predicates = self.preemption_predicates = self.holds = False
