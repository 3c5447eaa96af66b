"""The alerts of the chart, and which of them have nothing to judge in the stories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML

from tests.kubernetes.chart.helm import CHART

RULES = CHART / "files" / "alerts.yaml"
GROUPS: list[dict[str, Any]] = YAML(typ="safe").load(RULES.read_text())["groups"]
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}

OF_WEBHOOKS = ("SchedulerdReviewsFail", "SchedulerdCertificateExpires", "SchedulerdWebhooksUntrusted")
"""`test_admission_install` evaluates them; the other story has no webhooks."""
WITHOUT_DATA: Mapping[str, str] = {
    "SchedulerdAbsent": "it is about metrics that are not there",
    "SchedulerdApiErrors": "the API server answers all the time",
    "SchedulerdJournalEnded": "the story has no journal",
    "SchedulerdWebhooksUnreachable": "it is about metrics of the API server",
}
"""By alert: why no story has data for it. `test_alerts` has series for each."""
