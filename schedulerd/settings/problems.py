"""A problem of a configuration: one place, one value, one sentence that says what is allowed there.

Readers of a file collect all problems, so that an operator corrects a file once and not once per mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""Where a value is in a document: the keys and the positions in lists that lead to it."""

Finding: TypeAlias = tuple[Path, str]
"""Result of a check: the path, and what is allowed there. The document adds line and value, which makes it a
`Problem`."""

PROBLEMS_MAX = 1_000
"""Maximum number of problems, and of warnings, that are reported of a text, which may have 100,000."""

_SHOWN_CHARACTERS_MAX = 80
_COMPARED_CHARACTERS_MAX = 64
"""The time to compare two names grows with the product of their lengths."""

_QUOTED = re.compile(r"""["'].*["']|\d+""", re.DOTALL)
"""From the first quotation mark of a message to the last, as what is quoted may have some itself; and numbers."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong (or, as a warning, one thing to know) at one place of a configuration."""

    path: str
    """Like `partitions[0].queues[2].resources.max.memory`; empty for the document as a whole."""
    line: int | None
    """1-based line of the key or list item, or None where there is no text."""
    value: str | None
    """The value as it was written, or None where it is missing or is not a single value."""
    message: str
    """The problem, and what is allowed instead."""

    def __str__(self) -> str:
        where = self._where()
        shown = self.path if self.value is None else f"{self.path or 'text'} = {shorten(self.value)!r}"
        return ": ".join(part for part in (where, shown, self.message) if part)

    def without_text(self) -> str:
        """Line and message with nothing of the configuration: no key, no value, and `...` for what the message quotes.

        For the log, where the text is a secret. What a message takes from the text has to stand there in quotation
        marks or be a number.
        """
        return ": ".join(part for part in (self._where(), _QUOTED.sub("...", self.message)) if part)

    def _where(self) -> str:
        return f"line {self.line}" if self.line is not None else ""


def format_path(path: Path) -> str:
    """`("queues", 0, "name")` as `queues[0].name`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{shorten(step)}" if text else shorten(step)
    return text


def shorten(text: str) -> str:
    """The text, cut in the middle if it is too long for a message."""
    if len(text) <= _SHOWN_CHARACTERS_MAX:
        return text
    half = _SHOWN_CHARACTERS_MAX // 2 - 2
    return f"{text[:half]}...{text[-half:]}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean "max"?` if a known name is close to this one, else an empty text."""
    if len(name) > _COMPARED_CHARACTERS_MAX:
        return ""
    near = get_close_matches(name.lower(), list(known), n=1, cutoff=0.7)
    return f'did you mean "{near[0]}"?' if near else ""


def suggest(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: the most similar known name, or one of all known names."""
    names = sorted(known)
    return did_you_mean(name, names) or f"known are {', '.join(names)}"
