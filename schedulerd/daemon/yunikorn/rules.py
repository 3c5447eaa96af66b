"""Placement rules in the peer's shape."""

from __future__ import annotations

from schedulerd.core.language.specs import FilterSpec, RuleKind, RuleSpec
from schedulerd.core.state.partition import Partition
from schedulerd.daemon.yunikorn.go_json import Fields, go_object

RECOVERY: Fields = {"name": "recovery", "parameters": {"queue": "root.@recovery@"}}
"""The last rule of every partition."""

_PROVIDED: Fields = {"name": "provided", "parameters": {"create": "false"}}


def rules(partition: Partition) -> list[Fields]:
    """The rules in order; without any the one that then holds."""
    return [*(map(_rule, partition.spec.rules) if partition.spec.rules else [_PROVIDED]), RECOVERY]


def _rule(rule: RuleSpec) -> Fields:
    parameters = {"create": str(rule.create).lower()}
    if rule.kind is RuleKind.FIXED:
        parameters["qualified"] = str(rule.value.lower().split(".")[0] == "root").lower()
        parameters["queue"] = rule.value.lower()
    if rule.kind is RuleKind.TAG:
        parameters["tagName"] = rule.value
    return go_object(
        {
            "name": rule.kind.value,
            "parameters": parameters,
            "filter": _filter(rule.filter),
            "parentRule": _rule(rule.parent) if rule.parent is not None else {},
        },
        frozenset({"name"}),
    )


def _filter(spec: FilterSpec) -> Fields:
    if not spec.users and not spec.groups:
        return {}
    return go_object(
        {
            "type": "allow" if spec.allow else "deny",
            "userList": [] if spec.is_user_pattern else sorted(spec.users),
            "groupList": [] if spec.is_group_pattern else sorted(spec.groups),
            "userExp": spec.users[0] if spec.is_user_pattern else "",
            "groupExp": spec.groups[0] if spec.is_group_pattern else "",
        },
        frozenset({"type"}),
    )
