"""What docs/metrics.md tells people to do with Prometheus works."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.kubernetes.chart.families import LABELS
from tests.kubernetes.chart.helm import CHART, CUSTOM, needs_helm, render
from tests.kubernetes.chart.prometheus import needs_promtool, promtool

PAGE = (CHART.parents[1] / "docs" / "metrics.md").read_text()
JOBS = re.findall(r"```yaml\n(scrape_configs:.+?)```", PAGE, re.DOTALL)
WATCHED = re.findall(
    r"\| `([^`]*schedulerd_[^`]+)`", PAGE[PAGE.index("## What to watch") : PAGE.index('<a id="yunikorn">')]
)
REPLICAS = ("a", "b")


@needs_promtool
@pytest.mark.parametrize("number", range(2))
def test_prometheus_takes_the_scrape_configuration(number: int, tmp_path: Path) -> None:
    """Debian's Prometheus is built without the discovery of pods, which is left out here."""
    config = YAML(typ="safe").load(JOBS[number])
    (job,) = config["scrape_configs"]
    assert job.pop("kubernetes_sd_configs", None) in (None, [{"role": "pod", "namespaces": {"names": ["schedulerd"]}}])
    file = tmp_path / "prometheus.yml"
    file.write_text(json.dumps(config))
    promtool("check", "config", str(file))


@needs_helm
def test_pods_are_scraped_at_the_ports_that_have_metrics() -> None:
    (job,) = YAML(typ="safe").load(JOBS[1])["scrape_configs"]
    keep = {one["source_labels"][0]: one["regex"] for one in job["relabel_configs"] if one.get("action") == "keep"}
    templates = [one["spec"]["template"] for one in render(api_versions=CUSTOM) if one["kind"] == "Deployment"]
    for template in templates:
        label = template["metadata"]["labels"]["app.kubernetes.io/name"]
        assert re.fullmatch(keep["__meta_kubernetes_pod_label_app_kubernetes_io_name"], label)
    ports = {port["name"] for one in templates for each in one["spec"]["containers"] for port in each["ports"]}
    found = {one for one in ports if re.fullmatch(keep["__meta_kubernetes_pod_container_port_name"], one)}
    monitors = [one["spec"] for one in render(api_versions=CUSTOM) if one["kind"] == "PodMonitor"]
    assert found == {end["port"] for one in monitors for end in one["podMetricsEndpoints"]}


@needs_promtool
def test_queries_work_while_two_daemons_say_the_same(tmp_path: Path) -> None:
    """As after a takeover: the daemon of the old leader has what was there when its shim was killed."""
    assert len(WATCHED) > 15
    asked = [
        {"expr": f"(count({one}) or vector(0)) >= bool 0", "eval_time": "5m", "exp_samples": ONE} for one in WATCHED
    ]
    metrics = {name for query in WATCHED for name in re.findall(r"schedulerd_\w+", query)}
    series = [one for metric in metrics for replica in REPLICAS for one in series_of(metric, replica)]
    file = tmp_path / "test.yaml"
    file.write_text(json.dumps({"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": asked}]}))
    promtool("test", "rules", str(file))


ONE = [{"labels": "{}", "value": 1}]


def series_of(metric: str, replica: str) -> list[dict[str, str]]:
    labels = {name: "root" if name == "queue" else "x" for name in LABELS[re.sub("_bucket$", "", metric)]}
    labels |= {"instance": replica, "pod": replica, "namespace": "n"} | ({"le": "+Inf"} if "_bucket" in metric else {})
    inside = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return [{"series": f"{metric}{{{inside}}}", "values": "0+1x90"}]
