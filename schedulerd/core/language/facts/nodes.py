"""Facts about nodes for an RM that shares them with other workloads.

`NodeRecommended` is part of `Fact`. No ledger depends on it. What happens to nodes themselves is in `core.facts`.
"""

from __future__ import annotations

from dataclasses import dataclass

from schedulerd.core.language.resources import Resources


@dataclass(slots=True)
class NodeRecommended:
    """Other workloads use a node: it should offer no more than this (SI 2021-02 `NodeRecommendation`)."""

    rm_id: str
    partition: str
    node_id: str
    schedulable: Resources
    message: str
