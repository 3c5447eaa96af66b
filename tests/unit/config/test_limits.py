from __future__ import annotations

import json
from typing import Any

import pytest

from schedulerd.config import load_queue_file
from schedulerd.core.language.resources import Limits
from schedulerd.core.language.specs import LimitSpec
from tests.loops import each_row
from tests.unit.config.build import a_text, load_partition, paths_with, problems_of, problems_with


def with_limits(*limits: dict[str, Any], name: str = "a", **keys: Any) -> dict[str, Any]:
    return {"name": name, "limits": list(limits), **keys}


@pytest.mark.parametrize(
    "limits",
    [
        [{"users": ["bob"], "maxapplications": 1}],
        [{"groups": ["dev", "oidc:/a#b"], "maxresources": {"memory": "1Gi", "vcore": 1}}],
        [{"users": ["bob"], "maxapplications": 1}, {"users": ["*"], "maxapplications": 2}],
        [{"users": ["bob", "*"], "groups": ["dev", "*"], "maxresources": {"memory": 0, "vcore": 1}}],
        [{"users": ["dev"], "groups": ["dev"], "maxapplications": 1}],
    ],
)
def test_lists_that_are_good(limits: list[dict[str, Any]]) -> None:
    assert load_partition(with_limits(*limits)).root.children


@each_row(
    ("limits", "path", "message"),
    [
        ([{"maxapplications": 1}], "[0]", "names no user and no group"),
        ([{"users": ["bob"]}], "[0]", "limits nothing"),
        ([{"users": ["bob"], "maxapplications": 0}], "[0]", "limits nothing"),
        ([{"users": ["bob"], "maxresources": {"memory": 0}}], "[0].maxresources", "all amounts are 0"),
        ([{"users": ["1bob"], "maxapplications": 1}], "[0].users[0]", "not a name: a name starts with a letter"),
        ([{"groups": ["dev$"], "maxapplications": 1}], "[0].groups[0]", "not a name"),
        ([{"users": ["a", "a"], "maxapplications": 1}], "[0].users[1]", "already named"),
        ([{"users": ["*", "a"], "maxapplications": 1}], "[0].users[1]", "comes after *"),
        ([{"groups": ["*"], "maxapplications": 1}], "[0].groups", "none is named before it"),
    ],
)
def test_lists_that_are_not(limits: list[dict[str, Any]], path: str, message: str) -> None:
    ((found_path, found_message),) = problems_with(with_limits(*limits))
    assert found_path == f"queues[0].limits{path}"
    assert message in found_message


def test_a_name_is_in_one_limit_of_a_queue_only() -> None:
    limit = {"users": ["bob"], "maxapplications": 1}
    assert paths_with(with_limits(limit, limit)) == ["queues[0].limits[1].users[0]"]
    assert load_partition(with_limits(limit, name="a"), with_limits(limit, name="b")).root.children


def test_a_limit_is_at_most_what_the_queue_has() -> None:
    queue = with_limits(
        {"users": ["bob"], "maxapplications": 3, "maxresources": {"memory": 6, "vcore": 9}},
        maxapplications=2,
        resources={"max": {"memory": 5}},
    )
    assert paths_with(queue) == ["queues[0].limits[0].maxresources.memory", "queues[0].limits[0].maxapplications"]


@each_row(
    ("above", "below", "paths"),
    [
        ({"maxapplications": 3}, {"maxapplications": 3}, []),
        ({"maxapplications": 3}, {"maxapplications": 4}, ["maxapplications"]),
        ({"maxapplications": 3}, {"maxresources": {"memory": 1}}, []),
        ({"maxresources": {"memory": 10}}, {"maxresources": {"memory": 11}}, ["maxresources.memory"]),
        ({"maxresources": {"memory": 10}}, {"maxresources": {"vcore": 11}}, []),
    ],
)
@each_row("named_above", ["bob", "*"])
@each_row("kind", ["users", "groups"])
def test_a_limit_is_at_most_that_of_the_queues_above(
    kind: str, named_above: str, above: dict[str, Any], below: dict[str, Any], paths: list[str]
) -> None:
    names = ["other", "*"] if named_above == "*" else [named_above]
    leaf = with_limits({kind: ["bob"], **below}, name="leaf")
    tree = with_limits({kind: names, **above}, queues=[{"name": "middle", "queues": [leaf]}])
    if paths:
        assert paths_with(tree) == [f"queues[0].queues[0].queues[0].limits[0].{path}" for path in paths]
    else:
        assert load_partition(tree).root.children


