"""The commands against an API that says what it is told: requests, tables, exit codes, and hostile texts."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from schedulerd.config import load_settings
from schedulerd.terminal import cli, contexts, top
from schedulerd.terminal.api_client import ApiClient, ApiProblem
from schedulerd.terminal.context_commands import context
from schedulerd.terminal.contexts import Context, ContextProblem
from schedulerd.terminal.get import get
from schedulerd.terminal.top import Picture, lines
from schedulerd.terminal.words import age, amounts, bar, clean, share
from tests.loops import each_row

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
    monkeypatch.setattr(cli, "WATCH_SECONDS", 0)
    monkeypatch.setattr(ApiClient, "get", lambda client, path, query=None: api.get(client, path, query))
    return CliRunner().invoke(command, list(words))


ASK = {"summary": [f"Waits for {EVIL}."], "details": ["Used by application app (30)."], "explanation": {}}
APP = {
    "summary": ["Application app is Running."],
    "reasons": [
        {"allocations": 3, "applications": 1, "sentence": "waits", "application": "app", "ask": "k", "pod": "ns/p"}
    ],
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
        (("web", "-n", "two"), ("/explain/application", {"application": "web", "namespace": "two"})),
        (("web", "k", "-n", "two"), ("/explain/ask", {"application": "web", "ask": "k", "namespace": "two"})),
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
        "          such as app ns/p",
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
    result = run(api, monkeypatch, "nodes", "--state", "schedulable", command=get)
    head, row = result.output.splitlines()
    assert head.split() == ["NODE", "STATE", "CAPACITY", "AVAILABLE", "ALLOCATIONS", "RESERVED"]
    assert row.split() == ["[31m[red]x[/red]gnp.exe", "schedulable", "4", "cpu", "500m", "cpu", "3", "0"]
    assert api.asked == [("/nodes", {"state": "schedulable", "limit": 500})]


def test_a_node_without_anything_left_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    full = {**NODE, "capacity": {"memory": 1024, "vcore": 4_000}, "available": {"memory": 1024}}
    output = run(Api(nodes={"items": [full], "next": ""}), monkeypatch, "nodes", command=get).output
    assert "1Ki memory, 0 cpu" in output


def test_get_refuses_filters_that_a_list_does_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(Api(), monkeypatch, "nodes", "--user", "x", command=get)
    assert "nodes cannot be filtered by user" in result.output


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (("users", "ann"), ("/users", {"name": "ann"})),
        (("asks", "k-1", "--pod", "p"), ("/asks", {"ask": "k-1", "pod": "p"})),
        (("queues", "root.a"), ("/queues", {"queue": "root.a"})),
        (("limits", "root.a"), ("/limits", {"queue": "root.a"})),
        (("apps", "app-1"), ("/applications", {"application": "app-1"})),
        (("preemptions", "--node", "n"), ("/preemptions", {"node": "n"})),
        (("reservations", "--node", "n"), ("/reservations", {"node": "n"})),
        (("events", "app-1", "--type", "app"), ("/events", {"object": "app-1", "type": "app"})),
    ],
)
def test_a_name_and_filters_are_those_of_the_list(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], asked: tuple[str, dict[str, str]]
) -> None:
    empty = {"items": [], "next": "", "previous": "", "lost": 0}
    lists = ("users", "asks", "queues", "limits", "applications", "preemptions", "reservations", "events")
    api = Api(**dict.fromkeys(lists, empty))
    run(api, monkeypatch, *words, command=get)
    assert api.asked == [(asked[0], asked[1] | {"limit": 500})]


@pytest.mark.parametrize("kind", ["apps", "queues", "asks", "gangs", "users"])
def test_a_name_that_a_list_does_not_have_is_told(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    path = {"apps": "applications"}.get(kind, kind)
    result = run(Api(**{path: {"items": [], "next": ""}}), monkeypatch, kind, "nosuch", command=get)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"Error: {kind}: there is none of the name 'nosuch'\n"
    filtered = run(Api(**{path: {"items": [], "next": ""}}), monkeypatch, kind, command=get)
    assert filtered.exit_code == 0


def test_a_node_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(Api(nodes_n9=ApiProblem(404, "node: 'n9' is not registered")), monkeypatch, "nodes", "n9", command=get)
    assert (result.exit_code, result.stderr) == (1, "Error: node: 'n9' is not registered\n")
    result = run(Api(nodes_n9=ApiProblem(404, "rm: 'x' is not registered")), monkeypatch, "nodes", "n9", command=get)
    assert result.exit_code == 3


def test_a_filter_that_finds_nothing_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        run(Api(reservations={"items": [], "next": ""}), monkeypatch, "reservations", "app", command=get).exit_code == 0
    )


def test_events_are_searched_in_pages_that_may_be_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [
        {"items": [], "next": "x:9", "previous": "x:5", "lost": 0},
        {"items": [{"id": "x:3"}], "next": "x:4", "previous": "x:1", "lost": 0},
        {"items": [{"id": "x:0"}], "next": "x:0", "previous": "", "lost": 0},
    ]
    asked = []

    def answer(_client: ApiClient, _path: str, query: dict[str, Any]) -> Any:
        asked.append(query.get("before"))
        return pages.pop(0)

    monkeypatch.setattr(ApiClient, "get", answer)
    result = CliRunner().invoke(get, ["events", "huge", "-o", "json", "--server", "http://h:1"])
    assert [json.loads(line)["id"] for line in result.output.splitlines()] == ["x:0", "x:3"]
    assert asked == [None, "x:5", "x:1"]


def test_events_that_a_stream_lost_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def events(*_: Any) -> Any:
        yield {"lost": 7}
        raise KeyboardInterrupt

    page = {"items": [], "next": "x:9", "previous": "", "lost": 0}
    monkeypatch.setattr(ApiClient, "events", events)
    result = run(Api(events=page), monkeypatch, "events", "--watch", command=get)
    assert (result.exit_code, "7 events were dropped" in result.output) == (130, True)


def test_what_watches_goes_on_without_an_answer_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    busy, gone = ApiProblem(503, "too busy"), ApiProblem(0, "no schedulerd answers")
    answers = iter([APP, busy, gone, APP, ApiProblem(404, "no such thing")])

    def answer(*_: Any) -> Any:
        one = next(answers)
        if isinstance(one, ApiProblem):
            raise one
        return one

    monkeypatch.setattr(cli, "WATCH_SECONDS", 0)
    monkeypatch.setattr(ApiClient, "get", answer)
    result = CliRunner().invoke(cli.explain, ["app-1", "--watch", "--server", "http://h:1"])
    assert (result.exit_code, result.output.count("Application app is Running.")) == (3, 2)
    said = [line.partition(": ")[2] for line in result.output.splitlines() if "trying again" in line]
    assert said == ["too busy; trying again", "no schedulerd answers; trying again"]


def test_what_watches_gives_up_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    outage = cli.Outage()
    assert "gone" in outage.passes(ApiProblem(0, "gone"))
    monkeypatch.setattr(cli, "OUTAGE_SECONDS_MAX", -1.0)
    with pytest.raises(ApiProblem, match="gone"):
        outage.passes(ApiProblem(0, "gone"))


@pytest.mark.parametrize("answer", [{}, {"summary": 3}, {"summary": [], "reasons": [{}]}])
def test_an_answer_that_is_none_of_ours_is_one_sentence(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    result = run(Api(explain_application=answer), monkeypatch, "app-1")
    assert result.exit_code == 4
    assert result.output.startswith("Error: the answer is not that of a schedulerd of this version (")
    assert run(Api(nodes={}), monkeypatch, "nodes", command=get).output.startswith("Error: http://127.0.0.1:9080 is no")


def test_lists_are_taken_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([{"items": [1] * 500, "next": "c"}, {"items": [1] * 200, "next": "d"}])
    monkeypatch.setattr(ApiClient, "get", lambda *_: next(answers))
    items, more = ApiClient(Context()).list("/asks", {}, 700)
    assert (len(items), more) == (700, True)


def test_top_draws_queues_reasons_gangs_and_nodes() -> None:
    queue = {
        "queue": "root",
        "used": {"vcore": 1_000},
        "max": {},
        "guaranteed": {},
        "capacity": {"vcore": 4_000, "x": 0},
    }
    full = {"queue": "root.a", "used": {"vcore": 2_000}, "max": {"vcore": 2_000}, "guaranteed": {}, "capacity": {}}
    over = {"queue": "root.b", "used": {"vcore": 1_000}, "max": {"vcore": 4_000}, "guaranteed": {"vcore": 500}} | {
        "capacity": {}
    }
    root = {
        "explanation": {"running_applications": 2, "pending": 3},
        "reasons": [{"allocations": 3, "sentence": f"waits for {EVIL}"}],
    }
    gang = {"application": EVIL, "task_groups": [{"placed": 1, "wanted": 2}], "state": ""}
    declared = {"application": "d", "task_groups": [], "state": "gathering", "with_room": 12, "needed": 16}
    drawn = list(lines(Picture([queue, full, over], root, [gang, declared], [NODE], 0)))
    assert drawn[0].startswith("2 running   3 waiting   as of ")
    assert drawn[3].endswith(f"{'█' * 5}{'░' * 15} 1 of 4 cpu (25 %)")
    unlimited = {"queue": "root.c", "used": {"vcore": 1_000}, "max": {}, "guaranteed": {}, "capacity": {}}
    drawn_now = list(lines(Picture([unlimited], root, [], [{**NODE, "available": {}}], 0)))
    assert drawn_now[3].split() == ["c", "no", "max", "1", "cpu"]
    assert drawn_now[-1].endswith("allocations  free 0 cpu")
    assert drawn[4].endswith("2 of 2 cpu (100 %), full")
    assert drawn[5].endswith("1 of 4 cpu (25 %), above its guarantee")
    assert drawn[8] == "        3  waits for [31m[red]x[/red]gnp.exe"
    assert drawn[11].endswith("1 of 2 placed")
    assert drawn[12].endswith("12 of 16 have room, gathering")
    assert drawn[15].endswith("3 allocations  free 500m cpu")
    assert not [line for line in drawn if "\x1b" in line or "\u202e" in line]


def test_top_in_a_pipe_ends_with_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """And without the nodes where they are too many to be sorted."""
    queue = {"queue": "root", "used": {"vcore": 1_000}, "max": {}, "guaranteed": {}, "capacity": {"vcore": 2_000}}
    sentence = "waits for " + "x" * 200
    explained = {
        "explanation": {"running_applications": 2, "pending": 3},
        "reasons": [{"allocations": 3, "sentence": sentence}],
    }
    api = Api(
        queues={"items": [queue], "next": ""},
        explain_queue=explained,
        gangs={"items": [], "next": ""},
        nodes=ApiProblem(422, "sort: more than 10000 objects match"),
        config_broken={"items": [{"message": "the queue file of policyGroup 'queues' cannot be used: line 3"}]},
    )
    result = run(api, monkeypatch, command=top.top)
    assert result.exit_code == 0
    assert result.output.splitlines()[1].startswith("NEEDS ATTENTION: the queue file of policyGroup 'queues' cannot")
    assert result.output.endswith(f"{sentence}\n")
    assert "NODES" not in result.output


# contexts


def test_contexts_are_in_a_file_for_their_owner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "contexts.yaml"
    monkeypatch.setenv("SCHEDULERD_CONTEXTS", str(path))
    words = ["set", "prod", "--server", "https://s:1", "--token-stdin"]
    assert CliRunner().invoke(context, words, input="secret\n").exit_code == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = contexts.load(path)
    assert found.choose("") == found.choose("prod") == Context(server="https://s:1", token="secret")
    listed = CliRunner().invoke(context, ["list"]).output
    assert listed == "* prod  https://s:1  with a token\n"
    with pytest.raises(ContextProblem, match="has no context 'x'; it has prod"):
        found.choose("x")
    assert CliRunner().invoke(context, ["remove", "prod"]).exit_code == 0
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


def test_a_context_keeps_what_is_not_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "contexts.yaml"
    monkeypatch.setenv("SCHEDULERD_CONTEXTS", str(path))

    def set_context(*words: str, token: str | None = None) -> Context:
        given = [] if token is None else ["--token-stdin"]
        assert CliRunner().invoke(context, ["set", "a", *words, *given], input=token).exit_code == 0
        return contexts.load(path).choose("a")

    assert CliRunner().invoke(context, ["set", "a"]).exit_code == 2
    set_context("--server", "https://h:9080", "--ca-file", "ca.pem", token="secret\n")
    assert set_context() == Context(server="https://h:9080", ca_file="ca.pem", token="secret")
    assert set_context("--server", "https://H:9080/") == Context(
        server="https://H:9080/", ca_file="ca.pem", token="secret"
    )
    assert set_context("--ca-file", "").ca_file == ""
    assert set_context("--server", "https://other:9080").token == ""


def test_the_environment_names_a_server_and_a_file_with_the_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "contexts.yaml"
    path.write_text("current: a\ncontexts: {a: {server: 'http://a:1', token: of-a}}")
    path.chmod(0o600)
    (tmp_path / "token").write_text("of-the-environment\n")
    monkeypatch.setenv("SCHEDULERD_CONTEXTS", str(path))
    monkeypatch.setenv("SCHEDULERD_SERVER", "http://e:1")
    monkeypatch.setenv("SCHEDULERD_TOKEN_FILE", str(tmp_path / "token"))

    def chosen(server: str = "", name: str = "") -> tuple[str, str]:
        found = cli.connect(server, name)._context
        return found.server, found.token

    assert chosen() == ("http://e:1", "of-the-environment")
    assert chosen(name="a") == ("http://a:1", "of-a")
    assert chosen("http://E:1/") == ("http://e:1", "of-the-environment")
    assert chosen("http://a:1") == ("http://a:1", "")
    monkeypatch.setenv("SCHEDULERD_TOKEN_FILE", str(tmp_path / "none"))
    with pytest.raises(SystemExit, match="1"):
        chosen()
    assert load_settings({}, os.environ) == load_settings({}, {})


@each_row(
    "server",
    [
        "x",
        "ftp://x",
        "http://u:p@x",
        "http://x?token=1",
        "http://h:99999",
        "http://h:abc",
        "http://[::1",
        "http://h:-1",
    ],
)
def test_a_server_that_is_none(server: str) -> None:
    with pytest.raises(ApiProblem):
        ApiClient(Context(server=server))


def test_a_token_does_not_go_to_another_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "contexts.yaml"
    path.write_text("current: a\ncontexts: {a: {server: 'http://a:1', token: secret}}")
    path.chmod(0o600)
    monkeypatch.setenv("SCHEDULERD_CONTEXTS", str(path))
    assert cli.connect("", "")._context.token == "secret"
    assert cli.connect("http://A:1/", "")._context.token == "secret"
    assert cli.connect("http://b:1", "")._context.token == ""


# words


@given(st.text())
def test_no_text_controls_the_terminal(text: str) -> None:
    assert all(one.isprintable() or one == "\u3000" or one.isspace() for one in clean(text))
    assert not set(clean(text)) & set("\x1b\r\n\t\x9b\u202e\u2066\u200f\u2028")


def test_amounts_ages_and_bars() -> None:
    assert amounts({"memory": 2**30, "vcore": 1_500}) == "1Gi memory, 1500m cpu"
    assert [age(0, seconds * 10**9) for seconds in (5, 119, 120, 7_200, 200_000)] == ["5s", "119s", "2m", "2h", "2d"]
    assert (age(None, 1), share(1, 2), share(1, 0), bar(1, 2, 4)) == ("-", "50 %", "-", "██░░")
