"""Reviews as the API server sends them, and what patches make of objects."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from schedulerd.kubernetes.admission.rules.pods import PodRules
from schedulerd.kubernetes.admission.rules.review import AdmissionRequest, read_review
from schedulerd.kubernetes.admission.rules.workloads import parse_workload
from schedulerd.kubernetes.admission.settings import AdmissionSettings

JSON = dict[str, Any]
OWN = "schedulerd.io/user.info"
YUNIKORN = "yunikorn.apache.org/user.info"
APP_ID = "schedulerd.io/app-id"
GROUPS = ["dev", "system:authenticated"]
SYSTEM = "scheduling-system"
"""The namespace in which schedulerd runs."""
VALUES: JSON = YAML(typ="safe").load(Path(__file__).parents[3] / "charts" / "schedulerd" / "values.yaml")["admission"]
CUSTOM_TEXTS = [f"{one['group']}/{one['resource']}={'+'.join(one['paths'])}" for one in VALUES["customResources"]]
CUSTOM = [parse_workload(text) for text in CUSTOM_TEXTS]
"""The custom resources of the chart."""
OF_CHART: JSON = {"custom_resources": CUSTOM_TEXTS, "trusted_service_accounts": VALUES["trustedServiceAccounts"]}


def user_info(name: str, groups: list[str] | None = None) -> str:
    return json.dumps({"user": name, "groups": GROUPS if groups is None else groups}, separators=(",", ":"))


def rules(namespace: str = SYSTEM, **settings: Any) -> PodRules:
    """With the custom resources of the chart."""
    return AdmissionSettings(**OF_CHART | settings).pod_rules(namespace)


def review(
    new: JSON | None,
    old: JSON | None = None,
    *,
    resource: tuple[str, str] = ("", "pods"),
    user: str = "ann",
    groups: list[str] | None = None,
    namespace: str = "team",
    operation: str = "",
    **more: Any,
) -> JSON:
    """An AdmissionReview; an UPDATE if there is an old object."""
    metadata = (new or {}).get("metadata")
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": resource[0], "version": "v1", "kind": "Any"},
            "resource": {"group": resource[0], "version": "v1", "resource": resource[1]},
            "operation": operation or ("CREATE" if old is None else "UPDATE"),
            "userInfo": {"username": user, "groups": GROUPS if groups is None else groups},
            "namespace": namespace,
            "name": metadata.get("name", "") if isinstance(metadata, dict) else "",
            "object": new,
            "oldObject": old,
            "dryRun": False,
            **more,
        },
    }


def request(new: JSON | None, old: JSON | None = None, **more: Any) -> AdmissionRequest:
    return read_review(json.dumps(review(new, old, **more)).encode())


def pod(annotations: JSON | None = None, labels: JSON | None = None, **spec: Any) -> JSON:
    """As the API server has completed it."""
    metadata: JSON = {"name": "p", "namespace": "team"}
    if annotations is not None:
        metadata["annotations"] = annotations
    if labels is not None:
        metadata["labels"] = labels
    return {"metadata": metadata, "spec": {"schedulerName": "default-scheduler", "containers": [], **spec}}


def patched(document: JSON, operations: Any) -> JSON:
    """By RFC 6902, for the two operations that there are; written without the code under test."""
    result = copy.deepcopy(document)
    for operation in operations:
        *above, last = [
            part.replace("~1", "/").replace("~0", "~") for part in str(operation["path"]).removeprefix("/").split("/")
        ]
        parent: Any = result
        for part in above:
            parent = parent[int(part)] if isinstance(parent, list) else parent[part]
        assert isinstance(parent, dict)
        assert operation["op"] in ("add", "replace")
        assert operation["op"] == "add" or last in parent, f"there is nothing to replace at {operation['path']}"
        parent[last] = operation["value"]
    return result
