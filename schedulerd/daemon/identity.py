"""Which client may speak for which resource manager: the names in its certificate against those in the settings.

A client has the names of its certificate: the common name, and every subject alternative name. The setting
`rm_identities` gives names the rmIDs that they may use. With it nothing else is allowed, so a name that was mistyped
there shuts somebody out and never lets somebody in. Without it whoever may connect may use every rmID.

This is the only place that decides. Calls with one request are checked on their way in, whatever their method is;
streams, whose first message says whose they are, ask `refusal` when they have read it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import grpc

from schedulerd._generated.schedulerd.v1 import admin_pb2, callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.config import EVERYTHING
from schedulerd.daemon.refusals import Refusals
from schedulerd.daemon.request_reading import Serve, serve_of, served_by

_NAMES = ("x509_common_name", "x509_subject_alternative_name")
"""Where gRPC puts the names of a client's certificate."""


class Peer(Protocol):
    """What a call tells of its client; every context of gRPC does."""

    def auth_context(self) -> Mapping[str, Iterable[bytes]]: ...


class Identities:
    """What the clients may do, by the names in their certificates."""

    def __init__(self, bound: Mapping[str, Sequence[str]]) -> None:
        """`bound` has for each name the rmIDs it may use, as the setting `rm_identities` has them."""
        self._bound = bound

    def refusal(self, rm_id: str, peer: Peer) -> str | None:
        """Why this client may not use the rmID, or None if it may; '' stands for what is about every RM."""
        if not self._bound:
            return None
        names = _names(peer)
        if self._may(names, rm_id):
            return None
        client = f"the client {', '.join(map(repr, names))}" if names else "a client without a name in its certificate"
        if rm_id:
            return f"rmID: {client} may not use {rm_id!r}"
        return f"rmID: is empty, and {client} may not see or change what belongs to every resource manager"

    def visible(self, rm_ids: Iterable[str], peer: Peer) -> list[str]:
        """Those of the rmIDs that the client may use, in order."""
        if not self._bound:
            return list(rm_ids)
        names = _names(peer)
        return [rm_id for rm_id in rm_ids if self._may(names, rm_id)]

    def _may(self, names: Iterable[str], rm_id: str) -> bool:
        return any(_covers(pattern, rm_id) for name in (*names, EVERYTHING) for pattern in self._bound.get(name, ()))


EVERYBODY = Identities({})
"""Nobody is bound: every client may use every rmID."""


def _covers(pattern: str, rm_id: str) -> bool:
    if pattern.endswith(EVERYTHING):
        return pattern == EVERYTHING or (rm_id != "" and rm_id.startswith(pattern[: -len(EVERYTHING)]))
    return pattern == rm_id


def _names(peer: Peer) -> list[str]:
    """The names of the client's certificate, each once. One that cannot be read as text is nobody's."""
    found: dict[str, None] = {}
    context = peer.auth_context()
    for kind in _NAMES:
        for name in context.get(kind, ()):
            found[name.decode(errors="backslashreplace")] = None
    return list(found)


def _checked_methods() -> frozenset[str]:
    services = [file.services_by_name for file in (si_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR, callback_pb2.DESCRIPTOR)]
    return frozenset(
        f"/{service.full_name}/{method.name}"
        for by_name in services
        for service in by_name.values()
        for method in service.methods
        if not method.client_streaming
    )


CHECKED_METHODS = _checked_methods()
"""Paths of our methods with one request. One whose request names no RM is about every one of them."""


class IdentityInterceptor(grpc.aio.ServerInterceptor):
    """Refuses calls with one request whose client may not use the rmID in it, before the method sees them."""

    def __init__(self, identities: Identities, refusals: Refusals) -> None:
        self._identities = identities
        self._refusals = refusals

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method not in CHECKED_METHODS:
            return handler
        method = handler_call_details.method.rpartition("/")[2]
        return served_by(handler, self._checked(method, serve_of(handler)), handler.request_deserializer)

    def _checked(self, method: str, serve: Serve) -> Serve:
        async def checked(request: Any, context: Any) -> Any:
            rm_id = getattr(request, "rmID", "")
            refusal = self._identities.refusal(rm_id, context)
            if refusal is not None:
                code = grpc.StatusCode.PERMISSION_DENIED
                self._refusals.tell(method, code, refusal, rm_id=rm_id, peer=context.peer())
                await context.abort(code, refusal)
            return await serve(request, context)

        return checked
