"""How much one client may bring at a time: items in a request, what a registration carries, and registrations.

The scheduler itself judges items; this is what would cost before it sees any. `docs/limits.md` lists all limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core import checks
from schedulerd.daemon.rm_sessions import Refused
from schedulerd.daemon.shares import share_of
from schedulerd.daemon.stream_call import Parse
from schedulerd.wire.item_count import ITEM_BYTES_MIN, item_counts
from schedulerd.wire.reading import PIECE_BYTES_MAX, read_in_pieces

VERSION_LENGTH_MAX = 256
"""Of the version that a resource manager says it has."""

_OVER = object()

RequestT = TypeVar("RequestT", bound=Message)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The limits that can be set; their defaults are those of the settings."""

    items_max: int
    resource_managers_max: int
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False, compare=False)
    """Of all large requests together one piece is read in a turn of the loop."""

    def parser(self, request_type: type[RequestT]) -> Parse[RequestT]:
        """Reads a request of the type, a large one in several turns of the loop.

        Raises `Refused` if the request has too many items, before any of them is read.
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
        """Does one piece after the other, with a turn of the loop after each; other requests get theirs in between."""
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
        """Raises `Refused`; `registered` are the rmIDs there are, which may register again.

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
                "for all (setting resource_managers_max); unregister one that is not needed any longer",
            )
        if request.rmID not in registered and len(registered) >= self.resource_managers_max:
            raise Refused(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"{len(registered)} resource managers are registered already, and no more are taken (setting "
                "resource_managers_max); unregister one that is not needed any longer",
            )
