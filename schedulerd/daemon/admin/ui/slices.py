"""Long lists a part at a time: what is shown of how many, and where the rest is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Slice(NamedTuple):
    """A part of a list."""

    first: int
    """Number of its first item; 0 is the first of all."""
    end: int
    whole: int
    size: int

    @property
    def said(self) -> str:
        """`31 to 60 of 1,200`; empty if all are shown."""
        if not self.first and self.end >= self.whole:
            return ""
        return f"{min(self.first + 1, self.whole):,} to {min(self.end, self.whole):,} of {self.whole:,} shown"

    def links(self, to: Callable[[str], str]) -> dict[str, str]:
        """Where the parts before and after it are; '' where there is none. `to` makes the address from the number of
        the first item, which is '' for the first part."""
        before = max(0, self.first - self.size)
        return {
            "previous": to(str(before) if before else "") if self.first else "",
            "next": to(str(self.end)) if self.end < self.whole else "",
        }


def page_of(text: str, whole: int, size: int) -> Slice:
    """The part of a list of `whole` items that begins at the number in `text`, a parameter of a page."""
    first = int(text) if text.isdecimal() and len(text) < 8 else 0
    return Slice(first, first + size, whole, size)
