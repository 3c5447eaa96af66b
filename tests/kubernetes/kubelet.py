"""What kubelets do with pods, over HTTP, so that it is the same on the fake and on a real API server.

Pods that come to a node run; those with the annotation `seconds` succeed after that time; those that are being deleted
go at once, or after `grace_s`. Pods on a node that is `lost` are left alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from types import TracebackType
from typing import Any

from schedulerd.kubernetes.api.resources import PODS
from tests.kubernetes.contract.api import STRATEGIC, Api

JSON = dict[str, Any]
SECONDS = "seconds"


class Kubelet:
    """A context: all kubelets of the cluster, for the pods of the namespaces given, or for all."""

    def __init__(self, api: Api, *namespaces: str, grace_s: float = 0.0, except_images: Collection[str] = ()) -> None:
        """`except_images`: without tags; pods with these are run by somebody else."""
        self._api = api
        self._namespaces = namespaces
        self._grace_s = grace_s
        self._except_images = frozenset(except_images)
        self.lost: set[str] = set()
        """Names of nodes whose kubelets do nothing any longer."""
        self._ending: set[str] = set()
        """Uids of pods whose end is due."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Kubelet:
        self._spawn(self._follow())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            listed = (await self._api.call("GET", PODS.path())).json
            for pod in listed["items"]:
                await self._see(pod)
            stream = await self._api.watch(PODS, listed["metadata"]["resourceVersion"], everywhere=True)
            while (event := await self._next(stream)) is not None:
                if event["type"] in ("ADDED", "MODIFIED"):
                    await self._see(event["object"])
                elif event["type"] == "DELETED":
                    self._forget(event["object"]["metadata"]["uid"])
            stream.close()

    @staticmethod
    async def _next(stream: Any) -> JSON | None:
        """None at the end of the watch; there may be nothing to tell for long."""
        while True:
            with contextlib.suppress(TimeoutError):
                event: JSON | None = await stream.next()
                return event

    async def _see(self, pod: JSON) -> None:
        metadata, node = pod["metadata"], pod["spec"].get("nodeName")
        if not node or node in self.lost or (self._namespaces and metadata["namespace"] not in self._namespaces):
            return
        if self._except_images & {one["image"].partition(":")[0] for one in pod["spec"]["containers"]}:
            return
        phase = pod.get("status", {}).get("phase", "Pending")
        if "deletionTimestamp" in metadata:
            self._later(pod, self._grace_s, self._remove(pod))
        elif phase == "Pending":
            await self._set(pod, "Running")
        elif phase == "Running" and SECONDS in (metadata.get("annotations") or {}):
            self._later(pod, float(metadata["annotations"][SECONDS]), self._set(pod, "Succeeded"))

    @property
    def remembered(self) -> int:
        """Pods whose end is due, and that are there."""
        return len(self._ending)

    def _forget(self, uid: str) -> None:
        self._ending -= {f"{uid} {is_deleted}" for is_deleted in (True, False)}

    def _later(self, pod: JSON, seconds: float, action: Any) -> None:
        """Once for each pod, except that a pod may be deleted while it runs."""
        key = f"{pod['metadata']['uid']} {'deletionTimestamp' in pod['metadata']}"
        if key in self._ending:
            action.close()
            return
        self._ending.add(key)

        async def act() -> None:
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                action.close()
                raise
            if pod["spec"]["nodeName"] in self.lost:
                action.close()
            else:
                await action

        self._spawn(act())

    async def _set(self, pod: JSON, phase: str) -> None:
        is_running = phase == "Running"
        ready = {"type": "Ready", "status": "True" if is_running else "False"}
        state = {"running": {}} if is_running else {"terminated": {"exitCode": 0, "reason": "Completed"}}
        about = {"ready": is_running, "restartCount": 0, "imageID": "", "state": state}
        containers = [{"name": one["name"], "image": one["image"], **about} for one in pod["spec"]["containers"]]
        status = {"phase": phase, "conditions": [ready], "containerStatuses": containers}
        await self._api.call("PATCH", _path(pod, "status"), {"status": status}, content_type=STRATEGIC)

    async def _remove(self, pod: JSON) -> None:
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        await self._api.call("DELETE", _path(pod), body)

    def _spawn(self, action: Any) -> None:
        task = asyncio.create_task(action)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.result()


def _path(pod: JSON, subresource: str = "") -> str:
    metadata = pod["metadata"]
    return PODS.path(metadata["namespace"], metadata["name"], subresource)
