"""A value that is one of a few names, in upper or lower case."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

_Choice = TypeVar("_Choice", bound=StrEnum)


def one_of(choices: type[_Choice]) -> Callable[[str], _Choice]:
    """A parser for the names of `choices`; it raises ValueError with all of them."""

    def parse(text: str) -> _Choice:
        if text.lower() not in list(choices):
            raise ValueError(f"must be one of {', '.join(choices)}")
        return choices(text.lower())

    return parse
