"""The metrics of the shim keep Prometheus' conventions, and `docs/kubernetes.md` lists exactly those that there are."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from schedulerd.kubernetes.api import ApiMetrics, EventQueue
from schedulerd.kubernetes.api.metrics import REQUEST_SECONDS, WAIT_SECONDS, Histogram
from schedulerd.kubernetes.api.writes import Result
from schedulerd.kubernetes.cluster.events import BindEnded, BindResult, Event, Gone, Put
from schedulerd.kubernetes.cluster.settings import ClusterSettings
from schedulerd.kubernetes.election import Leadership, LeaseName
from schedulerd.kubernetes.shim.binding_times import BindingTimes
from schedulerd.kubernetes.shim.exposition import WRITES, registry
from schedulerd.kubernetes.shim.families import FAMILIES, PREFIX, Kind
from schedulerd.kubernetes.shim.journaling import Recording
from schedulerd.kubernetes.shim.shim import Shim, ShimOptions
from schedulerd.kubernetes.shim.watches import reflectors
from tests.kubernetes import builders
from tests.kubernetes.api.world import World
from tests.kubernetes.rights import SCHEDULING_GROUPS, granted

REFERENCE = Path(__file__).parents[2] / "docs" / "kubernetes.md"
ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<kind>\w+) \| (?P<labels>[^|]*) \| (?P<meaning>[^|]+) \|$", re.MULTILINE)


def busy() -> ApiMetrics:
    """At least one sample in every family."""
    metrics = ApiMetrics()
    metrics.requests["GET", "pods", "200"] = 1
    metrics.request_seconds["GET", "pods"] = Histogram(REQUEST_SECONDS)
    metrics.watch_events["pods", "ADDED"] = 2
    metrics.watches["pods", "closed"] = metrics.lists["pods", "start"] = 1
    metrics.writes["bind", "done"] = metrics.write_retries["bind", "pushed_back"] = 1
    metrics.lost_answers["bind", "performed"] = metrics.write_bugs["bind"] = 1
    metrics.write_wait_seconds["bind"] = Histogram(WAIT_SECONDS)
    for by_resource in (metrics.watch_bytes, metrics.replaced, metrics.undecodable, metrics.objects):
        by_resource["pods"] = 1
    metrics.last_contact["pods"] = 40.0
    return metrics


async def test_every_family_is_exposed_and_documented(tmp_path: Path) -> None:
    recording = Recording(tmp_path, 2**30, 2**30)
    async with World() as world:
        shim = Shim(world.transport, ShimOptions("localhost:1"))
        shim.takeover_s = 0.1
        shim._watches = reflectors(world.transport, EventQueue())
        leadership = Leadership(world.new_transport, LeaseName("default", "l"), "me")
        made = registry(busy(), lambda: shim, lambda: 42.0, leadership, ["schedulerd"], recording)
        with recording.cluster(ClusterSettings()):
            text = generate_latest(made).decode()
    exposed = {}
    for family in text_string_to_metric_families(text):
        if family.name.startswith("schedulerd_"):
            name = family.name + ("_total" if family.type == "counter" else "")
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            exposed[name] = (family.type, labels, family.documentation)
    assert exposed == {one.name: (one.kind.value, set(one.labels), one.documentation) for one in FAMILIES}
    assert f'{PREFIX}watch_silence_seconds{{resource="pods"}} 2.0' in text
    openmetrics = generate_openmetrics(made).decode()  # type: ignore[no-untyped-call]
    assert list(parse_openmetrics(openmetrics))  # type: ignore[no-untyped-call]
    rows = {row["name"]: row for row in ROW.finditer(REFERENCE.read_text()) if row["name"].startswith("schedulerd_")}
    written = {name: (row["kind"], row["labels"].strip(), row["meaning"]) for name, row in rows.items()}
    documented = {
        one.name: (one.kind.value, ", ".join(f"`{label}`" for label in one.labels), one.documentation)
        for one in FAMILIES
    }
    assert written == documented


def test_names_keep_the_conventions() -> None:
    assert len({one.name for one in FAMILIES}) == len(FAMILIES)
    for one in FAMILIES:
        assert one.name.endswith("_total") == (one.kind is Kind.COUNTER), one
        assert one.kind is not Kind.HISTOGRAM or one.name.endswith("_seconds"), one
        assert re.fullmatch(r"[A-Z1].*\.", one.documentation), one


def test_there_is_something_to_show_before_the_server_has_answered() -> None:
    text = generate_latest(registry(ApiMetrics(), lambda: None, lambda: 0.0)).decode()
    assert f"{PREFIX}ready 0.0" in text
    assert "schedulerd_leader 1.0" in text, "there is no election"


METHODS = {"get": "GET", "list": "GET", "watch": "WATCH", "create": "POST", "patch": "PATCH", "delete": "DELETE"}
"""By the verb of the right that a request needs."""


def test_what_alerts_count_starts_at_zero_so_that_the_first_event_is_an_increase() -> None:
    made = registry(ApiMetrics(), lambda: None, lambda: 0.0)

    def there(metric: str) -> list[dict[str, str]]:
        """The labels of its series."""
        return [
            one.labels for family in made.collect() for one in family.samples if (one.name, one.value) == (metric, 0)
        ]

    rights = granted("ClusterRole") | SCHEDULING_GROUPS
    needed = {(METHODS[verb], resource.partition("/")[0], "403") for verb, _, resource in rights}
    found = there(f"{PREFIX}requests_total")
    assert {(one["method"], one["resource"], one["code"]) for one in found} == needed
    writes = {(one["kind"], one["result"]) for one in there(f"{PREFIX}writes_total")}
    assert writes == {(kind, result) for kind in WRITES for result in Result}
    assert {one["kind"] for one in there(f"{PREFIX}write_bugs_total")} == set(WRITES)


def test_counts_are_kept_beside_those_that_are_expected() -> None:
    text = generate_latest(registry(busy(), lambda: None, lambda: 0.0)).decode()
    assert f'{PREFIX}writes_total{{kind="bind",result="done"}} 1.0' in text
    assert f'{PREFIX}write_bugs_total{{kind="bind"}} 1.0' in text
    assert f'{PREFIX}requests_total{{code="200",method="GET",resource="pods"}} 1.0' in text


class TestBindingTimes:
    @staticmethod
    def observed(*moments: tuple[float, Event]) -> tuple[int, float]:
        """How many times were observed, and their sum."""
        times = BindingTimes(ClusterSettings().scheduler_names)
        for now_s, event in moments:
            times.observe(now_s, [event])
        return times.seconds.observations, times.seconds.total

    def test_from_the_first_sight_to_the_answer_or_to_the_node(self) -> None:
        waiting = builders.pod("p", schedulerName="schedulerd")
        placed = builders.pod("p", schedulerName="schedulerd", nodeName="n")
        done = BindEnded("p", "n", BindResult.DONE)
        assert self.observed((1.0, Put(waiting)), (2.0, Put(waiting)), (4.0, done), (5.0, Put(placed))) == (1, 3.0)
        assert self.observed((1.0, Put(waiting)), (3.0, Put(placed)), (4.0, done)) == (1, 2.0)

    def test_not_of_gates_ends_others_and_failures(self) -> None:
        gated = builders.pod("p", schedulerName="schedulerd", schedulingGates=[{"name": "g"}])
        waiting = builders.pod("p", schedulerName="schedulerd")
        placed = builders.pod("p", schedulerName="schedulerd", nodeName="n")
        foreign = builders.pod("p", schedulerName="other")
        assert self.observed((1.0, Put(gated)), (5.0, Put(waiting)), (6.0, Put(placed))) == (1, 1.0)
        assert self.observed((1.0, Put(waiting)), (2.0, Gone(waiting)), (6.0, Put(placed))) == (0, 0.0)
        assert self.observed((1.0, Put(foreign)), (6.0, Put(placed))) == (0, 0.0)
        assert self.observed((1.0, Put(waiting)), (2.0, BindEnded("p", "n", BindResult.FAILED))) == (0, 0.0)

    def test_a_standby_counts_nothing_and_the_leader_the_whole_wait(self) -> None:
        waiting = builders.pod("p", schedulerName="schedulerd")
        other = builders.pod("q", schedulerName="schedulerd")
        times = BindingTimes(ClusterSettings().scheduler_names)
        times.is_counting = False
        times.observe(1.0, [Put(waiting), Put(other)])
        times.observe(2.0, [Put(builders.pod("q", schedulerName="schedulerd", nodeName="n"))])
        times.is_counting = True
        times.observe(5.0, [BindEnded("p", "n", BindResult.DONE)])
        assert (times.seconds.observations, times.seconds.total) == (1, 4.0)
