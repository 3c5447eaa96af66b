"""Single reads: one object, the version of the server, whether it knows a resource."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from schedulerd.kubernetes.api.errors import UNDECODABLE, AnswerUnusable, Refused
from schedulerd.kubernetes.api.resources import Resource
from schedulerd.kubernetes.api.transport import Request, Transport

AnyT = TypeVar("AnyT")

_DISCOVERY = Resource("", "v1", "discovery", "APIResourceList", namespaced=False)


class ServerVersion(msgspec.Struct, rename="camel"):
    major: str = ""
    minor: str = ""
    git_version: str = ""


class _ApiResource(msgspec.Struct):
    name: str


class _ApiResourceList(msgspec.Struct):
    resources: list[_ApiResource] | None = None


async def get(transport: Transport, resource: Resource, namespace: str, name: str, type_: type[AnyT]) -> AnyT | None:
    """The object, None if there is none. Raises `ApiError`."""
    request = Request("GET", resource, resource.path(namespace, name))
    try:
        answer = await transport.request(request)
    except Refused as error:
        if error.status.code == 404:
            return None
        raise
    return _decode(answer.body, type_, request)


async def server_version(transport: Transport) -> ServerVersion:
    """What the server calls itself; builds of other people's say what they like. Raises `ApiError`."""
    request = Request("GET", _DISCOVERY, "/version")
    return _decode((await transport.request(request)).body, ServerVersion, request)


async def knows(transport: Transport, resource: Resource) -> bool:
    """Whether the server has this resource in this version, now: custom resources come and go. Raises `ApiError`."""
    prefix = f"/apis/{resource.group}" if resource.group else "/api"
    request = Request("GET", _DISCOVERY, f"{prefix}/{resource.version}")
    try:
        answer = await transport.request(request)
    except Refused as error:
        if error.status.code == 404:
            return False
        raise
    known = _decode(answer.body, _ApiResourceList, request)
    return any(one.name == resource.plural for one in known.resources or ())


def _decode(body: bytes, type_: type[AnyT], request: Request) -> AnyT:
    try:
        return msgspec.json.decode(body, type=type_)
    except UNDECODABLE as error:
        raise AnswerUnusable(f"{request}: not what was asked for: {error}") from error
