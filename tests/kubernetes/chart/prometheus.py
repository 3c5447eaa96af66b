"""Asks promtool, which comes with Prometheus, about queries: whether they can be read, and what they give."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

PROMTOOL = shutil.which("promtool")
SECONDS_MAX = 60.0
INTERVAL_SECONDS = 15
"""Said to be between two scrapes."""
MISSING = "_"
"""In place of a value that a scrape did not have."""
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


class Scrapes:
    """What was scraped again and again, as series of promtool."""

    def __init__(self) -> None:
        self.count = 0
        self._values: dict[str, list[str]] = {}

    def add(self, *scraped: tuple[str, Mapping[str, str]]) -> None:
        """One scrape: the texts of all targets, with the labels of each."""
        for text, labels in scraped:
            for sample in (one for family in text_string_to_metric_families(text) for one in family.samples):
                inside = ",".join(f"{name}={json.dumps(value)}" for name, value in {**sample.labels, **labels}.items())
                values = self._values.setdefault(f"{sample.name}{{{inside}}}", [])
                values += [MISSING] * (self.count - len(values))
                values.append(f"{sample.value:.17g}")
        self.count += 1

    @property
    def series(self) -> dict[str, str]:
        return {name: " ".join(values) for name, values in self._values.items()}


def bare(query: str) -> str:
    """What a query measures: without the zero that stands for nothing, and without what an alert compares with."""
    query = " ".join(query.split()).removesuffix(" or vector(0)")
    return re.sub(r" (?:>|<|==) [\d.]+(?: [*] \d+)?(?= or | and |$)", "", query)


def check_data(queries: Iterable[str], scrapes: Scrapes, folder: Path, *, above_zero: bool = False) -> None:
    """Fails with promtool's words about those of the queries that never gave a number during the scrapes, or never one
    above 0 if that is asked. NaN is none: a quantile of nothing, or 0 of 0.
    """
    least, seconds = "0" if above_zero else "-Inf", scrapes.count * INTERVAL_SECONDS
    asked = [
        {
            "expr": f"count(last_over_time((({query}) > {least})[{seconds}s:{INTERVAL_SECONDS}s])) > bool 0",
            "eval_time": f"{seconds - INTERVAL_SECONDS}s",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for query in queries
    ]
    given = [{"series": name, "values": values} for name, values in scrapes.series.items()]
    test = {"interval": f"{INTERVAL_SECONDS}s", "input_series": given, "promql_expr_test": asked}
    file = folder / "test.yaml"
    file.write_text(json.dumps({"evaluation_interval": f"{INTERVAL_SECONDS}s", "tests": [test]}))
    promtool("test", "rules", str(file))
