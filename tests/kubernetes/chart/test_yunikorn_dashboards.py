"""YuniKorn's dashboards show something: Prometheus gets data for each of their queries from a scrape of a story."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schedulerd.core.resources import Resources
from tests.kubernetes.chart.prometheus import check_data, needs_promtool, series_of
from tests.kubernetes.chart.yunikorn_dashboards import QUERIES, WITHOUT_DATA, queries_of, queue_names
from tests.unit.core.builders import (
    a_node,
    a_partition_spec,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
)
from tests.unit.observe.scrape import text
from tests.unit.observe.test_yunikorn_metrics import Story

NODE = {"vcore": 8_000, "memory": 16 * 2**30, "pods": 110, "ephemeral-storage": 100 * 2**30}
POD = Resources(vcore=1_000, memory=2**30, pods=1)


@pytest.fixture(scope="module")
def scraped() -> str:
    """A pod runs in one queue, and pods of another wait for its quota."""
    story = Story()
    batch = a_queue_spec("batch-jobs", max={"vcore": 1_000})
    story.register(a_partition_spec(a_root(a_queue_spec("default"), a_queue_spec("prod", batch))))
    story.connect()
    story.nodes(a_node("n1", NODE))
    story.apps(an_app("web", "root.default"), an_app("spark", "root.prod.batch-jobs"))
    story.asks(an_ask("driver", app="web", resources=POD), an_ask("executor", count=3, app="spark", resources=POD))
    story.schedule()
    story.metrics.cycle_seconds(0.001)
    return text(story.metrics)


def test_the_choice_of_queues_has_all(scraped: str) -> None:
    """The root is chosen by no name there, as with YuniKorn."""
    names = {re.split(r"[{ ]", line)[0] for line in scraped.splitlines() if not line.startswith("#")}
    assert queue_names(names) == {"default", "prod", "prod_batch_jobs"}


@needs_promtool
def test_each_query_gives_data(scraped: str, tmp_path: Path) -> None:
    queries = [*QUERIES, *queries_of("default"), *queries_of("prod_batch_jobs")]
    check_data(queries, series_of(scraped, job="yunikorn"), tmp_path, interval="15s")


@needs_promtool
def test_the_check_notices_a_query_without_data(scraped: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="root_nowhere"):
        check_data(queries_of("nowhere"), series_of(scraped), tmp_path, interval="15s")


def test_what_has_no_data_is_not_there(scraped: str) -> None:
    for pattern, why in WITHOUT_DATA.items():
        assert not re.search(f"^{pattern}", scraped, re.MULTILINE), f"it is there, although {why}"
