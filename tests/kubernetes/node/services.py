"""The network of Services: what is sent to the address of one goes to a pod that is ready, as by kube-proxy.

A real API server that is told to sends everything for Services through a proxy at a socket file, as HTTP CONNECT
(its egress selector). Pods have the addresses in their sandboxes.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any

from schedulerd.kubernetes.api.resources import PODS
from tests.kubernetes.contract.api import Api
from tests.kubernetes.node.kubelet import NodeKubelet, RunningPod
from tests.kubernetes.node.relay import Relay, Streams

JSON = dict[str, Any]
CONNECTED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class ServiceNetwork:
    """A context: connections to Services of one namespace, for pods, and for the API server by the socket file."""

    def __init__(self, api: Api, kubelet: NodeKubelet, socket: Path) -> None:
        self._api = api
        self._kubelet = kubelet
        self._socket = socket
        self._relay = Relay(self._connect, CONNECTED)
        self.targets: list[str] = []
        """Service and pod of each connection."""

    async def __aenter__(self) -> ServiceNetwork:
        self._server = await asyncio.start_unix_server(self._relay, self._socket)
        self._kubelet.to_service = self._of_pod
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._server.close()
        await self._relay.close()

    async def _connect(self, reader: asyncio.StreamReader) -> Streams:
        """For the API server. Raises OSError if there is no pod."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, address, _ = head.split(" ", 2)
        assert method == "CONNECT", head
        return await self._open(address)

    async def _of_pod(self, reader: asyncio.StreamReader) -> Streams:
        """For a pod, which says where to in the first line."""
        return await self._open((await reader.readline()).decode().strip())

    async def _open(self, address: str) -> Streams:
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
            selector = ",".join(f"{key}={value}" for key, value in service["spec"]["selector"].items())
            for one in (await self._api.get(PODS, labelSelector=selector)).json["items"]:
                pod = self._kubelet.pods.get(one["metadata"]["uid"])
                if pod is not None and pod.is_ready:
                    return service["metadata"]["name"], pod, _container_port(pod, wanted)
        raise OSError(f"no pod is ready behind {host}:{port}")


def _container_port(pod: RunningPod, wanted: str | int) -> int:
    ports = {
        one.get("name"): one["containerPort"]
        for container in pod.pod["spec"]["containers"]
        for one in container.get("ports") or ()
    }
    return int(ports.get(wanted, wanted))
