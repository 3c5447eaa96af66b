"""An API server, a daemon process, and the shim between them; the test is the user and the kubelet."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd.kubernetes.api import WatchSettings
from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.cluster.gangs.model import GangSource
from schedulerd.kubernetes.cluster.settings import ClusterSettings
from schedulerd.kubernetes.shim.journaling import Recording
from schedulerd.kubernetes.shim.shim import Shim, ShimOptions
from tests.contract.daemon_process import DaemonProcess, daemon_at
from tests.kubernetes.accounts import disagreements
from tests.kubernetes.contract.api import Api, WatchStream
from tests.kubernetes.rights import check_rights

LIMIT_SECONDS = 60.0
"""For anything that should happen at once; a test that reaches it has failed."""
JSON = dict[str, Any]
Pods = dict[str, JSON]


class World:
    """A context. Names of nodes and of the scheduler are of this world alone, as a real server serves many tests."""

    def __init__(self, api: Api, daemon: DaemonProcess | None = None, daemon_flags: tuple[str, ...] = ()) -> None:
        """With a daemon of its own, unless it is given one, which serves others too."""
        self.api = api
        self._own_daemon = DaemonProcess(*daemon_flags) if daemon is None else None
        self._shared_daemon = daemon
        self._daemon_flags = daemon_flags
        self.scheduler = f"scheduler-{api.namespace}"
        self.rm_id = api.namespace
        self.shim: Shim | None = None
        self.pods: Pods = {}
        """By name, as the watch has told them."""
        self.history: list[tuple[str, str]] = []
        """Name and node of every binding that the watch has told."""
        self.seen: dict[str, str] = {}
        """Names by uid of all pods that the watch has told, gone ones included."""
        self._nodes: list[str] = []
        self._task: asyncio.Task[None] | None = None
        self._stream: WatchStream | None = None

    @property
    def daemon(self) -> DaemonProcess:
        daemon = self._own_daemon or self._shared_daemon
        assert daemon is not None
        return daemon

    async def __aenter__(self) -> World:
        if self._own_daemon is not None:
            self._own_daemon.__enter__()
        try:
            await self.api.__aenter__()
            self._stream = await self.api.watch(r.PODS, await self.api.version(r.PODS))
        except BaseException as error:
            self._end_daemon(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        try:
            if self._task is not None:
                await self.stop()
            if self.api.fake is not None and error is None:
                check_rights(self.api.fake.server.accesses)
            if self.api.is_real:
                for name in self._nodes:
                    await self.api.delete(r.NODES, name)
            await self.api.__aexit__(kind, error, at)
        finally:
            self._end_daemon(kind, error, at)

    def _end_daemon(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._own_daemon is not None:
            self._own_daemon.__exit__(kind, error, at)
        else:
            self._unregister()

    def _unregister(self) -> None:
        """The daemon forgets this world; others go on."""
        request = admin_pb2.UnregisterResourceManagerRequest(rmID=self.rm_id)
        with grpc.insecure_channel(self.daemon.target) as channel, contextlib.suppress(grpc.RpcError):
            method = channel.unary_unary(
                "/schedulerd.v1.Admin/UnregisterResourceManager",
                request_serializer=admin_pb2.UnregisterResourceManagerRequest.SerializeToString,
                response_deserializer=admin_pb2.UnregisterResourceManagerResponse.FromString,
            )
            method(request, timeout=LIMIT_SECONDS)

    async def start(
        self,
        watch: WatchSettings | None = None,
        gang_sources: frozenset[GangSource] = frozenset({GangSource.COSCHEDULING}),
        discover_s: float = 60.0,
        journal: Path | None = None,
        **settings: Any,
    ) -> Shim:
        """Starts a shim, with a journal in that directory, and waits until it has reported everything."""
        cluster = ClusterSettings(scheduler_names=frozenset({self.scheduler}), **settings)
        transport = self.api.transport()
        options = ShimOptions(
            self.daemon.target,
            rm_id=self.rm_id,
            gang_sources=gang_sources,
            discover_s=discover_s,
            cluster=cluster,
            watch=watch or WatchSettings(),
        )
        recording = contextlib.ExitStack()
        recorded = recording.enter_context(Recording(journal, 2**26, 2**30).cluster(cluster))
        shim = self.shim = Shim(transport, options, cluster=recorded)

        async def run() -> None:
            with recording:
                try:
                    await shim.run()
                finally:
                    await transport.close()

        self._task = asyncio.create_task(run())
        started = asyncio.create_task(shim.is_started.wait())
        async with asyncio.timeout(LIMIT_SECONDS):
            await asyncio.wait([started, self._task], return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            started.cancel()
            self._task.result()
        return shim

    async def stop(self) -> None:
        """Ends the shim; raises what it failed with."""
        task, self._task = self._task, None
        assert task is not None
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    def check(self) -> None:
        """Raises what the shim has failed with, if it has."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def ended(self) -> None:
        """Waits until the shim has ended by itself; raises what it failed with."""
        task, self._task = self._task, None
        assert task is not None
        async with asyncio.timeout(LIMIT_SECONDS):
            await task

    def restart_daemon(self) -> None:
        """Kills the daemon, and starts another one at its address."""
        assert self._own_daemon is not None, "others use this daemon"
        target = self._own_daemon.target
        self._own_daemon.__exit__(None, None, None)
        self._own_daemon = daemon_at(target, *self._daemon_flags)

    async def agrees(self, daemon: DaemonProcess | None = None) -> None:
        """Waits until API server and daemon agree about all pods that run; fails with what they do not agree about."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + LIMIT_SECONDS
        while found := await self._disagreements(daemon or self.daemon):
            assert loop.time() < end_s, "\n".join(found)
            await asyncio.sleep(0.05)

    async def until_told(self, kind: str, name: str, reason: str) -> JSON:
        """Waits for an event about the object."""
        namespace = "default" if kind == "Node" else self.api.namespace
        async with asyncio.timeout(LIMIT_SECONDS):
            while True:
                for event in (await self.api.call("GET", r.EVENTS.path(namespace))).json["items"]:
                    if event["regarding"]["name"] == name and event["reason"] == reason:
                        return dict(event)
                await asyncio.sleep(0.1)

    async def _disagreements(self, daemon: DaemonProcess) -> list[str]:
        pods = (await self.api.get(r.PODS)).json["items"]
        nodes = (await self.api.get(r.NODES)).json["items"]
        return await asyncio.to_thread(disagreements, pods, nodes, daemon.state, self.rm_id, {self.scheduler})

    def node_name(self, name: str) -> str:
        return f"{self.api.namespace}-{name}"

    async def node(self, name: str, labels: dict[str, str] | None = None, **allocatable: str) -> str:
        """Makes a node with 4 processors; its full name."""
        full = self.node_name(name)
        self._nodes.append(full)
        amounts = {"cpu": "4", "memory": "16Gi", "pods": "110", **allocatable}
        metadata = {"name": full, "labels": {"world": self.api.namespace, **(labels or {})}}
        status = {"allocatable": amounts, "capacity": amounts}
        created = await self.api.post(r.NODES, {"metadata": metadata, "status": status})
        assert created.status == 201, created
        answer = await self.api.patch(r.NODES, full, {"status": status}, "status")
        assert answer.status == 200, answer
        return full

    async def pod(
        self, name: str, node: str = "", *, cpu: str = "1", metadata: JSON | None = None, **spec: Any
    ) -> JSON:
        """Makes a pod for this scheduler, unless it has a node already."""
        container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
        fields: JSON = {
            "schedulerName": self.scheduler,
            "containers": [container],
            "nodeSelector": {"world": self.api.namespace},
            **spec,
        }
        if node:
            fields["nodeName"] = node
        body = {"metadata": {"name": name, "labels": {"queue": "root.default"}, **(metadata or {})}, "spec": fields}
        answer = await self.api.post(r.PODS, body)
        assert answer.status == 201, answer
        return dict(answer.json)

    async def until(self, is_reached: Callable[[Pods], bool]) -> Pods:
        """Follows the pods of the namespace until they are as wanted."""
        assert self._stream is not None
        async with asyncio.timeout(LIMIT_SECONDS):
            while not is_reached(self.pods):
                event = await self._stream.next()
                assert event is not None, "the watch has ended"
                self._follow(event)
        return self.pods

    async def until_bound(self, *names: str) -> Pods:
        return await self.until(lambda pods: all(node_of(pods.get(name)) for name in names))

    async def end(self, name: str, phase: str = "Succeeded") -> None:
        """The kubelet says that the pod has ended."""
        answer = await self.api.patch(r.PODS, name, {"status": {"phase": phase}}, "status")
        assert answer.status == 200, answer

    async def finish(self, name: str) -> None:
        """The kubelet removes a pod that is being deleted."""
        answer = await self.api.delete(r.PODS, name, gracePeriodSeconds=0)
        assert answer.status in (200, 404), answer

    def _follow(self, event: JSON) -> None:
        pod = event["object"]
        name = pod["metadata"].get("name")
        if event["type"] == "BOOKMARK" or name is None:
            return
        self.seen[pod["metadata"]["uid"]] = name
        if event["type"] == "DELETED":
            self.pods.pop(name, None)
            return
        if node_of(pod) and not node_of(self.pods.get(name)):
            self.history.append((name, node_of(pod)))
        self.pods[name] = pod


def node_of(pod: JSON | None) -> str:
    return "" if pod is None else str(pod["spec"].get("nodeName", ""))


def condition(pod: JSON, type_: str) -> JSON:
    """The condition of this type; empty if there is none."""
    found = (one for one in pod.get("status", {}).get("conditions") or () if one["type"] == type_)
    return next(found, {})
