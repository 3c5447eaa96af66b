"""A process that does nothing but bind pods to nodes in turn, and write one event for each: the least that is needed.

It does it as well as Python can: uvloop, msgspec with the fields that it needs, 64 writes at a time on connections
that stay open, bindings before events.

    python -m benchmarks.kubernetes.binder SERVER TOKEN SCHEDULER
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import time
from collections import deque
from collections.abc import Mapping

import aiohttp
import msgspec
import uvloop

AT_A_TIME = 64


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Spec(msgspec.Struct):
    nodeName: str = ""
    schedulerName: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _Line(msgspec.Struct):
    type: str
    object: _Pod


class _Named(msgspec.Struct):
    metadata: _Metadata


class _List(msgspec.Struct):
    items: list[_Named]


class Binder:
    def __init__(self, server: str, token: str, scheduler: str, session: aiohttp.ClientSession) -> None:
        self._server = server
        self._scheduler = scheduler
        self._session = session
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._nodes: list[str] = []
        self._bound = 0
        self._bindings: deque[tuple[_Metadata, str]] = deque()
        self._events: deque[tuple[_Metadata, str]] = deque()
        self._has_some = asyncio.Semaphore(0)

    async def run(self) -> None:
        nodes = await self._list("/api/v1/nodes")
        self._nodes = [one.metadata.name for one in nodes.items]
        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_A_TIME):
                tasks.create_task(self._work())
            await self._watch()

    async def _list(self, path: str) -> _List:
        async with self._session.get(self._server + path, headers=self._headers) as response:
            return msgspec.json.decode(await response.read(), type=_List)

    async def _watch(self) -> None:
        """What is there comes first."""
        decoder = msgspec.json.Decoder(_Line)
        url = f"{self._server}/api/v1/pods?watch=1&timeoutSeconds=3600"
        async with self._session.get(url, headers=self._headers) as response:
            rest = b""
            while chunk := await response.content.readany():
                whole, _, rest = (rest + chunk).rpartition(b"\n")
                for line in decoder.decode_lines(whole):
                    pod = line.object
                    if line.type == "ADDED" and pod.spec.schedulerName == self._scheduler and not pod.spec.nodeName:
                        node = self._nodes[self._bound % len(self._nodes)]
                        self._bound += 1
                        self._bindings.append((pod.metadata, node))
                        self._has_some.release()

    async def _work(self) -> None:
        while True:
            await self._has_some.acquire()
            if self._bindings:
                pod, node = self._bindings.popleft()
                await self._bind(pod, node)
                self._events.append((pod, node))
                self._has_some.release()
            else:
                await self._tell(*self._events.popleft())

    async def _bind(self, pod: _Metadata, node: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._post(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", body)

    async def _tell(self, pod: _Metadata, node: str) -> None:
        now_ns = time.time_ns()
        seconds, nanoseconds = divmod(now_ns, 1_000_000_000)
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        regarding = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{pod.name}.{now_ns:x}", "namespace": pod.namespace},
            "eventTime": f"{at}.{nanoseconds // 1000:06d}Z",
            "reportingController": self._scheduler,
            "reportingInstance": "binder",
            "regarding": regarding,
            "type": "Normal",
            "reason": "Scheduled",
            "action": "Binding",
            "note": f"Successfully assigned {pod.namespace}/{pod.name} to {node}",
        }
        await self._post(f"/apis/events.k8s.io/v1/namespaces/{pod.namespace}/events", body)

    async def _post(self, path: str, body: Mapping[str, object]) -> None:
        content = msgspec.json.encode(body)
        async with self._session.post(self._server + path, data=content, headers=self._headers) as response:
            answer = await response.read()
            if response.status >= 300:
                raise RuntimeError(f"POST {path}: {response.status} {answer[:500]!r}")


async def main() -> None:
    server, token, scheduler = sys.argv[1:]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, read_bufsize=2**21) as session:
        await Binder(server, token, scheduler, session).run()


if __name__ == "__main__":
    uvloop.run(main())
