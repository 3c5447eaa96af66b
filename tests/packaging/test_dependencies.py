"""The run-time dependencies are those that the package imports, no more and no fewer."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from schedulerd.cli import _LATE_COMMANDS

REPOSITORY = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
KUBERNETES = set((REPOSITORY / "schedulerd" / "kubernetes").rglob("*.py"))
"""Imported by the Kubernetes shim alone."""
LENT_BY = {"pydantic-core": "pydantic", "yarl": "aiohttp"}
"""Packages whose names another package makes part of its own interface."""


def imported_modules(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


def imported_distributions(sources: list[Path]) -> set[str]:
    """Distributions that the sources import from; `google` is shared by several and means protobuf here."""
    providers = packages_distributions()
    found = set()
    for name in {module.partition(".")[0] for source in sources for module in imported_modules(source)}:
        if name == "google":
            found.add("protobuf")
        elif name != "schedulerd" and name not in sys.stdlib_module_names:
            (provider,) = set(providers[name])
            found.add(LENT_BY.get(canonicalize_name(provider), canonicalize_name(provider)))
    return found


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(requirement).name) for requirement in requirements}


def test_all_but_the_shim_imports_exactly_the_declared_dependencies() -> None:
    sources = [path for path in (REPOSITORY / "schedulerd").rglob("*.py") if path not in KUBERNETES]
    assert imported_distributions(sources) == names(PROJECT["dependencies"])


def test_only_the_commands_of_kubernetes_need_an_extra() -> None:
    """So that `pip install '.[kubernetes]'` is all that the commands which ask a daemon need."""
    late = {name: one.extra for name, one in _LATE_COMMANDS.items() if one.extra}
    assert late == dict.fromkeys(("admission", "kubernetes", "kubernetes-replay"), "kubernetes")
    assert set(PROJECT["optional-dependencies"]) == {"kubernetes", "compile", "dev"}


def test_the_kubernetes_shim_adds_exactly_its_extra() -> None:
    added = imported_distributions(sorted(KUBERNETES)) - names(PROJECT["dependencies"])
    assert added == names(PROJECT["optional-dependencies"]["kubernetes"])
