"""The tests that show what a page under docs/ says, found by reading the source: none of them may be missing.

`security.md` names its tests in a table. The tests of `limits.md` and `interface.md` are in `limits.toml` and
`interface.toml` beside this module: by the key of a row, the list of its tests. A test is written as its path below
`tests/` and its name, `unit/core/language/test_checks.py::test_it`.
"""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[2]
DOCS = TESTS.parent / "docs"

NAMED = re.compile(r"`([\w/]+\.py::\w+)`")

TestsOf = dict[str, dict[str, list[str]]]
"""By section and key, the tests."""


@cache
def defined() -> frozenset[str]:
    """Every test function as `unit/core/language/test_checks.py::test_it`."""
    return frozenset(
        f"{path.relative_to(TESTS).as_posix()}::{node.name}"
        for path in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def load_named_tests(page: str) -> TestsOf:
    """The data file of a page. TOML does not allow a key twice, so no entry hides another one."""
    tables: TestsOf = tomllib.loads(Path(__file__).with_name(f"{page}.toml").read_text(encoding="utf-8"))
    return tables


def mistakes(named: list[str]) -> list[str]:
    """What is wrong with the tests of one key."""
    if not named:
        return ["no test"]
    missing = [f"there is no test {one}" for one in named if one not in defined()]
    return missing + [f"{one} is named twice" for one in sorted(set(named)) if named.count(one) > 1]
