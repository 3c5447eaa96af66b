"""The kubelet of nodes that run containers: volumes, start, probes, restarts, status and end of their pods."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from schedulerd.kubernetes.api.resources import PODS
from tests.kubernetes.contract.api import STRATEGIC, Api
from tests.kubernetes.node.container import Container, Image
from tests.kubernetes.node.relay import Connect
from tests.kubernetes.node.sandbox import Sandbox
from tests.kubernetes.node.volumes import Volumes

JSON = dict[str, Any]
TURN_SECONDS = 0.1
"""Probes, volumes and processes are looked at so often; a real kubelet takes its time, which tests do not have."""


class RunningPod:
    """A pod on a node, until it is gone."""

    def __init__(
        self, api: Api, pod: JSON, images: dict[str, Image], links: dict[str, str], hosts: Mapping[str, str]
    ) -> None:
        """`hosts`: addresses of Services by name."""
        self._api = api
        self.pod = pod
        self._images = images
        self._links = links
        self.containers: dict[str, Container] = {}
        self.is_leaving = asyncio.Event()
        self.sandbox = Sandbox(urlsplit(api.url).port or 443)
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in hosts.items())]
        (self.sandbox.folder / "hosts").write_text("".join(f"{line}\n" for line in lines))
        self._said: JSON = {}

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def is_ready(self) -> bool:
        """Of pods that are being deleted too: their Endpoints may be known for a moment."""
        return bool(self.containers) and all(one.is_ready for one in self.containers.values())

    async def run(self) -> None:
        async with self.sandbox:
            try:
                await self._start_and_look_after()
                await self._stop()
            finally:
                for container in self.containers.values():
                    container.signal(signal.SIGKILL)
                    await container.ended()
        if self.is_leaving.is_set():
            body = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.pod["metadata"]["uid"]}}
            await self._api.call("DELETE", self._path(), body)

    async def _start_and_look_after(self) -> None:
        """Until all containers have ended for good, or the pod is being deleted."""
        volumes = Volumes(self._api, self.pod, self.sandbox.folder / "volumes")
        while not await volumes.refresh():
            if await self._pause():
                return
        for spec in self.pod["spec"]["containers"]:
            one = Container(self.pod, spec, self.sandbox, volumes.paths, self._links)
            self.containers[one.name] = one
            await one.start(self._image(spec))
        while not await self._pause() and not await self._has_ended():
            await volumes.refresh()
            await self._look()

    def _image(self, spec: JSON) -> Image:
        return self._images[_image_name(spec)]

    def _path(self, subresource: str = "") -> str:
        return PODS.path(self.pod["metadata"]["namespace"], self.name, subresource)

    async def _pause(self) -> bool:
        """Whether the pod is being deleted."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.is_leaving.wait(), TURN_SECONDS)
        return self.is_leaving.is_set()

    async def _has_ended(self) -> bool:
        """Of pods that are not started again: whether all containers have ended, which is said."""
        if self.pod["spec"].get("restartPolicy", "Always") == "Always":
            return False
        codes = [one.exit_code for one in self.containers.values()]
        if None in codes:
            return False
        await self._say("Failed" if any(codes) else "Succeeded")
        return True

    async def _look(self) -> None:
        is_kept = self.pod["spec"].get("restartPolicy", "Always") == "Always"
        for spec, one in zip(self.pod["spec"]["containers"], self.containers.values(), strict=True):
            if one.exit_code is not None:
                if is_kept:
                    await one.ended()
                    await one.start(self._image(spec))
                continue
            if not one.is_started:
                one.is_started = await one.probe("startupProbe")
            one.is_ready = one.is_started and await one.probe("readinessProbe")
            await one.check_liveness(asyncio.get_running_loop().time())
        await self._say("Running")

    async def _say(self, phase: str) -> None:
        statuses = []
        for spec, one in zip(self.pod["spec"]["containers"], self.containers.values(), strict=True):
            state = {"running": {}} if one.exit_code is None else {"terminated": {"exitCode": one.exit_code}}
            about = {"ready": one.is_ready, "restartCount": one.restarts, "imageID": "", "state": state}
            statuses.append({"name": one.name, "image": spec["image"], "started": one.is_started, **about})
        is_ready = all(one.is_ready for one in self.containers.values())
        conditions = [{"type": name, "status": str(is_ready)} for name in ("Ready", "ContainersReady")]
        status = {"phase": phase, "conditions": conditions, "containerStatuses": statuses}
        if status != self._said:
            await self._api.call("PATCH", self._path("status"), {"status": status}, content_type=STRATEGIC)
            self._said = status

    async def _stop(self) -> None:
        """SIGTERM to all at once, and a time to end."""
        for one in self.containers.values():
            one.signal(signal.SIGTERM)
        grace_s = self.pod["spec"].get("terminationGracePeriodSeconds", 30)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await asyncio.gather(*(one.ended() for one in self.containers.values()))


