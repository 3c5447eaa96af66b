"""What the ended allocations of living applications used, in amounts times whole seconds, by kind of node.

The state knows no times of allocations, so they are noted here: one number for each allocation that exists. Nothing is
kept of an application that has ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeAlias

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts.fact import (
    Allocated,
    AllocationChanged,
    ApplicationChanged,
    Fact,
    Released,
    ResourceManagerChanged,
)
from schedulerd.core.language.lifecycles import TERMINAL_STATES, ResourceManagerState
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.step_context import Cluster
from schedulerd.daemon.yunikorn.go_json import Fields, amounts
from schedulerd.instant import Instant

INSTANCE_TYPE_ATTRIBUTE = "node.kubernetes.io/instance-type"
UNKNOWN = "UNKNOWN"
"""The kind of a node that does not say one."""

_SECOND_NS = 1_000_000_000

_Key: TypeAlias = tuple[str, str, str]
"""Resource manager, partition and application."""
_Used: TypeAlias = dict[str, dict[str, dict[str, int]]]
"""By what it counts as, kind of node, and resource."""


class ResourceHistories:
    """Adds up the facts about allocations."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._since: dict[str, dict[str, int]] = {}
        """By resource manager and UUID, when an allocation was made, in the scheduler's time."""
        self._used: dict[_Key, _Used] = {}

    def of(self, app: Application) -> Fields:
        """The object of an application."""
        used = self._used.get((app.rm_id, app.partition_name, app.application_id), {})
        if app.is_terminal:
            return {}
        return {
            kind: {name: amounts(of_kind) for name, of_kind in sorted(by_type.items())}
            for kind, by_type in sorted(used.items())
        }

    def observe(self, facts: Sequence[Fact], now: Instant) -> None:
        """Takes all facts of a turn."""
        for fact in facts:
            kind = type(fact)
            if kind is Allocated:
                assert isinstance(fact, Allocated)
                self._since.setdefault(fact.rm_id, {})[fact.uuid] = now.monotonic_ns
            elif kind is Released:
                assert isinstance(fact, Released)
                self._released(fact, now)
            elif kind is AllocationChanged:
                assert isinstance(fact, AllocationChanged)
                of_rm = self._since.get(fact.rm_id, {})
                of_rm[fact.uuid] = of_rm.pop(fact.old_uuid, now.monotonic_ns)
            elif kind is ApplicationChanged:
                assert isinstance(fact, ApplicationChanged)
                if fact.state in TERMINAL_STATES and fact.old_state is not None:
                    self._used.pop((fact.rm_id, fact.partition, fact.application_id), None)
            elif kind is ResourceManagerChanged:
                assert isinstance(fact, ResourceManagerChanged)
                if fact.state in (ResourceManagerState.INIT, ResourceManagerState.STOPPED):
                    self._forget(fact.rm_id)

    def _released(self, fact: Released, now: Instant) -> None:
        since_ns = self._since.get(fact.rm_id, {}).pop(fact.uuid, now.monotonic_ns)
        seconds = (now.monotonic_ns - since_ns) // _SECOND_NS
        kind = "resourceUsage"
        if fact.placeholder:
            kind = "placeholderResource"
        elif fact.termination is TerminationType.PREEMPTED_BY_SCHEDULER:
            kind = "preemptedResource"
        if not seconds or not self._lives(fact):
            return
        used = self._used.setdefault((fact.rm_id, fact.partition, fact.application_id), {})
        of_kind = used.setdefault(kind, {}).setdefault(self._instance_type(fact), defaultdict(int))
        for name, amount in fact.resources.items():
            of_kind[name] += amount * seconds

    def _lives(self, fact: Released) -> bool:
        rm = self._cluster.resource_managers.get(fact.rm_id)
        partition = rm.partitions.get(fact.partition) if rm is not None else None
        return partition is not None and fact.application_id in partition.applications

    def _instance_type(self, fact: Released) -> str:
        rm = self._cluster.resource_managers.get(fact.rm_id)
        partition = rm.partitions.get(fact.partition) if rm is not None else None
        node = partition.nodes.get(fact.node_id) if partition is not None else None
        return (node.attributes.get(INSTANCE_TYPE_ATTRIBUTE) if node is not None else None) or UNKNOWN

    def _forget(self, rm_id: str) -> None:
        self._since.pop(rm_id, None)
        self._used = {key: used for key, used in self._used.items() if key[0] != rm_id}
