"""The alerts of the chart: Prometheus takes them, each fires when it should and not otherwise, and has its page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client import Metric

from schedulerd.kubernetes.admission.metrics import AdmissionMetrics
from schedulerd.kubernetes.api.metrics import WAIT_SECONDS
from schedulerd.kubernetes.shim.families import FAMILIES as OF_THE_SHIM
from schedulerd.observe.families import FAMILIES as OF_THE_DAEMON
from tests.kubernetes.chart.alerts import ALERTS, RULES, SELECTORS, WITHOUT_DATA
from tests.kubernetes.chart.helm import CHART
from tests.kubernetes.chart.prometheus import needs_promtool, promtool

RUNBOOKS = CHART.parents[1] / "docs" / "runbooks"

OF_THE_API_SERVER = {"apiserver_admission_webhook_fail_open_count", "apiserver_admission_webhook_rejection_count"}
"""Of Kubernetes, from 1.24 on."""

Series = dict[str, str]
"""Values of a metric with labels, one a minute, as promtool writes them: `0+1x60` grows by one from 0."""
UP = {'schedulerd_kubernetes_ready{namespace="s"}': "1x90", 'schedulerd_leader{namespace="s"}': "1x90"}
IN_POD = 'namespace="s",pod="a"'
BUSY = "0+100x90"


def replicas(ready: str, leads: str) -> Series:
    """A digit for each."""
    series = {}
    for pod, (is_ready, is_leader) in enumerate(zip(ready, leads, strict=True)):
        series[f'schedulerd_kubernetes_ready{{namespace="s",pod="{pod}"}}'] = f"{is_ready}x90"
        series[f'schedulerd_leader{{namespace="s",pod="{pod}"}}'] = f"{is_leader}x90"
    return series


CASES: dict[str, tuple[Series, Series]] = {
    "SchedulerdAbsent": ({"other": "1x90"}, UP),
    "SchedulerdNotScheduling": (replicas(ready="11", leads="00"), replicas(ready="11", leads="01")),
    "SchedulerdTwoLeaders": (replicas(ready="11", leads="11"), replicas(ready="11", leads="10")),
    "SchedulerdNoStandby": (replicas(ready="10", leads="10"), replicas(ready="1", leads="1")),
    "SchedulerdLeaseFails": (
        {**UP, f'schedulerd_kubernetes_lease_renewals_total{{{IN_POD},result="failed"}}': "0x50 1+1x40"},
        {**UP, f'schedulerd_kubernetes_lease_renewals_total{{{IN_POD},result="done"}}': BUSY},
    ),
    "SchedulerdLeaderChanges": (
        {**UP, f"schedulerd_kubernetes_lease_transitions{{{IN_POD}}}": "7x20 8x5 9x5 10x5 11x5 12x5 13x40"},
        {**UP, f"schedulerd_kubernetes_lease_transitions{{{IN_POD}}}": "7x20 8x70"},
    ),
    "SchedulerdQueueFileInvalid": (
        {**UP, f'schedulerd_config_last_reload_successful{{{IN_POD},rm=""}}': "1x30 0x60"},
        {**UP, f'schedulerd_config_last_reload_successful{{{IN_POD},rm=""}}': "0x30 1x60"},
    ),
    "SchedulerdQueueFilesDiffer": (
        {
            **UP,
            **{f'schedulerd_config_info{{namespace="s",pod="{pod}",rm="",checksum="{pod}"}}': "1x90" for pod in "ab"},
        },
        {**UP, **{f'schedulerd_config_info{{namespace="s",pod="{pod}",rm="",checksum="c"}}': "1x90" for pod in "ab"}},
    ),
    "SchedulerdRejections": (
        {**UP, f'schedulerd_rejections_total{{{IN_POD},rm="k",object="application",code="queue"}}': "0+1x90"},
        {**UP, f'schedulerd_rejections_total{{{IN_POD},rm="k",object="application",code="queue"}}': "0+1x30 30x60"},
    ),
    "SchedulerdClusterTooSmall": (
        {**UP, f'schedulerd_outstanding_requests{{{IN_POD},rm="k",partition="default"}}': "3x90"},
        {**UP, f'schedulerd_outstanding_requests{{{IN_POD},rm="k",partition="default"}}': "3x45 0 3x44"},
    ),
    "SchedulerdGangsWait": (
        {**UP, f'schedulerd_pending_placeholders{{{IN_POD},rm="k",partition="default",queue="root.a"}}': "2x90"},
        {**UP, f'schedulerd_pending_placeholders{{{IN_POD},rm="k",partition="default",queue="root.a"}}': "2x55 0 2x34"},
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
        {**UP, f'schedulerd_kubernetes_writes_total{{{IN_POD},kind="bind",result="refused"}}': "0+1x90"},
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
        {**UP, f'schedulerd_resource_managers{{{IN_POD},state="paused"}}': "1x90"},
        {**UP, f'schedulerd_resource_managers{{{IN_POD},state="running"}}': "1x90"},
    ),
    "SchedulerdBug": (
        {
            **UP,
            f'schedulerd_checks_failed_total{{{IN_POD},rm="k",item="ask"}}': "0x50 1x40",
            f"schedulerd_events_failed_total{{{IN_POD}}}": "0x90",
        },
        {
            **UP,
            f'schedulerd_checks_failed_total{{{IN_POD},rm="k",item="ask"}}': "0x90",
            f"schedulerd_events_failed_total{{{IN_POD}}}": "0x90",
        },
    ),
    "SchedulerdJournalEnded": (
        {**UP, f"schedulerd_journal_recording{{{IN_POD}}}": "1x30 0x60"},
        {**UP, f"schedulerd_journal_recording{{{IN_POD}}}": "1x90"},
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
        {**UP, f'schedulerd_admission_reviews_failed_total{{{IN_POD},webhook="mutate",cause="slow"}}': "0x50 1+1x40"},
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


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_severity_and_words(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert f"Severity: {rule['labels']['severity']}." in (RUNBOOKS / f"{name}.md").read_text()
    assert {"summary", "description"} == rule["annotations"].keys()


def names_of_samples(family: Metric) -> set[str]:
    return {family.name + suffix for suffix in (("_total",) if family.type == "counter" else ("",))}


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_is_about_metrics_that_there_are(name: str) -> None:
    known = {one.name for one in OF_THE_DAEMON} | {one.name for one in OF_THE_SHIM} | OF_THE_API_SERVER
    known |= {sample for family in AdmissionMetrics().registry.collect() for sample in names_of_samples(family)}
    words = re.findall(r"\b(?:schedulerd|apiserver)_\w+", ALERTS[name]["expr"])
    used = {re.sub("_bucket$", "", one) for one in words}
    assert used
    assert used <= known, used - known


def test_what_has_no_data_in_the_story_is_selected_by_an_alert() -> None:
    assert WITHOUT_DATA.keys() <= set(SELECTORS)


@needs_promtool
class TestByPrometheus:
    def test_it_takes_the_rules(self) -> None:
        promtool("check", "rules", str(RULES))

    def test_each_fires_when_it_should_and_not_otherwise(self, tmp_path: Path) -> None:
        tests = [
            {
                "name": f"{name} {'fires' if fires else 'is quiet'}",
                "interval": "1m",
                "input_series": [{"series": one, "values": values} for one, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                        "eval_time": "1h",
                        "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}] if fires else [],
                    }
                ],
            }
            for name, cases in CASES.items()
            for fires, series in zip((True, False), cases, strict=True)
        ]
        file = tmp_path / "tests.yaml"
        file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
        promtool("test", "rules", str(file))
