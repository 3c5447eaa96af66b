"""HTTP for the fake: paths, authentication, faults, lists with pages, watches."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, NamedTuple

import msgspec
from aiohttp import web

from tests.kubernetes.fake.failures import Failure, expired, invalid, unknown_path
from tests.kubernetes.fake.faults import WATCH_FAULTS, Fault, Faults
from tests.kubernetes.fake.kinds import BUILT_IN, Kind
from tests.kubernetes.fake.operations import Operations
from tests.kubernetes.fake.selectors import selector
from tests.kubernetes.fake.store import Change, Object, Store
from tests.kubernetes.fake.watching import LINES_MAX, Scope, Watch

BOOKMARK_SECONDS = 60.0
BODY_BYTES_MAX = 3 * 1024 * 1024
WATCH_LIST_REFUSED = (
    "FieldValueForbidden",
    "resourceVersionMatch",
    "Forbidden: resourceVersionMatch is forbidden for watch",
)


class Target:
    """What a path means."""

    __slots__ = ("kind", "name", "namespace", "subresource")

    def __init__(self, kind: Kind, namespace: str, name: str, subresource: str) -> None:
        self.kind, self.namespace, self.name, self.subresource = kind, namespace, name, subresource


class Sent(NamedTuple):
    """A request that is to change something."""

    at_s: float
    """Of the loop's clock."""
    token: str
    method: str
    path: str


