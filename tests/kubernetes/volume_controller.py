"""What the controllers of Kubernetes and a provisioner do with volumes and claims, over HTTP: on the fake and on a real
API server, whether or not its own controllers run.

A claim is bound to the volume that is promised to it. For a claim of the provisioner's classes with a selected node a
volume is made that can be used on that node alone; on nodes that are `full` the provisioner gives up, and takes the
selection away.
"""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Any

from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.api.resources import Resource
from tests.kubernetes.contract.api import Api

JSON = dict[str, Any]
MERGE = "application/merge-patch+json"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
HOST = "kubernetes.io/hostname"


class VolumeController:
    """A context, for the claims of one namespace."""

    def __init__(self, api: Api, provisions: str = "") -> None:
        """`provisions`: name of the storage class that volumes are made for."""
        self._api = api
        self._provisions = provisions
        self.full: set[str] = set()
        """Names of nodes for which no volume can be made."""
        self.given_up: list[str] = []
        """Nodes for which a claim was given up."""
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> VolumeController:
        loop = asyncio.get_running_loop()
        for resource in (r.PERSISTENT_VOLUMES, r.PERSISTENT_VOLUME_CLAIMS):
            self._tasks.append(loop.create_task(self._follow(resource)))
        self._tasks.append(loop.create_task(self._run()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    async def _follow(self, resource: Resource) -> None:
        while True:
            version = await self._api.version(resource)
            self._changed.set()
            stream = await self._api.watch(resource, version)
            while (event := await _next(stream)) is not None:
                if event["type"] != "BOOKMARK":
                    self._changed.set()
            stream.close()

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._reconcile()

    async def _reconcile(self) -> None:
        claims = {
            one["metadata"]["uid"]: one for one in (await self._api.get(r.PERSISTENT_VOLUME_CLAIMS)).json["items"]
        }
        volumes = (await self._api.get(r.PERSISTENT_VOLUMES)).json["items"]
        promised = {one["spec"].get("claimRef", {}).get("uid"): one for one in volumes}
        for volume in volumes:
            if volume["status"].get("phase", "Pending") == "Pending" and "claimRef" not in volume["spec"]:
                await self._patch_status(r.PERSISTENT_VOLUMES, volume, "Available")
        for uid, claim in claims.items():
            if uid in promised:
                await self._bind(claim, promised[uid])
            elif claim["spec"].get("storageClassName") == self._provisions:
                await self._provision(claim)

    async def _bind(self, claim: JSON, volume: JSON) -> None:
        if volume["status"].get("phase") != "Bound":
            await self._patch_status(r.PERSISTENT_VOLUMES, volume, "Bound")
        annotations = claim["metadata"].get("annotations") or {}
        if BIND_COMPLETED not in annotations:
            name = volume["metadata"]["name"]
            bound = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": name}}
            await self._patch(r.PERSISTENT_VOLUME_CLAIMS, claim, bound)
            await self._patch_status(r.PERSISTENT_VOLUME_CLAIMS, claim, "Bound")

    async def _provision(self, claim: JSON) -> None:
        node = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
        if node is None:
            return
        if node in self.full:
            self.given_up.append(node)
            await self._patch(r.PERSISTENT_VOLUME_CLAIMS, claim, {"metadata": {"annotations": {SELECTED_NODE: None}}})
            return
        metadata, spec = claim["metadata"], claim["spec"]
        reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
        reference |= {key: metadata[key] for key in ("namespace", "name", "uid")}
        body = volume_body(f"pvc-{metadata['uid']}", self._provisions, node, spec["resources"]["requests"]["storage"])
        body["spec"]["claimRef"] = reference
        answer = await self._api.post(r.PERSISTENT_VOLUMES, body)
        assert answer.status in (201, 409), answer

    async def _patch(self, resource: Resource, thing: JSON, patch: JSON, subresource: str = "") -> None:
        path = self._api.path(resource, thing["metadata"]["name"], subresource)
        answer = await self._api.call("PATCH", path, patch, content_type=MERGE)
        assert answer.status in (200, 404, 409), answer

    async def _patch_status(self, resource: Resource, thing: JSON, phase: str) -> None:
        await self._patch(resource, thing, {"status": {"phase": phase}}, "status")


def volume_body(name: str, storage_class: str, node: str = "", size: str = "10Gi") -> JSON:
    """A volume; with a node it can be used there alone."""
    spec: JSON = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": storage_class,
        "hostPath": {"path": f"/disks/{name}"},
    }
    if node:
        here = {"key": HOST, "operator": "In", "values": [node]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
    return {"metadata": {"name": name}, "spec": spec}


async def _next(stream: Any) -> JSON | None:
    """None at the end of the watch; there may be nothing to tell for long."""
    while True:
        with contextlib.suppress(TimeoutError):
            event: JSON | None = await stream.next()
            return event
