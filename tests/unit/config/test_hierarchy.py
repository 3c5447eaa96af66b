from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from schedulerd.config import QueueFileInvalid
from schedulerd.core.language.specs import QueueSpec
from tests.loops import each_row
from tests.unit.config.build import a_partition, a_text, load_partition, paths_with, problems_of, problems_with


def a_queue(name: str, *queues: dict[str, Any], **resources: dict[str, int | str]) -> dict[str, Any]:
    return {"name": name, "queues": list(queues), "resources": resources}


@each_row("name", ["a", "Z", "0", "_", "team:a#1/x@corp-b_c", "x" * 64, "true", "null"])
def test_queue_names_that_are_good(name: str) -> None:
    (child,) = load_partition({"name": name}).root.children
    assert (child.name, child.key) == (name, name.lower())


@pytest.mark.parametrize("name", ["a.b", "a b", "x" * 65, "ä", "a,b", "a*", "a\n"])
def test_queue_names_that_are_not(name: str) -> None:
    ((path, message),) = problems_with({"name": name})
    assert path == "queues[0].name"
    assert message.startswith("a queue name is 1 to 64 letters, digits")


@pytest.mark.parametrize("queue", [{}, {"name": ""}, {"name": None}])
def test_a_queue_needs_a_name(queue: dict[str, Any]) -> None:
    assert problems_with(queue) == [("queues[0].name", "missing; every queue needs a name")]


def test_names_beside_each_other_differ_in_more_than_case() -> None:
    assert paths_with({"name": "a"}, {"name": "b"}, {"name": "A"}, {"name": "a"}) == [
        "queues[2].name",
        "queues[3].name",
    ]
    assert (
        load_partition(a_queue("a", a_queue("a")), a_queue("b", a_queue("a"))).root.children[1].children[0].name == "a"
    )


def test_partition_names_differ_in_more_than_case() -> None:
    text = a_text(*({**a_partition(), "name": name} for name in ("gpu", "default", "GPU", "")))
    assert [path for path, _ in problems_of(text)] == ["partitions[2].name", "partitions[3].name"]


@pytest.mark.parametrize("partition", [{}, {"queues": None}])
def test_a_partition_needs_queues(partition: dict[str, Any]) -> None:
    assert problems_of(a_text(partition)) == [
        ("partitions[0].queues", "missing; list the queues, at least one named root")
    ]


@pytest.mark.parametrize("kind", ["guaranteed", "max"])
@pytest.mark.parametrize("name", ["root", "ROOT"])
def test_root_has_no_resources(kind: str, name: str) -> None:
    text = a_text({"queues": [{"name": name, "resources": {kind: {"memory": 1}}}]})
    ((path, message),) = problems_of(text)
    assert path == f"partitions[0].queues[0].resources.{kind}"
    assert message.startswith("the root queue has what the nodes have")


@pytest.mark.parametrize(
    ("guaranteed", "maximum", "good"),
    [
        ({"memory": 5}, {"memory": 5}, True),
        ({"memory": 6}, {"memory": 5}, False),
        ({"memory": 6}, {"vcore": 5}, True),
        ({"memory": 1, "vcore": "2"}, {"memory": 1, "vcore": "1500m"}, False),
        ({"memory": "1Ki"}, {"memory": "1k"}, False),
        ({"memory": 0}, {"memory": 0}, True),
        ({"memory": 1}, {"memory": 0}, False),
    ],
)
def test_guaranteed_is_at_most_max(guaranteed: dict[str, Any], maximum: dict[str, Any], good: bool) -> None:
    queue = a_queue("a", guaranteed=guaranteed, max=maximum)
    if good:
        assert load_partition(queue).root.children
    else:
        name = "vcore" if "vcore" in guaranteed else "memory"
        assert paths_with(queue) == [f"queues[0].resources.guaranteed.{name}"]


def test_max_is_at_most_that_of_every_queue_above() -> None:
    tree = a_queue("a", a_queue("b", a_queue("c", max={"memory": 11})), max={"memory": 10})
    assert paths_with(tree) == ["queues[0].queues[0].queues[0].resources.max.memory"]
    tree = a_queue(
        "a", a_queue("b", a_queue("c", max={"memory": 10, "vcore": 1}), max={"memory": 10}), max={"memory": 10}
    )
    assert load_partition(tree).root.children


def test_guaranteed_covers_the_sum_of_the_children() -> None:
    children = (a_queue("b", guaranteed={"memory": 6}), a_queue("c", guaranteed={"memory": 5}))
    assert load_partition(a_queue("a", *children, guaranteed={"memory": 11})).root.children
    assert load_partition(a_queue("a", *children, guaranteed={"vcore": 1})).root.children, (
        "memory is not promised there"
    )
    ((path, message),) = problems_with(a_queue("a", *children, guaranteed={"memory": 10}))
    assert path == "queues[0].resources.guaranteed.memory"
    assert message == "10 is less than what the queues below are guaranteed together, 11"


