from __future__ import annotations

import pytest

from schedulerd.settings import document
from schedulerd.settings.document import DEPTH_MAX, TEXT_BYTES_MAX, VALUES_MAX, read_document
from schedulerd.settings.problems import PROBLEMS_MAX
from tests.loops import each_row

LONG = "x" * 100_000


def messages(text: str) -> list[str]:
    return [str(problem) for problem in read_document(text).problems]


@each_row("scalar", ["10", "010", "0x10", "1_000", "1e3", "0.5", "true", "yes", "2001-01-01", ".inf", "=", "-1"])
def test_a_scalar_is_the_text_that_was_written(scalar: str) -> None:
    assert read_document(f"key: {scalar}").data == {"key": scalar}
    assert read_document(f'key: "{scalar}"').data == {"key": scalar}
    assert read_document(f"{scalar}: value").data == {scalar: "value"}


@pytest.mark.parametrize("null", ["", "~", "null"])
def test_null_is_told_apart_from_text(null: str) -> None:
    assert read_document(f"key: {null}").data == {"key": None}
    assert read_document(f"key: '{null}'").data == {"key": null}


@pytest.mark.parametrize("text", ["", "# a comment\n", "---\n"])
def test_an_empty_text_has_no_data_and_no_problem(text: str) -> None:
    document = read_document(text)
    assert document.data is None
    assert document.problems == ()


def test_every_value_knows_its_line() -> None:
    document = read_document("a:\n  b: 1\n  c:\n    - x\n    -\n      d: {e: 2}\n")
    assert document.line(("a",)) == 1
    assert document.line(("a", "b")) == 2
    assert document.line(("a", "c", 0)) == 4
    assert document.line(("a", "c", 1, "d", "e")) == 6
    assert document.line(("a", "c", 1, "missing", "too")) == 6, "the line of the nearest parent that is there"
    assert read_document("").line(("a",)) is None


def test_a_problem_shows_the_value_that_was_written() -> None:
    document = read_document("a: [x, {b: 0x1}]")
    assert document.problem(("a", 1, "b"), "bad").value == "0x1"
    assert document.problem(("a", 1), "bad").value is None
    assert document.problem(("a", 7), "bad").value is None


def test_aliases_and_merges_are_followed() -> None:
    document = read_document(
        "base: &base\n  x: 1\n  y: 1\n"
        "other: &other {y: 2, z: 2}\n"
        "one:\n  <<: *base\n  y: 3\n"
        "many:\n  <<: [*base, *other]\n"
        "nested: &nested\n  <<: *other\n  w: 4\n"
        "deep:\n  <<: *nested\n"
        "same: *base\n"
    )
    assert document.problems == ()
    assert document.data == {
        "base": {"x": "1", "y": "1"},
        "other": {"y": "2", "z": "2"},
        "one": {"y": "3", "x": "1"},
        "many": {"x": "1", "y": "1", "z": "2"},
        "nested": {"w": "4", "y": "2", "z": "2"},
        "deep": {"w": "4", "y": "2", "z": "2"},
        "same": {"x": "1", "y": "1"},
    }
    assert document.line(("one", "y")) == 7
    assert document.line(("one", "x")) == 2


@each_row(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 1: a = '1': given twice, in lines 1 and 3; give every key once"),
        (
            "a: [1\n",
            "line 2: not valid YAML: while parsing a flow sequence expected ',' or ']', but got '<stream end>'",
        ),
        ("a: *b\n", "line 1: not valid YAML: found undefined alias 'b'"),
        ("a: b: c\n", "line 1: not valid YAML: mapping values are not allowed here"),
        (
            "a: 1\n---\nb: 1\n",
            "line 2: not valid YAML: expected a single document in the stream but found another document",
        ),
        (
            "a: !!python/name:os.system x\n",
            "line 1: a = 'x': the tag \"tag:yaml.org,2002:python/name:os.system\" is not known",
        ),
        ("a: !mine [1]\n", 'line 1: a: the tag "!mine" is not known here; remove it'),
        ("a: &a [*a]\n", "line 1: a[0]: the alias is part of what it stands for; write out what is meant"),
        ("a: &a\n  <<: *a\n", "line 1: a: the alias is part of what it stands for; write out what is meant"),
        ("a:\n  <<: 1\n", "line 1: a: << must be followed by an alias of a mapping, or a list of such aliases"),
        ("? [a]\n: 1\n", "line 1: the key in line 1 must be a single name"),
        ("a: \x00\n", "not valid YAML: "),
        ("a: \ud800\n", "not valid YAML: "),
    ],
)
def test_what_other_readers_let_pass_is_a_problem(text: str, message: str) -> None:
    first, *more = messages(text)
    assert first.startswith(message)
    assert not more


