from __future__ import annotations

import pytest

from schedulerd.settings.problems import Path, Problem, did_you_mean, format_path, shorten, suggest


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("checksum",), "checksum"),
        (
            ("partitions", 0, "queues", 12, "resources", "max", "memory"),
            "partitions[0].queues[12].resources.max.memory",
        ),
        ((3, "name"), "[3].name"),
    ],
)
def test_a_path_is_shown_like_code(path: Path, text: str) -> None:
    assert format_path(path) == text


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (Problem("a.b", 7, "x", "must be y"), "line 7: a.b = 'x': must be y"),
        (Problem("a.b", 7, None, "missing"), "line 7: a.b: missing"),
        (Problem("--config", None, "q", "must exist"), "--config = 'q': must exist"),
        (Problem("", 3, None, "not valid YAML"), "line 3: not valid YAML"),
        (Problem("", 1, "x", "must be a mapping"), "line 1: text = 'x': must be a mapping"),
        (Problem("", None, None, "no partitions"), "no partitions"),
        (Problem("a", 1, "two\nlines", "bad"), r"line 1: a = 'two\nlines': bad"),
    ],
)
def test_a_problem_is_one_line(problem: Problem, line: str) -> None:
    assert str(problem) == line


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("unknown key; known are checksum, partitions", "line 7: unknown key; known are checksum, partitions"),
        ("'it''s \"x' is not a user name", "line 7: ... is not a user name"),
        ('queue "a" cannot be below "b"; rename it', "line 7: queue ...; rename it"),
        ("5 is more than the max, 3", "line 7: ... is more than the max, ..."),
    ],
)
def test_without_the_text_there_is_no_key_no_value_and_nothing_quoted(message: str, line: str) -> None:
    assert Problem("queues.hunter2", 7, "hunter2", message).without_text() == line


def test_a_long_value_is_cut_in_the_middle() -> None:
    assert shorten("a" * 80) == "a" * 80
    cut = shorten("a" * 100 + "z" * 100)
    assert len(cut) <= 80
    assert cut.startswith("aaa")
    assert cut.endswith("zzz")


def test_a_near_name_is_suggested_and_else_all_are_listed() -> None:
    assert did_you_mean("maxaplications", ["limits", "maxapplications"]) == 'did you mean "maxapplications"?'
    assert did_you_mean("SubmitACL", ["submitacl"]) == 'did you mean "submitacl"?'
    assert did_you_mean("colour", ["limits"]) == ""
    assert suggest("limit", ["limits", "acl"]) == 'did you mean "limits"?'
    assert suggest("colour", ["limits", "acl"]) == "known are acl, limits"
