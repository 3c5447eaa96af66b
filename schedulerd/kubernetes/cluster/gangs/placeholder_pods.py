"""Names and bodies of placeholder pods.

A name is a function of originator, application, task group and index, so that creation can be repeated by anybody at
any time. What goes into the name must never change: a newer version has to find the pods of an older one.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from schedulerd.kubernetes.metadata.gangs import PLACEHOLDER, TASK_GROUP_NAME, TaskGroup
from schedulerd.kubernetes.metadata.names import APP_ID, OWN_PREFIX, QUEUE, USER_INFO, annotation
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.quantity import MalformedQuantity
from schedulerd.kubernetes.resources import VCORE, scheduler_amounts

_APPLICATION_CHARACTERS = 28
_GROUP_CHARACTERS = 20
_CONTAINERS_MAX = 20
"""Of a member, to be made for each of its placeholders as well."""
_HASH_CHARACTERS = 10
_NOT_ALLOWED = re.compile(r"[^a-z0-9]+")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_MAY_BE_EVICTED = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_NO_SIDECAR = "sidecar.istio.io/inject"


def name(originator_uid: str, application_id: str, group: str, index: int) -> str:
    """At most 63 characters, so that it is a host name as well. Frozen: see the module."""
    inputs = "\0".join((originator_uid, application_id, group, str(index)))
    digest = hashlib.sha256(inputs.encode()).digest()
    ending = base64.b32encode(digest).decode().lower()[:_HASH_CHARACTERS]
    parts = ("tg", _plain(application_id, _APPLICATION_CHARACTERS), _plain(group, _GROUP_CHARACTERS), ending)
    return "-".join(part for part in parts if part)


def body(
    pod_name: str,
    originator: Pod,
    application_id: str,
    queue: str,
    group: TaskGroup,
    gang_annotations: Mapping[str, str],
    *,
    scheduler_name: str,
    image: str,
    user: int | None = None,
    member: Pod | None = None,
) -> dict[str, Any]:
    """The pod as it is sent to the API server. Without `user` it runs as the user of its image, or as one that the
    cluster chooses. `member` is a pod of the task group, if one exists."""
    about = originator.metadata
    labels, annotations = _labels_and_annotations(originator, application_id, queue, group, gang_annotations)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": about.name, "uid": about.uid, "controller": False}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name,
            "namespace": about.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner],
        },
        "spec": _spec(originator, group, scheduler_name, image, user, member),
    }


def _labels_and_annotations(
    originator: Pod, application_id: str, queue: str, group: TaskGroup, gang_annotations: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    template = group.template
    labels = {**template.get("labels", {}), _NO_SIDECAR: "false"}
    annotations = {
        _MAY_BE_EVICTED: "true",  # an autoscaler keeps nodes with pods that no controller would make again
        **template.get("annotations", {}),
        **gang_annotations,
        _NO_SIDECAR: "false",
        OWN_PREFIX + PLACEHOLDER: "true",
        OWN_PREFIX + TASK_GROUP_NAME: group.name,
    }
    if user := annotation(originator.metadata, USER_INFO):
        annotations[OWN_PREFIX + USER_INFO] = user
    for key, value in ((APP_ID, application_id), (QUEUE, queue)):
        if value:
            # Not everything that may be an annotation may be a label.
            (labels if _LABEL_VALUE.fullmatch(value) else annotations)[OWN_PREFIX + key] = value
    return labels, annotations


def _spec(
    originator: Pod, group: TaskGroup, scheduler_name: str, image: str, user: int | None, member: Pod | None
) -> dict[str, Any]:
    runs_as = {} if user is None else {"runAsUser": user, "runAsGroup": user}
    template, spec = group.template, originator.spec
    fields: dict[str, Any] = {
        "schedulerName": scheduler_name,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, **runs_as, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": _containers(group, image, member),
    }
    for key in ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints"):
        if template.get(key):
            fields[key] = template[key]
    if spec.priority_class_name:
        fields["priorityClassName"] = spec.priority_class_name
    if spec.image_pull_secrets:
        fields["imagePullSecrets"] = [{"name": secret.name} for secret in spec.image_pull_secrets]
    return fields


def _containers(group: TaskGroup, image: str, member: Pod | None) -> list[dict[str, Any]]:
    """They do nothing, with the requests of a member. As many as the member has, if these request what is declared: a
    LimitRange bounds each container, and adds to each what it does not name."""
    declared = {"cpu" if name == VCORE else name: quantity for name, quantity in group.quantities.items()}
    parts = _parts(declared, member) or [declared]
    containers = [_container(f"pause-{number}" if number else "pause", image, one) for number, one in enumerate(parts)]
    if group.host_ports:
        containers[0]["ports"] = [
            {"containerPort": one.port, "hostPort": one.port, "protocol": one.protocol} for one in group.host_ports
        ]
    return containers


def _parts(declared: dict[str, str | int], member: Pod | None) -> list[dict[str, Any]]:
    """What each container of the member requests of the declared resources; nothing if it has one container or too
    many, or if they request something else together."""
    containers = member.spec.containers or () if member is not None else ()
    if not 1 < len(containers) <= _CONTAINERS_MAX:
        return []
    requested = [one.resources.requests or {} for one in containers]
    parts = [{name: one[name] for name in declared if name in one} for one in requested]
    try:
        total: Counter[str] = Counter()
        for part in parts:
            total.update(scheduler_amounts(part))
        return parts if total == Counter(scheduler_amounts(declared)) else []
    except MalformedQuantity:
        return []


def _container(name: str, image: str, amounts: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _plain(text: str, characters: int) -> str:
    return _NOT_ALLOWED.sub("-", text.lower()).strip("-")[:characters].strip("-")
