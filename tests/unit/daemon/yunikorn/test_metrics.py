"""With `--yunikorn-metrics` a scrape has YuniKorn's metrics, by its names, types and labels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from schedulerd.core.language.commands import Command, NodeAction
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.resources import Resources
from schedulerd.daemon.yunikorn import metrics as yunikorn
from schedulerd.daemon.yunikorn.metrics import BOUNDS, FAMILIES, RANGES, YunikornFamilies
from schedulerd.observe import metrics as metrics_module
from schedulerd.observe.histogram import Histogram
from schedulerd.observe.metrics import Metrics
from tests.instants import at
from tests.unit.core.builders import (
    Conversation,
    a_node,
    a_partition_spec,
    a_queue_spec,
    a_root,
    a_scheduler,
    an_app,
    an_ask,
)
from tests.unit.observe.scrape import Samples, all_samples, text

REFERENCE = Path(__file__).parents[4] / "docs" / "metrics.md"
ROW = re.compile(
    r"^\| `(?P<name>yunikorn_[\w<>]+)` \| (?P<kind>\w+) \| (?P<labels>[^|]*) \| (?P<meaning>[^|]+) \|", re.M
)
SERIES = 20


class Story(Conversation):
    """A conversation whose facts are counted."""

    def __init__(self, series_max: int = 5_000) -> None:
        self.metrics = Metrics(series_max, YunikornFamilies)
        super().__init__(a_scheduler())
        self.metrics.watch_state(self.scheduler.cluster.resource_managers.values)

    def step(self, command: Command) -> list[Fact]:
        facts = super().step(command)
        self.metrics.observe(facts, at(self.now_ns))
        return facts

    def begin(self, *queues: str) -> None:
        """One queue with quotas, and others; a node for ten asks."""
        team = a_queue_spec("team-a", max={"memory": 50}, guaranteed={"memory": 20}, max_applications=2)
        root = a_root(a_queue_spec("prod", team, a_queue_spec("b")), *(a_queue_spec(one) for one in queues))
        self.register(a_partition_spec(root))
        self.connect()
        self.nodes(a_node("n1", {"memory": 100, "ephemeral-storage": 7}))


def a_story() -> Story:
    """Two applications run in a queue with quotas, one of them waits; one is completed, and one rejected."""
    story = Story()
    story.begin()
    story.apps(an_app("one", "root.prod.team-a"), an_app("two", "root.prod.team-a"), an_app("done", "root.prod.b"))
    story.apps(an_app("bad", "root.nowhere"))
    story.asks(an_ask("k", 10, 3, "one"), an_ask("k", 30, 1, "two"), an_ask("k", 10, 1, "done"))
    story.schedule()
    story.release(application_id="done")
    story.sleep(31 * 10**9)
    story.metrics.cycle_seconds(0.0005)
    story.metrics.cycle_seconds(0.05)
    return story


@pytest.fixture(scope="module")
def found() -> dict[str, Samples]:
    return all_samples(a_story().metrics)


def test_without_the_setting_there_is_none() -> None:
    assert "yunikorn" not in text(Metrics())


def test_resources_of_queues(found: dict[str, Samples]) -> None:
    """Amounts include what is below a queue; the maximum of the root is what the nodes offer."""
    resources = found["yunikorn_queue_resource"]  # labels: queue, resource, state
    of_team = {key[1:]: value for key, value in resources.items() if key[0] == "root.prod.team-a"}
    assert of_team == {
        ("memory", "guaranteed"): 20,
        ("memory", "max"): 50,
        ("memory", "allocated"): 30,
        ("memory", "pending"): 30,
        ("apps", "maxRunningApps"): 2,
    }
    assert resources["root.prod", "memory", "allocated"] == resources["root", "memory", "allocated"] == 30
    assert resources["root", "memory", "max"] == 100
    assert resources["root", "apps", "maxRunningApps"] == 0


def test_applications_of_queues(found: dict[str, Samples]) -> None:
    applications = found["yunikorn_queue_app"]
    assert applications["root.prod.team-a", "running"] == 1
    assert applications["root.prod.team-a", "accepted"] == 1
    assert ("root.prod", "running") not in applications, "parents have none of their own"
    assert found["yunikorn_queue_app_total"] == {("", "rejected"): 1, ("root.prod.b", "completed"): 1}


def test_queues_in_names(found: dict[str, Samples]) -> None:
    """As the dashboard of YuniKorn selects them."""
    assert found["yunikorn_root_prod_team_a_queue_resource"]["memory", "allocated"] == 30
    assert found["yunikorn_root_prod_team_a_queue_app"] == {("running",): 1, ("accepted",): 1, ("new",): 0}
    assert found["yunikorn_root_prod_b_queue_container"] == {("allocated",): 1, ("released",): 1}


def test_the_scheduler(found: dict[str, Samples]) -> None:
    assert found["yunikorn_scheduler_container_allocation_attempt_total"] == {
        ("allocated",): 4,
        ("released",): 1,
        ("rejected",): 0,
        ("error",): 0,
    }
    submitted = found["yunikorn_scheduler_application_submission_total"]
    assert submitted == {("new",): 3, ("accepted",): 3, ("rejected",): 1}
    applications = found["yunikorn_scheduler_application_total"]
    assert (applications["running",], applications["completed",], applications["failed",]) == (1, 1, 0)
    usage = found["yunikorn_scheduler_memory_node_usage_total"]
    assert {labels[0] for labels in usage} == set(RANGES)
    assert [key for key, number in usage.items() if number] == [("(20%,30%]",)]
    assert found["yunikorn_scheduler_ephemeral_storage_node_usage_total"]["[0,10%]",] == 1
    cycles = found["yunikorn_scheduler_scheduling_latency_milliseconds_bucket"]
    assert (cycles["0.0001",], cycles["0.001",], cycles["0.1",], cycles["+Inf",]) == (0, 1, 2, 2)


def test_nodes_by_state() -> None:
    story = Story()
    story.begin()
    story.nodes(a_node("n2", {"memory": 1}), a_node("n3", {"memory": 1}), a_node("", {"memory": 1}))
    story.nodes(a_node("n2", action=NodeAction.DRAIN_NODE), a_node("n3", action=NodeAction.DECOMISSION))
    nodes = all_samples(story.metrics)["yunikorn_scheduler_node"]
    assert nodes == {("active",): 2, ("draining",): 1, ("failed",): 1, ("decommissioned",): 1}


@pytest.mark.parametrize(("used", "share"), [(0, RANGES[0]), (10, RANGES[0]), (11, RANGES[1]), (100, RANGES[9])])
def test_a_share_belongs_to_one_range(used: int, share: str) -> None:
    story = Story()
    story.begin("free")
    story.apps(an_app("a", "root.free"))
    if used:
        story.asks(an_ask("k", used, 1, "a"))
    story.schedule()
    usage = all_samples(story.metrics)["yunikorn_scheduler_memory_node_usage_total"]
    assert [key for key, number in usage.items() if number] == [(share,)]


def test_a_family_has_so_many_series_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "QUEUES_COPIED_MAX", 7)
    monkeypatch.setattr(yunikorn, "NODES_COUNTED_MAX", 1)
    story = Story(series_max=SERIES)
    story.begin(*(f"q{number}" for number in range(2 * SERIES)))
    resources = [f"unique-{number}" for number in range(SERIES)]
    story.nodes(*(a_node(f"of-{name}", {name: 1}) for name in resources))
    for number in range(2 * SERIES):
        story.apps(an_app(f"app-{number}", f"root.q{number}"))
        story.asks(an_ask("k", 1, 1, f"app-{number}", resources=Resources(memory=1)))
    found = all_samples(story.metrics)
    for name in ("yunikorn_queue_app", "yunikorn_queue_resource"):
        assert len(found[name]) == SERIES
    for suffix in ("_queue_app", "_queue_resource", "_queue_container"):
        named = [name for name in found if name.startswith("yunikorn_root_") and name.endswith(suffix)]
        assert 0 < sum(len(found[name]) for name in named) <= SERIES
    usage = [name for name in found if name.endswith("_node_usage_total")]
    assert sum(len(found[name]) for name in usage) == SERIES
    left_out = found["schedulerd_metrics_series_left_out"]
    assert left_out["yunikorn_queue_app",] >= SERIES
    assert left_out["yunikorn_scheduler_<resource>_node_usage_total",] == (SERIES + 2 - SERIES // 10) * 10


def test_a_scrape_costs_the_same_however_many_allocations_an_ask_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts in which it is collected are as many, and nothing in them is about asks."""

    def parts(allocations: int) -> int:
        story = Story()
        story.begin()
        story.apps(an_app("one", "root.prod.team-a"))
        story.asks(*(an_ask(f"k{number}", 60, 1, "one") for number in range(allocations)))
        return sum(1 for part in story.metrics.parts(lambda items: items) for _ in part)

    assert parts(1) == parts(500)


