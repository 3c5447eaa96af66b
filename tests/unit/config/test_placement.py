from __future__ import annotations

from typing import Any

import pytest

from schedulerd.config import load_queue_file
from schedulerd.config.placement import RULES_MAX
from schedulerd.core.language.specs import FilterSpec, RuleKind, RuleSpec
from tests.loops import each_row
from tests.unit.config.build import a_partition, a_text, load_partition, problems_with

QUEUES = ({"name": "leaf"}, {"name": "Parent", "parent": True}, {"name": "full", "queues": [{"name": "child"}]})


def problems(*rules: dict[str, Any]) -> list[tuple[str, str]]:
    prefix = "partitions[0].placementrules"
    return [
        (path.removeprefix(prefix), message) for path, message in problems_with(*QUEUES, placementrules=list(rules))
    ]


def warnings(*rules: dict[str, Any]) -> list[str]:
    file = load_queue_file(a_text(a_partition(*QUEUES, placementrules=list(rules))))
    return [f"{problem.path}: {problem.message}" for problem in file.warnings]


FIXED_PARENT = {"name": "fixed", "value": "root.parent"}


@each_row(
    "rule",
    [
        {"name": "provided"},
        {"name": "User", "create": True},
        {"name": "tag", "value": "namespace", "create": False},
        {"name": "fixed", "value": "leaf"},
        {"name": "fixed", "value": "ROOT.Full.Child"},
        {"name": "fixed", "value": "root.new.deep", "create": True},
        {"name": "fixed", "value": "parent.new", "create": True},
        {"name": "user", "create": True, "parent": FIXED_PARENT},
        {"name": "user", "create": True, "parent": {"name": "tag", "value": "t", "parent": FIXED_PARENT}},
        {"name": "fixed", "value": "child", "parent": {"name": "fixed", "value": "full"}},
        {"name": "fixed", "value": "anything", "parent": {"name": "user"}},
        {"name": "user", "filter": {"type": "Deny", "users": ["bob", "ann"], "groups": ["^dev-.*$"]}},
        {"name": "user", "filter": {"type": "", "users": ["system:bob"]}},
    ],
)
def test_rules_that_are_good(rule: dict[str, Any]) -> None:
    assert warnings(rule) == []


@each_row(
    ("rule", "path", "message"),
    [
        ({}, "[0].name", "missing; one of provided, user, tag, fixed, recovery"),
        ({"name": "a b"}, "[0].name", "must be one of provided, user, tag, fixed, recovery"),
        ({"name": "user", "parent": {"name": "test"}}, "[0].parent.name", "must be one of provided, user"),
        ({"name": "user", "parent": {"name": "recovery"}}, "[0].parent.name", "the recovery queue is a leaf"),
        ({"name": "fixed", "value": "root.a b", "create": True}, "[0].value", "not the path of a queue"),
        ({"name": "fixed", "value": "parent..a", "create": True}, "[0].value", "not the path of a queue"),
        ({"name": "tag"}, "[0].value", "missing; a tag rule needs one"),
        ({"name": "user", "parent": {"name": "fixed"}}, "[0].parent.value", "missing; a fixed rule needs one"),
        ({"name": "user", "create": "maybe"}, "[0].create", "must be true or false"),
        ({"name": "user", "filter": {"type": "some"}}, "[0].filter.type", "must be one of allow, deny"),
        ({"name": "user", "filter": {"users": ["a[("]}}, "[0].filter.users[0]", "neither a name"),
        ({"name": "user", "filter": {"users": ["1a"]}}, "[0].filter.users[0]", "neither a name"),
        ({"name": "user", "filter": {"users": ["(?=a)b"]}}, "[0].filter.users[0]", "invalid perl operator: (?="),
        ({"name": "user", "filter": {"groups": [r"(a)\1"]}}, "[0].filter.groups[0]", r"invalid escape sequence: \1"),
        ({"name": "user", "filter": {"users": ["a*" * 513]}}, "[0].filter.users[0]", "it has 1026 characters; at most"),
        ({"name": "user", "filter": {"users": ["a{1001}"]}}, "[0].filter.users[0]", "invalid repetition size: {1001}"),
        ({"name": "user", "filter": {"users": ["((x{30}){30}){9}"]}}, "[0].filter.users[0]", "invalid repetition size"),
        ({"name": "user", "filter": {"users": [r"\pL{1000}"]}}, "[0].filter.users[0]", "pattern too large"),
        ({"name": "user", "filter": {"users": [".{70}"]}}, "", "have 564 instructions together; at most 500"),
        ({"name": "fixed", "value": "root"}, "[0].value", '"root" is not a leaf'),
        ({"name": "fixed", "value": "parent"}, "[0].value", '"Parent" is not a leaf'),
        ({"name": "fixed", "value": "full"}, "[0].value", '"full" is not a leaf'),
        ({"name": "fixed", "value": "none"}, "[0].value", 'there is no queue "none" below "root"'),
        (
            {"name": "fixed", "value": "Leaf.X", "create": True},
            "[0].value",
            'queue "X" cannot be created: "leaf" is a leaf',
        ),
        ({"name": "user", "parent": {"name": "fixed", "value": "leaf"}}, "[0].parent.value", '"leaf" is a leaf'),
        ({"name": "fixed", "value": "root.leaf", "parent": {"name": "user"}}, "[0].value", "begins with root"),
    ],
)
def test_rules_that_are_not(rule: dict[str, Any], path: str, message: str) -> None:
    ((found_path, found_message),) = problems(rule)
    assert found_path == path
    assert message in found_message


