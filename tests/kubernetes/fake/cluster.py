"""The fake as one object: a context that serves on a Unix socket, or on a TCP port."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from types import TracebackType

from aiohttp import web

from schedulerd.kubernetes.api.resources import Resource
from tests.kubernetes.fake.faults import Faults
from tests.kubernetes.fake.kinds import POD_GROUP, Kind
from tests.kubernetes.fake.kubelet import Kubelet
from tests.kubernetes.fake.operations import KINDS, NAMESPACES, Operations
from tests.kubernetes.fake.server import Server
from tests.kubernetes.fake.store import Object, Store

EPOCH_S = 1_800_000_000.0
"""What the clock of the fake shows when the clock of its loop shows 0."""


class FakeCluster:
    """`server` has the switches, `faults` what goes wrong, `kubelet` what happens on nodes."""

    def __init__(self, *, tcp: bool = False) -> None:
        loop = asyncio.get_running_loop()
        self.store = Store()
        self.faults = Faults()
        self.operations = Operations(self.store, lambda: EPOCH_S + loop.time())
        self.server = Server(self.store, self.operations, self.faults)
        self.kubelet = Kubelet(self.operations)
        self.url = "http://fake"
        self._tcp = tcp
        self._port = 0
        self._folder = tempfile.TemporaryDirectory(prefix="fake-k8s-")
        self.path = str(Path(self._folder.name, "api"))
        """Of the Unix socket."""
        self._runner: web.AppRunner | None = None
        for name in ("default", "kube-system"):
            self.operations.create(NAMESPACES, "", {"metadata": {"name": name}})

    async def __aenter__(self) -> FakeCluster:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.stop()
        self._folder.cleanup()

    async def start(self) -> None:
        app = web.Application(client_max_size=16 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self.server.handle)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        if self._tcp:
            self.url = await self.listen()
        else:
            await web.UnixSite(self._runner, self.path).start()

    async def listen(self) -> str:
        """Serves on a free TCP port too, for processes, and on the same one after a stop; its URL."""
        assert self._runner is not None
        await web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True).start()
        host, self._port = self._runner.addresses[-1][:2]
        return f"http://{host}:{self._port}"

    async def stop(self) -> None:
        """Nobody answers any longer, and all connections end; what is stored stays."""
        self.faults.released.set()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self.faults.released.clear()

    def kind(self, resource: Resource) -> Kind:
        return POD_GROUP if str(resource) == str(POD_GROUP.resource) else KINDS[str(resource)]

    def install(self, kind: Kind = POD_GROUP) -> None:
        """A CRD comes."""
        self.server.kinds.append(kind)

    def uninstall(self, kind: Kind = POD_GROUP) -> None:
        """A CRD goes, with all its objects."""
        self.store.drop(kind)
        self.server.kinds.remove(kind)
        for watch in self.server.watches:
            if watch.scope.kind is kind:
                watch.end()

    def create(self, resource: Resource, name: str, namespace: str = "", **fields: object) -> Object:
        """Makes an object as somebody else would, past all faults."""
        body = {"metadata": {"name": name}, **fields}
        if resource.namespaced:
            namespace = namespace or "default"
        return self.operations.create(self.kind(resource), namespace, body)

    def pod(self, name: str, namespace: str = "default", node: str = "", **spec: object) -> Object:
        """Makes a pod of one container."""
        fields: dict[str, object] = {"containers": [{"name": "main", "image": "pause"}], **spec}
        if node:
            fields["nodeName"] = node
        return self.create(POD, name, namespace, spec=fields)

    def get(self, resource: Resource, name: str, namespace: str = "default") -> Object | None:
        return self.store.get(self.kind(resource), namespace if resource.namespaced else "", name)

    def delete(self, resource: Resource, name: str, namespace: str = "default") -> Object:
        return self.operations.delete(self.kind(resource), namespace if resource.namespaced else "", name, {})


POD = KINDS["pods"].resource
