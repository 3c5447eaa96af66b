"""What a resource manager wants to be asked on its callback stream, and what it was asked and has not answered yet.

All of its partitions share one. Without predicates nobody looks further than at the flags here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedulerd.core.commands import ConnectCallbacks
    from schedulerd.core.model.predicate_check import PredicateCheck

OPEN_MAX = 1_000
"""How many calls of a resource manager may wait for their result at a time; who is next waits for one of them."""


class Callbacks:
    __slots__ = ("_last_call_id", "open_predicate_checks", "predicates", "preemption_predicates")

    def __init__(self) -> None:
        self.predicates = False
        """Whether its say on nodes is asked for before an ask is placed, or room kept for it."""
        self.preemption_predicates = False
        """Likewise before others end for an ask."""
        self.open_predicate_checks: dict[int, PredicateCheck] = {}
        """By call id, oldest first."""
        self._last_call_id = 0

    @property
    def is_full(self) -> bool:
        """Whether nothing more is asked until there is an answer."""
        return len(self.open_predicate_checks) >= OPEN_MAX

    def next_call_id(self) -> int:
        """Never the same twice while the resource manager is registered, whatever becomes of its streams."""
        self._last_call_id += 1
        return self._last_call_id

    def connect(self, command: ConnectCallbacks) -> None:
        self.predicates = command.predicates
        self.preemption_predicates = command.preemption_predicates

    def disconnect(self) -> None:
        self.predicates = self.preemption_predicates = False
