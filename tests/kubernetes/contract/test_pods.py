"""Pods: creation, binding, status, deletion."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.contract.api import MERGE, Api

CONTAINERS = [{"name": "main", "image": "pause"}]


def condition(pod: dict[str, Any], type_: str) -> dict[str, Any]:
    return next((one for one in pod["status"].get("conditions") or () if one["type"] == type_), {})


async def test_a_new_pod_is_pending_and_has_defaults(api: Api) -> None:
    pod = await api.pod("a")
    assert pod["status"]["phase"] == "Pending"
    assert pod["metadata"]["uid"]
    assert pod["metadata"]["creationTimestamp"].endswith("Z")
    spec = pod["spec"]
    assert (spec["schedulerName"], spec["restartPolicy"], spec["priority"]) == ("default-scheduler", "Always", 0)
    assert spec["terminationGracePeriodSeconds"] == 30
    keys = {one["key"] for one in spec["tolerations"]}
    assert keys == {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
    assert "nodeName" not in spec


async def test_limits_are_requests_where_none_are_given(api: Api) -> None:
    pod = await api.pod("a", containers=[{**CONTAINERS[0], "resources": {"limits": {"cpu": "1"}}}])
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}


async def test_a_name_is_taken_once(api: Api) -> None:
    await api.pod("a")
    answer = await api.post(r.PODS, {"metadata": {"name": "a"}, "spec": {"containers": CONTAINERS}})
    assert (answer.status, answer.json["reason"]) == (409, "AlreadyExists")
    assert answer.json["message"] == 'pods "a" already exists'


@pytest.mark.parametrize(
    ("metadata", "spec", "field"),
    [
        ({"name": "A_b"}, {"containers": CONTAINERS}, "metadata.name"),
        ({"name": "a"}, {"containers": []}, "spec.containers"),
        ({"name": "a"}, {"containers": [{"name": "m"}]}, "spec.containers[0].image"),
        (
            {"name": "a"},
            {"containers": [{**CONTAINERS[0], "resources": {"requests": {"cpu": "-1"}}}]},
            "spec.containers[0].resources.requests",
        ),
    ],
)
async def test_a_pod_that_is_wrong_is_refused_by_field(
    api: Api, metadata: dict[str, Any], spec: dict[str, Any], field: str
) -> None:
    answer = await api.post(r.PODS, {"metadata": metadata, "spec": spec})
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    assert field in {cause["field"].partition("[cpu]")[0] for cause in answer.json["details"]["causes"]}


async def test_a_namespace_has_to_be_there(api: Api) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"containers": CONTAINERS}}
    answer = await api.call("POST", r.PODS.path("nowhere-at-all"), body)
    assert (answer.status, answer.json["reason"]) == (404, "NotFound")
    assert answer.json["message"] == 'namespaces "nowhere-at-all" not found'


async def test_nothing_is_created_in_a_namespace_that_is_being_deleted(api: Api) -> None:
    await api.pod("a")
    deleted = await api.delete(r.NAMESPACES, api.namespace)
    assert deleted.status == 200
    answer = await api.post(r.PODS, {"metadata": {"name": "b"}, "spec": {"containers": CONTAINERS}})
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden")
    assert answer.json["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    assert (await api.get(r.PODS, "a")).status == 200


async def test_the_priority_is_that_of_the_class(api: Api) -> None:
    answer = await api.post(r.PRIORITY_CLASSES, {"metadata": {"name": f"{api.namespace}-high"}, "value": 1000})
    assert answer.status == 201, answer
    pod = await api.pod("a", priorityClassName=f"{api.namespace}-high")
    assert pod["spec"]["priority"] == 1000
    refused = await api.post(
        r.PODS, {"metadata": {"name": "b"}, "spec": {"containers": CONTAINERS, "priorityClassName": "nothing"}}
    )
    assert refused.status == 403
    assert "no PriorityClass with name nothing was found" in refused.json["message"]


async def test_a_binding_sets_node_condition_and_annotations(api: Api) -> None:
    pod = await api.pod("a")
    answer = await api.bind("a", "n1", uid=pod["metadata"]["uid"], annotations={"x": "y"})
    assert answer.status == 201
    assert (answer.json["kind"], answer.json["status"]) == ("Status", "Success")
    bound = (await api.get(r.PODS, "a")).json
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"x": "y"}
    assert condition(bound, "PodScheduled")["status"] == "True"
    assert bound["status"]["phase"] == "Pending"


async def test_a_second_binding_names_the_node_of_the_first(api: Api) -> None:
    await api.pod("a")
    await api.bind("a", "n1")
    for node in ("n1", "n2"):
        answer = await api.bind("a", node)
        assert (answer.status, answer.json["reason"]) == (409, "Conflict")
        assert 'pod a is already assigned to node "n1"' in answer.json["message"]


async def test_what_cannot_be_bound(api: Api) -> None:
    missing = await api.bind("nothing", "n1")
    assert (missing.status, missing.json["reason"]) == (404, "NotFound")
    await api.pod("held")
    await api.patch(r.PODS, "held", {"metadata": {"finalizers": ["example.com/held"]}})
    await api.delete(r.PODS, "held")
    deleted = await api.bind("held", "n1")
    assert deleted.status == 409
    assert "is being deleted" in deleted.json["message"]
    await api.patch(r.PODS, "held", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/held"]}})
    assert (await api.get(r.PODS, "held")).status == 404
    nameless = await api.pod("nameless")
    assert nameless
    refused = await api.bind("nameless", "")
    assert refused.status in (400, 422, 500)
    assert "target.name: Required value" in refused.json["message"]


async def test_a_node_need_not_exist(api: Api) -> None:
    await api.pod("a")
    assert (await api.bind("a", "nobody-has-seen-it")).status == 201


async def test_the_uid_of_a_binding_counts_on_newer_servers(api: Api) -> None:
    await api.pod("a")
    wrong = "00000000-0000-0000-0000-000000000000"
    first = await api.bind("a", "n1", uid=wrong)
    assert first.status in (201, 409)
    if api.fake is not None:
        assert first.status == 201
        api.fake.operations.checks_binding_uid = True
        await api.pod("b")
        assert (await api.bind("b", "n1", uid=wrong)).status == 409


async def test_conditions_are_merged_by_type(api: Api) -> None:
    await api.pod("a")
    await api.bind("a", "n1")
    patch = {"status": {"conditions": [{"type": "Ours", "status": "False", "reason": "Because", "message": "text"}]}}
    answer = await api.patch(r.PODS, "a", patch, "status")
    assert answer.status == 200
    assert condition(answer.json, "Ours")["reason"] == "Because"
    assert condition(answer.json, "PodScheduled")["status"] == "True"
    changed = await api.patch(r.PODS, "a", {"status": {"conditions": [{"type": "Ours", "status": "True"}]}}, "status")
    assert condition(changed.json, "Ours")["status"] == "True"
    assert condition(changed.json, "Ours")["message"] == "text"
    assert len(changed.json["status"]["conditions"]) == 2


async def test_a_patch_that_changes_nothing_makes_no_version(api: Api) -> None:
    await api.pod("a")
    patch = {"status": {"conditions": [{"type": "Ours", "status": "False"}]}}
    first = await api.patch(r.PODS, "a", patch, "status")
    second = await api.patch(r.PODS, "a", patch, "status")
    assert first.json["metadata"]["resourceVersion"] == second.json["metadata"]["resourceVersion"]


async def test_a_patch_for_another_version_is_a_conflict_and_for_another_uid_too_or_invalid(api: Api) -> None:
    pod = await api.pod("a")
    stale = await api.patch(r.PODS, "a", {"metadata": {"resourceVersion": "1"}, "status": {"message": "x"}}, "status")
    assert (stale.status, stale.json["reason"]) == (409, "Conflict")
    wrong = {"uid": "00000000-0000-0000-0000-000000000000"}
    other = await api.patch(r.PODS, "a", {"metadata": wrong, "status": {"message": "x"}}, "status")
    assert other.status in (409, 422)
    if other.status == 422:
        assert {cause["field"] for cause in other.json["details"]["causes"]} == {"metadata.uid"}
    assert "message" not in (await api.get(r.PODS, "a")).json["status"]
    right = {"uid": pod["metadata"]["uid"], "resourceVersion": pod["metadata"]["resourceVersion"]}
    assert (await api.patch(r.PODS, "a", {"metadata": right, "status": {"message": "x"}}, "status")).status == 200


async def test_the_object_keeps_its_status_and_the_status_its_spec(api: Api) -> None:
    await api.pod("a")
    await api.patch(r.PODS, "a", {"status": {"message": "no"}, "metadata": {"labels": {"l": "1"}}})
    pod = (await api.get(r.PODS, "a")).json
    assert "message" not in pod["status"]
    assert pod["metadata"]["labels"] == {"l": "1"}
    both = {"status": {"message": "yes"}, "spec": {"schedulerName": "x"}, "metadata": {"labels": {"l": "2"}}}
    await api.patch(r.PODS, "a", both, "status")
    pod = (await api.get(r.PODS, "a")).json
    assert pod["status"]["message"] == "yes"
    assert pod["spec"]["schedulerName"] == "default-scheduler"
    assert pod["metadata"]["labels"] == {"l": "2"}


async def test_the_spec_of_a_pod_stays(api: Api) -> None:
    await api.pod("a")
    answer = await api.patch(r.PODS, "a", {"spec": {"schedulerName": "other"}})
    assert answer.status == 422
    assert "pod updates may not change fields other than" in answer.json["message"]


async def test_merge_patches_replace_lists(api: Api) -> None:
    await api.pod("a")
    await api.bind("a", "n1")
    patch = {"status": {"conditions": [{"type": "Ours", "status": "False"}]}}
    answer = await api.patch(r.PODS, "a", patch, "status", content_type=MERGE)
    assert [one["type"] for one in answer.json["status"]["conditions"]] == ["Ours"]
    unknown = await api.patch(r.PODS, "a", patch, "status", content_type="application/x-unknown")
    assert unknown.status == 415


async def test_a_pod_without_a_node_is_gone_at_once(api: Api) -> None:
    pod = await api.pod("a")
    version = await api.version(r.PODS)
    answer = await api.delete(r.PODS, "a", preconditions={"uid": pod["metadata"]["uid"]})
    assert answer.status == 200
    assert (await api.get(r.PODS, "a")).status == 404
    watch = await api.watch(r.PODS, version)
    last = await watch.until("DELETED", "a")
    assert int(last["metadata"]["resourceVersion"]) > int(version)
    assert [one["type"] for one in watch.seen] == ["MODIFIED", "DELETED"]
    assert [one["object"]["metadata"]["deletionGracePeriodSeconds"] for one in watch.seen] == [0, 0]
    assert (await api.delete(r.PODS, "a")).status == 404


async def test_a_pod_with_a_node_stays_until_its_kubelet_is_done(api: Api) -> None:
    await api.pod("a")
    await api.bind("a", "n1")
    version = await api.version(r.PODS)
    answer = await api.delete(r.PODS, "a")
    assert answer.status == 200
    assert answer.json["metadata"]["deletionGracePeriodSeconds"] == 30
    left = (await api.get(r.PODS, "a")).json
    assert left["metadata"]["deletionTimestamp"]
    assert left["status"]["phase"] == "Pending"
    again = await api.delete(r.PODS, "a")
    assert again.status == 200
    assert (await api.get(r.PODS, "a")).json["metadata"]["deletionTimestamp"] == left["metadata"]["deletionTimestamp"]
    assert (await api.delete(r.PODS, "a", gracePeriodSeconds=0)).status == 200
    assert (await api.get(r.PODS, "a")).status == 404
    watch = await api.watch(r.PODS, version)
    await watch.until("DELETED", "a")
    graces = [(one["type"], one["object"]["metadata"]["deletionGracePeriodSeconds"]) for one in watch.seen]
    assert graces == [("MODIFIED", 30), ("MODIFIED", 0), ("DELETED", 0)]


async def test_a_pod_that_has_ended_is_gone_at_once(api: Api) -> None:
    await api.pod("a", node="n1")
    await api.patch(r.PODS, "a", {"status": {"phase": "Succeeded"}}, "status")
    assert (await api.delete(r.PODS, "a")).status == 200
    assert (await api.get(r.PODS, "a")).status == 404


async def test_a_deletion_for_another_uid_or_version_is_a_conflict(api: Api) -> None:
    await api.pod("a")
    for wrong in ({"uid": "00000000-0000-0000-0000-000000000000"}, {"resourceVersion": "1"}):
        answer = await api.delete(r.PODS, "a", preconditions=wrong)
        assert (answer.status, answer.json["reason"]) == (409, "Conflict")
        assert "precondition" in answer.json["message"]
    assert (await api.get(r.PODS, "a")).status == 200


async def test_a_finalizer_holds_an_object(api: Api) -> None:
    await api.post(r.CONFIG_MAPS, {"metadata": {"name": "c", "finalizers": ["example.com/held"]}})
    assert (await api.delete(r.CONFIG_MAPS, "c")).status == 200
    left = await api.get(r.CONFIG_MAPS, "c")
    assert left.json["metadata"]["deletionTimestamp"]
    await api.patch(r.CONFIG_MAPS, "c", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert (await api.get(r.CONFIG_MAPS, "c")).status == 404
