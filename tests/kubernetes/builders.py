"""Short ways to make Kubernetes objects, in the notation of the API: what is left out is absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from schedulerd.kubernetes.metadata.application_ids import ApplicationId
from schedulerd.kubernetes.objects.cluster import DaemonSet, Namespace
from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.objects.pod import Pod

JSON = dict[str, Any]


def app(name: str, namespace: str = "ns") -> ApplicationId:
    return ApplicationId(namespace, name)


def pod(
    name: str = "p",
    namespace: str = "ns",
    labels: Mapping[str, str] | None = None,
    meta: JSON | None = None,
    **spec: Any,
) -> Pod:
    """The uid is the name. Fields of the spec are given in the notation of the API."""
    metadata = {"name": name, "namespace": namespace, "uid": name, "labels": labels, **(meta or {})}
    return convert(Pod, {"metadata": metadata, "spec": spec})


def bound(
    name: str, node_name: str, namespace: str = "ns", labels: Mapping[str, str] | None = None, **spec: Any
) -> Pod:
    return pod(name, namespace, labels, nodeName=node_name, **spec)


def placed(one: Pod, node_name: str) -> Pod:
    return msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, node_name=node_name))


def annotated(one: Pod, annotations: Mapping[str, str] | None) -> Pod:
    """With these annotations as well."""
    there = {**(one.metadata.annotations or {}), **(annotations or {})}
    return msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, annotations=there or None))


def terminating(one: Pod) -> Pod:
    metadata = msgspec.structs.replace(one.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(one, metadata=metadata)


def node(
    name: str = "n",
    labels: Mapping[str, str] | None = None,
    taints: list[JSON] | None = None,
    unschedulable: bool = False,
    **allocatable: str,
) -> Node:
    return convert(
        Node,
        {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints, "unschedulable": unschedulable},
            "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110", **allocatable}},
        },
    )


def namespace(name: str, **labels: str) -> Namespace:
    return convert(Namespace, {"metadata": {"name": name, "labels": labels}})


def containers(*requests: JSON, **more: Any) -> list[JSON]:
    return [{"name": f"c{number}", "resources": {"requests": one}, **more} for number, one in enumerate(requests)]


def ports(*ports: JSON) -> list[JSON]:
    return [{"name": "c", "ports": list(ports)}]


def selector(**labels: str) -> JSON:
    return {"matchLabels": labels}


def expression(key: str, operator: str, *values: str) -> JSON:
    return {"key": key, "operator": operator, "values": list(values) or None}


def term(key: str, label_selector: JSON | None, **more: Any) -> JSON:
    return {"topologyKey": key, "labelSelector": label_selector, **more}


def affinity(*terms: JSON) -> JSON:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def anti_affinity(*terms: JSON) -> JSON:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def node_affinity(*terms: JSON) -> JSON:
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def spread(key: str, label_selector: JSON | None, skew: int = 1, **more: Any) -> JSON:
    hard = {"whenUnsatisfiable": "DoNotSchedule", **more}
    return {"topologyKey": key, "labelSelector": label_selector, "maxSkew": skew, **hard}


def daemon_set(uid: str = "d", namespace: str = "ns") -> DaemonSet:
    return convert(DaemonSet, {"metadata": {"name": "d", "namespace": namespace, "uid": uid}})


def owned_by_daemon_set(uid: str = "d", **reference: Any) -> JSON:
    """Metadata of a pod that names the DaemonSet as its controller."""
    said = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": uid, "controller": True, **reference}
    return {"ownerReferences": [said]}


def for_node(*names: str) -> JSON:
    """The affinity that the controller of DaemonSets gives to the pod for a node."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
