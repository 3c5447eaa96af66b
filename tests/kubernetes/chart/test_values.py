"""`values.yaml`, its schema and the plain manifests are about the same things."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.kubernetes.chart import plain_manifests
from tests.kubernetes.chart.helm import CHART, needs_helm
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


_LINE = re.compile(r"^( *)([A-Za-z]\w*):")


def described_values(text: str) -> Iterator[str]:
    """The name, with dots, of every value with a comment above it, which is a leaf or a mapping that people replace.

    Raises `ValueError` for a leaf without a comment that is in no commented mapping.
    """
    path: list[tuple[int, str]] = []
    is_commented = False
    covered: int | None = None
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if line.strip().startswith("#") and (covered is None or indent <= covered):
            is_commented = True
            continue
        found = _LINE.match(line)
        if found is None or (covered is not None and indent > covered):
            is_commented = is_commented and bool(line.strip())
            continue
        covered = None
        path = [(depth, key) for depth, key in path if depth < indent] + [(indent, found[2])]
        name = ".".join(key for _, key in path)
        if is_commented:
            covered = indent
            yield name
        elif not line.rstrip().endswith(":"):
            raise ValueError(f"{name} has no comment")
        is_commented = False


def test_every_value_is_described() -> None:
    assert set(described_values(VALUES)) == set(names_of_schema(SCHEMA)) - {"global"}


def test_a_value_without_a_comment_is_named() -> None:
    with pytest.raises(ValueError, match=r"^a\.c has no comment$"):
        list(described_values("a:\n  # Text.\n  b: 1\n  c: 2\n"))


@needs_helm
@pytest.mark.parametrize("name", plain_manifests.FILES)
def test_the_plain_manifests_are_what_the_chart_renders(name: str) -> None:
    assert (MANIFESTS / name).read_text() == plain_manifests.texts()[name], "run `make manifests`"


def test_there_are_no_other_plain_manifests() -> None:
    made = {path.relative_to(MANIFESTS).as_posix() for path in MANIFESTS.rglob("*.yaml")}
    assert made == set(plain_manifests.FILES)
