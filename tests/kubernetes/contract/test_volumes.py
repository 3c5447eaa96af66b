"""Volumes are promised to claims, and nodes selected for claims: by patches that expect a version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from schedulerd.kubernetes.api import Outcome, Result, WritePool
from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.api.writes import PatchVolume
from tests.kubernetes.contract.api import Api
from tests.kubernetes.volume_controller import BIND_COMPLETED, MERGE, SELECTED_NODE, volume_body

JSON = dict[str, Any]
OTHER_UID = "00000000-0000-0000-0000-000000000000"


@asynccontextmanager
async def writer(api: Api) -> AsyncIterator[WritePool]:
    transport = api.transport()
    pool = WritePool(transport)
    try:
        yield pool
    finally:
        await pool.close()
        await transport.close()
        await asyncio.sleep(0.1 if api.is_real else 0)  # an orderly end of TLS


async def claim(api: Api, name: str = "c") -> JSON:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": f"{api.namespace}-none",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    answer = await api.post(r.PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name}, "spec": spec})
    assert answer.status == 201, answer
    return dict(answer.json)


async def volume(api: Api) -> JSON:
    answer = await api.post(r.PERSISTENT_VOLUMES, volume_body(f"{api.namespace}-v", f"{api.namespace}-none", "n"))
    assert answer.status == 201, answer
    return dict(answer.json)


def promise(volume: JSON, claim: JSON, uid: str = "") -> PatchVolume:
    metadata = claim["metadata"]
    reference = {key: metadata[key] for key in ("namespace", "name", "uid", "resourceVersion")}
    reference |= {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    patch = {"spec": {"claimRef": reference}, "metadata": {"annotations": {"a": "b"}}}
    meta = volume["metadata"]
    return PatchVolume(
        r.PERSISTENT_VOLUMES,
        "",
        meta["name"],
        uid or meta["uid"],
        patch,
        subresource="",
        resource_version=meta["resourceVersion"],
    )


def select(claim: JSON, node: str) -> PatchVolume:
    meta = claim["metadata"]
    patch = {"metadata": {"annotations": {SELECTED_NODE: node}}}
    return PatchVolume(
        r.PERSISTENT_VOLUME_CLAIMS,
        meta["namespace"],
        meta["name"],
        meta["uid"],
        patch,
        subresource="",
        resource_version=meta["resourceVersion"],
    )


def read(outcome: Outcome) -> JSON:
    return dict(msgspec.json.decode(outcome.object))


async def test_a_volume_is_promised_once(api: Api) -> None:
    first, second = await claim(api, "first"), await claim(api, "second")
    free = await volume(api)
    async with writer(api) as pool:
        done = await pool.submit(promise(free, first))
        assert done.result is Result.DONE
        written = read(done)
        assert written["spec"]["claimRef"]["uid"] == first["metadata"]["uid"]
        assert written["spec"]["nodeAffinity"] == free["spec"]["nodeAffinity"], "the rest stays"
        assert int(written["metadata"]["resourceVersion"]) > int(free["metadata"]["resourceVersion"])
        late = await pool.submit(promise(free, second))
        assert (late.result, late.code) == (Result.CONFLICT, 409)
        assert read(late)["spec"]["claimRef"]["name"] == "first"
        assert (await pool.submit(promise(written, first, OTHER_UID))).result is Result.GONE


async def test_a_node_is_selected_and_taken_back(api: Api) -> None:
    made = await claim(api)
    async with writer(api) as pool:
        done = await pool.submit(select(made, "n1"))
        assert done.result is Result.DONE
        assert read(done)["metadata"]["annotations"][SELECTED_NODE] == "n1"
        late = await pool.submit(select(made, "n2"))
        assert late.result is Result.CONFLICT
        assert read(late)["metadata"]["annotations"][SELECTED_NODE] == "n1"
        patch = {"metadata": {"annotations": {SELECTED_NODE: None}}}
        answer = await api.patch(r.PERSISTENT_VOLUME_CLAIMS, "c", patch, content_type=MERGE)
        assert SELECTED_NODE not in (answer.json["metadata"].get("annotations") or {})
        assert (await pool.submit(select(answer.json, "n2"))).result is Result.DONE


async def test_a_claim_gets_its_volume_by_the_controller(api: Api) -> None:
    made = await claim(api)
    assert made["status"]["phase"] == "Pending"
    bound = {"spec": {"volumeName": "v"}, "metadata": {"annotations": {BIND_COMPLETED: "yes"}}}
    answer = await api.patch(r.PERSISTENT_VOLUME_CLAIMS, "c", bound, content_type=MERGE)
    assert (answer.status, answer.json["spec"]["volumeName"]) == (200, "v")
    status = {"status": {"phase": "Bound"}}
    answer = await api.patch(r.PERSISTENT_VOLUME_CLAIMS, "c", status, "status", content_type=MERGE)
    assert answer.json["status"]["phase"] == "Bound"
    assert answer.json["spec"]["volumeName"] == "v"