def test_max_covers_the_sum_of_what_is_guaranteed_below() -> None:
    children = (a_queue("b", guaranteed={"memory": 6}), a_queue("c", a_queue("d", guaranteed={"memory": 5})))
    assert load_partition(a_queue("a", *children, max={"memory": 11})).root.children
    ((path, message),) = problems_with(a_queue("a", *children, max={"memory": 10}))
    assert path == "queues[0].resources.max.memory"
    assert message == "the queues below are guaranteed 11 together, which is more than the max, 10"


def test_a_sum_is_told_once_at_the_queue_whose_max_it_exceeds() -> None:
    tree = a_queue("a", a_queue("b", a_queue("c", guaranteed={"memory": 11})), max={"memory": 10})
    assert paths_with(tree) == ["queues[0].resources.max.memory"]


def test_a_max_counts_for_what_a_queue_in_between_does_not_promise() -> None:
    middle = a_queue("b", a_queue("c", guaranteed={"gpu": 3}), guaranteed={"memory": 1})
    assert paths_with(a_queue("a", middle, max={"gpu": 2})) == ["queues[0].queues[0].resources.max.gpu"]


def test_a_child_template_promises_at_most_what_it_allows() -> None:
    template = {"resources": {"guaranteed": {"memory": 2}, "max": {"memory": 1}}}
    assert paths_with({"name": "a", "parent": True, "childtemplate": template}) == [
        "queues[0].childtemplate.resources.guaranteed.memory"
    ]


@each_row(
    ("above", "below", "good"),
    [
        (None, None, True),
        (None, 5, True),
        (0, 5, True),
        (5, 5, True),
        (5, 1, True),
        (5, 6, False),
        (5, None, False),
        (5, 0, False),
    ],
)
def test_max_applications_goes_down_the_tree(above: int | None, below: int | None, good: bool) -> None:
    queue = {"name": "a", "maxapplications": above, "queues": [{"name": "b", "maxapplications": below}]}
    if good:
        assert load_partition(queue).root.children
    else:
        assert paths_with(queue) == ["queues[0].queues[0].maxapplications"]


@pytest.mark.parametrize("count", [-1, "1.5", "many", 2**64, "1_0", "+1"])
def test_max_applications_is_a_count(count: int | str) -> None:
    ((_, message),) = problems_with({"name": "a", "maxapplications": count})
    assert message == "must be a whole number from 0 (no limit) to 18446744073709551615"


def within_bounds(queue: QueueSpec, bound: int) -> int:
    """Asserts that the promises of a valid tree can be kept, and returns what the queue is promised of memory."""
    own = min(bound, queue.max.get("memory", bound))
    promised = sum(within_bounds(child, own) for child in queue.children)
    assert promised <= own
    if not queue.guaranteed.is_zero():
        assert promised <= queue.guaranteed["memory"] <= own
        return queue.guaranteed["memory"]
    return promised


AMOUNTS = st.fixed_dictionaries({}, optional={"memory": st.integers(0, 6)})
TREES = st.recursive(
    st.builds(lambda g, m: a_queue("leaf", guaranteed=g, max=m), AMOUNTS, AMOUNTS),
    lambda inner: st.builds(
        lambda g, m, queues: a_queue(
            "parent", *({**q, "name": f"q{i}"} for i, q in enumerate(queues)), guaranteed=g, max=m
        ),
        AMOUNTS,
        AMOUNTS,
        st.lists(inner, max_size=3),
    ),
    max_leaves=5,
)


@given(TREES)
def test_a_tree_that_loads_can_keep_its_promises(tree: dict[str, Any]) -> None:
    try:
        spec = load_partition(tree)
    except QueueFileInvalid:
        event("refused")
        return
    event("loaded")
    within_bounds(spec.root, 10**9)


def test_levels_of_the_topology_are_told_apart() -> None:
    levels = [{"name": "rack", "attribute": "r"}, {"name": "r", "attribute": "x"}]
    partition = {**a_partition({"name": "a"}), "topology": levels}
    assert problems_of(json.dumps({"partitions": [partition]})) == [
        ("partitions[0].topology[1]", "its name or attribute is that of a level before it; they must differ")
    ]


def test_further_keys_of_the_topology_are_no_levels() -> None:
    partition = {
        **a_partition({"name": "a"}),
        "topology": [{"name": "rack", "attribute": "r"}],
        "topologykeys": ["zone", "r", "zone"],
    }
    differ = "it is a level, or a key before it; they must differ"
    assert problems_of(json.dumps({"partitions": [partition]})) == [
        ("partitions[0].topologykeys[1]", differ),
        ("partitions[0].topologykeys[2]", differ),
    ]