def test_a_partition_has_so_many_rules() -> None:
    with_parent = {"name": "user", "parent": {"name": "user"}}
    assert len(specs(*[with_parent] * (RULES_MAX // 2))) == RULES_MAX // 2
    assert problems(*[with_parent] * (RULES_MAX // 2), {"name": "provided"}) == [
        ("", "has 65 rules, with their parents; at most 64 are allowed")
    ]


def test_the_regular_expressions_of_all_rules_are_bounded_together() -> None:
    half = {"name": "user", "filter": {"users": ["a{240}"]}}
    assert warnings(half, half) == []
    below = {"name": "user", "parent": {"name": "user", "filter": {"groups": [".{10}"]}}}
    assert [path for path, _ in problems(half, half, below)] == [""]


@pytest.mark.parametrize("rule", [{"name": "user", "value": "x"}, {"name": "provided", "value": "root.leaf"}])
def test_a_value_that_no_rule_reads_is_told(rule: dict[str, Any]) -> None:
    assert warnings(rule) == [
        f"partitions[0].placementrules[0].value: without effect: a {rule['name']} rule has no value; remove it"
    ]


def specs(*rules: dict[str, Any]) -> tuple[RuleSpec, ...]:
    return load_partition(*QUEUES, placementrules=list(rules)).rules


def test_no_rules_is_an_empty_list() -> None:
    assert specs() == ()


def test_rules_keep_their_order_and_carry_their_parents() -> None:
    user = {"name": "User", "parent": {"name": "tag", "value": "NameSpace", "create": True, "parent": FIXED_PARENT}}
    assert specs({**user, "create": True}, {"name": "fixed", "value": "Root.Leaf"}, {"name": "recovery"}) == (
        RuleSpec(
            RuleKind.USER,
            create=True,
            parent=RuleSpec(
                RuleKind.TAG, create=True, value="namespace", parent=RuleSpec(RuleKind.FIXED, value="root.parent")
            ),
        ),
        RuleSpec(RuleKind.FIXED, value="Root.Leaf"),
        RuleSpec(RuleKind.RECOVERY),
    )


@each_row(
    ("written", "spec"),
    [
        ({}, FilterSpec()),
        ({"type": "allow", "users": ["bob", "Ann"]}, FilterSpec(users=("bob", "Ann"))),
        ({"type": "DENY", "groups": ["dev"]}, FilterSpec(allow=False, groups=("dev",))),
        ({"users": ["dev.*"]}, FilterSpec(users=("dev.*",), is_user_pattern=True)),
        ({"users": ["a.b"]}, FilterSpec(users=("a.b",))),
        ({"groups": ["^(a|b)$"], "users": ["x"]}, FilterSpec(users=("x",), groups=("^(a|b)$",), is_group_pattern=True)),
        ({"users": ["[[:digit:]]+"]}, FilterSpec(users=("[[:digit:]]+",), is_user_pattern=True)),
        ({"users": ["^(a+)+$"]}, FilterSpec(users=("^(a+)+$",), is_user_pattern=True)),
        ({"users": ["\\[[a-z]"]}, FilterSpec(users=("\\[[a-z]",), is_user_pattern=True)),
    ],
)
def test_filters(written: dict[str, Any], spec: FilterSpec) -> None:
    assert specs({"name": "user", "filter": written})[0].filter == spec


def test_a_queue_without_a_good_name_does_not_make_rules_wrong() -> None:
    found = problems_with({"name": "a.b"}, placementrules=[{"name": "fixed", "value": "root.a"}])
    assert [path for path, _ in found] == ["queues[0].name"]
