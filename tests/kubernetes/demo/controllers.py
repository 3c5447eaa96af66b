"""Jobs and Deployments: those of the controller manager on a real server, and played on the fake."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Any

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.contract.api import Api

JSON = dict[str, Any]
ENDED = ("Succeeded", "Failed")
JOBS, DEPLOYMENTS = "/apis/batch/v1/namespaces/{}/jobs", "/apis/apps/v1/namespaces/{}/deployments"


@dataclass(slots=True)
class Workload:
    """`is_job`: so many pods have to succeed; otherwise so many have to run."""

    namespace: str
    name: str
    count: int
    template: JSON
    is_job: bool = False
    made: set[str] = field(default_factory=set)
    """Names of the pods that the player has made and that the watch may not have told yet."""


class Controllers:
    def __init__(self, api: Api, pods: dict[str, JSON], *, is_real: bool) -> None:
        self._api = api
        self._pods = pods
        self._is_real = is_real
        self._played: dict[str, Workload] = {}
        self._numbers = itertools.count(1)
        self._turn = asyncio.Lock()

    async def create(self, workload: Workload) -> None:
        workload.template["metadata"].setdefault("labels", {})["app"] = workload.name
        if not self._is_real:
            self._played[workload.name] = workload
            await self.reconcile()
            return
        spec: JSON = {"template": workload.template}
        if workload.is_job:
            path, kind, version = JOBS, "Job", "batch/v1"
            spec |= {"completions": workload.count, "parallelism": workload.count}
        else:
            path, kind, version = DEPLOYMENTS, "Deployment", "apps/v1"
            spec |= {"replicas": workload.count, "selector": {"matchLabels": {"app": workload.name}}}
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": workload.name}, "spec": spec}
        answer = await self._api.call("POST", path.format(workload.namespace), body)
        assert answer.status == 201, answer

    async def delete(self, workload: Workload) -> None:
        """With its pods."""
        if self._is_real:
            path = (JOBS if workload.is_job else DEPLOYMENTS).format(workload.namespace)
            answer = await self._api.call("DELETE", f"{path}/{workload.name}", {"propagationPolicy": "Background"})
            assert answer.status in (200, 202), answer
            return
        self._played.pop(workload.name)
        for pod in self._of(workload):
            metadata = pod["metadata"]
            await self._api.call("DELETE", r.PODS.path(metadata["namespace"], metadata["name"]), {})

    async def reconcile(self) -> None:
        """Makes the pods that are missing."""
        async with self._turn:
            await self._reconcile()

    async def _reconcile(self) -> None:
        for workload in list(self._played.values()):
            there = self._of(workload)
            workload.made -= {pod["metadata"]["name"] for pod in there}
            counted = [pod for pod in there if self._counts(workload, pod)]
            for _ in range(workload.count - len(counted) - len(workload.made)):
                name = f"{workload.name}-{next(self._numbers)}"
                workload.made.add(name)
                metadata = {**workload.template["metadata"], "name": name}
                body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": workload.template["spec"]}
                answer = await self._api.call("POST", r.PODS.path(workload.namespace), body)
                assert answer.status == 201, answer

    def _of(self, workload: Workload) -> list[JSON]:
        return [
            pod
            for pod in self._pods.values()
            if pod["metadata"]["namespace"] == workload.namespace
            and (pod["metadata"].get("labels") or {}).get("app") == workload.name
        ]

    @staticmethod
    def _counts(workload: Workload, pod: JSON) -> bool:
        phase = pod.get("status", {}).get("phase", "Pending")
        if "deletionTimestamp" in pod["metadata"]:
            return False
        return phase not in ENDED or (workload.is_job and phase == "Succeeded")
