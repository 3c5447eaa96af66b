"""What the fake can do that no test of the contract sees: controllers, kubelets, faults."""

from __future__ import annotations

import asyncio
import random

import aiohttp
import pytest

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.fake import FakeCluster, Fault
from tests.kubernetes.fake.merge import strategic_merge

BINDING = b'{"target":{"name":"n1"}}'


def owned(owner: dict[str, dict[str, str]]) -> dict[str, object]:
    return {"metadata": {"name": "child", "ownerReferences": [{"uid": owner["metadata"]["uid"], "kind": "Pod"}]}}


async def test_what_belongs_to_nobody_any_longer_is_collected() -> None:
    async with FakeCluster() as cluster:
        owner = cluster.pod("owner")
        cluster.operations.create(cluster.kind(r.CONFIG_MAPS), "default", owned(owner))
        assert cluster.operations.collect_garbage() == []
        cluster.delete(r.PODS, "owner")
        assert cluster.operations.collect_garbage() == [("configmaps", "default", "child")]
        assert cluster.get(r.CONFIG_MAPS, "child") is None


async def test_a_kubelet_takes_away_what_is_being_deleted() -> None:
    async with FakeCluster() as cluster:
        cluster.pod("a", node="n1")
        cluster.kubelet.run("default", "a")
        cluster.delete(r.PODS, "a")
        assert cluster.kubelet.finish_all() == ["a"]
        assert cluster.get(r.PODS, "a") is None
        cluster.pod("b", node="n1")
        assert cluster.kubelet.fail("default", "b", "OutOfcpu")["status"]["reason"] == "OutOfcpu"
        with pytest.raises(AssertionError, match="is not being deleted"):
            cluster.kubelet.finish("default", "b")


async def test_a_namespace_ends_with_all_that_is_in_it() -> None:
    async with FakeCluster() as cluster:
        cluster.create(r.NAMESPACES, "n")
        cluster.pod("a", namespace="n")
        cluster.delete(r.NAMESPACES, "n")
        cluster.operations.finish_namespaces()
        assert cluster.get(r.NAMESPACES, "n") is None
        assert cluster.get(r.PODS, "a", "n") is None


async def call(cluster: FakeCluster, method: str = "GET", path: str = "/api/v1/pods") -> int | str:
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(cluster.path)) as session:
        try:
            async with asyncio.timeout(5.0), session.request(method, f"http://fake{path}", data=BINDING) as response:
                return response.status
        except TimeoutError:
            return "silence"
        except aiohttp.ClientError:
            return "cut"


@pytest.mark.parametrize(
    ("fault", "seen", "is_performed"),
    [
        (Fault("refuse", code=429, retry_after_s=1), 429, False),
        (Fault("cut"), "cut", False),
        (Fault("lose"), "cut", True),
        (Fault("halve"), "cut", True),
        (Fault("fail_after", code=500), 500, True),
        (Fault("hang"), "silence", False),
        (Fault("hang_after"), "silence", True),
    ],
)
async def test_faults_of_requests(fault: Fault, seen: int | str, is_performed: bool) -> None:
    async with FakeCluster() as cluster:
        cluster.pod("a")
        path = "/api/v1/namespaces/default/pods/a/binding"
        cluster.faults.add(fault, method="POST", plural="pods", name="other")
        cluster.faults.add(fault, method="DELETE", plural="pods", name="a")
        cluster.faults.add(fault, method="POST", subresource="binding", name="a")
        assert await call(cluster, "POST", path) == seen
        pod = cluster.get(r.PODS, "a")
        assert pod is not None
        assert ("nodeName" in pod["spec"]) == is_performed
        assert await call(cluster, "POST", path) == (409 if is_performed else 201)
        assert cluster.faults.happened == [(fault.name, "POST", path)]


async def test_drawn_faults_are_the_same_for_a_seed_and_can_be_stopped() -> None:
    seen = []
    for _ in range(2):
        async with FakeCluster() as cluster:
            cluster.faults.draw(random.Random(3), {"refuse": 0.3, "cut": 0.3})
            seen.append([await call(cluster) for _ in range(20)])
            cluster.faults.stop()
            assert {await call(cluster) for _ in range(20)} == {200}
    assert seen[0] == seen[1]
    assert len(set(map(str, seen[0]))) > 2


def test_lists_are_merged_by_their_keys() -> None:
    old = {"conditions": [{"type": "A", "x": 1}, {"type": "B"}], "finalizers": ["f"], "list": [1], "map": {"a": 1}}
    patch = {
        "conditions": [{"type": "A", "y": 2}, {"type": "B", "$patch": "delete"}, {"type": "C"}],
        "finalizers": ["g"],
        "list": [2],
        "map": {"b": 2},
        "$setElementOrder/conditions": [],
    }
    assert strategic_merge(old, patch) == {
        "conditions": [{"type": "A", "x": 1, "y": 2}, {"type": "C"}],
        "finalizers": ["f", "g"],
        "list": [2],
        "map": {"a": 1, "b": 2},
    }
    assert strategic_merge(old, {"map": {"$patch": "replace", "c": 3}})["map"] == {"c": 3}
    assert strategic_merge(old, {"conditions": [{"$patch": "replace"}, {"type": "Z"}]})["conditions"] == [{"type": "Z"}]


async def test_a_watch_that_is_too_far_behind_ends_and_nothing_comes_behind_what_was_left_out() -> None:
    async with FakeCluster() as cluster:
        cluster.server.watch_lines_max = 2
        version = cluster.store.version
        connector = aiohttp.UnixConnector(cluster.path)
        async with aiohttp.ClientSession(connector=connector) as session:
            query = f"watch=1&resourceVersion={version}"
            async with session.get(f"http://fake/api/v1/pods?{query}") as response:
                while not cluster.server.watches:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                (watch,) = cluster.server.watches
                watch.is_slow = True
                for name in "abc":
                    cluster.pod(name)
                watch.is_slow = False
                assert watch.queue.popleft()  # there is room again
                cluster.pod("d")
                cluster.server.watches_end()
                assert b'"d"' not in await response.read()


async def test_a_change_that_nobody_has_watched_yet_keeps_its_version() -> None:
    async with FakeCluster() as cluster:
        made = cluster.create(r.PERSISTENT_VOLUMES, "v", spec={})
        version = made["metadata"]["resourceVersion"]
        kind = cluster.kind(r.PERSISTENT_VOLUMES)
        status = {"status": {"phase": "Available"}}
        changed = cluster.operations.patch(kind, "", "v", status, "status", "application/merge-patch+json")
        assert made["metadata"]["resourceVersion"] == version != changed["metadata"]["resourceVersion"]
        added, modified = cluster.store.log[-2:]
        assert (added.object, modified.object) == (made, changed)


async def test_a_change_that_is_told_later_is_as_it_was() -> None:
    """Else a watch that comes back gets an old object under the version of the new one, and takes the new one for told
    already: a resize was lost so."""
    async with FakeCluster() as cluster:
        before = cluster.store.version
        cluster.pod("a", node="n1")
        kind = cluster.kind(r.PODS)
        for phase in ("Running", "Succeeded"):
            body = {"status": {"phase": phase}}
            cluster.operations.patch(kind, "default", "a", body, "status", "application/merge-patch+json")
        told = [(change.version, change.object) for change in cluster.store.changes_after(before)]
        assert [int(one["metadata"]["resourceVersion"]) for _, one in told] == [version for version, _ in told]
        assert [one["status"]["phase"] for _, one in told] == ["Pending", "Running", "Succeeded"]
