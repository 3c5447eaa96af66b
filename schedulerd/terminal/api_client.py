"""A client of `/api/v1`: one request at a time, over one connection, by the standard library."""

from __future__ import annotations

import http.client
import json
import random
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from schedulerd.terminal.contexts import Context

TIMEOUT_SECONDS = 60.0
ANSWER_BYTES_MAX = 64 * 1024 * 1024
RETRY_SECONDS_MAX = 15.0
"""How long a daemon that is too busy is asked again."""
HTTP_2_SETTINGS = "\x04"
"""Type of the frame with which a server of HTTP/2 begins, behind three bytes of length."""
PAGE_ITEMS = 500
"""Objects of a page that is asked for."""

Answer = dict[str, Any]


class ApiProblem(Exception):
    """The daemon did not do what it was asked; the text says why, `status` is that of HTTP, 0 without an answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class ApiClient:
    """Talks to the daemon of one context."""

    def __init__(self, context: Context) -> None:
        """Raises `ApiProblem` if the context is wrong."""
        problem = context.problem()
        if problem:
            raise ApiProblem(0, problem)
        self._context = context
        parts = urlsplit(context.server)
        self._prefix = parts.path.rstrip("/") + "/api/v1"
        host, port = parts.hostname or "", parts.port
        self._connection: http.client.HTTPConnection
        if parts.scheme == "https":
            try:
                tls = ssl.create_default_context(cafile=context.ca_file or None)
            except (OSError, ssl.SSLError) as error:
                raise ApiProblem(0, f"ca_file {context.ca_file} cannot be used: {error}") from error
            self._connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT_SECONDS, context=tls)
        else:
            self._connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)

    def __enter__(self) -> ApiClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Answer:
        """The answer of a route. Parameters that are None or '' are left out. Raises `ApiProblem`."""
        return self._request("GET", path + _query(query or {}), None)

    def post(self, path: str, body: Mapping[str, object], query: Mapping[str, object] | None = None) -> Answer:
        """As `get`, for a route that changes something. Raises `ApiProblem`."""
        return self._request("POST", path + _query(query or {}), json.dumps(body).encode())

    def page(self, path: str, query: Mapping[str, object]) -> Answer:
        """A page of a list, which has items and says where the next one begins. Raises `ApiProblem`."""
        page = self.get(path, query)
        if not isinstance(page.get("items"), list) or not isinstance(page.get("next"), str):
            raise ApiProblem(0, f"{self._context.server} is no schedulerd: its answer is no page of a list")
        return page

    def list(self, path: str, query: Mapping[str, object], most: int) -> tuple[list[Answer], bool]:
        """Up to `most` objects of a list, and whether there are more. Raises `ApiProblem`."""
        items: list[Answer] = []
        cursor = ""
        while len(items) < most:
            limit = min(PAGE_ITEMS, most - len(items))
            page = self.page(path, {**query, "limit": limit, "cursor": cursor})
            items += page["items"]
            cursor = page["next"]
            if not cursor:
                return items, False
        return items, True

    def events(self, query: Mapping[str, object], after: str) -> Iterator[Answer]:
        """New events; ends when the daemon ends the stream. Raises `ApiProblem`."""
        response = self._send("GET", "/events/stream" + _query({**query, "after": after}), None)
        try:
            for line in response:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._broken_off(error) from error
        finally:
            self._connection.close()

    def _request(self, method: str, path: str, body: bytes | None) -> Answer:
        response = self._send(method, path, body)
        try:
            text = response.read(ANSWER_BYTES_MAX)
        except (OSError, http.client.HTTPException) as error:
            raise self._broken_off(error) from error
        try:
            answer = json.loads(text or b"{}")
        except ValueError as error:
            raise ApiProblem(0, f"{self._context.server} is no schedulerd: its answer is no JSON") from error
        if not isinstance(answer, dict):
            raise ApiProblem(0, f"{self._context.server} is no schedulerd: its answer is no object")
        return answer

    def _send(self, method: str, path: str, body: bytes | None) -> http.client.HTTPResponse:
        """The response to a request that succeeded."""
        headers = {"Accept": "application/json"}
        if self._context.token:
            headers["Authorization"] = f"Bearer {self._context.token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        until = time.monotonic() + RETRY_SECONDS_MAX
        while True:
            response = self._exchange(method, self._prefix + path, body, headers)
            if response.status < 300:
                return response
            problem = self._problem(response)
            pause = _pause(response.headers.get("Retry-After", ""))
            if method != "GET" or response.status != 503 or pause is None or time.monotonic() + pause > until:
                raise problem
            time.sleep(pause)

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        """One request. A connection that was idle may have been closed by the server meanwhile: a request that changes
        nothing is made once more then, over a new one."""
        was_idle = self._connection.sock is not None
        try:
            return self._over_connection(method, path, body, headers)
        except (OSError, http.client.HTTPException) as error:
            if not was_idle or method != "GET":
                raise self._no_answer(error) from error
        try:
            return self._over_connection(method, path, body, headers)
        except (OSError, http.client.HTTPException) as error:
            raise self._no_answer(error) from error

    def _over_connection(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        try:
            self._connection.request(method, path, body, headers)
            return self._connection.getresponse()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise

    def _problem(self, response: http.client.HTTPResponse) -> ApiProblem:
        try:
            text = response.read(ANSWER_BYTES_MAX)
        except (OSError, http.client.HTTPException) as error:
            return self._broken_off(error)
        return ApiProblem(response.status, _detail(response.status, text))

    def _broken_off(self, error: Exception) -> ApiProblem:
        self._connection.close()
        return ApiProblem(0, f"{self._context.server} broke off its answer: {error}")

    def _no_answer(self, error: Exception) -> ApiProblem:
        if isinstance(error, http.client.BadStatusLine) and str(error)[3:4] == HTTP_2_SETTINGS:
            server = self._context.server
            return ApiProblem(0, f"{server} is a gRPC port; name the HTTP port of the daemon, which is 9080 by default")
        return ApiProblem(0, f"no schedulerd answers at {self._context.server}: {error}")


def _pause(retry_after: str) -> float | None:
    """Seconds until the next attempt; None if the daemon says none. Of several clients that were refused together, not
    all come back at the same moment."""
    if not retry_after.isascii() or not retry_after.isdigit() or len(retry_after) > 3:
        return None
    return int(retry_after) * random.uniform(0.5, 1.5)  # no secret


def segment(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")


def _query(given: Mapping[str, object]) -> str:
    """The part of a URL from the question mark on; '' without parameters."""
    said = {name: _text(value) for name, value in given.items() if value not in (None, "")}
    return f"?{urlencode(said)}" if said else ""


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _detail(status: int, text: bytes) -> str:
    try:
        answer = json.loads(text)
        return str(answer.get("detail") or answer.get("description") or answer)
    except (ValueError, AttributeError):
        return f"status {status}"
