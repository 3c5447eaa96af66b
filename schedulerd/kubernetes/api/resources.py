"""Names of Kubernetes resources and the paths that they have in the API."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote

import msgspec


class Resource(msgspec.Struct, frozen=True, gc=False):
    """A collection of objects, such as `apps/v1 deployments`. The core group is the empty text."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of an object; without a name that of the collection, in all namespaces if none is given."""
        path = _collection(self, namespace)
        if name:
            path = f"{path}/{name if _is_plain(name) else quote(name, safe=':')}"
        return f"{path}/{subresource}" if subresource else path

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


_is_plain = re.compile(r"[\w.:~-]*", re.ASCII).fullmatch
"""As nearly all names are: to find that nothing is to be quoted takes `quote` four times as long."""


@lru_cache(1_024)
def _collection(resource: Resource, namespace: str) -> str:
    parts = ["/apis", resource.group] if resource.group else ["/api"]
    parts.append(resource.version)
    if resource.namespaced and namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    return "/".join([*parts, resource.plural])


PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
CSI_STORAGE_CAPACITIES = Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
VOLUME_ATTACHMENTS = Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False)
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
BETA_POD_DISRUPTION_BUDGETS = Resource("policy", "v1beta1", "poddisruptionbudgets", "PodDisruptionBudget")
POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
