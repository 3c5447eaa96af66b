"""The names keep Prometheus' conventions, and `docs/metrics.md` describes exactly what is exposed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import Counter, Gauge
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from schedulerd.core.language.commands import ReportUtilization, TerminationType, Utilization
from schedulerd.core.language.facts import configuration as configuration_facts
from schedulerd.core.language.facts import fact as facts
from schedulerd.core.language.facts.fact import RejectCode, WithdrawCause
from schedulerd.core.language.facts.predicates import PredicateOutcome
from schedulerd.core.language.facts.queues import TagIgnored
from schedulerd.core.language.facts.reservations import ReservationEnd
from schedulerd.core.language.lifecycles import ApplicationState, NodeState, ResourceManagerState
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.kubernetes.shim.families import FAMILIES as OF_THE_SHIM
from schedulerd.kubernetes.shim.families import LEADER
from schedulerd.observe.families import FAMILIES, PREFIX, Family, Kind
from schedulerd.observe.metrics import JournalCounts, Metrics
from tests.instants import at
from tests.loops import each_row
from tests.unit.core.builders import a_conversation, a_node, a_queue_spec, a_root, an_ask
from tests.unit.observe import build
from tests.unit.observe.scrape import text

REFERENCE = Path(__file__).parents[3] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<kind>\w+) \| (?P<labels>[^|]*) \| (?P<meaning>[^|]+) \|$", re.MULTILINE)
UNITS_THAT_ARE_NOT_BASE = re.compile(
    r"_(ms|us|ns|(milli|micro|nano)seconds?|minutes?|hours?|days?|percent|[kmg]i?b)(_|$)"
)


def a_used_resource_manager() -> ResourceManager:
    """With a node and an allocation whose use was reported, and an ask that there is no room for."""
    queue = a_queue_spec("a", max={"memory": 500}, guaranteed={"memory": 5}, max_applications=2)
    talk = a_conversation(a_node("n1", {"memory": 5}), root=a_root(queue))
    talk.asks(an_ask("k", 10), an_ask("small", 2))
    talk.schedule()
    (uuid,) = talk.model().allocations
    reports = [Utilization(name, Resources(memory=1)) for name in ("n1", uuid)]
    talk.step(ReportUtilization(talk.rm_id, reports))
    return talk.scheduler.cluster.resource_managers[talk.rm_id]


@pytest.fixture
def busy() -> Metrics:
    """Metrics with at least one sample in every family."""
    metrics = Metrics()
    metrics.observe(
        [
            build.resource_manager(ResourceManagerState.RUNNING),
            build.node("n1", None, NodeState.SCHEDULABLE, {"vcore": 10}, {"vcore": 1}),
            build.application(None, ApplicationState.NEW),
            build.ask(count=3, vcore=1),
            build.allocated(vcore=1),
            build.allocated(recovered=True, vcore=1),
            build.withdrawn(WithdrawCause.TIMEOUT, vcore=1),
            build.ask_rejected(RejectCode.EMPTY_ID),
            build.release_requested(TerminationType.TIMEOUT),
            build.ask(placeholder=True, vcore=1),
            build.gang_completed(),
            build.gang_declared(),
            build.preempted((build.QUEUE, "uuid-1")),
            build.victim(),
            build.quota_preempted(),
            build.reserved(),
            build.reservation_ended(ReservationEnd.PLACED),
            build.allocation_changed(),
            build.released(vcore=1),
            build.predicate_wanted(),
            build.node_recommended(),
            build.result_reached(PredicateOutcome.AGREED),
            facts.ReleaseIgnored(build.RM, "", "", "", "", ""),
            configuration_facts.ConfigurationUpdated(build.RM),
            facts.ItemIgnored(build.RM, "", "", RejectCode.EMPTY_ID, ""),
            facts.CheckFailed(build.RM, "NewAsk", "k", RejectCode.CHECK_FAILED, "ValueError"),
            TagIgnored(build.RM, "", "", "", "", ""),
            facts.CycleRan(1, 1, True),
        ],
        at(0),
    )
    metrics.watch_state(lambda: [a_used_resource_manager()])
    metrics.step_seconds("RunCycle", 0.1)
    metrics.cycle_seconds(0.1)
    metrics.loop_lag_seconds(0.1)
    metrics.watch_depth("inbox", lambda: 0)
    metrics.watch_depth("outbox", lambda: 0)
    metrics.watch_refusals(lambda: {("UpdateNode", "aborted"): 1})
    metrics.watch_journal(lambda: JournalCounts(is_recording=True, written_bytes=1, waiting_bytes=1))
    metrics.watch_checksums(lambda: [(build.RM, "ABC")])
    metrics.watch_queue_files(lambda: {"queues": True})
    return metrics


def test_a_busy_daemon_exposes_every_family_with_its_type_and_labels(busy: Metrics) -> None:
    exposed = {}
    for family in text_string_to_metric_families(text(busy)):
        if family.name.startswith(PREFIX):
            name = family.name + ("_total" if family.type == "counter" else "")
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            exposed[name] = (family.type, labels, family.documentation)
    assert exposed == {family.name: (family.kind, set(family.labels), family.documentation) for family in FAMILIES}


def test_what_is_not_ours_is_about_the_process_or_python(busy: Metrics) -> None:
    names = {family.name for family in text_string_to_metric_families(text(busy))}
    assert {name for name in names if not name.startswith((PREFIX, "process_", "python_"))} == set()


def test_openmetrics_reads_it_too(busy: Metrics) -> None:
    exposition = generate_openmetrics(busy.registry, version="1.0.0")  # type: ignore[no-untyped-call]
    families = list(parse_openmetrics(exposition.decode()))  # type: ignore[no-untyped-call]
    assert {family.name for family in families if family.type == "histogram"} == {
        family.name for family in FAMILIES if family.kind is Kind.HISTOGRAM
    }


@each_row("family", FAMILIES, ids=lambda family: family.name)
def test_names_keep_the_conventions(family: Family) -> None:
    name = family.name
    assert re.fullmatch(r"schedulerd(_[a-z]+)+", name)
    assert name.endswith("_total") == (family.kind is Kind.COUNTER)
    assert not name.endswith(("_count", "_sum", "_bucket", "_created")), "these suffixes are the format's own"
    assert not UNITS_THAT_ARE_NOT_BASE.search(name)
    is_duration = name.endswith("_seconds") and not name.endswith("_timestamp_seconds")
    assert is_duration == (family.kind is Kind.HISTOGRAM)
    assert family.documentation.endswith(".")
    for label in family.labels:
        assert re.fullmatch(r"[a-z]+", label)
        assert label not in ("le", "quantile", "job", "instance"), "Prometheus sets these"
        assert not re.search(rf"_{label}(_|$)", name), "what is a label is not said in the name as well"
    assert list(family.bounds_seconds) == sorted(set(family.bounds_seconds))


def test_the_lint_itself_notices_units() -> None:
    for bad in ("schedulerd_latency_ms", "schedulerd_latency_milliseconds", "schedulerd_used_percent"):
        assert UNITS_THAT_ARE_NOT_BASE.search(bad)


def test_a_second_metric_of_the_same_name_is_refused(busy: Metrics) -> None:
    with pytest.raises(ValueError, match="Duplicated"):
        Counter("schedulerd_placements", "Somebody else's.", registry=busy.registry)
    with pytest.raises(ValueError, match="Duplicated"):
        Gauge("schedulerd_nodes", "Somebody else's.", registry=busy.registry)


def test_the_reference_lists_exactly_what_is_exposed() -> None:
    rows = [match.groupdict() for match in ROW.finditer(REFERENCE.read_text())]
    rows = [row for row in rows if row["name"].startswith(PREFIX)]
    documented = [(row["name"], row["kind"], row["labels"].strip(), row["meaning"].strip()) for row in rows]
    wanted = [
        (family.name, family.kind, ", ".join(f"`{label}`" for label in family.labels), family.documentation)
        for family in FAMILIES
    ]
    assert sorted(documented) == sorted(wanted)


def test_every_metric_the_reference_speaks_of_exists() -> None:
    known = {family.name for family in FAMILIES} | {family.name for family in OF_THE_SHIM} | {LEADER.name}
    known |= {f"{family.name}_bucket" for family in FAMILIES if family.kind is Kind.HISTOGRAM}
    assert set(re.findall(r"schedulerd_\w+", REFERENCE.read_text())) - known == set()
