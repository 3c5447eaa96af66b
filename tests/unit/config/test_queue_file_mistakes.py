"""Queue files of any content: read or explained, with a bounded list of problems."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from schedulerd.config import PROBLEMS_MAX, QueueFile, QueueFileInvalid, load_queue_file
from schedulerd.config.queue_file import _without_consequences
from schedulerd.config.validation import _tree, _without
from schedulerd.settings.document import Data
from schedulerd.settings.problems import Finding, Path
from tests.unit.config.build import paths_with, queues_by_path
from tests.unit.core.test_work import calls_during


def test_mistakes_of_every_kind_are_told_at_once() -> None:
    assert paths_with(
        {"name": "a.b"},
        {"name": "c", "colour": "red", "resources": {"guaranteed": {"memory": 2}, "max": {"memory": 1}}},
        {"name": "C", "properties": {"priority.offset": "high"}},
    ) == [
        "queues[0].name",
        "queues[1].colour",
        "queues[2].name",
        "queues[2].properties.priority.offset",
        "queues[1].resources.guaranteed.memory",
    ]


WORDS = """
    partitions name queues parent resources guaranteed max memory vcore submitacl adminacl properties childtemplate
    application.sort.policy limits limit users groups maxapplications maxresources placementrules value create filter
    type nodesortpolicy resourceweights preemption enabled usergroupresolver checksum unknown
"""
KEYS = st.sampled_from(WORDS.split())
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 12)
    | st.sampled_from(
        [
            "root",
            "a",
            "A",
            "default",
            "*",
            "bob",
            "a b c",
            "10Gi",
            "fair",
            "fixed",
            "user",
            "root.a",
            "",
            "1.5",
            "ä",
            "x" * 70,
        ]
    )
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=30
)
QUEUES = st.recursive(
    st.fixed_dictionaries({"name": SCALARS}, optional={"resources": VALUES, "limits": VALUES, "submitacl": SCALARS}),
    lambda inner: st.fixed_dictionaries(
        {"queues": st.lists(inner, max_size=3) | VALUES},
        optional={"name": SCALARS, "maxapplications": SCALARS, "properties": VALUES, "childtemplate": VALUES},
    ),
    max_leaves=6,
)
FILES_OF_ANY_KIND = VALUES | st.fixed_dictionaries(
    {
        "partitions": st.lists(
            st.fixed_dictionaries(
                {"queues": st.lists(QUEUES, max_size=2)},
                optional={"name": SCALARS, "placementrules": VALUES, "limits": VALUES, "nodesortpolicy": VALUES},
            ),
            max_size=2,
        )
    }
)


def read(text: str) -> QueueFile | QueueFileInvalid:
    try:
        return load_queue_file(text)
    except QueueFileInvalid as error:
        return error


@given(FILES_OF_ANY_KIND)
def test_whatever_is_written_is_read_or_explained(data: Any) -> None:
    """No input makes anything but a queue file or a list of problems, each with a place and a sentence."""
    result = read(json.dumps(data))
    event(type(result).__name__)
    if isinstance(result, QueueFile):
        for partition in result.partitions:
            for path, queue in queues_by_path(partition.root).items():
                assert path == path.lower()
                assert all(amount >= 0 for amount in (*queue.guaranteed.values(), *queue.max.values()))
        return
    assert result.problems
    assert all(problem.line == 1 and problem.message and "\n" not in str(problem) for problem in result.problems)
    assert len({(problem.path, problem.message) for problem in result.problems}) == len(result.problems)


@given(st.text(max_size=60))
def test_any_text_is_read_or_explained(text: str) -> None:
    result = read(text)
    assert isinstance(result, QueueFile) or result.problems


@pytest.mark.parametrize("name", ["@recovery@", "@Recovery@"])
def test_the_recovery_queue_cannot_be_configured(name: str) -> None:
    with pytest.raises(QueueFileInvalid, match="not @recovery@"):
        load_queue_file(f"partitions: [{{name: default, queues: [{{name: root, queues: [{{name: '{name}'}}]}}]}}]")


def in_queues(entries: str) -> str:
    return f"partitions: [{{queues: [{{name: root, queues: [{entries}]}}]}}]"


@pytest.mark.parametrize(
    "text",
    [
        in_queues("{name: q.q}," * 1_100),
        in_queues("{nmae: q}," * 1_100),
        in_queues("{name: q}," * 1_100),
        in_queues("{}," * 1_100),
        in_queues(f"{{{','.join(f'k{number}: 1' for number in range(1_100))}}}"),
        f"partitions: [{{queues: [{{name: root}}], limits: [{'{users: [a], maxapplications: 1}, ' * 1_100}]}}]",
    ],
)
def test_a_file_with_thousands_of_mistakes_has_a_bounded_list_of_problems(text: str) -> None:
    with pytest.raises(QueueFileInvalid) as invalid:
        load_queue_file(text)
    assert len(invalid.value.problems) == PROBLEMS_MAX
    assert invalid.value.headline == f"queue file: {PROBLEMS_MAX} problems, the most that are looked for"


def test_a_file_has_a_bounded_list_of_warnings() -> None:
    properties = ", ".join(f"p{number}: x" for number in range(PROBLEMS_MAX + 100))
    assert len(load_queue_file(in_queues(f"{{name: a, properties: {{{properties}}}}}")).warnings) == PROBLEMS_MAX


def test_a_problem_with_a_long_key_or_value_is_short() -> None:
    with pytest.raises(QueueFileInvalid) as invalid:
        load_queue_file(f"? {'x' * 100_000}\n: {'y' * 100_000}\n")
    assert len(str(invalid.value)) < 1_000


def test_twice_as_many_mistakes_take_about_twice_the_work() -> None:
    """What follows from other mistakes is found without a comparison of each with each."""

    def work(mistakes: int) -> int:
        known: list[Finding] = [(("queues", number, "name"), "wrong") for number in range(mistakes)]
        findings: list[Finding] = [(("limits", number), "wrong too") for number in range(mistakes)]
        findings.append((("queues", 0), "a consequence"))
        return calls_during(lambda: list(_without_consequences(findings, known)))

    assert work(400) < 2.3 * work(200)


def test_all_wrong_values_are_taken_out_in_one_pass() -> None:
    data: Data = {"a": {"b": "x", "c": ["y"]}, "d": [{"e": "z"}, {"f": "z"}], "g": "x"}
    paths: list[Path] = [("a", "b"), ("d", 1, "f"), ("a", "c", 0), ("nowhere", "b")]
    assert _without(data, _tree(paths)) == {"a": {}, "d": [{"e": "z"}, {}], "g": "x"}
    assert _without(data, _tree([()])) == {}


def test_half_of_a_surrogate_pair_is_a_problem_in_names_and_values() -> None:
    for text in ('a: "\\ud800"', '"\\udfff": a'):
        with pytest.raises(QueueFileInvalid, match="half a character") as raised:
            load_queue_file(text)
        assert str(raised.value).encode()
