"""Limits of what one client may send: items of a request, contents of a registration, and number of registrations.

The scheduler itself checks items; these limits bound the cost before it sees any. `docs/limits.md` lists those
that a client can meet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core.language import checks
from schedulerd.daemon.runtime.shares import share_of
from schedulerd.daemon.sessions.open_calls import Refused
from schedulerd.daemon.transport.stream_call import Parse
from schedulerd.wire.item_count import ITEM_BYTES_MIN, item_counts
from schedulerd.wire.reading import PIECE_BYTES_MAX, read_in_pieces

VERSION_LENGTH_MAX = 256
"""Maximum length of the version that a resource manager sends, in characters."""

_OVER = object()

RequestT = TypeVar("RequestT", bound=Message)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The limits from the settings."""

    items_max: int
    resource_managers_max: int
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False, compare=False)
    """Lets one piece of all large requests be parsed in each turn of the loop."""

    def parser(self, request_type: type[RequestT]) -> Parse[RequestT]:
        """Returns a parser for requests of this type, which parses a large one in several turns of the loop.

        The parser raises `Refused` if the request has too many items, before it parses any of them.
        """

        async def parse(raw: bytes) -> RequestT:
            if len(raw) > ITEM_BYTES_MIN * self.items_max:
                await self._in_turns(self._check_items(raw, request_type))
            request = request_type()
            if len(raw) > PIECE_BYTES_MAX:
                await self._in_turns(read_in_pieces(raw, request))
            else:
                request.MergeFromString(raw)
            return request

        return parse

    async def _in_turns(self, pieces: Iterator[None]) -> None:
        """Runs one piece after the other, with a turn of the loop after each; other requests run theirs in between."""
        is_over = False
        while not is_over:
            async with self._turn:
                is_over = next(pieces, _OVER) is _OVER
                await asyncio.sleep(0)

    def _check_items(self, raw: bytes, request_type: type[Message]) -> Iterator[None]:
        for count in item_counts(raw, request_type):
            if count > self.items_max:
                raise Refused(
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    f"the request has more than {self.items_max} items (setting max_message_items): send them in "
                    "several requests",
                )
            yield

    def check_registration(
        self,
        request: si_pb2.RegisterResourceManagerRequest,
        registered: Collection[str],
        of_client: Collection[str] = (),
    ) -> None:
        """Raises `Refused` for a registration beyond the limits. `registered` are all rmIDs; these may register again.

        `of_client` are those of them that the same client has registered, where clients are known.
        """
        if len(request.version) > VERSION_LENGTH_MAX:
            length = len(request.version)
            problem = f"version: has {length} characters; at most {VERSION_LENGTH_MAX} are allowed"
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, problem)
        mistake = checks.tags("buildInfo", request.buildInfo)
        if mistake is not None:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, mistake.reason)
        share = share_of(self.resource_managers_max)
        if request.rmID not in registered and len(of_client) >= share:
            raise Refused(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"this client has registered {len(of_client)} resource managers already, a quarter of what there is "
                "for all (setting resource_managers_max); unregister one that is no longer needed",
            )
        if request.rmID not in registered and len(registered) >= self.resource_managers_max:
            raise Refused(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"{len(registered)} resource managers are registered already, which is the limit (setting "
                "resource_managers_max); unregister one that is no longer needed",
            )
