"""One text at a time, for all clients that wait for it, and never older than the question."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping

import pytest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from schedulerd.daemon.admin.scrapes import Scrapes
from schedulerd.daemon.runtime.slices import Slices
from schedulerd.observe.exposition import Pace

OPENMETRICS = "application/openmetrics-text;version=1.0.0"


class Source:
    """Counts how often it is collected; that number is its metric."""

    def __init__(self) -> None:
        self.collected = 0
        self.begun = asyncio.Event()
        self.left_out: Mapping[str, int] = {}
        self.parts_count = 1

    def parts(self, _pace: Pace) -> Iterator[Iterable[Metric]]:
        self.collected += 1
        self.begun.set()
        yield [GaugeMetricFamily("collected", "How often.", value=self.collected)]
        for _ in range(self.parts_count):
            yield ()

    def scrapes(self) -> Scrapes:
        return Scrapes(self.parts, lambda: self.left_out)


def value(text: bytes) -> float:
    (family,) = text_string_to_metric_families(text.decode().replace("# EOF\n", ""))
    return family.samples[0].value


def test_all_waiting_clients_share_the_next_text() -> None:
    async def story() -> None:
        source = Source()
        those = source.scrapes()
        first = asyncio.create_task(those.text(""))
        await source.begun.wait()
        later = await asyncio.gather(*(those.text("") for _ in range(50)))
        assert value((await first)[0]) == 1
        assert {value(text) for text, _ in later} == {2}
        assert source.collected == 2
        assert value((await those.text(""))[0]) == 3

    asyncio.run(story())


def test_formats_are_texts_of_their_own() -> None:
    async def story() -> None:
        source = Source()
        those = source.scrapes()
        texts = await asyncio.gather(*(those.text(accept) for accept in ("", OPENMETRICS, "", OPENMETRICS)))
        assert source.collected == 2
        assert [text.endswith(b"# EOF\n") for text, _ in texts] == [False, True, False, True]
        assert texts[1][1].startswith("application/openmetrics-text")

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["application/openmetrics-text", "text/plain"])
def test_what_a_client_writes_beside_the_format_makes_no_text_of_its_own(kind: str) -> None:
    async def story() -> None:
        source = Source()
        those = source.scrapes()
        versions = ("1.7.123", "1.0.0", "x", "0.0.1", "99999999999999999999", "")
        texts = await asyncio.gather(*(those.text(f"{kind};version={version};q=0.5") for version in versions))
        assert (source.collected, len({content_type for _, content_type in texts})) == (1, 1)

    asyncio.run(story())


def test_a_client_that_leaves_takes_nothing_from_others() -> None:
    async def story() -> None:
        those = Source().scrapes()
        gone, stays = asyncio.create_task(those.text("")), asyncio.create_task(those.text(""))
        await asyncio.sleep(0)
        gone.cancel()
        assert value((await stays)[0]) == 1

    asyncio.run(story())


def test_the_loop_turns_while_much_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        source = Source()
        source.parts_count = 10
        now = iter(range(1_000))
        monkeypatch.setattr(time, "perf_counter", lambda: next(now))
        counting = asyncio.create_task(count_turns())
        parts = await source.scrapes()._collected(Slices(time.monotonic))
        assert len(parts) == 11
        assert turns >= 11
        counting.cancel()

    asyncio.run(story())


def test_the_log_says_once_what_is_left_out() -> None:
    async def story() -> None:
        source = Source()
        those = source.scrapes()
        for left_out, lines in (({}, 0), ({"a": 0}, 0), ({"a": 5, "b": 0}, 1), ({"a": 6}, 0), ({}, 0), ({"a": 1}, 1)):
            source.left_out = left_out
            with capture_logs() as logged:
                await those.text("")
            assert len(logged) == lines
            if lines:
                assert logged[0]["series"] == {"a": left_out["a"]}
                assert "metrics_series_max" in logged[0]["event"]

    asyncio.run(story())
