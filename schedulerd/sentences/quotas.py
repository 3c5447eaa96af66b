"""Quotas and limits that do not let an ask in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from schedulerd.amounts import amount, amount_text, part_of

RuleKind: TypeAlias = Literal[
    "quota", "gang quota", "max applications", "limit", "gang limit", "limit max applications"
]
NOT_NODES = "Nodes are not the cause"
NOT_ONLY = "No node has room for it either"


def rule(
    kind: RuleKind,
    queue: str,
    resource: str,
    *,
    used: int,
    promised: int,
    asked: int,
    most: int,
    account: str = "",
    is_group: bool = False,
) -> str:
    """The rule that blocks, with the amounts that show why. `promised` is reserved for others, or promised to gangs; it
    counts as used. `account` is the user or group of a limit."""
    who = f"{'group' if is_group else 'user'} {account!r}"
    match kind:
        case "max applications":
            return f"queue {queue} runs {used:,} of at most {most:,} applications"
        case "limit max applications":
            return f"{who} runs {used:,} of at most {most:,} applications in queue {queue}"
        case "quota" | "gang quota":
            subject, what = f"queue {queue}", "its quota"
        case "limit" | "gang limit":
            subject, what = who, f"its limit in queue {queue}"
    is_gang = kind.startswith("gang")
    if used + promised >= most and not is_gang:
        state = f"is at {what}"
    else:
        state = f"would be above {what}{' with the whole gang' if is_gang else ''}"
    said = [f"{part_of(resource, used, most)} used"]
    if promised:
        said.append(f"{amount_text(resource, promised)} {'promised to gangs' if is_gang else 'reserved for others'}")
    said.append(f"{amount_text(resource, asked)} more asked")
    return f"{subject} {state}: {', '.join(said)}"


def and_nodes(clause: str, *, has_node: bool | None) -> str:
    """The rule that blocks one ask, and whether a node has room for it; None if that is not known."""
    return clause if has_node is None else f"{clause}. {NOT_NODES if has_node else NOT_ONLY}"


def lift(
    kind: RuleKind,
    queue: str,
    resource: str,
    *,
    counted: int,
    asked: int,
    most: int,
    leaving: int,
    has_promised: bool,
    is_only: bool,
) -> str:
    """What lets the ask in. `counted`: used and promised. `leaving` is being released. `is_only`: no other rule
    blocks."""
    whose = _whose(kind, queue)
    if not resource:
        begin = "it starts when one of them completes" if is_only else "that ends when one of them completes"
        return f"{begin}, or when {whose} is raised to {counted + 1}"
    if asked > most:
        never = f"it can never start like this: {amount(resource, asked)} is more than {whose} allows in all"
        return f"{never}. Ask for less, or raise it"
    missing = amount(resource, counted + asked - most)
    released = f" ({amount_text(resource, leaving)} is being released now)" if leaving else ""
    begin = "it goes on" if is_only else "that ends"
    kept = " or no longer promised" if has_promised and kind.startswith("gang") else ""
    raised = amount(resource, counted + asked)
    return f"{begin} when {missing} is released{released}{kept}, or when {whose} is raised to {raised}"


def above_max(queue: str, over: Mapping[str, tuple[int, int]]) -> str:
    """More is used than a max that was lowered: used and max of each such resource."""
    said = ", ".join(part_of(name, used, most) for name, (used, most) in sorted(over.items()))
    return f"queue {queue} is above its quota: {said} used"


def _whose(kind: RuleKind, queue: str) -> str:
    match kind:
        case "quota" | "gang quota":
            return f"the max of {queue}"
        case "max applications":
            return f"maxapplications of {queue}"
        case "limit" | "gang limit" | "limit max applications":
            return "this limit"