class Server:
    """The request handler. Its attributes are switches for tests."""

    def __init__(self, store: Store, operations: Operations, faults: Faults) -> None:
        self.faults = faults
        self.kinds: list[Kind] = list(BUILT_IN)
        self.tokens: set[str] | None = None
        """Bearer tokens that are accepted; None: everybody is."""
        self.strangers: set[str] = set()
        """Tokens of those whom RBAC allows nothing."""
        self.forbidden: set[tuple[str, str]] = set()
        """Verb and plural that RBAC forbids."""
        self.watch_list = False
        """Lists may come as the beginning of a watch."""
        self.expires_by_line = True
        """A watch from a forgotten version is answered with 200 and an ERROR line, not with 410."""
        self.watch_lines_max = LINES_MAX
        self.watches: list[Watch] = []
        self.requests: list[tuple[str, str]] = []
        """Method (WATCH for watches) and path with query of every request that came."""
        self.performed: list[tuple[str, str]] = []
        """Those that changed something."""
        self.sent: list[Sent] = []
        """Every request that came and was to change something."""
        self.done: list[Sent] = []
        """Those that did."""
        self.accesses: set[tuple[str, str, str, str, str]] = set()
        """Of every request: the first word of `User-Agent`, and verb, group and resource as RBAC has them."""
        self.in_flight = self.in_flight_most = 0
        self._store = store
        self._operations = operations
        self._pages: dict[str, list[Object]] = {}
        self._page_numbers = itertools.count(1)
        store.listeners.append(self._changed)

    def _changed(self, change: Change) -> None:
        for watch in self.watches:
            watch.offer(change)

    def expire_pages(self) -> None:
        """Every continue token is too old from now on."""
        self._pages.clear()

    def watches_end(self) -> None:
        """The server ends all watches, slow ones too."""
        for watch in self.watches:
            watch.is_slow = watch.is_stalled = False
            watch.end()

    def bookmark(self) -> None:
        """A bookmark to every watch that wants them, as comes once a minute."""
        for watch in self.watches:
            if watch.bookmarks:
                watch.bookmark(self._store.version)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        is_watch = request.query.get("watch") in ("1", "true")
        method = "WATCH" if is_watch else request.method
        self.requests.append((method, request.path_qs))
        if method not in ("GET", "WATCH"):
            self.sent.append(_sent(request))
        self.in_flight += not is_watch
        self.in_flight_most = max(self.in_flight, self.in_flight_most)
        try:
            return await self._handle(request, method)
        except Failure as failure:
            return _failed(failure)
        finally:
            self.in_flight -= not is_watch

    async def _handle(self, request: web.Request, method: str) -> web.StreamResponse:
        self._authenticate(request)
        if request.path in ("/readyz", "/livez"):
            return web.Response(text="ok")
        if request.path == "/version":
            return _json({"major": "1", "minor": "20+", "gitVersion": "v1.20.2-fake"})
        if (discovered := self._discover(request.path)) is not None:
            return _json(discovered)
        target = self._target(request.path)
        self.accesses.add((request.headers.get("User-Agent", "").partition(" ")[0], *_access(method, target)))
        if request.headers.get("Authorization", "").partition(" ")[2] in self.strangers:
            text = f'{target.kind.plural} is forbidden: User "nobody" cannot use resource "{target.kind.plural}"'
            raise Failure(403, text, details={"kind": target.kind.plural})
        if (method, target.kind.plural) in self.forbidden:
            verb = {"GET": "list" if not target.name else "get", "POST": "create"}.get(method, method.lower())
            text = f'{target.kind.plural} is forbidden: User "fake" cannot {verb} resource "{target.kind.plural}"'
            raise Failure(403, text, details={"kind": target.kind.plural})
        body = await request.read()
        fault = self.faults.next(method, request.path, target.kind.plural, target.subresource, target.name)
        if fault is not None and fault.name not in WATCH_FAULTS:
            return await self._fail(request, method, target, body, fault)
        if method == "WATCH":
            return await self._watch(request, target, fault)
        return self._perform(request, method, target, body)

    async def _fail(
        self, request: web.Request, method: str, target: Target, body: bytes, fault: Fault
    ) -> web.StreamResponse:
        if fault.name == "refuse":
            raise Failure(fault.code, fault.message, fault.reason, retry_after_s=fault.retry_after_s)
        if fault.name in ("lose", "halve", "fail_after", "hang_after"):
            self._operations.is_killed_deleting = fault.name == "halve"
            try:
                self._perform(request, method, target, body)
            finally:
                self._operations.is_killed_deleting = False
        if fault.name == "fail_after":
            raise Failure(fault.code, fault.message, fault.reason, retry_after_s=fault.retry_after_s)
        if fault.name in ("hang", "hang_after"):
            await self.faults.released.wait()
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    def _perform(self, request: web.Request, method: str, target: Target, body: bytes) -> web.Response:
        if method == "GET" and not target.name:
            return self._list(request, target)
        try:
            given: Any = msgspec.json.decode(body) if body else {}
        except msgspec.DecodeError as error:
            raise Failure(400, f"couldn't get version/kind; json parse error: {error}") from None
        if len(body) > BODY_BYTES_MAX:
            raise Failure(413, "Request entity too large: limit is 3145728")
        op, kind, namespace, name = self._operations, target.kind, target.namespace, target.name
        code = 200
        version = self._store.version
        match method, target.subresource:
            case "GET", "" | "status":
                thing = op.get(kind, namespace, name)
            case "POST", "" if not name:
                thing, code = op.create(kind, namespace, given), 201
            case "POST", "binding" if kind.plural == "pods":
                thing, code = op.bind(namespace, name, given), 201
            case "PUT", "" | "status" if name:
                thing = op.replace(kind, namespace, name, given, target.subresource)
            case "PATCH", "" | "status" if name:
                thing = op.patch(kind, namespace, name, given, target.subresource, request.content_type)
            case "DELETE", "" if name:
                thing = op.delete(kind, namespace, name, given)
            case _:
                raise Failure(405, "the server does not allow this method on the requested resource")
        if self._store.version != version:
            self.performed.append((method, request.path))
            self.done.append(_sent(request))
        return _json(thing, code)

    def _authenticate(self, request: web.Request) -> None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if self.tokens is None:
            return
        if scheme == "Bearer" and token not in self.tokens:
            self.faults.happened.append(("unauthorized", request.method, request.path))
            raise Failure(401, "Unauthorized")
        if scheme != "Bearer":
            text = f'{request.path} is forbidden: User "system:anonymous" cannot use it'
            raise Failure(403, text)

    def _discover(self, path: str) -> Object | None:
        parts = path.strip("/").split("/")
        group_version = "v1" if parts == ["api", "v1"] else "/".join(parts[1:])
        if parts != ["api", "v1"] and (parts[0] != "apis" or len(parts) != 3):
            return None
        kinds = [kind for kind in self.kinds if kind.resource.api_version == group_version]
        if not kinds:
            raise unknown_path()
        listed = [
            {
                "name": k.plural,
                "kind": k.resource.kind,
                "namespaced": k.resource.namespaced,
                "singularName": "",
                "verbs": [],
            }
            for k in kinds
        ]
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}

    def _target(self, path: str) -> Target:
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "v1"]:
            api_version, rest = "v1", parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            api_version, rest = "/".join(parts[1:3]), parts[3:]
        else:
            raise unknown_path()
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces" and rest[2] != "status":
            namespace, rest = rest[1], rest[2:]
        plural, name, subresource = [*rest, "", ""][:3] if len(rest) <= 3 else ("", "", "")
        for kind in self.kinds:
            if kind.resource.api_version == api_version and kind.plural == plural:
                is_single = bool(name) or kind.resource.namespaced == bool(namespace) or not name
                if is_single and (not name or kind.resource.namespaced == bool(namespace)):
                    return Target(kind, namespace, name, subresource)
        raise unknown_path()

    def _scope(self, request: web.Request, target: Target) -> Scope:
        query = request.query
        matches = selector(target.kind.plural, query.get("fieldSelector", ""), query.get("labelSelector", ""))
        return Scope(target.kind, target.namespace, matches)

    def _list(self, request: web.Request, target: Target) -> web.Response:
        query, scope, store = request.query, self._scope(request, target), self._store
        limit = int(query.get("limit", "0"))
        token = query.get("continue", "")
        if token:
            if token not in self._pages:
                text = "The provided continue parameter is too old to display a consistent list result."
                raise expired(text, {"continue": f"inconsistent-{token}"})
            things, version = self._pages[token], token.split(".")[0]
        else:
            store.check_version(int(query.get("resourceVersion") or "0"))
            version = str(store.version)
            things = [thing for _, thing in sorted(store.of(target.kind).items()) if scope.has(thing)]
        metadata: dict[str, Any] = {"resourceVersion": version}
        # From its cache the server gives all, whatever the limit.
        if limit and len(things) > limit and query.get("resourceVersion") != "0":
            metadata["continue"] = f"{version}.{next(self._page_numbers)}"
            self._pages[metadata["continue"]] = things[limit:]
            if scope.matches is None:
                metadata["remainingItemCount"] = len(things) - limit
            things = things[:limit]
        resource = target.kind.resource
        items = [{key: value for key, value in thing.items() if key not in ("kind", "apiVersion")} for thing in things]
        if target.kind.is_custom:
            items = things
        kind, api_version = f"{resource.kind}List", resource.api_version
        if "as=PartialObjectMetadataList" in request.headers.get("Accept", ""):
            kind, api_version = "PartialObjectMetadataList", "meta.k8s.io/v1"
            items = [{"metadata": thing["metadata"]} for thing in things]
        body = {
            "kind": kind,
            "apiVersion": api_version,
            "metadata": metadata,
            "items": items,
        }
        return _json(body)

    async def _watch(self, request: web.Request, target: Target, fault: Fault | None) -> web.StreamResponse:
        query, store = request.query, self._store
        scope = self._scope(request, target)
        if query.get("resourceVersionMatch") and not self.watch_list:
            raise invalid("ListOptions", "", [WATCH_LIST_REFUSED], "meta.k8s.io")
        if target.name:
            raise Failure(405, "watch of one object")
        bookmarks = query.get("allowWatchBookmarks") in ("1", "true")
        watch = Watch(scope, lambda: store.version, bookmarks=bookmarks, lines_max=self.watch_lines_max)
        wanted = query.get("resourceVersion") or "0"
        if not wanted.isdecimal():
            text = f'resourceVersion: Invalid value: "{wanted}": strconv.ParseUint: parsing "{wanted}": invalid syntax'
            raise Failure(500, text)
        version = int(wanted)
        if version == 0:
            for _, thing in sorted(store.of(target.kind).items()):
                if scope.has(thing):
                    watch.queue.append(Change(0, target.kind, thing, None).line("ADDED"))
            if query.get("sendInitialEvents") == "true":
                watch.bookmark(store.version, {"k8s.io/initial-events-end": "true"})
        elif version < store.compacted:
            failure = expired(f"too old resource version: {version} ({store.compacted})")
            self.faults.happened.append(("expired", "line" if self.expires_by_line else "code", request.path))
            if not self.expires_by_line:
                raise failure
            watch.error(failure.body)
        else:
            for change in store.changes_after(version):
                watch.offer(change)
        self.watches.append(watch)  # in the same turn, so that nothing is missed in between
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        loop = asyncio.get_running_loop()
        timer = loop.call_later(float(query.get("timeoutSeconds", "1800")), watch.time_is_over)
        minute = loop.create_task(_bookmarks(watch))
        try:
            await response.prepare(request)
            is_whole = await watch.write_to(response, fault)
            if is_whole:
                await response.write_eof()
            elif request.transport is not None:
                request.transport.abort()
        except (ConnectionError, asyncio.CancelledError):
            if request.transport is not None:
                request.transport.abort()
        finally:
            timer.cancel()
            minute.cancel()
            self.watches.remove(watch)
        return response


def _sent(request: web.Request) -> Sent:
    token = request.headers.get("Authorization", "").partition(" ")[2]
    return Sent(asyncio.get_running_loop().time(), token, request.method, request.path)


def _access(method: str, target: Target) -> tuple[str, str, str, str]:
    """Verb, group and resource as RBAC has them, and the namespace; empty for all."""
    verb = {"POST": "create", "PUT": "update"}.get(method, method.lower())
    if verb == "get" and not target.name:
        verb = "list"
    resource = f"{target.kind.plural}/{target.subresource}" if target.subresource else target.kind.plural
    return verb, target.kind.group, resource, target.namespace


async def _bookmarks(watch: Watch) -> None:
    while watch.bookmarks:
        await asyncio.sleep(BOOKMARK_SECONDS)
        watch.bookmark(watch.last_version())


def _json(body: Object, code: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=code, content_type="application/json")


def _failed(failure: Failure) -> web.Response:
    response = _json(failure.body, failure.code)
    if failure.retry_after_s is not None:
        response.headers["Retry-After"] = str(failure.retry_after_s)
    return response
