"""The lock files pin everything by hash and say nothing about the machine that made them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())


def pins(name: str) -> dict[str, str]:
    """Versions by package; fails on a line that is neither `package==version` with hashes nor a comment."""
    found: dict[str, str] = {}
    for entry in re.sub(r"\\\n", " ", (REPOSITORY / name).read_text()).splitlines():
        if not entry.strip() or entry.lstrip().startswith("#"):
            continue
        match = re.fullmatch(r"([\w.-]+)==(\S+)((?:\s+--hash=sha256:[0-9a-f]{64})+)", entry.strip())
        assert match, f"{name}: {entry!r}"
        found[canonicalize_name(match[1])] = match[2]
    return found


@pytest.mark.parametrize(
    ("lock", "asked"),
    [
        ("requirements-build.lock", PROJECT["build-system"]["requires"]),
        (
            "requirements.lock",
            [
                *PROJECT["project"]["dependencies"],
                *PROJECT["project"]["optional-dependencies"]["kubernetes"],
            ],
        ),
        (
            "requirements-dev.lock",
            [
                *PROJECT["build-system"]["requires"],
                *PROJECT["project"]["dependencies"],
                *PROJECT["project"]["optional-dependencies"]["kubernetes"],
                *PROJECT["project"]["optional-dependencies"]["dev"],
            ],
        ),
    ],
)
def test_every_requirement_is_pinned_within_its_bounds(lock: str, asked: list[str]) -> None:
    pinned = pins(lock)
    for requirement in map(Requirement, asked):
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement


@pytest.mark.parametrize("subset", ["requirements.lock", "requirements-build.lock"])
def test_what_is_tested_is_what_is_shipped(subset: str) -> None:
    assert pins(subset).items() <= pins("requirements-dev.lock").items()
