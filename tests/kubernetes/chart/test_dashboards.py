"""The dashboards are what the code makes, about metrics that there are, in queries that Prometheus takes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.kubernetes.chart.dashboards import DASHBOARDS, FOLDER, queries, text
from tests.kubernetes.chart.families import LABELS
from tests.kubernetes.chart.helm import needs_helm, one_of, render
from tests.kubernetes.chart.prometheus import filled_in, needs_promtool, promtool
from tests.loops import each_row

OF_SCRAPES = {"namespace", "pod", "container", "le"}


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_is_what_the_code_makes(name: str) -> None:
    assert (FOLDER / f"{name}.json").read_text() == text(name), "run `make manifests`"


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_have_numbers_of_their_own_and_the_chosen_source(name: str) -> None:
    panels = json.loads(text(name))["panels"]
    assert len({one["id"] for one in panels}) == len(panels)
    for one in panels:
        if one["type"] != "row":
            assert one["datasource"] == {"type": "prometheus", "uid": "$datasource"}
            assert one["targets"]


@each_row("name", queries())
def test_a_query_is_about_metrics_and_labels_that_there_are(name: str) -> None:
    query = queries()[name]
    used = {re.sub("_bucket$", "", one) for one in re.findall(r"\bschedulerd_\w+", query)}
    assert used <= LABELS.keys(), used - LABELS.keys()
    if "ALERTS" in query:
        assert not used
        return
    known = OF_SCRAPES.union(*(LABELS[one] for one in used))
    selected = {label for found in re.findall(r"\{(.*?)\}", query) for label in re.findall(r"(\w+)[=!]", found)}
    grouped = {label.strip() for found in re.findall(r"by \((.*?)\)", query) for label in found.split(",")}
    assert selected | grouped <= known, (selected | grouped) - known
    legend = name.rpartition(": ")[2]
    shown = set(re.findall(r"\{\{(\w+)\}\}", legend))
    assert shown <= (grouped or known)


@needs_promtool
def test_prometheus_takes_every_query(tmp_path: Path) -> None:
    rules = [{"record": f"query{number}", "expr": filled_in(one)} for number, one in enumerate(queries().values())]
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    promtool("check", "rules", str(file))


@needs_helm
def test_the_chart_has_them_as_config_maps() -> None:
    for name in DASHBOARDS:
        made = one_of(render(), "ConfigMap", f"schedulerd-dashboard-{name}")
        assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert made["data"] == {f"schedulerd-{name}.json": text(name).rstrip("\n") + "\n"}
