"""ConfigMaps of a YuniKorn installation: the queue files in them, and what becomes of every other key here.

Source: conf/schedulerconf.go and admission/conf/am_conf.go of its Kubernetes shim, log and event keys of its core.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from schedulerd.settings.document import read_document
from schedulerd.settings.problems import suggest

DEFAULTS, CONFIGS = "yunikorn-defaults", "yunikorn-configs"
"""Names of the ConfigMaps that YuniKorn reads; keys of the second one count before those of the first one."""
_QUEUE_FILE = re.compile(r"[^.]+\.yaml")
_SEPARATOR = re.compile(r"^---[^\S\n]*(?:#.*)?$", re.M)

_SHIM, _HOOK, _SERVE = "schedulerd kubernetes", "schedulerd admission", "schedulerd serve"
_NOT_NEEDED = "not needed:"
BECOMES = {
    "service.clusterId": f"--rm-id of {_SHIM}",
    "service.policyGroup": f"--policy-group of {_SHIM}: the queue file with this name",
    "service.schedulingInterval": f"{_NOT_NEEDED} a change is acted on at once, and nothing is polled",
    "service.volumeBindTimeout": f"--volume-bind-timeout-s of {_SHIM}, in seconds",
    "service.eventChannelCapacity": f"{_NOT_NEEDED} queues of messages are bounded by what waits in them",
    "service.dispatchTimeout": f"{_NOT_NEEDED} nothing is dropped after a time",
    "service.operatorPlugins": f"{_NOT_NEEDED} there are no plugins; pods are read as they are",
    "service.disableGangScheduling": "no such switch: a pod without task groups is in no gang",
    "service.enableConfigHotRefresh": f"{_NOT_NEEDED} a changed queue file is always read; see --queue-file-poll-s",
    "service.placeholderImage": f"--placeholder-image of {_SHIM}",
    "service.placeholderRunAsUser": f"--placeholder-user of {_SHIM}, for user and group",
    "service.placeholderRunAsGroup": f"--placeholder-user of {_SHIM}, for user and group",
    "service.placeholderFsGroup": f"{_NOT_NEEDED} placeholder pods have no volumes",
    "service.nodeInstanceTypeNodeLabelKey": "fixed: the label node.kubernetes.io/instance-type",
    "service.instanceTypeNodeLabelKey": "fixed: the label node.kubernetes.io/instance-type",
    "kubernetes.qps": f"--writes-per-s of {_SHIM}",
    "kubernetes.burst": f"{_NOT_NEEDED} the burst follows from --writes-per-s of {_SHIM}",
    "log.level": "--log-level, by name: debug, info, warning or error; YuniKorn has -1 to 5",
    "event.trackingEnabled": f"--event-tracking of {_SERVE}",
    "event.ringBufferCapacity": f"--event-ring-max of {_SERVE}",
    "event.requestCapacity": f"{_NOT_NEEDED} events go into the ring at once",
    "event.maxStreams": "fixed: see the limits of event streams in docs/limits.md",
    "event.maxStreamsPerHost": "fixed: see the limits of event streams in docs/limits.md",
    "event.RESTResponseSize": f"--rest-items-max of {_SERVE} bounds all answers",
    "health.checkInterval": f"{_NOT_NEEDED} the check is made when it is asked for",
    "admissionController.webHook.amServiceName": f"--service of {_HOOK}",
    "admissionController.webHook.schedulerServiceAddress": f"--daemon of {_HOOK}, the gRPC address",
    "admissionController.filtering.processNamespaces": f"--process-namespaces of {_HOOK}; patterns match whole names",
    "admissionController.filtering.bypassNamespaces": f"--bypass-namespaces of {_HOOK}; patterns match whole names",
    "admissionController.filtering.labelNamespaces": f"--label-namespaces of {_HOOK}; patterns match whole names",
    "admissionController.filtering.noLabelNamespaces": f"--no-label-namespaces of {_HOOK}; patterns match whole names",
    "admissionController.filtering.generateUniqueAppId": f"--one-application-per-pod of {_SHIM} and of {_HOOK}",
    "admissionController.filtering.defaultQueue": "placement rules of the queue file, such as fixed",
    "admissionController.accessControl.bypassAuth": "no such switch: name who may write any user by --trusted-users",
    "admissionController.accessControl.trustControllers": "controllers of Kubernetes are trusted unless "
    f"--trusted-service-accounts of {_HOOK} names others",
    "admissionController.accessControl.systemUsers": f"--trusted-users of {_HOOK}; patterns match whole names",
    "admissionController.accessControl.externalUsers": f"--trusted-users of {_HOOK}; patterns match whole names",
    "admissionController.accessControl.externalGroups": f"--trusted-groups of {_HOOK}; patterns match whole names",
}
"""What has the place of each key."""


class PeerMap(NamedTuple):
    """One ConfigMap."""

    name: str
    queue_files: dict[str, str]
    """By key; a file of a policyGroup each."""
    settings: dict[str, str]
    """All other keys with their values."""


def peer_maps(text: str) -> list[PeerMap] | None:
    """The ConfigMaps in a manifest, also of several documents or in a list; None if it is none: a queue file, or what
    cannot be read."""
    found: list[PeerMap] = []
    for part in _SEPARATOR.split(text):
        if not part.strip():
            continue
        data = read_document(part).data
        items = (
            data.get("items") if isinstance(data, dict) and data.get("kind") in ("List", "ConfigMapList") else [data]
        )
        for item in items if isinstance(items, list) else []:
            if not isinstance(item, dict) or item.get("kind") != "ConfigMap":
                return None
            found.append(_peer_map(item))
    return found or None


def _peer_map(item: dict[str, Any]) -> PeerMap:
    metadata, data = item.get("metadata"), item.get("data")
    name = metadata.get("name") if isinstance(metadata, dict) else ""
    entries = {str(key): str(value) for key, value in data.items()} if isinstance(data, dict) else {}
    files = {key: value for key, value in entries.items() if _QUEUE_FILE.fullmatch(key)}
    return PeerMap(str(name or ""), files, {key: value for key, value in entries.items() if key not in files})


def what_becomes(settings: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Each key with what has its place here, in the order of the map."""
    for key in settings:
        if key in BECOMES:
            yield key, BECOMES[key]
        elif key.startswith("log.") and key.endswith(".level"):
            yield key, "no levels of single loggers: --log-level is for all"
        else:
            yield key, f"unknown, and read by nothing here; {suggest(key, BECOMES)[:200]}"
