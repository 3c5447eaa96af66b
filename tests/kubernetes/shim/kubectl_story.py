"""A world on a real API server with its controllers, told with kubectl, in which the shim has only the rights of
`config/kubernetes/rbac.yaml`. Nodes and kubelets are those of the test."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from schedulerd.kubernetes.api import Transport
from schedulerd.kubernetes.auth import Access, Material
from tests.kubernetes.contract.api import Api
from tests.kubernetes.contract.real_server import write_kubeconfig
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.shim.world import JSON, LIMIT_SECONDS, Pods, World, condition

RBAC = Path(__file__).parents[3] / "config" / "kubernetes" / "rbac.yaml"


class RestrictedApi(Api):
    """The test is an administrator; the shim is the service account of the manifests."""

    service_token = ""

    def transport(self) -> Transport:
        async def read() -> Material:
            return Material(token=self.service_token)

        return Transport(Access(self.url, read, insecure=True))


class Story:
    """A world with kubectl and kubelets."""

    def __init__(self, world: World, kubelet: Kubelet) -> None:
        self.world = world
        self.kubelet = kubelet
        self.kubectl = Kubectl(world.api)

    def workload(self, kind: str, name: str, spec: JSON, metadata: JSON | None = None, **pod: Any) -> JSON:
        """A Job, Deployment or DaemonSet, whose pods this scheduler schedules."""
        labels = {"app": name, "queue": "root.default", "applicationId": f"{self.world.api.namespace}-{name}"}
        given = metadata or {}
        template = {
            "metadata": {**given, "labels": {**labels, **given.get("labels", {})}},
            "spec": {
                "schedulerName": self.world.scheduler,
                "nodeSelector": {"world": self.world.api.namespace},
                "containers": [container()],
                **pod,
            },
        }
        selector = {} if kind == "Job" else {"selector": {"matchLabels": {"app": name}}}
        if kind == "Job":
            template["spec"].setdefault("restartPolicy", "Never")
        version = "batch/v1" if kind == "Job" else "apps/v1"
        return {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": name},
            "spec": {**selector, "template": template, **spec},
        }

    def of(self, app: str, pods: Pods | None = None) -> Pods:
        """The pods of a workload that are not being deleted."""
        return {
            name: pod
            for name, pod in (self.world.pods if pods is None else pods).items()
            if pod["metadata"].get("labels", {}).get("app") == app and "deletionTimestamp" not in pod["metadata"]
        }

    async def until(self, app: str, is_reached: Callable[[list[JSON]], bool]) -> list[JSON]:
        await self.world.until(lambda pods: is_reached(list(self.of(app, pods).values())))
        return list(self.of(app).values())

    async def until_running(self, app: str, count: int) -> list[JSON]:
        return await self.until(app, lambda pods: len(running(pods)) == count == len(pods))

    async def until_described(self, pod: JSON, *words: str) -> str:
        """Until `kubectl describe pod` has an event with these words; its line."""
        name = pod["metadata"]["name"]
        async with asyncio.timeout(LIMIT_SECONDS):
            while True:
                for line in (await self.kubectl("describe", "pod", name)).splitlines():
                    if all(word in line for word in words):
                        return line
                await asyncio.sleep(0.3)


class Kubectl:
    def __init__(self, api: Api) -> None:
        self._program = api.real.kubectl
        config = api.real.kubeconfig.with_name(f"kubeconfig-{api.namespace}")
        write_kubeconfig(config, api.real.url, api.real.token, api.namespace)
        self._flags = ("--kubeconfig", str(config))
        self._environment = {**os.environ, "HOME": str(api.real.kubeconfig.parent)}

    async def __call__(self, *arguments: str, given: JSON | str | None = None) -> str:
        process = await asyncio.create_subprocess_exec(
            self._program,
            *self._flags,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
        )
        text = given if isinstance(given, str) else "" if given is None else json.dumps(given)
        out, error = await process.communicate(text.encode())
        assert process.returncode == 0, f"kubectl {' '.join(arguments)}: {error.decode()}{out.decode()}"
        return out.decode()

    async def apply(self, *objects: JSON) -> None:
        await self("apply", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": list(objects)})


@asynccontextmanager
async def story(
    world: World, *nodes: str, labels: Callable[[str], dict[str, str]] | None = None
) -> AsyncIterator[Story]:
    """With nodes of 4 processors, and the shim."""
    for name in nodes:
        await world.node(name, labels(name) if labels else None)
    async with Kubelet(world.api, world.api.namespace) as kubelet:
        told = Story(world, kubelet)
        await told.kubectl("apply", "-f", str(RBAC))
        assert isinstance(world.api, RestrictedApi)
        path = "/api/v1/namespaces/schedulerd/serviceaccounts/schedulerd/token"
        answer = await world.api.call(
            "POST", path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
        )
        assert answer.status == 201, answer
        world.api.service_token = answer.json["status"]["token"]
        await world.start()
        yield told


def container(cpu: str = "1", **more: Any) -> JSON:
    return {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}, **more}


def running(pods: list[JSON]) -> list[JSON]:
    return [pod for pod in pods if pod["status"].get("phase") == "Running"]


def waiting(pods: list[JSON]) -> list[JSON]:
    return [pod for pod in pods if condition(pod, "PodScheduled").get("status") == "False"]
