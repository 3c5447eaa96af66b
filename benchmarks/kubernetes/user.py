"""The user of a real API server: makes nodes and pods, and sees when the last pod is bound and its event written."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

import aiohttp
import msgspec

from benchmarks.kubernetes.cluster import JSON, NAMESPACE
from benchmarks.measurement import WrongResult

AT_A_TIME = 50
"""Requests."""
LOOK_SECONDS = 0.02
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"


class _Metadata(msgspec.Struct):
    name: str = ""
    resourceVersion: str = ""
    remainingItemCount: int = 0


class _Spec(msgspec.Struct):
    nodeName: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _Event(msgspec.Struct):
    reason: str = ""


class _Line(msgspec.Struct):
    type: str
    object: _Pod


class _List(msgspec.Struct):
    metadata: _Metadata
    items: list[msgspec.Raw] = []


class User:
    """A context. `bound` has the nodes of pods by name, as a watch tells them."""

    def __init__(self, server: str, token: str) -> None:
        self.bound: dict[str, str] = {}
        self._server = server
        self._token = token
        self._changed = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
            read_bufsize=2**21,
        )
        await self._post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        version = (await self._list(PODS)).metadata.resourceVersion
        self._watch = asyncio.create_task(self._follow(version))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._watch is not None
        self._watch.cancel()
        await asyncio.gather(self._watch, return_exceptions=True)
        await self._session.close()

    async def make_nodes(self, nodes: Iterable[JSON]) -> None:
        for node in nodes:
            await self._post("/api/v1/nodes", node)
            path = f"/api/v1/nodes/{node['metadata']['name']}/status"
            status = msgspec.json.encode({"status": node["status"]})
            await self._send("PATCH", path, status, "application/strategic-merge-patch+json")

    async def make_pods(self, pods: Iterable[JSON]) -> None:
        """All of them, `AT_A_TIME`, in their order."""
        bodies = iter([msgspec.json.encode(pod) for pod in pods])

        async def work() -> None:
            for body in bodies:
                await self._send("POST", PODS, body)

        await asyncio.gather(*(work() for _ in range(AT_A_TIME)))

    async def until_bound(self, count: int, check: Callable[[], None], seconds_max: float) -> None:
        """Raises `WrongResult` if it takes longer, or what `check` raises."""
        end_s = time.perf_counter() + seconds_max
        while len(self.bound) < count:
            check()
            if time.perf_counter() > end_s:
                raise WrongResult(f"{len(self.bound)} of {count} pods were bound within {seconds_max:g} s")
            self._changed.clear()
            try:
                async with asyncio.timeout(1.0):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def last_event_s(self, silence_s: float) -> float:
        """When the number of events last changed, seen from that long afterwards."""
        seen, at_s = -1, time.perf_counter()
        while time.perf_counter() < at_s + silence_s:
            page = await self._list(f"{EVENTS}?limit=1")
            there = len(page.items) + page.metadata.remainingItemCount
            if there != seen:
                seen, at_s = there, time.perf_counter()
            await asyncio.sleep(LOOK_SECONDS)
        return at_s

    async def events(self) -> Counter[str]:
        """By reason."""
        page = await self._list(EVENTS)
        return Counter(msgspec.json.decode(item, type=_Event).reason for item in page.items)

    async def _follow(self, version: str) -> None:
        decoder = msgspec.json.Decoder(_Line)
        url = f"{self._server}{PODS}?watch=1&resourceVersion={version}&timeoutSeconds=3600"
        async with self._session.get(url, timeout=aiohttp.ClientTimeout(total=None)) as response:
            rest = b""
            while chunk := await response.content.readany():
                whole, _, rest = (rest + chunk).rpartition(b"\n")
                for line in decoder.decode_lines(whole):
                    if line.object.spec.nodeName:
                        self.bound[line.object.metadata.name] = line.object.spec.nodeName
                self._changed.set()

    async def _list(self, path: str) -> _List:
        async with self._session.get(self._server + path) as response:
            return msgspec.json.decode(await response.read(), type=_List)

    async def _post(self, path: str, body: JSON) -> None:
        await self._send("POST", path, msgspec.json.encode(body))

    async def _send(self, method: str, path: str, body: bytes, content_type: str = "application/json") -> None:
        headers = {"Content-Type": content_type}
        async with self._session.request(method, self._server + path, data=body, headers=headers) as response:
            content = await response.read()
            if response.status >= 300:
                raise WrongResult(f"{method} {path}: {response.status} {content[:500]!r}")
