"""Every kind of write: what each answer of the server comes to, and what becomes of lost ones."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from schedulerd.kubernetes.api import Outcome, Resource, Result
from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.api.pool import PoolCaller
from schedulerd.kubernetes.api.transport import MERGE_PATCH, Answer
from schedulerd.kubernetes.api.writes import (
    Bind,
    Create,
    Delete,
    Patch,
    Write,
)
from tests.kubernetes.api.world import World
from tests.kubernetes.fake import Fault

OTHER_UID = "00000000-0000-0000-0000-000000000000"
NOT_PERFORMED = [
    Fault("refuse", code=429, retry_after_s=2),
    Fault("refuse", code=503, retry_after_s=2),
    Fault("refuse", code=503),
    Fault("refuse", code=500),
    Fault("cut"),
    Fault("hang"),
]
PERFORMED = [Fault("lose"), Fault("fail_after", code=500), Fault("fail_after", code=504), Fault("hang_after")]


def title(fault: Fault) -> str:
    return f"{fault.name}-{fault.code}" if fault.name in ("refuse", "fail_after") else fault.name


def uid(thing: dict[str, Any]) -> str:
    return str(thing["metadata"]["uid"])


async def submit(world: World, write: Write) -> Outcome:
    return await world.pool().submit(write)


# --- bind


async def test_a_pod_is_bound() -> None:
    async with World() as world:
        pod = world.cluster.pod("a")
        outcome = await submit(world, Bind("default", "a", uid(pod), "n1"))
        assert (outcome.result, outcome.node, outcome.code) == (Result.DONE, "n1", 201)
        bound = world.cluster.get(r.PODS, "a")
        assert bound is not None
        assert bound["spec"]["nodeName"] == "n1"
        assert world.metrics.writes == {("bind", "done"): 1}
        assert world.metrics.requests["POST", "pods", "201"] == 1


async def test_a_pod_gets_annotations_with_its_node() -> None:
    async with World() as world:
        pod = world.cluster.pod("a")
        there = dict(pod["metadata"].get("annotations") or {})
        await submit(world, Bind("default", "a", uid(pod), "n1", {"schedulerd.io/placed": uid(pod)}))
        bound = world.cluster.get(r.PODS, "a")
        assert bound is not None
        assert bound["metadata"]["annotations"] == {**there, "schedulerd.io/placed": uid(pod)}


async def test_a_pod_on_another_node_is_a_conflict_that_names_it() -> None:
    async with World() as world:
        pod = world.cluster.pod("a", node="n2")
        outcome = await submit(world, Bind("default", "a", uid(pod), "n1"))
        assert (outcome.result, outcome.node) == (Result.CONFLICT, "n2")
        assert 'already assigned to node "n2"' in outcome.message


async def test_a_pod_on_that_node_is_done() -> None:
    async with World() as world:
        pod = world.cluster.pod("a", node="n1")
        assert (await submit(world, Bind("default", "a", uid(pod), "n1"))).result is Result.DONE


@pytest.mark.parametrize("checks_uid", [False, True])
async def test_a_pod_that_is_gone_or_going_cannot_be_bound(checks_uid: bool) -> None:
    async with World() as world:
        world.cluster.operations.checks_binding_uid = checks_uid
        assert (await submit(world, Bind("default", "none", OTHER_UID, "n1"))).result is Result.GONE
        pod = world.cluster.create(r.PODS, "held", spec={"containers": [{"name": "m", "image": "i"}]})
        pod["metadata"]["finalizers"] = ["example.com/x"]
        world.cluster.delete(r.PODS, "held")
        assert (await submit(world, Bind("default", "held", uid(pod), "n1"))).result is Result.GONE
        world.cluster.pod("remade", node="n2")
        assert (await submit(world, Bind("default", "remade", OTHER_UID, "n1"))).result is Result.GONE


@pytest.mark.parametrize("fault", NOT_PERFORMED, ids=title)
async def test_a_bind_that_was_not_performed_is_tried_again(fault: Fault) -> None:
    async with World() as world:
        pod = world.cluster.pod("a")
        world.cluster.faults.add(fault, subresource="binding")
        outcome = await submit(world, Bind("default", "a", uid(pod), "n1"))
        assert (outcome.result, outcome.code) == (Result.DONE, 201)
        assert len(world.requests("POST")) == 2
        assert [name for name, _, _ in world.cluster.faults.happened] == [fault.name]
        looked_up = world.requests("GET", "/pods/a")
        was_clear = fault.name == "refuse" and fault.retry_after_s is not None
        assert len(looked_up) == (0 if was_clear else 1)
        assert dict(world.metrics.lost_answers) == ({} if was_clear else {("bind", "not_performed"): 1})


@pytest.mark.parametrize("fault", PERFORMED, ids=title)
async def test_a_bind_whose_answer_is_lost_is_looked_up(fault: Fault) -> None:
    async with World() as world:
        pod = world.cluster.pod("a")
        world.cluster.faults.add(fault, subresource="binding")
        outcome = await submit(world, Bind("default", "a", uid(pod), "n1"))
        assert (outcome.result, outcome.node) == (Result.DONE, "n1")
        assert len(world.requests("POST")) == 1
        assert dict(world.metrics.lost_answers) == {("bind", "performed"): 1}


async def test_a_lost_bind_that_cannot_be_looked_up_is_unknown() -> None:
    async with World() as world:
        pod = world.cluster.pod("a")
        world.cluster.faults.add(Fault("lose"), subresource="binding")
        world.cluster.faults.add(Fault("cut"), method="GET", times=1000)
        outcome = await submit(world, Bind("default", "a", uid(pod), "n1"))
        assert outcome.result is Result.UNKNOWN
        assert dict(world.metrics.lost_answers) == {("bind", "unknown"): 1}
        assert len(world.requests("POST")) == 1


async def test_a_server_that_is_away_leaves_a_bind_undone_for_sure() -> None:
    async with World() as world:
        await world.cluster.stop()
        outcome = await submit(world, Bind("default", "a", OTHER_UID, "n1"))
        assert outcome.result is Result.FAILED
        assert "cannot connect" in outcome.message


@pytest.mark.parametrize("body", [b"[]", b"{", b"\xff", b"[" * 100_000], ids=["list", "cut", "binary", "deep"])
async def test_a_lookup_whose_answer_is_no_pod_is_made_again(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async with World() as world:
        pod = world.cluster.pod("a")
        world.cluster.faults.add(Fault("lose"), subresource="binding")
        original = PoolCaller.get
        bodies = [body]

        async def get(self: PoolCaller, resource: Resource, path: str) -> Answer:
            return Answer(200, bodies.pop()) if bodies else await original(self, resource, path)

        monkeypatch.setattr(PoolCaller, "get", get)
        outcome = await submit(world, Bind("default", "a", uid(pod), "n1"))
        assert (outcome.result, outcome.node) == (Result.DONE, "n1")
        assert dict(world.metrics.write_retries) == {("bind", "unreachable"): 1, ("bind", "unusable"): 1}


async def test_a_push_back_lasts_as_long_as_the_server_says() -> None:
    async with World() as world:
        loop = asyncio.get_running_loop()
        pod = world.cluster.pod("a")
        world.cluster.faults.add(Fault("refuse", code=429, retry_after_s=7), subresource="binding")
        started_s = loop.time()
        await submit(world, Bind("default", "a", uid(pod), "n1"))
        assert 7.0 <= loop.time() - started_s < 7.5
        assert dict(world.metrics.write_retries) == {("bind", "pushed_back"): 1}


async def test_a_refusal_for_good_has_the_text_of_the_server() -> None:
    async with World() as world:
        pod = world.cluster.pod("a")
        world.cluster.faults.add(Fault("refuse", code=403, message="no, never"), subresource="binding")
        outcome = await submit(world, Bind("default", "a", uid(pod), "n1"))
        assert (outcome.result, outcome.message, outcome.code) == (Result.REFUSED, "no, never", 403)


async def test_a_token_that_was_replaced_is_read_again() -> None:
    async with World() as world:
        world.cluster.server.tokens = {"first"}
        for name in "ab":
            world.cluster.pod(name)
        pool = world.pool()
        assert (await pool.submit(Bind("default", "a", OTHER_UID, "n1"))).result is Result.DONE
        world.cluster.server.tokens = {"second"}
        world.token = "second"
        assert (await pool.submit(Bind("default", "b", OTHER_UID, "n1"))).result is Result.DONE
        assert world.metrics.unauthorized == 1
        assert world.reads == 2


async def test_a_token_that_stays_wrong_is_not_read_for_every_request() -> None:
    async with World() as world:
        world.cluster.server.tokens = {"other"}
        outcome = await submit(world, Bind("default", "a", OTHER_UID, "n1"))
        assert (outcome.result, outcome.code) == (Result.FAILED, 401)
        assert world.reads <= 1 + 60 / 5


# --- delete


async def test_a_pod_is_deleted_and_one_with_a_node_begins_to_end() -> None:
    async with World() as world:
        free, bound = world.cluster.pod("free"), world.cluster.pod("bound", node="n1")
        assert (await submit(world, Delete(r.PODS, "default", "free", uid(free)))).result is Result.DONE
        assert world.cluster.get(r.PODS, "free") is None
        assert (await submit(world, Delete(r.PODS, "default", "bound", uid(bound)))).result is Result.DONE
        left = world.cluster.get(r.PODS, "bound")
        assert left is not None
        assert left["metadata"]["deletionGracePeriodSeconds"] == 30
        await submit(world, Delete(r.PODS, "default", "bound", uid(bound), grace_period_s=0))
        assert world.cluster.get(r.PODS, "bound") is None
        assert (await submit(world, Delete(r.PODS, "default", "bound", uid(bound)))).result is Result.GONE


async def test_another_pod_of_that_name_is_not_deleted() -> None:
    async with World() as world:
        world.cluster.pod("a")
        assert (await submit(world, Delete(r.PODS, "default", "a", OTHER_UID))).result is Result.GONE
        assert world.cluster.get(r.PODS, "a") is not None


@pytest.mark.parametrize("node", ["", "n1"], ids=["gone", "ending"])
@pytest.mark.parametrize("fault", PERFORMED, ids=title)
async def test_a_deletion_whose_answer_is_lost_is_looked_up(fault: Fault, node: str) -> None:
    async with World() as world:
        pod = world.cluster.pod("a", node=node)
        world.cluster.faults.add(fault, method="DELETE")
        outcome = await submit(world, Delete(r.PODS, "default", "a", uid(pod)))
        assert outcome.result is (Result.DONE if node else Result.GONE)
        assert len(world.requests("DELETE")) == 1
        assert dict(world.metrics.lost_answers) == {("delete", "performed"): 1}


@pytest.mark.parametrize("fault", NOT_PERFORMED, ids=title)
async def test_a_deletion_that_was_not_performed_is_tried_again(fault: Fault) -> None:
    async with World() as world:
        pod = world.cluster.pod("a")
        world.cluster.faults.add(fault, method="DELETE")
        assert (await submit(world, Delete(r.PODS, "default", "a", uid(pod)))).result is Result.DONE
        assert world.cluster.get(r.PODS, "a") is None


@pytest.mark.parametrize("node", ["", "n1"])
async def test_a_deletion_amid_which_the_server_was_killed_is_finished(node: str) -> None:
    """A kubelet or the pod garbage collection would do it, if there is one."""
    async with World() as world:
        pod = world.cluster.pod("a", node=node)
        world.cluster.faults.add(Fault("halve"), method="DELETE")
        outcome = await submit(world, Delete(r.PODS, "default", "a", uid(pod), grace_period_s=0))
        assert outcome.result is Result.DONE
        assert len(world.requests("DELETE")) == 2
        assert world.cluster.get(r.PODS, "a") is None


async def test_a_deletion_that_waits_for_a_finalizer_is_done() -> None:
    async with World() as world:
        spec = {"containers": [{"name": "main", "image": "pause"}]}
        pod = world.cluster.create(r.PODS, "a", metadata={"name": "a", "finalizers": ["example.com/f"]}, spec=spec)
        world.cluster.faults.add(Fault("lose"), method="DELETE")
        outcome = await submit(world, Delete(r.PODS, "default", "a", uid(pod), grace_period_s=0))
        assert outcome.result is Result.DONE
        assert len(world.requests("DELETE")) == 1


async def test_a_conflict_that_is_not_about_the_uid_is_tried_again() -> None:
    async with World() as world:
        pod = world.cluster.pod("a")
        world.cluster.faults.add(Fault("refuse", code=409, reason="Conflict"), method="DELETE")
        assert (await submit(world, Delete(r.PODS, "default", "a", uid(pod)))).result is Result.DONE
        assert len(world.requests("DELETE")) == 2


# --- create

POD = msgspec.json.encode({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "m", "image": "pause"}]}})


def creation(namespace: str = "default") -> Create:
    return Create(r.PODS, namespace, "a", POD)


async def test_what_was_created_comes_back_as_the_server_made_it() -> None:
    async with World() as world:
        outcome = await submit(world, creation())
        assert outcome.result is Result.DONE
        assert msgspec.json.decode(outcome.object)["spec"]["tolerations"]


async def test_what_is_there_already_comes_back() -> None:
    async with World() as world:
        there = world.cluster.pod("a")
        outcome = await submit(world, creation())
        assert outcome.result is Result.EXISTS
        assert msgspec.json.decode(outcome.object)["metadata"]["uid"] == uid(there)


@pytest.mark.parametrize("fault", PERFORMED, ids=title)
async def test_a_creation_whose_answer_is_lost_is_looked_up(fault: Fault) -> None:
    async with World() as world:
        world.cluster.faults.add(fault, method="POST")
        outcome = await submit(world, creation())
        assert outcome.result is Result.EXISTS
        assert msgspec.json.decode(outcome.object)["metadata"]["name"] == "a"
        assert len(world.requests("POST")) == 1


@pytest.mark.parametrize("fault", NOT_PERFORMED, ids=title)
async def test_a_creation_that_was_not_performed_is_tried_again(fault: Fault) -> None:
    async with World() as world:
        world.cluster.faults.add(fault, method="POST")
        assert (await submit(world, creation())).result is Result.DONE


async def test_a_conflict_of_quotas_is_tried_again_and_a_refusal_is_not() -> None:
    async with World() as world:
        world.cluster.faults.add(Fault("refuse", code=409, reason="Conflict"), method="POST")
        assert (await submit(world, creation())).result is Result.DONE
        world.cluster.delete(r.PODS, "a")
        world.cluster.faults.add(Fault("refuse", code=403, message="exceeded quota"), method="POST")
        outcome = await submit(world, creation())
        assert (outcome.result, outcome.message) == (Result.REFUSED, "exceeded quota")


async def test_nothing_is_created_where_no_namespace_is_or_stays() -> None:
    async with World() as world:
        assert (await submit(world, creation("nowhere"))).result is Result.GONE
        world.cluster.create(r.NAMESPACES, "ending")
        world.cluster.delete(r.NAMESPACES, "ending")
        outcome = await submit(world, creation("ending"))
        assert (outcome.result, outcome.code) == (Result.GONE, 403)


# --- patch


def unschedulable(pod: dict[str, Any], message: str = "no room") -> Patch:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return Patch(r.PODS, "default", pod["metadata"]["name"], uid(pod), {"status": {"conditions": [condition]}})


def conditions(world: World, name: str) -> dict[str, str]:
    pod = world.cluster.get(r.PODS, name)
    assert pod is not None
    return {one["type"]: one.get("message", "") for one in pod["status"]["conditions"]}


async def test_conditions_of_others_are_kept() -> None:
    async with World() as world:
        pod = world.cluster.pod("a")
        other = Patch(r.PODS, "default", "a", uid(pod), {"status": {"conditions": [{"type": "X", "message": "x"}]}})
        for patch in (other, unschedulable(pod)):
            assert (await submit(world, patch)).result is Result.DONE
        assert conditions(world, "a") == {"X": "x", "PodScheduled": "no room"}
        assert world.requests("GET") == []


async def test_another_pod_of_that_name_is_not_patched() -> None:
    async with World() as world:
        pod = world.cluster.pod("a")
        world.cluster.delete(r.PODS, "a")
        assert (await submit(world, unschedulable(pod))).result is Result.GONE
        world.cluster.pod("a")
        assert (await submit(world, unschedulable(pod))).result is Result.GONE
        again = world.cluster.get(r.PODS, "a")
        assert again is not None
        assert "conditions" not in again["status"]


@pytest.mark.parametrize("fault", [*NOT_PERFORMED, *PERFORMED], ids=title)
async def test_a_patch_is_sent_until_an_answer_comes(fault: Fault) -> None:
    async with World() as world:
        pod = world.cluster.pod("a")
        world.cluster.faults.add(fault, method="PATCH")
        assert (await submit(world, unschedulable(pod))).result is Result.DONE
        assert conditions(world, "a") == {"PodScheduled": "no room"}
        assert len(world.requests("PATCH")) == 2


async def test_a_patch_of_one_version_is_a_conflict_for_others() -> None:
    async with World() as world:
        volume = world.cluster.create(r.PERSISTENT_VOLUMES, "v", spec={})
        version = volume["metadata"]["resourceVersion"]
        for expected in (Result.DONE, Result.CONFLICT):
            patch = Patch(
                r.PERSISTENT_VOLUMES,
                "",
                "v",
                uid(volume),
                {"spec": {"claimRef": {"name": "c"}}},
                subresource="",
                resource_version=version,
            )
            outcome = await submit(world, patch)
            assert outcome.result is expected
        assert msgspec.json.decode(outcome.object)["spec"] == {"claimRef": {"name": "c"}}


async def test_custom_resources_take_merge_patches() -> None:
    async with World() as world:
        world.cluster.install()
        group = world.cluster.create(r.POD_GROUPS, "g")
        for content_type, expected in ((MERGE_PATCH, Result.DONE), ("application/json", Result.REFUSED)):
            patch = Patch(
                r.POD_GROUPS, "default", "g", uid(group), {"status": {"phase": "P"}}, content_type=content_type
            )
            assert (await submit(world, patch)).result is expected
