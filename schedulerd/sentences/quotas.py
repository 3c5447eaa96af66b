"""Quotas and limits that do not let an ask in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

from schedulerd.amounts import amount, amount_text, part_of

RuleKind: TypeAlias = Literal[
    "quota", "gang quota", "max applications", "limit", "gang limit", "limit max applications"
]
NOT_NODES = "Nodes are not the cause"
NOT_ONLY = "No node has room for it either"


class Numbers(Protocol):
    """The amounts that show why a rule blocks. `promised` is reserved for others, or promised to gangs; it counts as
    used. `account` is the user or group of a limit; `resource` is empty where applications are counted."""

    @property
    def resource(self) -> str: ...
    @property
    def used(self) -> int: ...
    @property
    def promised(self) -> int: ...
    @property
    def asked(self) -> int: ...
    @property
    def max(self) -> int: ...
    @property
    def account(self) -> str: ...
    @property
    def is_group(self) -> bool: ...


def rule(kind: RuleKind, queue: str, found: Numbers) -> str:
    """The rule that blocks, with the amounts that show why."""
    who = f"{'group' if found.is_group else 'user'} {found.account!r}"
    match kind:
        case "max applications":
            return f"queue {queue} runs {found.used:,} of at most {found.max:,} applications"
        case "limit max applications":
            return f"{who} runs {found.used:,} of at most {found.max:,} applications in queue {queue}"
        case "quota" | "gang quota":
            subject, what = f"queue {queue}", "its quota"
        case "limit" | "gang limit":
            subject, what = who, f"its limit in queue {queue}"
    is_gang = kind.startswith("gang")
    if found.used + found.promised >= found.max and not is_gang:
        state = f"is at {what}"
    else:
        state = f"would be above {what}{' with the whole gang' if is_gang else ''}"
    said = [f"{part_of(found.resource, found.used, found.max)} used"]
    if found.promised:
        promised = amount_text(found.resource, found.promised)
        said.append(f"{promised} {'promised to gangs' if is_gang else 'reserved for others'}")
    said.append(f"{amount_text(found.resource, found.asked)} more asked")
    return f"{subject} {state}: {', '.join(said)}"


def and_nodes(clause: str, *, has_node: bool | None) -> str:
    """The rule that blocks one ask, and whether a node has room for it; None if that is not known."""
    return clause if has_node is None else f"{clause}. {NOT_NODES if has_node else NOT_ONLY}"


def lift(kind: RuleKind, queue: str, found: Numbers, leaving: int, *, is_only: bool) -> str:
    """What lets the ask in. `leaving` is being released. `is_only`: no other rule blocks."""
    resource, counted = found.resource, found.used + found.promised
    whose = _whose(kind, queue)
    if not resource:
        begin = "it starts when one of them completes" if is_only else "that ends when one of them completes"
        return f"{begin}, or when {whose} is raised to {counted + 1}"
    if found.asked > found.max:
        never = f"it can never start like this: {amount(resource, found.asked)} is more than {whose} allows in all"
        return f"{never}. Ask for less, or raise it"
    missing = amount(resource, counted + found.asked - found.max)
    released = f" ({amount_text(resource, leaving)} is being released now)" if leaving else ""
    begin = "it goes on" if is_only else "that ends"
    kept = " or no longer promised" if found.promised and kind.startswith("gang") else ""
    raised = amount(resource, counted + found.asked)
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
