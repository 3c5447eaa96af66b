"""The alerts of the chart, and what they select of the metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML

from tests.kubernetes.chart.helm import CHART

RULES = CHART / "files" / "alerts.yaml"
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in YAML(typ="safe").load(RULES.read_text())["groups"] for rule in group["rules"]
}
SELECTORS = sorted({one for rule in ALERTS.values() for one in re.findall(r"schedulerd_\w+(?:{[^}]*})?", rule["expr"])})
"""An alert would never fire if one of them never had data."""

OF_ADMISSION = {
    "schedulerd_admission_ca_bundle_current",
    "schedulerd_admission_certificate_expiry_timestamp_seconds",
}
"""What `test_admission_install` finds in the metrics of the webhooks."""

WITHOUT_DATA: Mapping[str, str] = {
    **dict.fromkeys(sorted(OF_ADMISSION), "the story has no webhooks; `test_admission_install` has them"),
    "schedulerd_admission_reviews_failed_total": "it counts reviews that fail, and begins with the first",
    "schedulerd_rejections_total": "the daemon rejects nothing of the story",
    'schedulerd_kubernetes_requests_total{code="403"}': "the chart grants all rights that are used",
    'schedulerd_kubernetes_requests_total{code=~"5..|unreachable"}': "the API server answers all the time",
    'schedulerd_kubernetes_writes_total{kind="bind",result=~"refused|failed|unknown"}': "all bindings succeed",
    "schedulerd_checks_failed_total": "it counts bugs, and begins with the first",
    "schedulerd_journal_recording": "the story has no journal",
}
"""By selector: why the story of the chart has no data for it. `test_alerts` has series for each."""