def test_the_first_of_two_equal_keys_is_kept() -> None:
    assert read_document("a: 1\na: 2\n").data == {"a": "1"}


def test_nested_aliases_cannot_grow_without_bound() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    assert messages(bomb) == [f"there are more than {VALUES_MAX} values, with aliases followed; make it smaller"]


def test_so_many_values_are_read_and_not_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "VALUES_MAX", 6)
    assert messages("[x, y, {a: z}]") == []
    assert messages("[x, y, {a: z}, b]") != []


def test_nested_merges_cannot_grow_without_bound() -> None:
    bomb = "a0: &a0 {x: 1}\n"
    bomb += "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 12))
    assert "there are more than" in messages(bomb)[0]


@pytest.mark.parametrize("text", ["[" * 1_000, "{a: " * 1_000, "- " * 1_000])
def test_nesting_has_an_end(text: str) -> None:
    assert messages(text) == [f"lists and mappings are nested too deeply; at most {DEPTH_MAX} levels are allowed"]


def test_so_many_levels_are_read_and_not_one_more() -> None:
    assert messages("[" * DEPTH_MAX + "]" * DEPTH_MAX) == []
    assert "nested too deeply" in messages("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1))[0]


def test_of_a_text_with_too_many_values_the_rest_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "VALUES_MAX", 5)
    (message,) = messages("a: 1\n" * 20 + "*unknown : [")
    assert message.startswith("there are more than 5 values"), "and not what is wrong further down"


def test_a_text_with_thousands_of_mistakes_has_a_bounded_list_of_problems() -> None:
    found = messages("a: 1\n" * 3_000)
    assert len(found) == PROBLEMS_MAX + 1
    assert "given twice" in found[-1]


@pytest.mark.parametrize(
    "text",
    [
        "a: *" + "x" * 100_000,
        "a: !" + "x" * 100_000 + " y",
        "? [a, b]\n: !" + "x" * 100_000 + " y",
        "%" + "x" * 100_000,
    ],
)
def test_what_a_problem_quotes_is_cut(text: str) -> None:
    found = messages(text)
    assert found
    assert all(len(message) < 500 for message in found)


@pytest.mark.parametrize(
    "scalar", ["9" * 900_000, "-" + "9" * 5_000, "0x" + "f" * 5_000, "1:" * 5_000 + "1", "1e999999"]
)
def test_a_number_of_any_length_is_only_a_text(scalar: str) -> None:
    assert read_document(f"a: {scalar}").data == {"a": scalar}


@pytest.mark.parametrize(
    ("tag", "known"), [("!!int", True), ("!!timestamp", True), ("!!binary", False), ("!!set", False)]
)
def test_a_value_with_a_tag_is_not_converted(tag: str, known: bool) -> None:
    document = read_document(f"a: {tag} x")
    assert document.data == {"a": "x"}
    assert bool(document.problems) is not known


def test_a_text_has_a_largest_size() -> None:
    comment = "# " + "ä" * (TEXT_BYTES_MAX // 2 - 2)
    assert read_document(comment + "\n\n").problems == ()
    assert messages(comment + "\n\n\n") == [
        f"the text is larger than {TEXT_BYTES_MAX} bytes, which is the most that is read"
    ]


def test_a_character_in_two_halves_is_one_as_in_json() -> None:
    document = read_document(r'{"\ud83d\ude00": "a\ud83d\ude00\u00e4"}')
    assert (document.data, document.problems) == ({"\U0001f600": "a\U0001f600ä"}, ())


@pytest.mark.parametrize("text", [r'["\ud83d"]', r'["a\ude00\ud83d"]', r'[{"\ud800": 1}]'])
def test_half_a_character_is_a_problem(text: str) -> None:
    (problem,) = read_document(text).problems
    assert problem.path == "[0]"
    assert problem.message.startswith("has an escape of half a character (U+D800 to U+DFFF)")
    str(problem).encode()
