"""YuniKorn's dashboards show something: Prometheus gets data for each of their queries from a scrape of a story."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schedulerd.core.language.resources import Resources
from tests.kubernetes.chart.prometheus import Scrapes, bare, check_data, needs_promtool
from tests.kubernetes.chart.yunikorn_dashboards import NOTHING_OBSERVED, QUERIES, WITHOUT_DATA, queries_of, queue_names
from tests.unit.core.builders import (
    a_node,
    a_partition_spec,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
)
from tests.unit.daemon.yunikorn.test_metrics import Story
from tests.unit.observe.scrape import text

NODE = {"vcore": 8_000, "memory": 16 * 2**30, "pods": 110, "ephemeral-storage": 100 * 2**30}
POD = Resources(vcore=1_000, memory=2**30, pods=1)


@pytest.fixture(scope="module")
def scrapes() -> Scrapes:
    """A pod runs in one queue, and pods of another wait for its quota."""
    story = Story()
    batch = a_queue_spec("batch-jobs", max={"vcore": 1_000})
    story.register(a_partition_spec(a_root(a_queue_spec("default"), a_queue_spec("prod", batch))))
    story.connect()
    scrapes = Scrapes()
    scrapes.add((text(story.metrics), {"job": "yunikorn"}))
    story.nodes(a_node("n1", NODE))
    story.apps(an_app("web", "root.default"), an_app("spark", "root.prod.batch-jobs"))
    story.asks(an_ask("driver", app="web", resources=POD), an_ask("executor", count=3, app="spark", resources=POD))
    story.schedule()
    story.metrics.cycle_seconds(0.001)
    scrapes.add((text(story.metrics), {"job": "yunikorn"}))
    return scrapes


def test_the_choice_of_queues_has_all(scrapes: Scrapes) -> None:
    """The root is chosen by no name there, as with YuniKorn."""
    names = {one.partition("{")[0] for one in scrapes.series}
    assert queue_names(names) == {"default", "prod", "prod_batch_jobs"}


@needs_promtool
def test_each_query_gives_data(scrapes: Scrapes, tmp_path: Path) -> None:
    queries = [*QUERIES, *queries_of("default"), *queries_of("prod_batch_jobs")]
    check_data(queries, scrapes, tmp_path)


@needs_promtool
def test_of_what_nothing_is_observed_there_is_a_histogram(scrapes: Scrapes, tmp_path: Path) -> None:
    for query, why in NOTHING_OBSERVED.items():
        check_data([f"absent({query} > -Inf)"], scrapes, tmp_path)
        check_data([f"count({query})"], scrapes, tmp_path)
        assert why


@needs_promtool
@pytest.mark.parametrize(
    "query",
    [
        pytest.param(queries_of("nowhere")[0], id="no series"),
        pytest.param("sum(yunikorn_scheduler_application_total) * 0 / 0", id="no number"),
    ],
)
def test_the_check_notices_a_query_without_data(query: str, scrapes: Scrapes, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="got: nil"):
        check_data([query], scrapes, tmp_path)


@needs_promtool
def test_the_check_notices_what_stays_at_zero(scrapes: Scrapes, tmp_path: Path) -> None:
    check_data(["sum(rate(yunikorn_scheduler_application_total[1m])) * 0"], scrapes, tmp_path)
    with pytest.raises(AssertionError, match="got: nil"):
        check_data(["sum(rate(yunikorn_scheduler_application_total[1m])) * 0"], scrapes, tmp_path, above_zero=True)


@pytest.mark.parametrize(
    ("query", "measured"),
    [
        ("sum(a) > 0 or vector(0)", "sum(a)"),
        ("sum(a) > 0 or\n  sum(b) > 0.5", "sum(a) or sum(b)"),
        ("min(a) - time() < 14 * 86400", "min(a) - time()"),
        ("sum(a unless on (pod) b == 0) > 1", "sum(a unless on (pod) b == 0)"),
        ("sum(a and on (pod) b == 1)", "sum(a and on (pod) b == 1)"),
        ("a / (b > 0)", "a / (b > 0)"),
    ],
)
def test_what_a_query_measures(query: str, measured: str) -> None:
    assert bare(query) == measured


def test_what_has_no_data_is_not_there(scrapes: Scrapes) -> None:
    for pattern, why in WITHOUT_DATA.items():
        assert not [one for one in scrapes.series if re.match(pattern, one)], f"it is there, although {why}"
