"""One step in progress: the state it works on, the time it happens at, and what it has said so far."""

from __future__ import annotations

from schedulerd.core.facts import Fact
from schedulerd.core.model.cluster import Cluster


class StepContext:
    """Passed to every handler. `say` appends a fact; facts are in the order in which things happened."""

    __slots__ = ("cluster", "facts", "failed_checks", "now_ns", "say")

    def __init__(self, cluster: Cluster, now_ns: int) -> None:
        self.cluster = cluster
        self.now_ns = now_ns
        self.facts: list[Fact] = []
        self.failed_checks: list[Exception] = []
        """Of items that were rejected for it: for the log, beside the facts and not among them."""
        self.say = self.facts.append