def test_the_tightest_limit_above_counts() -> None:
    leaf = with_limits({"users": ["bob"], "maxapplications": 3}, name="leaf")
    middle = with_limits({"users": ["bob"], "maxresources": {"memory": 1}}, name="middle", queues=[leaf])
    assert paths_with(with_limits({"users": ["bob"], "maxapplications": 2}, queues=[middle])) == [
        "queues[0].queues[0].queues[0].limits[0].maxapplications"
    ]


def test_partition_limits_are_those_of_root() -> None:
    limit = [{"users": ["bob"], "maxapplications": 1}]
    below = [with_limits({"users": ["bob"], "maxapplications": 2}, name="a")]
    root = {"name": "root", "queues": below}
    assert [path for path, _ in problems_of(a_text({"limits": limit, "queues": [root]}))] == [
        "partitions[0].queues[0].queues[0].limits[0].maxapplications"
    ]
    assert [
        path for path, _ in problems_of(a_text({"limits": [{"users": ["bob"]}], "queues": [{"name": "root"}]}))
    ] == ["partitions[0].limits[0]"]
    same = {"limits": limit, "queues": [{"name": "root", "limits": limit}]}
    assert load_queue_file(a_text(same)).partitions
    other = json.loads(json.dumps(same))
    other["limits"][0]["maxapplications"] = 2
    assert [path for path, _ in problems_of(a_text(other))] == ["partitions[0].limits"]


def test_limits_as_the_core_gets_them() -> None:
    queue = with_limits(
        {"limit": "a text for people", "users": ["bob", "ann"], "maxapplications": 3},
        {"users": ["*"], "groups": ["dev"], "maxresources": {"memory": "1Gi", "gpu": 0}},
    )
    assert load_partition(queue).root.children[0].limits == (
        LimitSpec(users=("bob", "ann"), max_applications=3),
        LimitSpec(users=("*",), groups=("dev",), max=Limits({"memory": 2**30, "gpu": 0})),
    )


@pytest.mark.parametrize("at", ["partition", "root", "both"])
def test_limits_of_the_partition_are_limits_of_root(at: str) -> None:
    limits = [{"users": ["bob"], "maxapplications": 1}]
    root = {"name": "root", "queues": [{"name": "a"}], **({} if at == "partition" else {"limits": limits})}
    partition = {"queues": [root], **({} if at == "root" else {"limits": limits})}
    (spec,) = load_queue_file(a_text(partition)).partitions
    assert spec.root.limits == (LimitSpec(users=("bob",), max_applications=1),)
    assert spec.root.children[0].limits == ()


def test_limits_of_a_partition_whose_root_is_not_written() -> None:
    text = a_text({"limits": [{"users": ["bob"], "maxapplications": 1}], "queues": [{"name": "a"}, {"name": "b"}]})
    assert load_queue_file(text).partitions[0].root.limits == (LimitSpec(users=("bob",), max_applications=1),)


def test_a_resource_that_is_likely_misspelt_is_told() -> None:
    limit = {"users": ["bob"], "maxresources": {"vcores": 1}}
    root = {"name": "root", "submitacl": "*", "queues": [with_limits(limit)]}
    text = a_text({"limits": [limit], "queues": [root]})
    assert [warning.path for warning in load_queue_file(text).warnings] == [
        "partitions[0].limits[0].maxresources.vcores",
        "partitions[0].queues[0].queues[0].limits[0].maxresources.vcores",
    ]


def test_no_cores_and_any_number_of_cores_are_different_limits() -> None:
    limits = [{"users": ["bob"], "maxresources": {"memory": 1, **cores}} for cores in ({}, {"vcore": 0})]
    text = a_text({"limits": limits[:1], "queues": [{"name": "root", "limits": limits[1:]}]})
    assert [path for path, _ in problems_of(text)] == ["partitions[0].limits"]
