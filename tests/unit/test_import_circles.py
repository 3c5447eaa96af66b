"""No module needs itself by way of others, not even for its annotations.

Modules in a circle can only be understood together. An import under `TYPE_CHECKING` hides a circle from Python and from
import-linter, but not from a reader, so every import that stands in a file counts here.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import schedulerd

ROOT = Path(schedulerd.__file__).parent

LARGEST_ALLOWED = {
    "schedulerd.client": 1,
    "schedulerd.core": 9,  # the model: applications, asks, queues, nodes and what connects them know each other
    "schedulerd.daemon": 1,
}
"""By package, of how many modules a circle in it may be made. 1: there is none."""

Imports = Mapping[str, Collection[str]]
"""By module, the modules that it imports."""


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(source: str) -> Iterator[str]:
    """All names that may be modules: `from a import b` may mean the module `a.b`, and needs `a` otherwise."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def import_graph() -> Imports:
    sources = {module_name(path): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}
    graph = {}
    for module, source in sources.items():
        names = set(imported(source))
        graph[module] = {name if name in sources else name.rpartition(".")[0] for name in names} & sources.keys()
    return graph


def circles(graph: Imports) -> list[list[str]]:
    """Groups of modules each of which needs all others of the group, largest first (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        path.append(module)
        for needed in sorted(graph[module]):
            if needed not in order:
                visit(needed)
                lowest[module] = min(lowest[module], lowest[needed])
            elif needed in path:
                lowest[module] = min(lowest[module], order[needed])
        if lowest[module] == order[module]:
            at = path.index(module)
            if len(path) - at > 1:
                found.append(sorted(path[at:]))
            del path[at:]

    for module in sorted(graph):
        if module not in order:
            visit(module)
    return sorted(found, key=len, reverse=True)


@pytest.mark.parametrize(("package", "largest"), LARGEST_ALLOWED.items())
def test_no_circle_of_imports_is_larger_than_allowed(package: str, largest: int) -> None:
    graph = import_graph()
    assert package in graph, "it was renamed, and nothing would be found any more"
    of_it = [circle for circle in circles(graph) if any(f"{one}.".startswith(f"{package}.") for one in circle)]
    assert [circle for circle in of_it if len(circle) > largest] == []


def test_circles_are_found_with_all_their_modules() -> None:
    graph = {"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": ["e"], "e": ["d"], "f": ["a", "e"]}
    assert circles(graph) == [["a", "b", "c"], ["d", "e"]]
    assert circles({"a": ["b", "c"], "b": ["c"], "c": []}) == []


def test_imports_for_annotations_and_those_in_functions_count() -> None:
    source = """
from typing import TYPE_CHECKING
import a.b
if TYPE_CHECKING:
    from c.d import E
def f():
    from g import h
"""
    assert set(imported(source)) == {"typing.TYPE_CHECKING", "a.b", "c.d.E", "g.h"}
