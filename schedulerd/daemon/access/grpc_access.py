"""Authorizes calls of gRPC methods, and limits the streams of each client: one object for the whole server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from schedulerd.daemon.access.identity import EVERYBODY, Identities, Peer
from schedulerd.daemon.access.refusals import Refusals
from schedulerd.daemon.runtime.shares import Shared, share_of


class GrpcAccess:
    """Identifies clients, bounds each client's share of all calls, and reports refused calls."""

    def __init__(
        self, calls_max: int = 1_000_000, identities: Identities = EVERYBODY, refusals: Refusals | None = None
    ) -> None:
        """`calls_max` is the maximum number of calls of the server."""
        self.identities = identities
        self.refusals = Refusals() if refusals is None else refusals
        self._streams = Shared(calls_max, "streams are open")
        self._standard_streams = Shared(share_of(calls_max), "Health/Watch and reflection streams are open")

    def share(self, peer: Peer) -> contextlib.AbstractContextManager[None]:
        """Holds a stream of the client's share while the context lasts; unbounded if unknown. Raises `NoneLeft`."""
        client = self.identities.client(peer, "")
        return self._streams.held(client) if client else contextlib.nullcontext()

    @contextlib.contextmanager
    def standard_share(self, peer: Peer) -> Iterator[None]:
        """Holds one stream of gRPC's own services, which never belong to a registration. Raises `NoneLeft`.

        All such streams together may be a quarter of all calls, also where clients cannot be told apart.
        """
        client = self.identities.client(peer, "") or None
        with self.share(peer), self._standard_streams.held(client):
            yield
