"""The compiled core has a C name for each attribute: an underscore and the attribute's name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import schedulerd.core

CORE = Path(schedulerd.core.__file__).parent
WORDS: tuple[str, ...] = (
    "alignof",
    "asm",
    "attribute",
    "complex",
    "const",
    "extension",
    "imag",
    "inline",
    "label",
    "real",
)
WORDS += ("restrict", "signed", "thread", "typeof", "volatile")
KEYWORDS = {f"__{word}" for word in WORDS} | {f"__{word}__" for word in WORDS} | {"__auto_type", "_Bool", "_Generic"}
"""Those of gcc and clang that begin with an underscore."""


def become_keywords(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and f"_{node.attr}" in KEYWORDS:
            yield node.attr


def test_no_attribute_of_the_core_becomes_a_keyword_of_c() -> None:
    found = {path.name: [*become_keywords(path.read_text("utf-8"))] for path in CORE.rglob("*.py")}
    assert {name: names for name, names in found.items() if names} == {}


def test_such_attributes_are_found() -> None:
    assert [*become_keywords("self._attribute = self.attribute")] == ["_attribute"]
