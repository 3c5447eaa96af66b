"""The page as one application, to be mounted at `/ui`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schedulerd.daemon.admin.api.access import COOKIE, SESSION_SECONDS_MAX
from schedulerd.daemon.admin.api.tokens import Role
from schedulerd.daemon.admin.ui.addresses import Addresses
from schedulerd.daemon.admin.ui.context import place_of
from schedulerd.daemon.admin.ui.live import Live, MakeView, Topic
from schedulerd.daemon.admin.ui.pages import (
    application,
    applications,
    ask,
    events,
    node,
    nodes,
    overview,
    queue,
    queues,
)
from schedulerd.daemon.admin.ui.rendering import Rendering
from schedulerd.daemon.admin.ui.search import FOUND_MAX, SCANNED_MAX, Found, search
from schedulerd.daemon.admin.ui.sources import UiSources
from schedulerd.daemon.admin.ui.static_files import StaticFiles
from schedulerd.daemon.admin.ui.stream import STREAMS_MAX, PageStream
from schedulerd.daemon.admin.ui.texts import visible
from schedulerd.daemon.runtime.shares import NoneLeft, Shared

OPEN_MAX = 50
"""Pages that are made at a time, for all browsers."""
PARAM_LENGTH_MAX = 1_024
"""Characters of one parameter of a page."""
LOGIN_BYTES_MAX = 8_192
"""Size of the form that logs in."""
LOGIN_FIELDS_MAX = 10

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}
"""A referrer is sent within the page only; without any, a browser would send `Origin: null` with its forms."""

PAGES: Mapping[str, tuple[MakeView, tuple[str, ...]]] = {
    "": (overview.view, overview.PARAMS),
    "queues": (queues.view, queues.PARAMS),
    "queue": (queue.view, queue.PARAMS),
    "applications": (applications.view, applications.PARAMS),
    "application": (application.view, application.PARAMS),
    "ask": (ask.view, ask.PARAMS),
    "nodes": (nodes.view, nodes.PARAMS),
    "node": (node.view, node.PARAMS),
    "events": (events.view, events.PARAMS),
}
_TABS = {"": "overview", "queue": "queues", "application": "applications", "ask": "applications", "node": "nodes"}
"""The tab of a page, where its name is another one."""


class Ui:
    """All pages, their streams, and the login."""

    def __init__(self, sources: UiSources) -> None:
        self.live = Live(sources)
        self.sources = sources
        self._static = StaticFiles()
        self._rendering = Rendering(self._static)
        self._open = Shared(OPEN_MAX, "pages are being made")
        self._streams = Shared(STREAMS_MAX, "pages are kept fresh")

    def app(self) -> ASGIApp:
        """The application with all routes."""
        routes = [
            *(Route(f"/{name}", self._page) for name in PAGES),
            Route("/stream", self._stream),
            Route("/search", self._search),
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/logout", self._logout, methods=["POST"]),
            Route("/static/{name}", self._file),
        ]
        handlers = {HTTPException: self._refusal, Exception: self._bug}
        return _Guard(Starlette(routes=routes, exception_handlers=handlers))

    # pages ----------------------------------------------------------------------------------------------------------

    async def _page(self, request: Request) -> Response:
        name = _name(request)
        self.sources.access.check(request, Role.VIEW)
        if not self.sources.scheduler.cluster.resource_managers:
            return await self._plain("standby.html", 200, title="Standby", leader=visible(self.sources.leader()))
        try:
            with self._open.held(None):
                topic = self._topic(name, request.query_params)
                return Response(await self._rendered(name, topic), media_type="text/html")
        except NoneLeft as error:
            raise HTTPException(503, f"{error}; try again", {"Retry-After": "1"}) from error

    def _topic(self, name: str, query: Mapping[str, str]) -> Topic:
        make, known = PAGES[name]
        params = {one: query[one].strip() for one in (*known, "rm", "partition") if query.get(one, "").strip()}
        for one, text in params.items():
            if len(text) > PARAM_LENGTH_MAX:
                raise HTTPException(400, f"{one}: has {len(text)} characters; at most {PARAM_LENGTH_MAX} are read")
        return self.live.topic(name, make, params)

    async def _rendered(self, name: str, topic: Topic) -> bytes:
        """The page as it is now; rendered once for all who ask for this version."""
        view = await self.live.fresh(topic)
        if topic.html is None or topic.html[0] != topic.version:
            version = topic.version
            stream = {
                "page": name or "overview",
                **topic.params,
                "form": topic.form,
                "after": self.live.id_of(topic),
            }
            values = {
                **self._common(),
                "title": view.title,
                "t": view.texts,
                "lists": view.lists,
                "head": view.fixed["head"],
                "x": view.fixed,
                "tab": _TABS.get(name, name),
                "stream": f"/ui/stream?{urlencode(stream, errors='replace')}",
                "where": {one: visible(topic.params[one]) for one in ("rm", "partition") if one in topic.params},
            }
            topic.html = version, await self._rendering.html(self.sources.queries, view.template, values)
        return topic.html[1]

    async def _stream(self, request: Request) -> Response:
        access, query = self.sources.access, request.query_params
        access.check(request, Role.VIEW)
        name = query.get("page", "").replace("overview", "")
        if name not in PAGES:
            raise HTTPException(404, f"page: {visible(name)[:50]!r} is none of {', '.join(filter(None, PAGES))}")
        try:
            with self._open.held(None):
                topic = self._topic(name, query)
                await self.live.fresh(topic)
        except NoneLeft as error:
            raise HTTPException(503, f"{error}; try again", {"Retry-After": "1"}) from error
        known = (request.headers.get("last-event-id") or query.get("after", ""))[:100]
        return PageStream(
            self.live,
            self._streams,
            topic,
            known,
            query.get("form", "")[:100],
            lambda: access.check(request, Role.VIEW),
        )

    async def _search(self, request: Request) -> Response:
        self.sources.access.check(request, Role.VIEW)
        wanted = request.query_params.get("q", "").strip()[:PARAM_LENGTH_MAX]
        place, links = place_of(self.sources, request.query_params)
        try:
            with self._open.held(None):
                found = await self.sources.queries.finish(search(place, links, wanted))
        except NoneLeft as error:
            raise HTTPException(503, f"{error}; try again", {"Retry-After": "1"}) from error
        if len(found) == 1:
            return RedirectResponse(found[0].href, 303)
        return await self._plain(
            "search.html",
            200,
            title="Search",
            wanted=visible(wanted),
            found=found,
            found_max=FOUND_MAX,
            scanned_max=f"{SCANNED_MAX:,}",
            more=_more(found, links, wanted),
            links=links,
        )

    async def _file(self, request: Request) -> Response:
        found = self._static.answer(request, request.path_params["name"])
        if found is None:
            raise HTTPException(404, "there is no such file")
        return found

    # the session of a browser ---------------------------------------------------------------------------------------

    async def _login(self, request: Request) -> Response:
        access = self.sources.access
        onwards = _onwards(request.query_params.get("next", ""))
        if request.method == "GET":
            access.check_request(request)
            return await self._plain("login.html", 200, title="Log in", problem="", onwards=onwards)
        try:
            form = parse_qs((await _body(request)).decode("utf-8", "replace"), max_num_fields=LOGIN_FIELDS_MAX)
        except ValueError as error:
            raise HTTPException(400, f"the form has more than {LOGIN_FIELDS_MAX} fields") from error
        onwards = _onwards(form.get("next", [""])[0])
        try:
            cookie, _ = access.log_in(request, form.get("token", [""])[0].strip())
        except HTTPException as error:
            if error.status_code != 401:
                raise
            problem = "This is none of the tokens of this daemon."
            return await self._plain("login.html", 401, title="Log in", problem=problem, onwards=onwards)
        response = RedirectResponse(onwards, 303)
        is_secure = request.url.scheme == "https"
        response.set_cookie(
            COOKIE, cookie, max_age=int(SESSION_SECONDS_MAX), httponly=True, samesite="strict", secure=is_secure
        )
        return response

    async def _logout(self, request: Request) -> Response:
        self.sources.access.log_out(request)
        response = RedirectResponse("/ui/login", 303)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    # refusals -------------------------------------------------------------------------------------------------------

    async def _refusal(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        headers = dict(error.headers or {})
        is_page = request.method == "GET" and request.scope["path"].removeprefix("/ui") not in ("/stream", "/login")
        if error.status_code == 401 and is_page:
            onwards = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"/ui/login?{urlencode({'next': onwards})}", 303)
        titles = {403: "No access", 404: "Not found", 503: "Busy"}
        title = titles.get(error.status_code, "This does not work")
        detail = str(error.detail)
        if detail == HTTPStatus.NOT_FOUND.phrase:  # of the router, which knows no more
            detail = f"There is no page {request.scope['path']}."
        return await self._plain("error.html", error.status_code, headers, title=title, detail=visible(detail))

    async def _bug(self, _request: Request, error: Exception) -> Response:
        """The framework raises the error again, so that it is logged with its traceback."""
        detail = f"{type(error).__name__} while this page was made; the log of the daemon says more."
        return await self._plain("error.html", 500, title="An error of schedulerd", detail=detail)

    async def _plain(
        self, template: str, status: int, headers: dict[str, str] | None = None, **values: Any
    ) -> Response:
        """A page without numbers of the cluster."""
        body = await self._rendering.html(self.sources.queries, template, {**self._common(), **values})
        return Response(body, status, headers, media_type="text/html")

    def _common(self) -> dict[str, Any]:
        return {"has_tokens": self.sources.has_tokens, "host": self.sources.host, "links": Addresses({})}


def _more(found: list[Found], links: Addresses, wanted: str) -> list[tuple[str, str]]:
    """The kinds of which a search may have left something out, and where all of it is listed; '' if nowhere."""
    pages = {"node": links.to("nodes", name=wanted), "application": links.to("applications", name=wanted)}
    kinds = Counter(one.kind for one in found)
    return [(kind, pages.get(kind, "")) for kind, number in kinds.items() if number >= FOUND_MAX]


def _name(request: Request) -> str:
    path: str = request.scope["path"]
    return path.rpartition("/")[2]


def _onwards(path: str) -> str:
    """Where a browser goes after the login: to a page of ours only."""
    is_ours = path.startswith("/ui/") and "\\" not in path and path.isprintable() and len(path) < 4_096
    return path if is_ours else "/ui/"


async def _body(request: Request) -> bytes:
    """Raises `HTTPException` if it is too large."""
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > LOGIN_BYTES_MAX:
                raise HTTPException(413, f"the form has more than {LOGIN_BYTES_MAX} bytes")
    except ClientDisconnect as error:
        raise HTTPException(400, "the connection was closed before the form had come") from error
    return body


class _Guard:
    """Puts the headers for browsers on every answer, refusals included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((name, text) for name, text in _HEADERS.items() if name not in known),
                ]
            await send(message)

        await self._app(scope, receive, answer)
