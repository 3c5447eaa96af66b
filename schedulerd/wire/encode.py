"""Facts -> scheduler-interface responses: one per resource manager and stream for all facts of a batch.

Responses leave here serialised. Bytes can be bounded by their true size while they wait for a slow reader, and two
serialised messages of one type joined end to end are one message with the lists of both (that is how protobuf defines
merging), so the sender may join small ones again, where no order between the lists is lost by that.

`response_builder.TOLD` is the table of which fact goes into which response; the builder of a dialect writes it. What
the resource manager already knows (an allocation it reported, a release it confirmed) is not repeated (SEMANTICS F).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from schedulerd.core.language.facts.fact import Fact
from schedulerd.instant import Instant
from schedulerd.wire.dialect import Dialect
from schedulerd.wire.response_builder import TOLD, ReadyResources, Response, ResponseBuilder, ResponseBuilder2023
from schedulerd.wire.response_builder_2021 import ResponseBuilder2021


class ResponseEncoder:
    """Collects the facts of a batch (`add`) and gives out the responses they make (`drain`)."""

    def __init__(self) -> None:
        self._builders: dict[str, ResponseBuilder[Any]] = {}
        """The builders by RM. They are kept, because making one takes longer than adding an item to it."""
        self._filled: dict[str, ResponseBuilder[Any]] = {}
        """Builders with items of this batch."""
        self._full: list[Response] = []
        self._ready = ReadyResources(si_pb2.Resource)
        self._ready_2021 = ReadyResources(si_2021_pb2.Resource)

    def set_dialect(self, rm_id: str, dialect: Dialect) -> None:
        """Sets the dialect of an RM, until it is forgotten. An RM without one gets 2023-06."""
        self._builders[rm_id] = (
            ResponseBuilder2021(rm_id, self._ready_2021)
            if dialect is Dialect.V2021_02
            else ResponseBuilder2023(rm_id, self._ready)
        )

    def add(self, facts: Iterable[Fact], now: Instant) -> None:
        """Adds facts; those without a response are skipped. Order is kept within each list of a response.

        `now` is the time of the step: responses have times as wall time.
        """
        filled = self._filled
        for fact in facts:
            if type(fact) not in TOLD:
                continue
            rm_id = fact.rm_id  # type: ignore[union-attr]  # every fact in the table has one
            builder = filled.get(rm_id)
            if builder is None:
                builder = filled[rm_id] = self._builders.get(rm_id) or ResponseBuilder2023(rm_id, self._ready)
            full = builder.add(fact, now)
            if full is not None:
                self._full.append(full)

    def drain(self) -> list[Response]:
        """All collected responses, of bounded size, those of one (RM, stream) in order; starts again empty."""
        for builder in self._filled.values():
            self._full += builder.rest()
        self._filled.clear()
        full, self._full = self._full, []
        return full

    def forget(self, rm_id: str) -> None:
        """Drops the collected items of an RM whose state is gone: they would be about objects it no longer has."""
        self._builders.pop(rm_id, None)
        self._filled.pop(rm_id, None)
        self._full = [response for response in self._full if response.rm_id != rm_id]
