"""The cluster of the demonstration: an API server, real or fake, with nodes and kubelets that are played, a daemon and
a shim as processes, and the pods as a watch tells them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from schedulerd.kubernetes.api import resources as r
from tests.contract.daemon_process import DaemonProcess
from tests.kubernetes.accounts import disagreements
from tests.kubernetes.contract.api import STRATEGIC, Api, WatchStream
from tests.kubernetes.contract.real_server import RealServer, write_kubeconfig
from tests.kubernetes.demo.controllers import Controllers
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.rights import manifests

JSON = dict[str, Any]
SCHEDULER, RM_ID = "schedulerd", "kubernetes"
NODES, CPU = ("node-1", "node-2", "node-3"), 4
NAMESPACES = ("red", "blue")
QUEUES = Path(__file__).with_name("queues.yaml")
START_SECONDS = 30.0
STOP_SECONDS = 20.0
LOG_LINES = 20
TOKEN_PATH = "/api/v1/namespaces/schedulerd/serviceaccounts/schedulerd/token"
CREATED = (200, 201)


class Cluster:
    """A context. `assets` is the folder of the real servers; None: the fake server."""

    def __init__(self, assets: Path | None) -> None:
        self.is_real = assets is not None
        self.pods: dict[str, JSON] = {}
        """By `namespace/name`."""
        self.changed = asyncio.Event()
        """Set with every change of a pod; who waits clears it."""
        self._assets = assets
        self._stack = contextlib.AsyncExitStack()
        self._folder = Path()
        self._shim: asyncio.subprocess.Process | None = None
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Cluster:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        enter = self._stack.enter_context
        self._folder = Path(enter(tempfile.TemporaryDirectory(prefix="kubernetes-demo-")))
        real = None
        if self._assets is not None:
            server = RealServer(self._assets)
            real = await asyncio.to_thread(server.__enter__)
            self._stack.push(server.__exit__)
            await asyncio.to_thread(real.start_controllers)
        self.api = Api(real)
        self.api.namespace = NAMESPACES[0]
        await self._stack.enter_async_context(self.api)
        await self.api.install_pod_groups()
        self.url = self.api.url if self.api.fake is None else await self.api.fake.listen()
        self.kubeconfig = self._folder / "kubeconfig"
        write_kubeconfig(self.kubeconfig, self.url, self.token)
        for namespace in NAMESPACES[1:]:
            await self.create(r.NAMESPACES.path(), {"metadata": {"name": namespace}})
        for node in NODES:
            await self._node(node)
        self.daemon = DaemonProcess("--config", str(QUEUES), "--preemption-attempt-s", "0.2")
        await asyncio.to_thread(self.daemon.__enter__)
        self._stack.push(self.daemon.__exit__)
        await self._start_shim(await self._service_token())
        self._stack.push_async_callback(self._stop_shim)
        self.kubelet = await self._stack.enter_async_context(Kubelet(self.api, grace_s=0.5))
        self.controllers = Controllers(self.api, self.pods, is_real=self.is_real)
        version = (await self.api.call("GET", r.PODS.path())).json["metadata"]["resourceVersion"]
        stream = await self.api.watch(r.PODS, version, everywhere=True, timeoutSeconds="86400")
        self._following = asyncio.create_task(self._follow(stream))
        self._stack.push_async_callback(self._stop_following)

    @property
    def token(self) -> str:
        return self.api.headers["Authorization"].removeprefix("Bearer ")

    async def _node(self, name: str) -> None:
        amounts = {"cpu": str(CPU), "memory": "16Gi", "pods": "110"}
        status: JSON = {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        await self.create(r.NODES.path(), {"metadata": {"name": name}, "status": status})
        await self.patch(r.NODES.path("", name, "status"), {"status": status})

    async def _service_token(self) -> str:
        """The shim has the rights of the manifest where there are rights."""
        if not self.is_real:
            return self.token
        paths = {
            "Namespace": "/api/v1/namespaces",
            "ServiceAccount": "/api/v1/namespaces/schedulerd/serviceaccounts",
            "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/schedulerd/roles",
            "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/schedulerd/rolebindings",
            "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        }
        for one in manifests("rbac.yaml"):
            await self.create(paths[one["kind"]], one)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
        return str((await self.create(TOKEN_PATH, request))["status"]["token"])

    async def _start_shim(self, token: str) -> None:
        config = self._folder / "shim-kubeconfig"
        write_kubeconfig(config, self.url, token)
        flags = ("--kubeconfig", str(config), "--daemon", self.daemon.target, "--http-bind", "127.0.0.1:0")
        # Its output goes to a file: nobody reads a pipe.
        self.shim_log = self._folder / "shim.log"
        with self.shim_log.open("wb") as log:
            self._shim = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "schedulerd", "kubernetes", *flags),
                stderr=log,
                env={**os.environ, "SCHEDULERD_KUBERNETES_RM_ID": RM_ID},
            )
        self.shim_url = ""
        async with asyncio.timeout(START_SECONDS), httpx.AsyncClient() as client:
            while True:
                if self._shim.returncode is not None:
                    raise AssertionError(f"the shim has ended:\n{self._log()}")
                if await self._is_ready(client):
                    return
                await asyncio.sleep(0.05)

    async def _is_ready(self, client: httpx.AsyncClient) -> bool:
        if not self.shim_url:
            lines = [json.loads(line) for line in self._log().splitlines(keepends=True) if line.endswith("\n")]
            ports = [line["http_port"] for line in lines if "http_port" in line]
            if not ports:
                return False
            self.shim_url = f"http://127.0.0.1:{ports[0]}"
        return (await client.get(f"{self.shim_url}/readyz")).status_code == 200

    def _log(self) -> str:
        return self.shim_log.read_text()

    async def _stop_shim(self) -> None:
        assert self._shim is not None
        if self._shim.returncode is None:
            self._shim.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._shim.wait()
        except TimeoutError:
            self._shim.kill()
            await self._shim.wait()

    async def _follow(self, stream: WatchStream) -> None:
        while True:
            try:
                event = await stream.next()
            except TimeoutError:
                continue
            assert event is not None, "the watch of pods has ended"
            pod = event["object"]
            name = f"{pod['metadata'].get('namespace')}/{pod['metadata'].get('name')}"
            if event["type"] == "DELETED":
                self.pods.pop(name, None)
            elif event["type"] in ("ADDED", "MODIFIED"):
                self.pods[name] = pod
            self.changed.set()
            await self.controllers.reconcile()

    async def _stop_following(self) -> None:
        assert self._following is not None
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)

    def check(self) -> None:
        """Fails if one of the processes has ended, or the watch."""
        if self._shim is not None and self._shim.returncode is not None:
            raise AssertionError(f"the shim has ended with {self._shim.returncode}:\n{self._log()[-2000:]}")
        if self._following is not None and self._following.done():
            self._following.result()

    async def until(self, is_reached: Callable[[], bool], seconds: float) -> bool:
        """Whether it became so in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not is_reached():
                    self.check()
                    self.changed.clear()
                    await self.changed.wait()
        return is_reached()

    async def create(self, path: str, body: JSON) -> JSON:
        answer = await self.api.call("POST", path, {"apiVersion": "v1", **body})
        assert answer.status in CREATED, answer
        return dict(answer.json)

    async def patch(self, path: str, body: JSON) -> None:
        answer = await self.api.call("PATCH", path, body, content_type=STRATEGIC)
        assert answer.status == 200, answer

    async def delete(self, path: str) -> None:
        answer = await self.api.call("DELETE", path, {})
        assert answer.status in (200, 202, 404), answer

    async def evict(self, namespace: str, name: str) -> None:
        """As `kubectl drain` does; the fake has no evictions, and the pod is deleted."""
        if not self.is_real:
            await self.delete(r.PODS.path(namespace, name))
            return
        body = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
        await self.create(r.PODS.path(namespace, name, "eviction"), body)

    async def agrees(self) -> list[str]:
        """What API server and daemon do not agree about."""
        pods = (await self.api.call("GET", r.PODS.path())).json["items"]
        nodes = (await self.api.call("GET", r.NODES.path())).json["items"]
        return await asyncio.to_thread(disagreements, pods, nodes, self.daemon.state, RM_ID, {SCHEDULER})

    def logs(self) -> list[str]:
        """The last lines that the daemon and the shim have written; none before both run."""
        if self._shim is None:
            return []
        lines = [f"daemon: {line.strip()}" for line in self.daemon.lines[-LOG_LINES:]]
        return [*lines, *(f"shim: {line}" for line in self._log().splitlines()[-LOG_LINES:])]

    async def shim_metrics(self) -> str:
        async with httpx.AsyncClient() as client:
            return (await client.get(f"{self.shim_url}/metrics")).text
