"""What a fact about a change of an allocation means for the one that was told first."""

from __future__ import annotations

from dataclasses import replace

from schedulerd.core.language.facts.fact import Allocated, AllocationChanged


def changed(before: Allocated, fact: AllocationChanged) -> Allocated:
    """The allocation as it is now: resized, or moved to another node (SEMANTICS I17, I25)."""
    return replace(before, uuid=fact.uuid, node_id=fact.node_id, resources=fact.resources)
