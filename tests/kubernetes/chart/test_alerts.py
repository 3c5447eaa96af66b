"""The alerts of the chart: Prometheus takes them, each fires when it should and not otherwise, and has its page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from schedulerd.kubernetes.api.metrics import WAIT_SECONDS
from schedulerd.kubernetes.shim.role_label import LABEL, LEADER
from schedulerd.observe.families import FAMILIES as OF_THE_DAEMON
from tests.kubernetes.chart.alerts import ALERTS, OF_WEBHOOKS, RULES, WITHOUT_DATA
from tests.kubernetes.chart.dashboards import EACH_DAEMON, queries
from tests.kubernetes.chart.families import LABELS, of_any_daemon
from tests.kubernetes.chart.helm import CHART, CUSTOM, needs_helm, one_of, render
from tests.kubernetes.chart.prometheus import needs_promtool, promtool
from tests.loops import each_row

RUNBOOKS = CHART.parents[1] / "docs" / "runbooks"

OF_THE_API_SERVER = {"apiserver_admission_webhook_fail_open_count", "apiserver_admission_webhook_rejection_count"}
"""Of Kubernetes, from 1.24 on."""

Series = dict[str, str]
"""Values of a metric with labels, one a minute, as promtool writes them: `0+1x60` grows by one from 0."""
IN_POD = 'namespace="s",pod="0"'
IN_STANDBY = 'namespace="s",pod="1"'
BUSY = "0+100x90"


def replicas(ready: str, leads: str, namespace: str = "s", name: str = "schedulerd", first: int = 0) -> Series:
    """Of a release: a digit for each. Pods have numbers as names."""
    series = {}
    for pod, (is_ready, is_leader) in enumerate(zip(ready, leads, strict=True), first):
        inside = f'namespace="{namespace}",pod="{pod}"'
        series[f'schedulerd_kubernetes_info{{{inside},scheduler_name="{name}"}}'] = "1x90"
        series[f"schedulerd_kubernetes_ready{{{inside}}}"] = f"{is_ready}x90"
        series[f"schedulerd_leader{{{inside}}}"] = f"{is_leader}x90"
    return series


UP = replicas(ready="11", leads="10")
"""Both replicas; the first one leads."""
OTHER = replicas(ready="11", leads="10", name="other", first=2)
"""Another release in the same namespace."""


def of_daemons(metric: str, labels: str, leader: str, standby: str = "") -> Series:
    """Without the values of the standby, it has no such series."""
    pods = {IN_POD: leader, IN_STANDBY: standby}
    return UP | {f"{metric}{{{inside},{labels}}}": values for inside, values in pods.items() if values}


OUTSTANDING = ("schedulerd_outstanding_requests", 'rm="k",partition="default"')
WAITING = ("schedulerd_pending_placeholders", 'rm="k",partition="default",queue="root.a"')
REJECTED = ("schedulerd_rejections_total", 'rm="k",object="application",code="not_placed"')

CASES: dict[str, tuple[Series, Series]] = {
    "SchedulerdAbsent": ({"other": "1x90"}, UP),
    "SchedulerdNotScheduling": (OTHER | replicas(ready="11", leads="00"), replicas(ready="11", leads="01")),
    "SchedulerdTwoLeaders": (UP | replicas(ready="11", leads="10", namespace="another"), UP | OTHER),
    "SchedulerdNoStandby": (OTHER | replicas(ready="1", leads="1"), UP | OTHER),
    "SchedulerdLeaseFails": (
        {**UP, f'schedulerd_kubernetes_lease_renewals_total{{{IN_POD},result="failed"}}': "0x50 1+1x40"},
        {**UP, f'schedulerd_kubernetes_lease_renewals_total{{{IN_POD},result="done"}}': BUSY},
    ),
    "SchedulerdLeaderChanges": (
        {**UP, f"schedulerd_kubernetes_lease_transitions{{{IN_POD}}}": "7x20 8x5 9x5 10x5 11x5 12x5 13x40"},
        {**UP, f"schedulerd_kubernetes_lease_transitions{{{IN_POD}}}": "7x20 8x70"},
    ),
    "SchedulerdQueueFileInvalid": (
        {
            **UP,
            f'schedulerd_queue_file_valid{{{IN_POD},group="queues"}}': "1x30 0x60",
            f'schedulerd_config_last_reload_successful{{{IN_POD},rm="k"}}': "1x30 0x60",
        },
        {**UP, f'schedulerd_queue_file_valid{{{IN_POD},group="queues"}}': "0x30 1x60"},
    ),
    "SchedulerdQueueFileRefused": (
        {
            **UP,
            f'schedulerd_queue_file_valid{{{IN_POD},group="queues"}}': "1x90",
            f'schedulerd_config_last_reload_successful{{{IN_POD},rm="k"}}': "1x30 0x60",
        },
        {**UP, f'schedulerd_config_last_reload_successful{{{IN_POD},rm="k"}}': "0x30 1x60"},
    ),
    "SchedulerdNoReplacement": (
        replicas(ready="10", leads="10")
        | OTHER
        | {f'schedulerd_queue_file_valid{{{inside},group="queues"}}': "0x90" for inside in (IN_POD, IN_STANDBY)},
        UP | {f'schedulerd_queue_file_valid{{{inside},group="queues"}}': "0x90" for inside in (IN_POD, IN_STANDBY)},
    ),
    "SchedulerdQueueFilesDiffer": (
        {
            **UP,
            **{f'schedulerd_config_info{{namespace="s",pod="{pod}",rm="",checksum="{pod}"}}': "1x90" for pod in "01"},
        },
        {
            **UP,
            **OTHER,
            **{
                f'schedulerd_config_info{{namespace="s",pod="{pod}",rm="",checksum="{checksum}"}}': "1x90"
                for pod, checksum in zip("0123", "ccdd", strict=True)
            },
        },
    ),
    "SchedulerdRejections": (
        of_daemons(*REJECTED, "0+1x90"),
        of_daemons(*REJECTED, "0+1x30 30x60", standby="0+1x90"),
    ),
    "SchedulerdClusterTooSmall": (
        of_daemons(*OUTSTANDING, "3x90"),
        of_daemons(*OUTSTANDING, "3x45 0 3x44", standby="3x90"),
    ),
    "SchedulerdGangsWait": (
        of_daemons(*WAITING, "2x90"),
        of_daemons(*WAITING, "2x55 0 2x34", standby="2x90"),
    ),
    "SchedulerdGangsTimeOut": (
        {**UP, f'schedulerd_gangs_total{{{IN_POD},rm="k",partition="default",event="timed_out"}}': "0x50 1x40"},
        {**UP, f'schedulerd_gangs_total{{{IN_POD},rm="k",partition="default",event="complete"}}': BUSY},
    ),
    "SchedulerdPlaceholdersTooSmall": (
        {**UP, f'schedulerd_placeholders_total{{{IN_POD},rm="k",partition="default",event="too_small"}}': "0x50 1x40"},
        {**UP, f'schedulerd_placeholders_total{{{IN_POD},rm="k",partition="default",event="placed"}}': BUSY},
    ),
    "SchedulerdForbidden": (
        {
            **UP,
            f'schedulerd_kubernetes_requests_total{{{IN_POD},method="GET",resource="pods",code="403"}}': "0x55 1x35",
        },
        {
            **UP,
            f'schedulerd_kubernetes_requests_total{{{IN_POD},method="GET",resource="pods",code="403"}}': "0x20 1x70",
        },
    ),
    "SchedulerdApiErrors": (
        {
            **UP,
            f'schedulerd_kubernetes_requests_total{{{IN_POD},method="POST",resource="pods",code="201"}}': BUSY,
            f'schedulerd_kubernetes_requests_total{{{IN_POD},method="POST",resource="pods",code="500"}}': "0+6x90",
        },
        {
            **UP,
            f'schedulerd_kubernetes_requests_total{{{IN_POD},method="POST",resource="pods",code="201"}}': BUSY,
            f'schedulerd_kubernetes_requests_total{{{IN_POD},method="POST",resource="pods",code="500"}}': "0+4x90",
        },
    ),
    "SchedulerdBindingsFail": (
        {**UP, f'schedulerd_kubernetes_writes_total{{{IN_POD},kind="bind",result="refused"}}': "0x54 1x36"},
        {**UP, f'schedulerd_kubernetes_writes_total{{{IN_POD},kind="bind",result="done"}}': BUSY},
    ),
    "SchedulerdWritesThrottled": (
        {
            **UP,
            **{
                f'schedulerd_kubernetes_write_wait_seconds_bucket{{{IN_POD},kind="bind",le="{le}"}}': values
                for le, values in (("5.0", "0+50x90"), ("15.0", BUSY), ("+Inf", BUSY))
            },
        },
        {
            **UP,
            **{
                f'schedulerd_kubernetes_write_wait_seconds_bucket{{{IN_POD},kind="bind",le="{le}"}}': BUSY
                for le in ("5.0", "15.0", "+Inf")
            },
        },
    ),
    "SchedulerdWatchSilent": (
        {**UP, f'schedulerd_kubernetes_watch_silence_seconds{{{IN_POD},resource="nodes"}}': "0+60x90"},
        {**UP, f'schedulerd_kubernetes_watch_silence_seconds{{{IN_POD},resource="nodes"}}': "60x90"},
    ),
    "SchedulerdReasonsLate": (
        {**UP, f"schedulerd_kubernetes_reasons_waiting{{{IN_POD}}}": "5000x90"},
        {**UP, f"schedulerd_kubernetes_reasons_waiting{{{IN_POD}}}": "5000x50 900x40"},
    ),
    "SchedulerdLoopSlow": (
        {
            **UP,
            **{
                f'schedulerd_loop_lag_seconds_bucket{{{IN_POD},le="{le}"}}': values
                for le, values in (("0.5", "0+50x90"), ("1.0", BUSY), ("+Inf", BUSY))
            },
        },
        {**UP, **{f'schedulerd_loop_lag_seconds_bucket{{{IN_POD},le="{le}"}}': BUSY for le in ("0.5", "1.0", "+Inf")}},
    ),
    "SchedulerdResourceManagerLost": (
        # After 300 s the daemon drops the state of a resource manager.
        of_daemons("schedulerd_resource_managers", 'state="paused"', "0x56 1x5 0x28"),
        of_daemons("schedulerd_resource_managers", 'state="paused"', "0x59 1 0x29", standby="0x50 1x39"),
    ),
    "SchedulerdBug": (
        {
            **UP,
            # Not registered any more: nothing is counted for its checks.
            f"schedulerd_events_failed_total{{{IN_POD}}}": "0x50 1x40",
        },
        {
            **UP,
            f'schedulerd_checks_failed_total{{{IN_POD},rm="k",item="NewAsk"}}': "1x90",
            f"schedulerd_events_failed_total{{{IN_POD}}}": "0x90",
            f'schedulerd_kubernetes_write_bugs_total{{{IN_POD},kind="bind"}}': "0x90",
        },
    ),
    "SchedulerdJournalEnded": (
        {**UP, f"schedulerd_journal_recording{{{IN_POD}}}": "1x30 0x60"},
        {
            **UP,
            f"schedulerd_journal_recording{{{IN_POD}}}": "1x90",
            f"schedulerd_kubernetes_journal_recording{{{IN_POD}}}": "1x90",
        },
    ),
    "SchedulerdWebhooksUnreachable": (
        {**UP, 'apiserver_admission_webhook_fail_open_count{name="pods.schedulerd.io",type="admit"}': "0x50 1+1x40"},
        {
            **UP,
            'apiserver_admission_webhook_fail_open_count{name="pods.other.io",type="admit"}': BUSY,
            'apiserver_admission_webhook_rejection_count{name="users.schedulerd.io",error_type="no_error"}': BUSY,
        },
    ),
    "SchedulerdReviewsFail": (
        {**UP, f'schedulerd_admission_reviews_failed_total{{{IN_POD},webhook="mutate",cause="slow"}}': "0x54 1x36"},
        {**UP, f'schedulerd_admission_reviews_failed_total{{{IN_POD},webhook="mutate",cause="slow"}}': "7x90"},
    ),
    "SchedulerdCertificateExpires": (
        {**UP, f"schedulerd_admission_certificate_expiry_timestamp_seconds{{{IN_POD}}}": "1209000x90"},
        {**UP, f"schedulerd_admission_certificate_expiry_timestamp_seconds{{{IN_POD}}}": "1220000x90"},
    ),
    "SchedulerdWebhooksUntrusted": (
        {**UP, f'schedulerd_admission_ca_bundle_current{{{IN_POD},configuration="c"}}': "1x30 0x60"},
        {**UP, f'schedulerd_admission_ca_bundle_current{{{IN_POD},configuration="c"}}': "0x30 1x60"},
    ),
}
"""By alert: what makes it fire after an hour, and what is near and does not."""

MORE: tuple[tuple[str, Series], ...] = (
    ("SchedulerdNoStandby", replicas(ready="10", leads="10")),
    ("SchedulerdTwoLeaders", replicas(ready="11", leads="11")),
    ("SchedulerdJournalEnded", {**UP, f"schedulerd_kubernetes_journal_recording{{{IN_POD}}}": "1x30 0x60"}),
    *(
        ("SchedulerdBug", {**UP, f"{counter}{{{IN_POD},{labels}}}": "0x50 1x40"})
        for counter, labels in (
            ("schedulerd_checks_failed_total", 'rm="k",item="NewAsk"'),
            ("schedulerd_kubernetes_write_bugs_total", 'kind="bind"'),
        )
    ),
)
"""Others that make alerts fire."""
QUIET: tuple[tuple[str, Series], ...] = (("SchedulerdClusterTooSmall", of_daemons(*OUTSTANDING, "_x50 3x40")),)
"""Others that make none fire: 10 minutes after a start, nothing has lasted for 30."""


def test_quantiles_are_of_buckets_that_there_are() -> None:
    """A quantile above the last bound is that bound, so a threshold at or above it would never be reached."""
    families = {one.name: one for one in OF_THE_DAEMON}
    bounds = families["schedulerd_loop_lag_seconds"].bounds_seconds
    assert max(bounds) > float(ALERTS["SchedulerdLoopSlow"]["expr"].rpartition(">")[2])
    assert max(WAIT_SECONDS) > float(ALERTS["SchedulerdWritesThrottled"]["expr"].rpartition(">")[2])


def test_every_alert_has_its_cases_and_its_page() -> None:
    assert CASES.keys() == ALERTS.keys()
    assert {page.stem for page in RUNBOOKS.glob("*.md")} == ALERTS.keys()
    for name in ALERTS:
        assert (RUNBOOKS / f"{name}.md").read_text().startswith(f"# {name}\n")


@each_row("name", ALERTS)
def test_a_page_shows_the_log_of_the_right_pods_and_says_how_to_find_them(name: str) -> None:
    """One of two pods, which `logs deployment/...` shows, is often the standby; where none may lead, all are shown."""
    page = (RUNBOOKS / f"{name}.md").read_text()
    assert not re.search(r"logs deployment/schedulerd(?!-admission)", page)
    shown = re.findall(r"logs --selector (\S+) --prefix", page)
    assert len(shown) == page.count("logs --selector")
    assert set(shown) <= {f"{LABEL}={LEADER}", "app.kubernetes.io/component=scheduler"}
    assert ("POD" in page) == ("[`POD`](../install.md#pods-of-schedulerd)" in page)


@each_row("name", ALERTS)
def test_an_alert_has_a_severity_and_words(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert f"Severity: {rule['labels']['severity']}." in (RUNBOOKS / f"{name}.md").read_text()
    assert {"summary", "description"} == rule["annotations"].keys()


@each_row("name", ALERTS)
def test_an_alert_is_about_metrics_that_there_are(name: str) -> None:
    known = LABELS.keys() | OF_THE_API_SERVER
    words = re.findall(r"\b(?:schedulerd|apiserver)_\w+", ALERTS[name]["expr"])
    used = {re.sub("_bucket$", "", one) for one in words}
    assert used
    assert used <= known, used - known


ASKED = {name: rule["expr"] for name, rule in ALERTS.items()} | queries()
"""Every query of alerts and dashboards."""


@each_row("name", ASKED)
def test_what_the_daemon_knows_is_asked_of_the_leader(name: str) -> None:
    assert of_any_daemon(ASKED[name]) <= EACH_DAEMON.keys()


def test_what_is_asked_of_all_daemons_is_asked() -> None:
    assert EACH_DAEMON.keys() == {metric for query in ASKED.values() for metric in of_any_daemon(query)}


@pytest.mark.parametrize(
    "query",
    [
        "schedulerd_placements_total",
        'sum(rate(schedulerd_placement_latency_seconds_bucket{rm="a"}[5m]))',
        "schedulerd_placements_total and on (namespace) schedulerd_leader == 1",
        "schedulerd_placements_total and on (namespace, pod) schedulerd_leader",
        "schedulerd_asks_added_total / schedulerd_placements_total and on (namespace, pod) schedulerd_leader == 1",
    ],
)
def test_a_query_that_is_not_of_the_leader_alone_is_noticed(query: str) -> None:
    assert of_any_daemon(query)


def test_what_has_no_data_in_the_story_is_an_alert() -> None:
    assert {*WITHOUT_DATA, *OF_WEBHOOKS} <= ALERTS.keys()


def rules_of(**values: object) -> list[dict[str, Any]]:
    """The groups that the chart makes."""
    rule = one_of(render(values, api_versions=CUSTOM), "PrometheusRule", "schedulerd")
    return list(rule["spec"]["groups"])


def alerts_of(groups: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


@needs_helm
def test_the_chart_changes_no_other_alert() -> None:
    made = alerts_of(rules_of())
    assert made.keys() == ALERTS.keys()
    assert [name for name, rule in made.items() if rule != ALERTS[name]] == [
        "SchedulerdNoStandby",
        "SchedulerdNoReplacement",
    ]


@needs_helm
def test_one_replica_has_no_standby() -> None:
    assert ALERTS.keys() - alerts_of(rules_of(replicas=1)).keys() == {"SchedulerdNoStandby"}


@needs_helm
@needs_promtool
@pytest.mark.parametrize("ready", ["111", "110", "11"])
def test_a_replica_is_missing_by_the_number_and_the_names_of_the_release(ready: str, tmp_path: Path) -> None:
    """The other release has two."""
    rules = tmp_path / "rules.yaml"
    rules.write_text(json.dumps({"groups": rules_of(replicas=3, schedulerNames=["a.b", "c"])}))
    series = OTHER | replicas(ready, leads="100"[: len(ready)], name="a.b", first=10)
    check_alerts([("SchedulerdNoStandby", ready != "111", series)], tmp_path, rules)


def beside(name: str) -> str:
    """Alerts that may fire beside this one, as a regular expression: it is about the causes of both."""
    return "SchedulerdNoStandby|SchedulerdQueueFileInvalid" if name == "SchedulerdNoReplacement" else "none"


def check_alerts(cases: Iterable[tuple[str, bool, Series]], folder: Path, rules: Path = RULES) -> None:
    """Fails with promtool's words if an alert does not fire on the series after an hour, or one does."""
    tests = [
        {
            "name": f"{name} {'fires' if fires else 'is quiet'}",
            "interval": "1m",
            "input_series": [{"series": one, "values": values} for one, values in series.items()],
            "promql_expr_test": [
                {
                    "expr": f'count by (alertname) (ALERTS{{alertstate="firing",alertname!~"{beside(name)}"}})',
                    "eval_time": "1h",
                    "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}] if fires else [],
                }
            ],
        }
        for name, fires, series in cases
    ]
    file = folder / "tests.yaml"
    file.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", str(file))


@needs_promtool
class TestByPrometheus:
    def test_it_takes_the_rules(self) -> None:
        promtool("check", "rules", str(RULES))

    def test_each_fires_when_it_should_and_not_otherwise(self, tmp_path: Path) -> None:
        fires = [(name, True, cases[0]) for name, cases in CASES.items()]
        is_quiet = [(name, False, cases[1]) for name, cases in CASES.items()]
        fires += [(name, True, series) for name, series in MORE]
        is_quiet += [(name, False, series) for name, series in QUIET]
        check_alerts([*fires, *is_quiet], tmp_path)
