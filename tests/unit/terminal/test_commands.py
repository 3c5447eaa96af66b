"""The commands against an API that says what it is told: requests, tables, exit codes, and hostile texts."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from schedulerd.terminal import cli, contexts
from schedulerd.terminal.api_client import ApiClient, ApiProblem
from schedulerd.terminal.contexts import Context, ContextProblem
from schedulerd.terminal.top import Picture, lines
from schedulerd.terminal.words import age, amounts, bar, clean, share

EVIL = "\x1b[31m[red]x[/red]\u202egnp.exe\r\n"


class Api:
    """Answers by path; remembers what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def get(self, _client: ApiClient, path: str, query: dict[str, Any] | None = None) -> Any:
        self.asked.append((path, {key: value for key, value in (query or {}).items() if value not in ("", None)}))
        answer = self.answers[path.strip("/").replace("/", "_")]
        if isinstance(answer, ApiProblem):
            raise answer
        return answer


def run(api: Api, monkeypatch: pytest.MonkeyPatch, *words: str, command: Any = cli.explain) -> Result:
    monkeypatch.setenv("SCHEDULERD_CONTEXTS", "/nonexistent/contexts.yaml")
    monkeypatch.setattr(ApiClient, "get", lambda client, path, query=None: api.get(client, path, query))
    return CliRunner().invoke(command, list(words))


ASK = {"summary": [f"Waits for {EVIL}."], "details": ["Used by application app (30)."], "explanation": {}}
APP = {
    "summary": ["Application app is Running."],
    "reasons": [{"allocations": 3, "applications": 1, "sentence": "waits", "application": "app", "ask": "k"}],
    "next_ask": ["Waits for its turn."],
    "explanation": {},
}
NODE = {
    "node": EVIL,
    "state": "schedulable",
    "capacity": {"vcore": 4_000},
    "available": {"vcore": 500},
    "allocations": 3,
    "reservations": 0,
}


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (("app-1",), ("/explain/application", {"application": "app-1"})),
        (("app-1", "ask-1"), ("/explain/ask", {"application": "app-1", "ask": "ask-1"})),
        (("app", "pod"), ("/explain/application", {"application": "pod"})),
        (("app", "pod", "ask-1"), ("/explain/ask", {"application": "pod", "ask": "ask-1"})),
        (("pod", "ns/p"), ("/explain/pod", {"namespace": "ns", "pod": "p"})),
        (("pod", "p", "--rm", "r"), ("/explain/pod", {"namespace": "default", "pod": "p", "rm": "r"})),
        (("queue", "root.a"), ("/explain/queue", {"queue": "root.a"})),
    ],
)
def test_explain_asks_for_what_is_named(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], asked: tuple[str, dict[str, str]]
) -> None:
    api = Api(explain_application=APP, explain_ask=ASK, explain_pod=ASK, explain_queue=APP)
    assert run(api, monkeypatch, *words).exit_code == 0
    assert api.asked == [asked]


