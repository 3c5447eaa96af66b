"""Names of resources: what Kubernetes calls `cpu` is `vcore` in the scheduler interface; all others are the same."""

from __future__ import annotations

from collections.abc import Mapping

from schedulerd.kubernetes.pod_resources import CPU, read_quantities

VCORE = "vcore"


def scheduler_names(amounts: Mapping[str, int]) -> dict[str, int]:
    """Amounts of pods or nodes under the names of the scheduler interface."""
    return {VCORE if name == CPU else name: amount for name, amount in amounts.items()}


def scheduler_amounts(quantities: Mapping[str, str | int] | None) -> dict[str, int]:
    """Kubernetes quantities as amounts of the scheduler interface. Raises MalformedQuantity."""
    return scheduler_names(read_quantities(dict(quantities or {})))
