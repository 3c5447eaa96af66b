"""Reads the comments of `values.yaml`, and makes the table of docs/chart-values.md from them: `make manifests`.

`python -m tests.kubernetes.chart.values_table`
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML

from tests.kubernetes.chart.helm import CHART

PAGE = CHART.parents[1] / "docs" / "chart-values.md"
HEAD = """# Values of the Helm chart

[Installing](install.md) says how to use them. This page is made from
[`values.yaml`](../charts/schedulerd/values.yaml) by `make manifests`; `helm install` checks all values against a
schema, and refuses names that are not here.

| value | default | meaning |
|---|---|---|
"""
SHOWN_MAX = 300
"""Characters of a default."""
_LINE = re.compile(r"^( *)([A-Za-z]\w*):")


@dataclass(frozen=True, slots=True)
class Value:
    name: str
    """With dots: `image.tag`."""
    comment: str
    default: Any


def described_values(text: str) -> Iterator[Value]:
    """Every value with a comment above it, which is a leaf or, for those that people replace as a whole, a mapping.

    Raises `ValueError` for a leaf without a comment that is in no commented mapping.
    """
    defaults = YAML(typ="safe").load(text)
    path: list[tuple[int, str]] = []
    comment: list[str] = []
    covered: int | None = None
    for line in text.splitlines():
        if line.strip().startswith("#") and (covered is None or _indent(line) <= covered):
            comment.append(line.strip().removeprefix("#").strip())
            continue
        found = _LINE.match(line)
        indent = _indent(line)
        if found is None or (covered is not None and indent > covered):
            comment = [] if not line.strip() else comment
            continue
        covered = None
        path = [(depth, key) for depth, key in path if depth < indent] + [(indent, found[2])]
        name = ".".join(key for _, key in path)
        default: Any = defaults
        for _, key in path:
            default = default[key]
        if comment:
            covered = indent
            yield Value(name, " ".join(comment), default)
        elif not line.rstrip().endswith(":"):
            raise ValueError(f"{name} has no comment")
        comment = []


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def page() -> str:
    text = (CHART / "values.yaml").read_text()
    rows = [
        f"| `{one.name}` | {_shown(one.default)} | {one.comment.replace('|', chr(92) + '|')} |\n"
        for one in described_values(text)
    ]
    return HEAD + "".join(rows)


def _shown(default: Any) -> str:
    match default:
        case "" | None:
            return ""
        case bool():
            return f"`{str(default).lower()}`"
        case str() if "\n" in default:
            return "see `values.yaml`"
        case dict() | list() if default:
            return f"`{_flow(default)}`" if len(_flow(default)) <= SHOWN_MAX else "see `values.yaml`"
    return f"`{default}`"


def _flow(value: Any) -> str:
    """As YAML in one line."""
    match value:
        case dict():
            return "{" + ", ".join(f"{key}: {_flow(one)}" for key, one in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_flow, value)) + "]"
        case bool():
            return str(value).lower()
    return str(value)


def main() -> None:
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
