"""The network of Services, for the API server: what it sends to a Service goes to a pod that is ready.

A real API server that is told to sends everything for Services through a proxy at a socket file, as HTTP CONNECT
(its egress selector). This is the proxy, and it does what kube-proxy does.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.kubernetes.contract.api import Api
from tests.kubernetes.node.kubelet import NodeKubelet, RunningPod
from tests.kubernetes.node.relay import Relay, Streams

JSON = dict[str, Any]
CONNECTED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class ServiceNetwork:
    """A context: connections to Services of one namespace, for the API server at the other end of the socket file."""

    def __init__(self, api: Api, kubelet: NodeKubelet, socket: Path) -> None:
        self._api = api
        self._kubelet = kubelet
        self._socket = socket
        self._relay = Relay(self._connect, CONNECTED)
        self.targets: list[str] = []
        """Service and pod of each connection."""

    async def __aenter__(self) -> ServiceNetwork:
        self._server = await asyncio.start_unix_server(self._relay, self._socket)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._server.close()
        await self._relay.close()

    async def _connect(self, reader: asyncio.StreamReader) -> Streams:
        """Raises OSError if there is no pod."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, address, _ = head.split(" ", 2)
        assert method == "CONNECT", head
        host, _, port = address.rpartition(":")
        service, pod, target = await self._pod_of(host, int(port))
        self.targets.append(f"{service} -> {pod.name}")
        there = await asyncio.open_unix_connection(pod.sandbox.folder / "pod.sock")
        there[1].write(f"{target}\n".encode())
        return there

    async def _pod_of(self, host: str, port: int) -> tuple[str, RunningPod, int]:
        """Name of the Service, one of its pods that is ready, and the port of the container."""
        answer = await self._api.call("GET", f"/api/v1/namespaces/{self._api.namespace}/services")
        for service in answer.json["items"]:
            if service["spec"].get("clusterIP") != host:
                continue
            (wanted,) = [one["targetPort"] for one in service["spec"]["ports"] if one["port"] == port]
            for pod in self._kubelet.pods.values():
                labels = pod.pod["metadata"].get("labels", {})
                if service["spec"]["selector"].items() <= labels.items() and pod.is_ready:
                    return service["metadata"]["name"], pod, _container_port(pod, wanted)
        raise OSError(f"no pod is ready behind {host}:{port}")


def _container_port(pod: RunningPod, wanted: str | int) -> int:
    ports = {
        one.get("name"): one["containerPort"]
        for container in pod.pod["spec"]["containers"]
        for one in container.get("ports") or ()
    }
    return int(ports.get(wanted, wanted))