@pytest.mark.parametrize("words", [("pod",), ("pod", "a/b", "c"), ("queue",), ("app",), ("a", "b", "c")])
def test_explain_says_how_it_is_written(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    result = run(Api(), monkeypatch, *words)
    assert result.exit_code == 2  # the group of commands makes 1 of it
    assert "schedulerd explain" in result.output


def test_an_explanation_as_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(Api(explain_ask=ASK), monkeypatch, "app", "app", "k")
    assert result.output == "Waits for [31m[red]x[/red]gnp.exe.\n  Used by application app (30).\n"
    result = run(Api(explain_application=APP), monkeypatch, "app-1")
    assert result.output.splitlines() == [
        "Application app is Running.",
        "       3  waits",
        "          such as app k",
        "Next ask:",
        "  Waits for its turn.",
    ]


def test_an_explanation_for_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(explain_application=APP)
    assert json.loads(run(api, monkeypatch, "app-1", "-o", "json").output) == APP


@pytest.mark.parametrize(("status", "code"), [(0, 4), (401, 5), (403, 5), (404, 3), (422, 3), (500, 4), (503, 4)])
def test_exit_codes(monkeypatch: pytest.MonkeyPatch, status: int, code: int) -> None:
    result = run(Api(explain_application=ApiProblem(status, f"so{EVIL}")), monkeypatch, "app-1")
    assert (result.exit_code, result.output) == (code, "Error: so[31m[red]x[/red]gnp.exe\n")


def test_get_prints_a_table_without_markup_or_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(nodes={"items": [NODE], "next": ""})
    result = run(api, monkeypatch, "nodes", "--state", "schedulable", command=cli.get)
    head, row = result.output.splitlines()
    assert head.split() == ["NODE", "STATE", "CAPACITY", "AVAILABLE", "ALLOCATIONS", "RESERVED"]
    assert row.split() == ["[31m[red]x[/red]gnp.exe", "schedulable", "vcore", "4", "vcore", "500m", "3", "0"]
    assert api.asked == [("/nodes", {"state": "schedulable", "limit": 500})]


def test_get_refuses_filters_that_a_list_does_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(Api(), monkeypatch, "nodes", "--user", "x", command=cli.get)
    assert "nodes cannot be filtered by user" in result.output


def test_lists_are_taken_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([{"items": [1] * 500, "next": "c"}, {"items": [1] * 200, "next": "d"}])
    monkeypatch.setattr(ApiClient, "get", lambda *_: next(answers))
    items, more = ApiClient(Context()).list("/asks", {}, 700)
    assert (len(items), more) == (700, True)


def test_top_draws_queues_reasons_gangs_and_nodes() -> None:
    queue = {"queue": "root", "used": {"vcore": 1_000}, "max": {}, "guaranteed": {}}
    full = {"queue": "root.a", "used": {"vcore": 2_000}, "max": {"vcore": 2_000}, "guaranteed": {}}
    over = {"queue": "root.b", "used": {"vcore": 1_000}, "max": {"vcore": 4_000}, "guaranteed": {"vcore": 500}}
    root = {
        "explanation": {"running_applications": 2, "pending": 3},
        "reasons": [{"allocations": 3, "sentence": f"waits for {EVIL}"}],
    }
    gang = {"application": EVIL, "task_groups": [{"placed": 1, "wanted": 2}]}
    drawn = list(lines(Picture([queue, full, over], root, [gang], [NODE], 0)))
    assert drawn[0].startswith("2 running   3 waiting   as of ")
    assert drawn[3].split() == ["root", "no", "max", "vcore", "1"]
    assert drawn[4].endswith("vcore 2 of 2 (100 %), full")
    assert drawn[5].endswith("vcore 1 of 4 (25 %), above its guarantee")
    assert drawn[8] == "        3  waits for [31m[red]x[/red]gnp.exe"
    assert drawn[11].endswith("1 of 2 placed")
    assert drawn[14].endswith("3 allocations  free vcore 500m")
    assert not [line for line in drawn if "\x1b" in line or "\u202e" in line]


# contexts


def test_contexts_are_in_a_file_for_their_owner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "contexts.yaml"
    monkeypatch.setenv("SCHEDULERD_CONTEXTS", str(path))
    words = ["set", "prod", "--server", "https://s:1", "--token-stdin"]
    assert CliRunner().invoke(cli.context, words, input="secret\n").exit_code == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = contexts.load(path)
    assert found.choose("") == found.choose("prod") == Context(server="https://s:1", token="secret")
    listed = CliRunner().invoke(cli.context, ["list"]).output
    assert listed == "* prod  https://s:1  with a token\n"
    with pytest.raises(ContextProblem, match="has no context 'x'; it has prod"):
        found.choose("x")
    assert CliRunner().invoke(cli.context, ["remove", "prod"]).exit_code == 0
    assert contexts.load(path).choose("") == Context()


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "contexts.yaml"
    path.write_text("contexts: {}")
    path.chmod(0o644)
    with pytest.raises(ContextProblem, match="chmod 600"):
        contexts.load(path)


@pytest.mark.parametrize("text", ["x: [", "contexts: 3", "colour: red", "contexts: {a: {server: 3}}", "\x00"])
def test_a_file_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "contexts.yaml"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ContextProblem):
        contexts.load(path)


@pytest.mark.parametrize("server", ["x", "ftp://x", "http://u:p@x", "http://x?token=1"])
def test_a_server_that_is_none(server: str) -> None:
    with pytest.raises(ApiProblem):
        ApiClient(Context(server=server))


def test_a_token_does_not_go_to_another_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "contexts.yaml"
    path.write_text("current: a\ncontexts: {a: {server: 'http://a:1', token: secret}}")
    path.chmod(0o600)
    monkeypatch.setenv("SCHEDULERD_CONTEXTS", str(path))
    assert cli.connect("", "")._context.token == "secret"
    assert cli.connect("http://b:1", "")._context.token == ""


# words


@given(st.text())
def test_no_text_controls_the_terminal(text: str) -> None:
    assert all(one.isprintable() or one == "\u3000" or one.isspace() for one in clean(text))
    assert not set(clean(text)) & set("\x1b\r\n\t\x9b\u202e\u2066\u200f\u2028")


def test_amounts_ages_and_bars() -> None:
    assert amounts({"memory": 2**30, "vcore": 1_500}) == "memory 1Gi, vcore 1500m"
    assert [age(0, seconds * 10**9) for seconds in (5, 119, 120, 7_200, 200_000)] == ["5s", "119s", "2m", "2h", "2d"]
    assert (age(None, 1), share(1, 2), share(1, 0), bar(1, 2, 4)) == ("-", "50 %", "-", "██░░")
