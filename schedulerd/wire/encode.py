"""Facts -> scheduler-interface responses: one per resource manager and stream for all facts of a batch.

Responses leave here serialised. Bytes can be bounded by their true size while they wait for a slow reader, and two
serialised messages of one type joined end to end are one message with the lists of both (that is how protobuf defines
merging), so whoever sends them may join small ones again.

Which fact is told to whom is a table of `draft`, and how is said by the draft of the dialect. What the resource manager
already knows (an allocation it reported itself, a release it confirmed) is not repeated to it (SEMANTICS F).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from schedulerd.core.facts import Fact
from schedulerd.instant import Instant
from schedulerd.wire.dialect import Dialect
from schedulerd.wire.draft import TOLD, ReadyResources, Response, ResponseBuilder
from schedulerd.wire.draft_2021 import ResponseBuilder2021
from schedulerd.wire.draft_2023 import ResponseBuilder2023


class ResponseEncoder:
    """Collects the facts of a batch (`add`) and gives out the responses they make (`drain`)."""

    def __init__(self) -> None:
        self._drafts: dict[str, ResponseBuilder[Any]] = {}
        """Of each RM whose dialect is known; kept, since to begin a draft takes longer than to put one item into it."""
        self._filled: dict[str, ResponseBuilder[Any]] = {}
        """Those with something of this batch."""
        self._full: list[Response] = []
        self._ready = ReadyResources(si_pb2.Resource)
        self._ready_2021 = ReadyResources(si_2021_pb2.Resource)

    def set_dialect(self, rm_id: str, dialect: Dialect) -> None:
        """From now on this is the dialect of the RM, until it is forgotten. Who never said gets the later one."""
        self._drafts[rm_id] = (
            ResponseBuilder2021(rm_id, self._ready_2021)
            if dialect is Dialect.V2021_02
            else ResponseBuilder2023(rm_id, self._ready)
        )

    def add(self, facts: Iterable[Fact], now: Instant) -> None:
        """Facts that no response tells are skipped. Order is kept within each list of a response.

        `now` is the time of the turn that said them: responses tell times as wall time.
        """
        filled = self._filled
        for fact in facts:
            if type(fact) not in TOLD:
                continue
            rm_id = fact.rm_id  # type: ignore[union-attr]  # every fact in the table has one
            draft = filled.get(rm_id)
            if draft is None:
                draft = filled[rm_id] = self._drafts.get(rm_id) or ResponseBuilder2023(rm_id, self._ready)
            full = draft.add(fact, now)
            if full is not None:
                self._full.append(full)

    def drain(self) -> list[Response]:
        """What was collected, in responses of bounded size, those of one (RM, stream) in order; starts anew."""
        for draft in self._filled.values():
            self._full += draft.rest()
        self._filled.clear()
        full, self._full = self._full, []
        return full

    def forget(self, rm_id: str) -> None:
        """Drops what was collected for an RM whose state is gone: it would be told of things it no longer has."""
        self._drafts.pop(rm_id, None)
        self._filled.pop(rm_id, None)
        self._full = [response for response in self._full if response.rm_id != rm_id]
