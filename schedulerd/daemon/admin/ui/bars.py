"""Bars and shades as classes of the style sheet, because the page allows no styles in line.

`wN` is a width of N percent, `xN` a distance of N percent from the left.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedulerd.daemon.admin.ui.texts import percent

SHADES = 10
"""Shades of a node in the heat map, beside that of an empty one."""


def bar(name: str, used: int, pending: int, guaranteed: int | None, end: int) -> dict[str, str]:
    """The fields of a bar: used solid, pending hatched behind it, the guarantee a mark. `end` is its whole length."""
    used_share = min(100, percent(used, end)) if end > 0 else 0
    pending_share = min(100 - used_share, percent(pending, end)) if end > 0 else 0
    fields = {f"{name}u__class": f"u w{used_share}", f"{name}p__class": f"p x{used_share} w{pending_share}"}
    has_mark = guaranteed is not None and end > 0
    at = min(100, percent(guaranteed or 0, end)) if has_mark else 0
    fields[f"{name}g__class"] = f"g x{at}" if has_mark else "g off"
    return fields


def share_class(part: int, whole: int) -> str:
    """The class of a plain bar."""
    return f"u w{min(100, percent(part, whole))}"


def shade(part: int, whole: int) -> int:
    """0 for an empty node, `SHADES` for a full one."""
    return min(SHADES, -(-part * SHADES // whole)) if whole > 0 and part > 0 else 0


def sparkline(values: Sequence[int], top: int, width: int = 600, height: int = 60) -> str:
    """The path of a line through values, left to right, with `top` at the upper edge."""
    if not values:
        return ""
    step = width / max(1, len(values) - 1)
    points = (f"{at * step:.0f} {height - height * min(one, top) / max(1, top):.1f}" for at, one in enumerate(values))
    return "M" + "L".join(points) if len(values) > 1 else ""
