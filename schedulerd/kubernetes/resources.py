"""Names of resources: what Kubernetes calls `cpu` is `vcore` in the scheduler interface; all others are the same."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.pod_resources import (
    CPU,
    Plain,
    plain_requests,
    pod_requests,
    read_quantities,
    requests_of_plain,
)

VCORE = "vcore"


def scheduler_names(amounts: Mapping[str, int]) -> dict[str, int]:
    """Amounts of pods or nodes under the names of the scheduler interface."""
    return {VCORE if name == CPU else name: amount for name, amount in amounts.items()}


def scheduler_amounts(quantities: Mapping[str, str | int] | None) -> dict[str, int]:
    """Kubernetes quantities as amounts of the scheduler interface. Raises MalformedQuantity."""
    return scheduler_names(read_quantities(dict(quantities or {})))


def amounts_asked(pod: Pod) -> Mapping[str, int]:
    """What the pod needs of a node, where that is more than nothing, as amounts of the scheduler interface.

    Pods of one template share what they get. Raises MalformedQuantity.
    """
    plain = plain_requests(pod)
    return _above_0(pod_requests(pod)) if plain is None else _asked_by_plain(plain)


@lru_cache(4_096)
def _asked_by_plain(containers: Plain) -> Mapping[str, int]:
    return _above_0(requests_of_plain(containers))


def _above_0(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in scheduler_names(amounts).items() if amount > 0}
