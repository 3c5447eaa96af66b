"""Nodes: labels, taints, what can be allocated (core/v1)."""

from __future__ import annotations

import msgspec

from schedulerd.kubernetes.objects.meta import ObjectMeta
from schedulerd.kubernetes.objects.pod import Quantities


class Taint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    key: str = ""
    value: str = ""
    effect: str = ""
    """NoSchedule, NoExecute, or PreferNoSchedule, which refuses nothing."""


class NodeSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None
    provider_id: str = msgspec.field(default="", name="providerID")


class NodeCondition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str = ""
    status: str = ""


class NodeStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    allocatable: Quantities | None = None
    capacity: Quantities | None = None
    conditions: tuple[NodeCondition, ...] | None = None


class Node(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