def test_buckets_at_other_bounds() -> None:
    histogram = Histogram((0.001, 0.0025, 0.01, 1.0))
    for seconds in (0.0005, 0.002, 0.5, 7.0):
        histogram.observe(seconds)
    assert histogram.buckets_at(BOUNDS) == [
        ("0.0001", 0),
        ("0.001", 1),
        ("0.01", 2),
        ("0.1", 2),
        ("1.0", 3),
        ("10.0", 3),
        ("100.0", 3),
        ("1000.0", 3),
        ("+Inf", 4),
    ]


def test_openmetrics_reads_it_too() -> None:
    exposition = generate_openmetrics(a_story().metrics.registry, version="1.0.0")  # type: ignore[no-untyped-call]
    names = {family.name for family in parse_openmetrics(exposition.decode())}  # type: ignore[no-untyped-call]
    assert "yunikorn_root_prod_b_queue_container" in names


def test_the_reference_lists_exactly_what_is_exposed() -> None:
    exposed = {}
    for family in text_string_to_metric_families(text(a_story().metrics)):
        if family.name.startswith("yunikorn_"):
            name = family.name + ("_total" if family.type == "counter" else "")
            name = re.sub(r"^yunikorn_(?!event).*?(_queue_(app|resource|container))$", r"yunikorn_<queue>\1", name)
            name = re.sub(r"_scheduler_\w+(_node_usage_total)", r"_scheduler_<resource>\1", name)
            exposed[name] = {label for sample in family.samples for label in sample.labels} - {"le"}
    assert exposed == {family.name: set(family.labels) for family in FAMILIES}
    documented = {row["name"]: (row["kind"], row["labels"].strip()) for row in ROW.finditer(REFERENCE.read_text())}
    assert documented == {
        family.name: (family.kind, ", ".join(f"`{label}`" for label in family.labels)) for family in FAMILIES
    }
