"""The tests that pages name, found by reading the source: a page must not name one that is not there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[2]
DOCS = TESTS.parent / "docs"

NAMED = re.compile(r"`([\w/]+\.py::\w+)`")


@cache
def defined() -> frozenset[str]:
    """Every test function as `unit/core/test_checks.py::test_it`."""
    return frozenset(
        f"{path.relative_to(TESTS).as_posix()}::{node.name}"
        for path in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )
