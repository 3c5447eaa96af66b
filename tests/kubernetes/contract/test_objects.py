"""Leases, events, nodes, storage, custom resources, and who may do what."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.api.resources import Resource
from tests.kubernetes.contract.api import MERGE, Api

LEASE = {
    "holderIdentity": "a",
    "leaseDurationSeconds": 15,
    "acquireTime": "2026-11-23T10:00:00.000000Z",
    "renewTime": "2026-11-23T10:00:00.000000Z",
    "leaseTransitions": 0,
}


async def test_of_two_who_update_a_lease_one_loses(api: Api) -> None:
    assert (await api.get(r.LEASES, "l")).status == 404
    created = await api.post(r.LEASES, {"metadata": {"name": "l"}, "spec": LEASE})
    assert created.status == 201
    assert created.json["spec"] == LEASE
    twice = await api.post(r.LEASES, {"metadata": {"name": "l"}, "spec": LEASE})
    assert (twice.status, twice.json["reason"]) == (409, "AlreadyExists")
    lease = created.json
    lease["spec"] = {**LEASE, "renewTime": "2026-11-23T10:00:02.000000Z"}
    first = await api.put(r.LEASES, "l", lease)
    assert first.status == 200
    assert first.json["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"]
    late = await api.put(r.LEASES, "l", {**lease, "spec": {**LEASE, "holderIdentity": "b"}})
    assert (late.status, late.json["reason"]) == (409, "Conflict")
    assert "the object has been modified" in late.json["message"]
    assert (await api.get(r.LEASES, "l")).json["spec"] == lease["spec"]


async def test_a_lease_is_not_updated_blindly(api: Api) -> None:
    await api.post(r.LEASES, {"metadata": {"name": "l"}, "spec": LEASE})
    body = {"apiVersion": r.LEASES.api_version, "kind": "Lease", "metadata": {"name": "l"}, "spec": LEASE}
    answer = await api.put(r.LEASES, "l", body)
    assert answer.status == 422
    assert answer.json["details"]["causes"][0]["field"] == "metadata.resourceVersion"
    missing = await api.put(r.LEASES, "none", {**body, "metadata": {"name": "none"}})
    assert missing.status in (404, 201)


async def test_a_lease_of_no_seconds_is_refused(api: Api) -> None:
    answer = await api.post(r.LEASES, {"metadata": {"name": "l"}, "spec": {**LEASE, "leaseDurationSeconds": 0}})
    assert (answer.status, answer.json["details"]["causes"][0]["field"]) == (422, "spec.leaseDurationSeconds")


def event(api: Api, **changes: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "a.1"},
        "eventTime": "2026-11-23T10:00:00.000000Z",
        "reportingController": "schedulerd",
        "reportingInstance": "schedulerd-0",
        "regarding": {"kind": "Pod", "apiVersion": "v1", "namespace": api.namespace, "name": "a", "uid": "u"},
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": "text",
        **changes,
    }


async def test_an_event_becomes_a_series(api: Api) -> None:
    created = await api.post(r.EVENTS, event(api))
    assert created.status == 201, created
    series = {"count": 2, "lastObservedTime": "2026-11-23T10:00:05.000000Z"}
    answer = await api.patch(r.EVENTS, "a.1", {"series": series}, content_type=MERGE)
    assert answer.status == 200, answer
    assert answer.json["series"] == series
    assert answer.json["note"] == "text"
    missing = await api.patch(r.EVENTS, "a.2", {"series": series}, content_type=MERGE)
    assert missing.status == 404
    twice = await api.post(r.EVENTS, event(api))
    assert (twice.status, twice.json["reason"]) == (409, "AlreadyExists")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reportingController", ""),
        ("reportingInstance", ""),
        ("action", ""),
        ("reason", ""),
        ("type", "Bad"),
        ("eventTime", None),
        ("note", "x" * 1025),
    ],
)
async def test_an_event_has_all_its_fields(api: Api, field: str, value: object) -> None:
    answer = await api.post(r.EVENTS, event(api, **{field: value}))
    assert (answer.status, answer.json["reason"]) == (422, "Invalid"), answer


async def test_an_event_about_a_node_names_the_namespace_that_it_is_in(api: Api) -> None:
    """Servers differ in where an event may be whose object has no namespace; this way all of them take it."""
    of_a_node = {**event(api), "apiVersion": r.EVENTS.api_version, "kind": "Event"}
    of_a_node["metadata"] = {"name": f"{api.namespace}.1", "namespace": "default"}
    of_a_node["regarding"] = {"kind": "Node", "apiVersion": "v1", "name": "n1", "uid": "n1"}
    refused = await api.call("POST", r.EVENTS.path("default"), of_a_node)
    assert refused.status == 422 or api.is_real
    of_a_node["metadata"]["name"] += "x"
    of_a_node["regarding"]["namespace"] = "default"
    assert (await api.call("POST", r.EVENTS.path("default"), of_a_node)).status in (200, 201)


async def test_nodes_have_a_status_of_their_own(api: Api) -> None:
    name = f"{api.namespace}-n1"
    created = await api.post(r.NODES, {"metadata": {"name": name, "labels": {"zone": "z1"}}})
    assert created.status == 201
    status = {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    answer = await api.patch(r.NODES, name, {"status": status}, "status")
    assert answer.json["status"]["allocatable"] == status["allocatable"]
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    patched = await api.patch(r.NODES, name, {"spec": {"unschedulable": True, "taints": [taint]}})
    assert patched.json["spec"]["unschedulable"] is True
    assert taint in patched.json["spec"]["taints"]
    assert patched.json["status"]["allocatable"] == status["allocatable"]
    gone = await api.delete(r.NODES, name)
    assert (gone.status, gone.json["kind"], gone.json["status"]) == (200, "Status", "Success")
    assert (await api.get(r.NODES, name)).status == 404


STORAGE: list[tuple[Resource, dict[str, Any]]] = [
    (
        r.PERSISTENT_VOLUMES,
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/x"},
                "storageClassName": "s",
            }
        },
    ),
    (
        r.PERSISTENT_VOLUME_CLAIMS,
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "s",
            }
        },
    ),
    (r.STORAGE_CLASSES, {"provisioner": "example.com/p", "volumeBindingMode": "WaitForFirstConsumer"}),
    (r.CSI_NODES, {"spec": {"drivers": [{"name": "d", "nodeID": "n", "allocatable": {"count": 3}}]}}),
    (r.CSI_DRIVERS, {"spec": {"attachRequired": False}}),
    (r.PRIORITY_CLASSES, {"value": 5, "description": "text"}),
    (r.CONFIG_MAPS, {"data": {"queues.yaml": "partitions: []"}}),
]


def assert_has(found: Any, wanted: Any) -> None:
    """Everything of `wanted`; servers add defaults."""
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            assert_has(found[key], value)
    elif isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, value in zip(found, wanted, strict=True):
            assert_has(one, value)
    else:
        assert found == wanted


@pytest.mark.parametrize(("resource", "fields"), STORAGE, ids=lambda one: getattr(one, "plural", ""))
async def test_objects_come_back_as_they_were_made(api: Api, resource: Resource, fields: dict[str, Any]) -> None:
    name = f"{api.namespace}-x"
    version = await api.version(resource)
    created = await api.post(resource, {"metadata": {"name": name}, **fields})
    assert created.status == 201, created
    found = (await api.get(resource, name)).json
    assert_has(found, fields)
    if resource in (r.PERSISTENT_VOLUMES, r.PERSISTENT_VOLUME_CLAIMS):
        assert found["status"]["phase"] == "Pending"
    watch = await api.watch(resource, version)
    await watch.until("ADDED", name)
    await api.patch(resource, name, {"metadata": {"annotations": {"a": "b"}}})
    await watch.until("MODIFIED", name)
    await api.delete(resource, name)
    if resource not in (r.PERSISTENT_VOLUMES, r.PERSISTENT_VOLUME_CLAIMS) or api.fake is not None:
        await watch.until("DELETED", name)


async def test_a_custom_resource_comes_and_takes_merge_patches_only(api: Api) -> None:
    if api.fake is not None:
        assert (await api.get(r.POD_GROUPS)).status == 404
    await api.install_pod_groups()
    listed = await api.get(r.POD_GROUPS)
    assert (listed.status, listed.json["items"]) == (200, [])
    assert int(listed.json["metadata"]["resourceVersion"]) > 0
    created = await api.post(r.POD_GROUPS, {"metadata": {"name": "g"}, "spec": {"minMember": 3}})
    assert created.status == 201
    status = {"status": {"phase": "Scheduling", "conditions": [{"type": "A", "status": "True"}]}}
    refused = await api.patch(r.POD_GROUPS, "g", status, "status")
    assert refused.status == 415
    answer = await api.patch(r.POD_GROUPS, "g", status, "status", content_type=MERGE)
    assert answer.json["status"] == status["status"]
    assert answer.json["spec"] == {"minMember": 3}
    item = (await api.get(r.POD_GROUPS)).json["items"][0]
    assert item["kind"] == "PodGroup"


async def test_discovery_says_what_is_served(api: Api) -> None:
    core = await api.call("GET", "/api/v1")
    assert core.json["kind"] == "APIResourceList"
    assert {"pods", "nodes", "namespaces"} <= {one["name"] for one in core.json["resources"]}
    leases = await api.call("GET", "/apis/coordination.k8s.io/v1")
    assert "leases" in {one["name"] for one in leases.json["resources"]}
    assert (await api.call("GET", "/apis/example.com/v1")).status == 404
    version = await api.call("GET", "/version")
    assert version.json["gitVersion"].startswith("v")


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/apis/example.com/v1/things", "/apis/apps/v9/deployments"])
async def test_what_is_not_there_is_not_found(api: Api, path: str) -> None:
    answer = await api.call("GET", path)
    assert answer.status == 404


async def test_who_is_not_known_and_who_may_not(api: Api) -> None:
    answer = await api.call("GET", api.path(r.PODS), headers={"Authorization": "Bearer wrong"})
    assert (answer.status, answer.json["reason"], answer.json["kind"]) == (401, "Unauthorized", "Status")
    nobody = await api.call("GET", api.path(r.PODS), headers={"Authorization": "Basic eDp5"})
    assert (nobody.status, nobody.json["reason"]) == (403, "Forbidden")
    assert 'User "system:anonymous" cannot' in nobody.json["message"]
    forbidden = await api.call("GET", api.path(r.PODS), headers={"Authorization": "Bearer nobody-token"})
    assert (forbidden.status, forbidden.json["reason"]) == (403, "Forbidden")
    assert forbidden.json["message"].startswith("pods is forbidden: User")


async def test_a_body_that_is_no_json_is_refused(api: Api) -> None:
    answer = await api.call("POST", api.path(r.PODS), b"{")
    assert answer.status == 400


async def test_a_new_object_has_no_version(api: Api) -> None:
    answer = await api.post(r.CONFIG_MAPS, {"metadata": {"name": "c", "resourceVersion": "5"}})
    assert answer.status == 500
    assert "resourceVersion should not be set on objects to be created" in answer.json["message"]


async def test_a_namespace_in_the_body_is_that_of_the_path(api: Api) -> None:
    answer = await api.post(r.CONFIG_MAPS, {"metadata": {"name": "c", "namespace": "default"}})
    assert answer.status == 400
