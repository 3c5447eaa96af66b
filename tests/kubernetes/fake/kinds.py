"""The resources that the fake knows, and how they differ from one another."""

from __future__ import annotations

from dataclasses import dataclass

from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.api.resources import Resource


@dataclass(frozen=True, slots=True)
class Kind:
    resource: Resource
    has_status: bool = False
    """Its status is a subresource: other updates do not change it."""
    is_custom: bool = False
    """Made by a CRD: no strategic merge, and only there while it is installed."""
    unconditional_update: bool = True
    """PUT needs no resource version."""

    @property
    def plural(self) -> str:
        return self.resource.plural

    @property
    def group(self) -> str:
        return self.resource.group


BUILT_IN = (
    Kind(r.PODS, has_status=True),
    Kind(r.NODES, has_status=True),
    Kind(r.NAMESPACES, has_status=True),
    Kind(r.DAEMON_SETS, has_status=True),
    Kind(r.CONFIG_MAPS),
    Kind(r.PERSISTENT_VOLUMES, has_status=True),
    Kind(r.PERSISTENT_VOLUME_CLAIMS, has_status=True),
    Kind(r.PRIORITY_CLASSES),
    Kind(r.STORAGE_CLASSES),
    Kind(r.CSI_NODES),
    Kind(r.CSI_DRIVERS),
    Kind(r.CSI_STORAGE_CAPACITIES),
    Kind(r.VOLUME_ATTACHMENTS, has_status=True),
    Kind(r.POD_DISRUPTION_BUDGETS, has_status=True),
    Kind(r.EVENTS),
    Kind(r.LEASES, unconditional_update=False),
)
POD_GROUP = Kind(r.POD_GROUPS, has_status=True, is_custom=True, unconditional_update=False)
