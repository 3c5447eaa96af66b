"""Counts the work of searches. It replaces a limit of time, so a replay does the same."""

from __future__ import annotations


class WorkBudget:
    """Counts the visits of searches for victims; bounds on it replace bounds on time."""

    __slots__ = ("visits",)

    def __init__(self) -> None:
        self.visits = 0
        """Queues, nodes, allocations and choices of victim sets that were visited."""
