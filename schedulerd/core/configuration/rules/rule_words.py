"""Placement rules as text, for people who compare two sets of rules."""

from __future__ import annotations

from schedulerd.core.language.checks import shown
from schedulerd.core.language.specs import FilterSpec, RuleSpec


def describe_rules(rules: tuple[RuleSpec, ...]) -> str:
    """All rules in order, as `tag namespace below fixed root.namespaces, creating; provided`."""
    return "; ".join(map(_rule, rules)) or "provided"


def _rule(rule: RuleSpec) -> str:
    words = f"{rule.kind} {rule.value}".rstrip()
    if rule.parent is not None:
        words += f" below ({_rule(rule.parent)})"
    if rule.filter.users or rule.filter.groups:
        words += f" {_filter(rule.filter)}"
    return words + (", creating" if rule.create else "")


def _filter(filter_: FilterSpec) -> str:
    who = [f"{kind} {shown(','.join(names))}" for kind, names in _named(filter_) if names]
    return f"{'for' if filter_.allow else 'not for'} {' or '.join(who)}"


def _named(filter_: FilterSpec) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return ("users", filter_.users), ("groups", filter_.groups)
