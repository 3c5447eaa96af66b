"""Lists: versions, pages, selectors."""

from __future__ import annotations

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.contract.api import Api


async def test_a_list_has_a_version_and_objects_without_their_kind(api: Api) -> None:
    pod = await api.pod("a")
    answer = await api.get(r.PODS)
    assert answer.status == 200
    assert answer.json["kind"] == "PodList"
    assert int(answer.json["metadata"]["resourceVersion"]) >= int(pod["metadata"]["resourceVersion"])
    (item,) = answer.json["items"]
    assert "kind" not in item
    assert item["metadata"]["uid"] == pod["metadata"]["uid"]


async def test_pages_show_one_moment(api: Api) -> None:
    for name in "abcde":
        await api.pod(name)
    first = await api.get(r.PODS, limit="2")
    assert [item["metadata"]["name"] for item in first.json["items"]] == ["a", "b"]
    assert first.json["metadata"]["remainingItemCount"] == 3
    await api.pod("bb")
    await api.delete(r.PODS, "d")
    second = await api.get(r.PODS, limit="2", **{"continue": first.json["metadata"]["continue"]})
    third = await api.get(r.PODS, limit="2", **{"continue": second.json["metadata"]["continue"]})
    names = [item["metadata"]["name"] for page in (second, third) for item in page.json["items"]]
    assert names == ["c", "d", "e"]
    assert not third.json["metadata"].get("continue")
    versions = {page.json["metadata"]["resourceVersion"] for page in (first, second, third)}
    assert len(versions) == 1


async def test_pages_that_come_too_late_are_expired(api: Api) -> None:
    for name in "abc":
        await api.pod(name)
    first = await api.get(r.PODS, limit="2")
    await api.pod("d")
    await api.forget_old_versions()
    late = await api.get(r.PODS, limit="2", **{"continue": first.json["metadata"]["continue"]})
    assert (late.status, late.json["code"], late.json["reason"]) == (410, 410, "Expired")
    assert late.json["kind"] == "Status"


async def test_a_list_from_the_future_is_refused_with_a_wait(api: Api) -> None:
    version = int(await api.version(r.PODS))
    answer = await api.get(r.PODS, resourceVersion=str(version + 1_000_000))
    assert (answer.status, answer.json["reason"]) == (504, "Timeout")
    assert answer.headers["Retry-After"] == "1"
    assert answer.json["details"]["retryAfterSeconds"] == 1
    assert answer.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_a_list_of_nothing_has_items_and_a_version(api: Api) -> None:
    answer = await api.get(r.PODS)
    assert answer.json["items"] == []
    assert int(answer.json["metadata"]["resourceVersion"]) > 0


async def test_field_selectors_of_pods(api: Api) -> None:
    await api.pod("free")
    await api.pod("bound", node="n1")
    await api.pod("ours", schedulerName="schedulerd")
    await api.pod("over", node="n1")
    await api.patch(r.PODS, "over", {"status": {"phase": "Succeeded"}}, "status")

    async def names(selector: str) -> list[str]:
        answer = await api.get(r.PODS, fieldSelector=selector)
        assert answer.status == 200, answer
        return [item["metadata"]["name"] for item in answer.json["items"]]

    assert await names("spec.nodeName=n1") == ["bound", "over"]
    assert await names("spec.nodeName=") == ["free", "ours"]
    assert await names("spec.schedulerName=schedulerd") == ["ours"]
    assert await names("status.phase!=Succeeded,status.phase!=Failed") == ["bound", "free", "ours"]
    assert await names("metadata.name=free") == ["free"]


async def test_other_field_selectors_are_refused(api: Api) -> None:
    answer = await api.get(r.PODS, fieldSelector="spec.priority=3")
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    assert "field label not supported: spec.priority" in answer.json["message"]


async def test_label_selectors(api: Api) -> None:
    for name, labels in (("a", {"app": "x", "tier": "1"}), ("b", {"app": "y"}), ("c", {})):
        await api.post(
            r.PODS,
            {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "m", "image": "pause"}]}},
        )

    async def names(selector: str) -> str:
        answer = await api.get(r.PODS, labelSelector=selector)
        return "".join(item["metadata"]["name"] for item in answer.json["items"])

    assert await names("app=x") == "a"
    assert await names("app!=x") == "bc"
    assert await names("app in (x, y),!tier") == "b"
    assert await names("app notin (y)") == "ac"
    assert await names("app") == "ab"


async def test_lists_of_all_namespaces_and_of_cluster_objects(api: Api) -> None:
    await api.pod("mine")
    everywhere = await api.call("GET", r.PODS.path())
    assert api.namespace in {item["metadata"]["namespace"] for item in everywhere.json["items"]}
    namespaces = await api.get(r.NAMESPACES)
    found = {item["metadata"]["name"]: item["status"]["phase"] for item in namespaces.json["items"]}
    assert found[api.namespace] == "Active"
    assert "default" in found
