"""The text of `/metrics`: collected on the loop in turns, written by a thread in slices, shared by waiting clients.

One text is made at a time. All requests that arrive meanwhile share the next text. So a text is never older than its
request, and any number of clients costs no more than one that asks all the time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy

import structlog
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from schedulerd.daemon.runtime.slices import GAP_SECONDS, Slices
from schedulerd.daemon.runtime.workers import Workers
from schedulerd.observe.exposition import Pace

TURN_SECONDS = 0.01
"""How long parts are collected before the loop runs other work. Parts of one turn show one moment."""

log = structlog.stdlib.get_logger(__name__)

Parts = Callable[[Pace], Iterator[Iterable[Metric]]]
"""The type of `schedulerd.observe.metrics.Metrics.parts`."""


OPENMETRICS_NAME = "application/openmetrics-text"
OPENMETRICS = f"{OPENMETRICS_NAME}; version=1.0.0"
"""The one other format beside plain text. What a client writes beside this name is ignored, because it would come back
in the content type, and each content type needs a text of its own."""


class Scrapes:
    """Writes the text of the metrics for all clients."""

    def __init__(self, parts: Parts, left_out: Callable[[], Mapping[str, int]] = dict) -> None:
        """`left_out` returns the number of series that the last text left out, by the name of their family."""
        self._parts = parts
        self._left_out = left_out
        self._leaves_out = False
        self._turn = asyncio.Lock()
        self._workers = Workers("scrapes", threads=1, waiting_max=0)
        self._next: dict[str, asyncio.Task[bytes]] = {}
        """Texts that are not begun, by content type."""

    async def text(self, accept: str) -> tuple[bytes, str]:
        """The metrics of a moment after this call, in the format that an `Accept` header wants, and its type."""
        encode, content_type = choose_encoder(OPENMETRICS if OPENMETRICS_NAME in accept else "")
        task = self._next.get(content_type)
        if task is None:
            task = self._next[content_type] = asyncio.create_task(self._write(encode, content_type))
        return await asyncio.shield(task), content_type  # other requests may wait for it if this client is gone

    async def _write(self, encode: Callable[[Collector], bytes], content_type: str) -> bytes:
        async with self._turn:
            del self._next[content_type]
            slices = Slices()
            text = await self._workers.run(encode, _Parts(await self._collected(slices), slices))
            self._tell_left_out()
            return text

    async def _collected(self, slices: Slices) -> list[Iterable[Metric]]:
        parts: list[Iterable[Metric]] = []
        until = time.perf_counter() + TURN_SECONDS
        for part in self._parts(slices.of):
            parts.append(part)
            if time.perf_counter() >= until:
                await asyncio.sleep(GAP_SECONDS)
                until = time.perf_counter() + TURN_SECONDS
        return parts

    def _tell_left_out(self) -> None:
        left_out = {family: count for family, count in self._left_out().items() if count}
        if left_out and not self._leaves_out:
            log.warning(
                "metrics leave out series, and add them up: a family has more than metrics_series_max allows",
                series=left_out,
            )
        self._leaves_out = bool(left_out)


class _Parts(Collector):
    """The collected metrics, to be written in a thread."""

    def __init__(self, parts: Iterable[Iterable[Metric]], slices: Slices) -> None:
        self._all, self._slices = parts, slices

    def collect(self) -> Iterable[Metric]:
        for part in self._all:
            for family in part:
                one = copy(family)  # collectors may keep the objects that they return
                # Encoders only iterate over samples, so that is where their thread can be paused.
                one.samples = self._slices.of(family.samples)  # type: ignore[assignment]
                yield one
