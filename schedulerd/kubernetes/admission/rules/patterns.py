"""Regular expressions (RE2) of operators, which match names as a whole."""

from __future__ import annotations

from collections.abc import Iterable

import re2

PATTERN_CHARACTERS_MAX = 1_000
_MEMORY_BYTES_MAX = 64 * 1024
"""Of a compiled pattern with its cached states."""


class Patterns:
    """Several regular expressions, of which one has to match. False if there are none."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        """Raises ValueError for a text that is no regular expression."""
        self.texts = tuple(texts)
        self._compiled = [_compiled(text) for text in self.texts]

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def matches(self, name: str) -> bool:
        text = name.encode("utf-8", "surrogatepass")
        return any(pattern.fullmatch(text) is not None for pattern in self._compiled)


def _compiled(text: str) -> re2._Regexp:
    if len(text) > PATTERN_CHARACTERS_MAX:
        raise ValueError(f"a pattern has at most {PATTERN_CHARACTERS_MAX} characters")
    options = re2.Options()
    options.max_mem = _MEMORY_BYTES_MAX
    options.log_errors = False  # RE2 would write them to stderr
    try:
        return re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise ValueError(f'"{text}" is not a regular expression: {reason}') from error
