"""A plain HTTP client of an API server, fake or real, that hides nothing and retries nothing."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import aiohttp
import msgspec

from schedulerd.kubernetes.api import Transport
from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.api.resources import Resource
from schedulerd.kubernetes.api.transport import CUTS_GOODBYES
from schedulerd.kubernetes.auth import Access, Material
from tests.kubernetes.api.world import UnixConnector
from tests.kubernetes.contract.real_server import RealServer
from tests.kubernetes.fake import FakeCluster

LIMIT_SECONDS = 20.0
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
_numbers = itertools.count(1)
CUSTOM_RESOURCE = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "podgroups.scheduling.x-k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"},
    },
    "spec": {
        "group": "scheduling.x-k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


class Answer:
    """Status, headers and the decoded body."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.json: Any = msgspec.json.decode(body) if body[:1] in (b"{", b"[") else body.decode()

    def __repr__(self) -> str:
        return f"{self.status} {self.json}"


SEEN_MAX = 1_000
"""Events that a watch of the tests remembers."""


class WatchStream:
    """The lines of a watch, one after the other."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.seen: deque[dict[str, Any]] = deque(maxlen=SEEN_MAX)
        """The last events, for assertions and messages: a watch may be followed for hours."""
        self.is_closed = False

    async def next(self) -> dict[str, Any] | None:
        """None at the end of the watch. Raises TimeoutError if nothing comes, after which one may go on, and
        ConnectionError if nothing will: a stream that has failed raises its error at once, each time."""
        limit = asyncio.timeout(LIMIT_SECONDS)
        try:
            async with limit:
                line = await self._response.content.readline()
        except TimeoutError as error:
            if not limit.expired():
                raise ConnectionError("the watch has failed") from error
            raise
        if not line:
            return None
        event: dict[str, Any] = msgspec.json.decode(line)
        self.seen.append(event)
        return event

    async def until(self, type_: str, name: str) -> dict[str, Any]:
        while True:
            event = await self.next()
            assert event is not None, f"ended before {type_} of {name}: {list(self.seen)}"
            if event["type"] == type_ and event["object"]["metadata"].get("name") == name:
                return dict(event["object"])

    def close(self) -> None:
        self.is_closed = True
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()  # an orderly end of TLS would outlive the loop
        self._response.close()


class Api:
    """A context: a namespace of its own on the server under test."""

    def __init__(self, real: RealServer | None) -> None:
        self._real = real
        self.fake: FakeCluster | None = None
        self.namespace = f"contract-{next(_numbers)}"
        self._streams: list[WatchStream] = []

    @property
    def real(self) -> RealServer:
        assert self._real is not None
        return self._real

    @property
    def is_real(self) -> bool:
        return self._real is not None

    async def __aenter__(self) -> Api:
        connector: aiohttp.BaseConnector
        token = "contract-token"
        if self._real is None:
            self.fake = await FakeCluster().__aenter__()
            self.fake.server.tokens = {token, "nobody-token"}
            self.fake.server.strangers = {"nobody-token"}
            self.url = self.fake.url
            connector = aiohttp.UnixConnector(self.fake.path)
        else:
            token, self.url = self._real.token, self._real.url
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            connector = aiohttp.TCPConnector(ssl=context, enable_cleanup_closed=CUTS_GOODBYES)
        self.headers = {"Authorization": f"Bearer {token}"}
        self._session = aiohttp.ClientSession(connector=connector, read_bufsize=2**21)
        answer = await self.post(r.NAMESPACES, {"metadata": {"name": self.namespace}})
        assert answer.status == 201, answer
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for stream in self._streams:
            stream.close()
        await self._session.close()
        await asyncio.sleep(0)
        if self.fake is not None:
            await self.fake.__aexit__(kind, error, at)

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        given = None if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        sent = {**self.headers, **({} if given is None else {"Content-Type": content_type}), **(headers or {})}
        async with (
            asyncio.timeout(LIMIT_SECONDS),
            self._session.request(method, self.url + path, data=given, headers=sent, params=query) as response,
        ):
            return Answer(response.status, response.headers, await response.read())

    def path(self, resource: Resource, name: str = "", subresource: str = "") -> str:
        return resource.path(self.namespace if resource.namespaced else "", name, subresource)

    async def get(self, resource: Resource, name: str = "", **query: str) -> Answer:
        return await self.call("GET", self.path(resource, name), query=query)

    async def post(self, resource: Resource, body: dict[str, Any], name: str = "", subresource: str = "") -> Answer:
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        return await self.call("POST", self.path(resource, name, subresource), whole)

    async def put(self, resource: Resource, name: str, body: dict[str, Any], subresource: str = "") -> Answer:
        return await self.call("PUT", self.path(resource, name, subresource), body)

    async def patch(
        self, resource: Resource, name: str, body: dict[str, Any], subresource: str = "", content_type: str = STRATEGIC
    ) -> Answer:
        return await self.call("PATCH", self.path(resource, name, subresource), body, content_type=content_type)

    async def delete(self, resource: Resource, name: str, **options: Any) -> Answer:
        return await self.call("DELETE", self.path(resource, name), options)

    async def watch(self, resource: Resource, version: str, *, everywhere: bool = False, **query: str) -> WatchStream:
        """In the namespace, or everywhere. Raises `AssertionError` if the server does not agree to it."""
        response = await self._session.get(
            self.url + (resource.path() if everywhere else self.path(resource)),
            headers=self.headers,
            params={"watch": "1", "resourceVersion": version, "timeoutSeconds": "60", **query},
            timeout=aiohttp.ClientTimeout(total=None),  # the session's would end it after five minutes
        )
        if response.status != 200:
            body = await response.read()
            raise AssertionError(Answer(response.status, response.headers, body))
        stream = WatchStream(response)
        self._streams = [one for one in self._streams if not one.is_closed]
        self._streams.append(stream)
        return stream

    async def version(self, resource: Resource) -> str:
        """The version of a list made now."""
        return str((await self.get(resource, limit="1")).json["metadata"]["resourceVersion"])

    async def pod(self, name: str, node: str = "", **spec: Any) -> dict[str, Any]:
        fields = {"containers": [{"name": "main", "image": "pause"}], **({"nodeName": node} if node else {}), **spec}
        answer = await self.post(r.PODS, {"metadata": {"name": name}, "spec": fields})
        assert answer.status == 201, answer
        return dict(answer.json)

    async def bind(self, name: str, node: str, **metadata: Any) -> Answer:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": self.namespace, **metadata},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        return await self.call("POST", self.path(r.PODS, name, "binding"), body)

    def transport(self) -> Transport:
        """The client of the shim, for the same server."""

        async def read() -> Material:
            return Material(token=self.headers["Authorization"].removeprefix("Bearer "))

        fake = self.fake
        if fake is None:
            return Transport(Access(self.url, read, insecure=True))
        return Transport(Access(self.url, read), connector=lambda: UnixConnector(fake.path, limit=0))

    async def forget_old_versions(self) -> None:
        """Compacts the store."""
        if self.fake is not None:
            self.fake.store.compact()
            self.fake.server.expire_pages()
            return
        assert self._real is not None
        version = await self.version(r.PODS)
        async with self._session.post(
            f"{self._real.etcd_url}/v3/kv/compaction", json={"revision": version, "physical": True}
        ) as response:
            assert response.status == 200, await response.text()

    async def install_pod_groups(self) -> None:
        """Makes the custom resource, and waits until it is served."""
        if self.fake is not None:
            self.fake.install()
            return
        answer = await self.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CUSTOM_RESOURCE)
        assert answer.status in (201, 409), answer
        async with asyncio.timeout(LIMIT_SECONDS):
            while (await self.get(r.POD_GROUPS)).status != 200:  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0.1)
