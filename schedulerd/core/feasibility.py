"""The port through which somebody else has a say in where an ask may run (SI `Predicates`).

Decisions ask it after their own filters, and only where it is there: without it the core decides from what it knows,
which is free resources and the state of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Feasibility(Protocol):
    """A pure function of its arguments as long as no node changes.

    What it refused is asked again when a node has more room, or is new, and not before.
    """

    def refusal(self, application_id: str, allocation_key: str, node_id: str) -> str | None:
        """Why the ask may not run on the node, as a short phrase that is the same for equal causes; None if it may."""

    def refusal_without(
        self, application_id: str, allocation_key: str, node_id: str, ended_keys: Sequence[str]
    ) -> str | None:
        """Likewise, after the allocations of these keys have ended (SI `PreemptionPredicates`)."""
