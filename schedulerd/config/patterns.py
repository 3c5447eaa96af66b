"""Regular expressions of placement filters, in the syntax of RE2 (https://github.com/google/re2/wiki/Syntax).

RE2 is what the peer's patterns are written for: they are Go patterns, and Go has the same syntax. RE2 never backtracks:
the time of a search is linear in the length of the text, whatever the pattern. The factor is the size of the
program that a pattern is compiled to, so this size is bounded.
"""

from __future__ import annotations

from functools import lru_cache

import re2

CHARACTERS_MAX = 1024
"""Of a pattern."""
PROGRAM_SIZE_MAX = 500
"""Instructions of all patterns of a partition together. A character takes one, `.` eight, `\\pL` several hundred. At
worst each takes 20 ns for each character of a name (AMD EPYC), and `placement.NAMES_LENGTH_MAX` says of how many."""
KEPT_MAX = 128
"""Compiled patterns kept ready, of all queue files together."""

_MEMORY_BYTES_MAX = 64 * 1024
"""Maximum memory of a compiled pattern with its cached states. RE2 refuses a larger pattern, and drops cached
states."""


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = _MEMORY_BYTES_MAX
    options.never_capture = True
    options.log_errors = False  # RE2 would write them to stderr
    return options


_OPTIONS = _options()


def program_size(pattern: str) -> int:
    """The size of a pattern, in instructions. Raises ValueError with the reason if the pattern cannot be used."""
    if len(pattern) > CHARACTERS_MAX:
        raise ValueError(f"it has {len(pattern)} characters; at most {CHARACTERS_MAX} are allowed")
    try:
        return int(re2.compile(pattern, _OPTIONS).programsize)
    except UnicodeEncodeError:
        raise ValueError("it has a character that Unicode does not have") from None
    except re2.error as error:
        raise ValueError(_sentence(error)) from None


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern matches anywhere in the text. `program_size` has accepted the pattern."""
    return _compiled(pattern).search(text.encode("utf-8", "surrogatepass")) is not None


@lru_cache(maxsize=KEPT_MAX)
def _compiled(pattern: str) -> re2._Regexp:
    return re2.compile(pattern, _OPTIONS)


def _sentence(error: re2.error) -> str:
    (reason,) = error.args
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
