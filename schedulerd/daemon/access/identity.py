"""Which client may use which rmID: the names in the client's certificate, compared with the settings.

The names of a client are those in its certificate, of the kinds that the setting `tls_identity_names` lists. The
setting `rm_identities` maps names to the rmIDs that they may use. If it is set, nothing else is allowed, so a mistyped
name there locks a client out and never lets one in. If it is not set, every client may use every rmID.

Only this module decides. An interceptor checks every call with one request, whatever its method is. Streams get their
rmID in the first message, and call `refusal` after they have read it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

import grpc

from schedulerd._generated.schedulerd.v1 import admin_pb2, callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.config import DEFAULT_NAME_KINDS, EVERYTHING, NameKind, names_meant
from schedulerd.daemon.access.certificate_names import Name, certificate_names
from schedulerd.daemon.access.refusals import Refusals
from schedulerd.daemon.access.request_reading import Serve, serve_of, served_by

NAMELESS = "?"
"""Stands for all clients without a name of the kinds that count, which are counted together."""
_CERTIFICATE = "x509_pem_cert"
"""The key under which gRPC provides a client's certificate. Names from gRPC may be cut (`certificate_names`)."""


class Peer(Protocol):
    """What a call tells about its client; every context of gRPC has it."""

    def auth_context(self) -> Mapping[str, Iterable[bytes]]: ...


class Identities:
    """Which rmIDs a client may use, by the names in its certificate."""

    def __init__(self, bound: Mapping[str, Sequence[str]], kinds: Collection[NameKind] = DEFAULT_NAME_KINDS) -> None:
        """`bound` maps each name to the rmIDs that it may use, as the setting `rm_identities` does.

        `kinds` are the kinds of names in a certificate that count.
        """
        self._kinds = frozenset(kinds)
        self._everybody = tuple(bound.get(EVERYTHING, ()))
        self._bound: dict[Name, list[str]] = {}
        for entry, rm_ids in bound.items():
            for kind, text in names_meant(entry) if entry != EVERYTHING else ():
                self._bound.setdefault(Name(kind, text), []).extend(rm_ids)
        self._is_on = bool(bound)

    def refusal(self, rm_id: str, peer: Peer) -> str | None:
        """Why this client may not use the rmID; None if it may. The rmID '' stands for what concerns every RM."""
        if not self._is_on:
            return None
        names = self.names(peer)
        if self._may(names, rm_id):
            return None
        known = ", ".join(repr(str(name)) for name in names)
        client = f"the client {known}" if names else "a client without a name that counts in its certificate"
        if rm_id:
            return f"rmID: {client} may not use {rm_id!r}"
        return f"rmID: is empty, and {client} may not see or change what belongs to every resource manager"

    def visible(self, rm_ids: Iterable[str], peer: Peer) -> list[str]:
        """The rmIDs that the client may use, in the given order."""
        if not self._is_on:
            return list(rm_ids)
        names = self.names(peer)
        return [rm_id for rm_id in rm_ids if self._may(names, rm_id)]

    def names(self, peer: Peer) -> list[Name]:
        """The names of the client that count; empty without a certificate."""
        found = (name for pem in peer.auth_context().get(_CERTIFICATE, ()) for name in certificate_names(pem))
        return [name for name in found if name.kind in self._kinds]

    def client(self, peer: Peer, rm_id: str) -> str:
        """The key by which a client's use is counted: its names, or `rm_id` where clients are not known."""
        if not self._is_on:
            return rm_id
        return ", ".join(map(str, self.names(peer))) or NAMELESS

    def _may(self, names: Iterable[Name], rm_id: str) -> bool:
        patterns = chain(self._everybody, *(self._bound.get(name, ()) for name in names))
        return any(_covers(pattern, rm_id) for pattern in patterns)


EVERYBODY = Identities({})
"""No restriction: every client may use every rmID."""


def _covers(pattern: str, rm_id: str) -> bool:
    if pattern.endswith(EVERYTHING):
        return pattern == EVERYTHING or (rm_id != "" and rm_id.startswith(pattern[: -len(EVERYTHING)]))
    return pattern == rm_id


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
"""Paths of our methods with one request. A request that names no RM concerns every RM."""


class IdentityInterceptor(grpc.aio.ServerInterceptor):
    """Refuses a call with one request, before its method runs, if the client may not use the rmID in the request."""

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