class NodeKubelet:
    """A context: runs the pods of a namespace that have one of these images, on whatever node they are. Pods of
    `default-scheduler` are bound to `nodes` in turn.

    Nothing here sees more than the API server tells; `pods` is for tests to look into processes.
    """

    def __init__(self, api: Api, nodes: list[str], images: dict[str, Image]) -> None:
        """`images` by name, without tag."""
        self._api = api
        self._images = images
        self._next_node = itertools.cycle(nodes)
        self._tasks: set[asyncio.Task[None]] = set()
        self.pods: dict[str, RunningPod] = {}
        """By uid."""
        self.to_service: Connect | None = None
        """How pods reach Services, where they do (tests/kubernetes/node/services.py)."""
        self._seen: set[str] = set()
        """Uids, also of pods that are gone: of those a watch may tell more."""

    async def __aenter__(self) -> NodeKubelet:
        self._spawn(self._follow())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def use(self, name: str, image: Image) -> None:
        """For containers that start from now on."""
        self._images[name] = image

    def check(self) -> None:
        """Raises what the kubelet has failed with."""
        for task in self._tasks:
            if task.done():
                task.result()

    def logs(self) -> str:
        return "\n".join(
            f"--- {pod.name} {one.name}\n{one.log.read_text()[-3000:]}"
            for pod in self.pods.values()
            for one in pod.containers.values()
            if one.log.exists()
        )

    async def _follow(self) -> None:
        while True:
            listed = (await self._api.get(PODS)).json
            for pod in listed["items"]:
                await self._see(pod)
            stream = await self._api.watch(PODS, listed["metadata"]["resourceVersion"])
            with contextlib.suppress(TimeoutError):
                while (event := await stream.next()) is not None:
                    if event["type"] in ("ADDED", "MODIFIED"):
                        await self._see(event["object"])
            stream.close()

    async def _see(self, pod: JSON) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if (
            not node
            and pod["spec"]["schedulerName"] == "default-scheduler"
            and "deletionTimestamp" not in pod["metadata"]
        ):
            await self._api.bind(pod["metadata"]["name"], next(self._next_node), uid=uid)
        if not node or any(_image_name(spec) not in self._images for spec in pod["spec"]["containers"]):
            return
        if uid not in self._seen:
            self._seen.add(uid)
            services = await self._services()
            hosts = {_host(one): one["spec"]["clusterIP"] for one in services}
            running = self.pods[uid] = RunningPod(self._api, pod, self._images, _links(services), hosts)
            if self.to_service is not None:
                running.sandbox.to_service = self.to_service
                running.sandbox.services = [*_addresses(services, pod)]
            self._spawn(self._run(running))
        if "deletionTimestamp" in pod["metadata"] and uid in self.pods:
            self.pods[uid].is_leaving.set()

    async def _run(self, running: RunningPod) -> None:
        await running.run()
        del self.pods[running.pod["metadata"]["uid"]]

    async def _services(self) -> list[JSON]:
        """Those of the namespace that have an address."""
        answer = await self._api.call("GET", f"/api/v1/namespaces/{self._api.namespace}/services")
        services: list[JSON] = answer.json["items"]
        return [
            one
            for one in services
            if one["spec"].get("clusterIP") not in (None, "", "None") and one["spec"].get("ports")
        ]

    def _spawn(self, action: Any) -> None:
        task = asyncio.create_task(action)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            self._tasks.discard(task)


def _links(services: list[JSON]) -> dict[str, str]:
    """The variables that Services make."""
    found = {}
    for service in services:
        address, ports = service["spec"]["clusterIP"], service["spec"]["ports"]
        prefix = service["metadata"]["name"].upper().replace("-", "_")
        found[f"{prefix}_SERVICE_HOST"] = address
        found[f"{prefix}_SERVICE_PORT"] = str(ports[0]["port"])
        found[f"{prefix}_PORT"] = f"tcp://{address}:{ports[0]['port']}"
    return found


def _host(service: JSON) -> str:
    return f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"


def _addresses(services: list[JSON], pod: JSON) -> Iterator[str]:
    """Of Services with ports that the pod does not listen on itself."""
    containers = pod["spec"]["containers"]
    own = {port["containerPort"] for one in containers for port in one.get("ports") or ()}
    for service in services:
        for port in service["spec"]["ports"]:
            if port["port"] not in own:
                yield f"{service['spec']['clusterIP']}:{port['port']}"


def _image_name(container: JSON) -> str:
    return str(container["image"]).partition(":")[0]
