"""Asks promtool, which comes with Prometheus, about queries: whether they can be read, and what they give."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

PROMTOOL = shutil.which("promtool")
SECONDS_MAX = 60.0
SAMPLES = 24
"""Of each scraped series."""
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="there is no promtool, which is in the package prometheus")


def promtool(*arguments: str) -> None:
    """Fails with its output."""
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr


def filled_in(query: str, namespace: str = "n") -> str:
    """A query of a dashboard with the variables that people choose."""
    chosen = {"$__rate_interval": "5m", "$namespace": namespace, "$queue": ".*"}
    for name, value in chosen.items():
        query = query.replace(name, value)
    return query


def series_of(scraped: str, **labels: str) -> dict[str, str]:
    """What was scraped, as series of promtool that stay as they are, with the labels of the target."""
    found = {}
    for family in text_string_to_metric_families(scraped):
        for sample in family.samples:
            inside = ",".join(f"{name}={json.dumps(value)}" for name, value in {**sample.labels, **labels}.items())
            found[f"{sample.name}{{{inside}}}"] = f"{sample.value:.17g}x{SAMPLES}"
    return found


def check_data(queries: Iterable[str], series: Mapping[str, str], folder: Path, interval: str = "1m") -> None:
    """Fails with promtool's words about those of the queries that give nothing on these series.

    `interval` is that of the scrapes; the queries are about a time 5 minutes after the first.
    """
    asked = [
        {"expr": f"count({query}) > bool 0", "eval_time": "5m", "exp_samples": [{"labels": "{}", "value": 1}]}
        for query in queries
    ]
    given = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": interval, "input_series": given, "promql_expr_test": asked}
    file = folder / "test.yaml"
    file.write_text(json.dumps({"evaluation_interval": "1m", "tests": [test]}))
    promtool("test", "rules", str(file))
