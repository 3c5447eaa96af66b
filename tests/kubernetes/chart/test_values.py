"""`values.yaml`, its schema, its table and the plain manifests are about the same things."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.kubernetes.chart import plain_manifests
from tests.kubernetes.chart.helm import CHART, needs_helm
from tests.kubernetes.chart.values_table import PAGE, described_values, page
from tests.kubernetes.rights import MANIFESTS

VALUES = (CHART / "values.yaml").read_text()
SCHEMA = json.loads((CHART / "values.schema.json").read_text())

AS_A_WHOLE = (
    "probes.",
    "daemon.resources",
    "shim.resources",
    "admission.resources",
    "admission.certificates.issuer",
)
"""Mappings that people replace as a whole."""


def names_of_schema(schema: dict[str, Any], above: str = "") -> Iterator[str]:
    """Of every value that is no mapping with names of its own."""
    schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    if "properties" not in schema or above.startswith(AS_A_WHOLE):
        yield above
        return
    for name, one in schema["properties"].items():
        yield from names_of_schema(one, f"{above}.{name}".strip("."))


def names_of_values(values: Any, known: set[str], above: str = "") -> Iterator[str]:
    if above in known or not isinstance(values, dict):
        yield above
        return
    for name, one in values.items():
        yield from names_of_values(one, known, f"{above}.{name}".strip("."))


def test_the_schema_has_every_value_and_no_other() -> None:
    known = set(names_of_schema(SCHEMA))
    assert set(names_of_values(YAML(typ="safe").load(VALUES), known)) == known - {"global"}


def test_every_value_is_described() -> None:
    described = {one.name for one in described_values(VALUES)}
    assert described == set(names_of_schema(SCHEMA)) - {"global"}


def test_a_value_without_a_comment_is_named() -> None:
    with pytest.raises(ValueError, match=r"^a\.c has no comment$"):
        list(described_values("a:\n  # Text.\n  b: 1\n  c: 2\n"))


def test_the_table_is_that_of_the_values() -> None:
    assert PAGE.read_text() == page(), "run `make manifests`"


@needs_helm
@pytest.mark.parametrize("name", plain_manifests.FILES)
def test_the_plain_manifests_are_what_the_chart_renders(name: str) -> None:
    assert (MANIFESTS / name).read_text() == plain_manifests.texts()[name], "run `make manifests`"


def test_there_are_no_other_plain_manifests() -> None:
    made = {path.relative_to(MANIFESTS).as_posix() for path in MANIFESTS.rglob("*.yaml")}
    assert made == set(plain_manifests.FILES)
