"""Every page of a small cluster, its bounds, and what is refused."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from schedulerd.core.language.facts.fact import Allocated
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.daemon.admin.api import access
from schedulerd.daemon.admin.api.access import FAILED_LOGINS_MAX
from schedulerd.daemon.admin.ui.app import LOGIN_BYTES_MAX, LOGIN_FIELDS_MAX, OPEN_MAX, PARAM_LENGTH_MAX
from schedulerd.daemon.admin.ui.pages import applications
from schedulerd.daemon.admin.ui.pages.node import GROUPS_SEEN_MAX
from schedulerd.daemon.admin.ui.search import FOUND_MAX, SCANNED_MAX
from tests.loops import each_row
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_partition_spec,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    an_existing,
    of,
)
from tests.unit.daemon.admin.api.api_world import TOKENS, VIEW_TOKEN
from tests.unit.daemon.admin.ui.ui_world import UiWorld

HOSTILE = "<b onmouseover=alert(1)>\u202e\x07"


def test_the_overview_says_what_waits_and_why() -> None:
    text = UiWorld().page("/ui/")
    assert "Queue root.a would be above its quota: 30 of 50 memory used, 30 more asked" in text
    assert "1 allocation can never start: no node is large enough" in text
    assert '<a data-f="name" href="/ui/queue?path=root.a">a</a>' in text
    assert "The history begins now" in text
    assert "2 allocations to be placed; the reasons are below" in text


@each_row(
    ("path", "said"),
    [
        ("/ui/queues", "root"),
        ("/ui/queues?under=root.a", "Queues below root.a"),
        ("/ui/queue?path=root.a", "1000 memory"),
        ("/ui/queue?path=root.a", "None since the resource manager registered."),
        ("/ui/applications", "big"),
        ("/ui/application?id=app", "Queue root.a would be above its quota"),
        ("/ui/application?id=app", 'href="/ui/ask?application=app&amp;ask=k"'),
        ("/ui/ask?application=app&ask=k", "<h1>Pod ns/pod-1</h1>"),
        ("/ui/ask?application=app&ask=k", "Used by application app (30 memory)."),
        ("/ui/ask?application=app&ask=k", 'href="/ui/queue?path=root.a"'),
        ("/ui/ask?application=big&ask=k", "No node can ever fit 500 memory; the largest has 100."),
        ("/ui/ask?application=big&ask=k", 'href="/ui/node?id=n1"'),
        ("/ui/ask?application=big&ask=other", "Its application has no such ask"),
        ("/ui/application?id=big", "can ever"),
        ("/ui/nodes", 'href="/ui/node?id=n1"'),
        ("/ui/node?id=n1", "Not enough memory"),
        ("/ui/events", "None is remembered."),
        ("/ui/search?q=nothing-like-it", "No pod, application, queue or node"),
        ("/ui/search", "Write the name of a pod"),
        ("/ui/login", "This daemon has no tokens"),
    ],
)
def test_a_page_says(path: str, said: str) -> None:
    text = UiWorld().page(path)
    assert said in text or (said == "can ever" and "No node is large enough" in text)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("n1", "/ui/node?id=n1"),
        ("big", "/ui/application?id=big"),
        ("ROOT.A", "/ui/queue?path=root.a"),
        ("ns/pod-1", "/ui/ask?application=app&ask=k"),
        ("pod-1", "/ui/ask?application=app&ask=k"),
    ],
)
def test_what_is_found_once_is_opened(query: str, path: str) -> None:
    response = UiWorld().request("GET", "/ui/search", params={"q": query})
    assert (response.status_code, response.headers["location"]) == (303, path)


@pytest.mark.parametrize(
    "path",
    [
        "/ui/queue?path=root.x",
        "/ui/node?id=x",
        "/ui/application?id=x",
        "/ui/ask?application=x&ask=k",
        "/ui/x",
        "/ui/?rm=x",
    ],
)
def test_what_is_not_there_is_a_page_that_says_so(path: str) -> None:
    response = UiWorld().request("GET", path)
    assert response.status_code == 404
    assert "<h1>Not found</h1>" in response.text


def test_refusals_and_searches_keep_the_navigation() -> None:
    world = UiWorld()
    text = world.request("GET", "/ui/foo").text
    assert "There is no page /ui/foo." in text
    for one in (text, world.page("/ui/search?q=n"), world.request("GET", "/ui/node?id=x").text):
        for word, path in (("Overview", ""), ("Queues", "queues"), ("Nodes", "nodes"), ("Events", "events")):
            assert f'<a href="/ui/{path}">{word}</a>' in one


def test_every_answer_has_the_headers_for_browsers() -> None:
    world = UiWorld()
    for path in ("/ui/", "/ui/x", "/ui/static/page.css", "/ui/login", "/ui/stream?page=nothing"):
        headers = world.request("GET", path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


def test_static_files_are_cached_and_no_other_file_is_served() -> None:
    world = UiWorld()
    plain = world.request("GET", "/ui/static/page.css")
    tag = plain.headers["etag"]
    assert (plain.status_code, plain.headers["cache-control"]) == (200, "no-cache")
    same = world.request("GET", "/ui/static/page.css", headers={"if-none-match": f'"other", {tag}'})
    assert (same.status_code, same.content) == (304, b"")
    named = world.request("GET", f"/ui/static/page.css?v={tag.strip(chr(34))}")
    assert named.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert f"page.css?v={tag.strip(chr(34))}" in world.page("/ui/")
    for path in ("/ui/static/%2e%2e/app.py", "/ui/static/..%2fapp.py", "/ui/static/app.py", "/ui/static//etc/passwd"):
        assert world.request("GET", path).status_code == 404


def test_no_page_has_a_script_or_a_style_in_line() -> None:
    world = UiWorld()
    for path in ("/ui/", "/ui/queue?path=root.a", "/ui/application?id=app", "/ui/nodes", "/ui/node?id=n1"):
        text = world.page(path)
        assert text.count("<script") == text.count('<script src="/ui/static/') == 2
        for forbidden in ("<style", "style=", "javascript:", "http://", "https://"):
            assert forbidden not in text


def a_hostile_cluster() -> Conversation:
    talk = a_conversation(a_node(HOSTILE, {"memory": 100}), root=a_root(a_queue_spec("a", max={"memory": 50})))
    talk.apps(an_app(HOSTILE, "root.a", user=HOSTILE, tags={HOSTILE: HOSTILE}))
    talk.asks(an_ask(HOSTILE, 30, app=HOSTILE, count=2))
    talk.schedule()
    return talk


@each_row(
    "path", ["", "queue?path=root.a", "applications", "application", "nodes", "node", "search?q=onmouse", "events"]
)
def test_hostile_names_are_text(path: str) -> None:
    world = UiWorld(a_hostile_cluster())
    query = {"id": HOSTILE} if path in ("application", "node") else None
    response = world.request("GET", f"/ui/{path}", params=query)
    assert response.status_code == 200
    assert "<b onmouseover" not in response.text
    assert "\u202e" not in response.text
    assert "\x07" not in response.text
    assert path in ("", "queue?path=root.a", "events") or "&lt;b onmouseover" in response.text


# access ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    file = tmp_path / "tokens"
    file.write_text(TOKENS)
    return file


def test_without_a_session_a_page_leads_to_the_login_and_back(tokens: Path) -> None:
    async def act(client: httpx.AsyncClient) -> None:
        refused = await client.get("/ui/nodes?state=draining")
        assert refused.status_code == 303
        login = await client.get(refused.headers["location"])
        assert 'value="/ui/nodes?state=draining"' in login.text
        form = {"token": "wrong-token-0123456789", "next": "/ui/nodes?state=draining"}
        wrong = await client.post("/ui/login", data=form)
        assert (wrong.status_code, "none of the tokens" in wrong.text) == (401, True)
        assert "wrong-token" not in wrong.text
        right = await client.post(
            "/ui/login", data={**form, "token": VIEW_TOKEN}, headers={"origin": "http://localhost:9080"}
        )
        assert (right.status_code, right.headers["location"]) == (303, "/ui/nodes?state=draining")
        assert "httponly" in right.headers["set-cookie"].lower()
        page = await client.get("/ui/nodes")
        assert page.status_code == 200
        assert VIEW_TOKEN not in page.text
        assert (await client.post("/ui/logout")).status_code == 303
        assert (await client.get("/ui/nodes")).status_code == 303

    UiWorld(tokens=tokens).run(act)


@pytest.mark.parametrize(
    "onwards", ["//evil.example", "https://evil.example", "/ui/\\evil", "/api/v1/me", "/ui/\r\nx: y"]
)
def test_a_login_leads_to_pages_of_ours_only(tokens: Path, onwards: str) -> None:
    form = {"token": VIEW_TOKEN, "next": onwards}
    assert UiWorld(tokens=tokens).request("POST", "/ui/login", data=form).headers["location"] == "/ui/"


def test_foreign_hosts_origins_and_tokens_in_addresses_are_refused(tokens: Path) -> None:
    world = UiWorld(tokens=tokens)
    assert world.request("GET", "/ui/", headers={"host": "evil.example"}).status_code == 421
    assert world.request("GET", f"/ui/?token={VIEW_TOKEN}").status_code == 400
    foreign = {"origin": "http://evil.example"}
    assert world.request("POST", "/ui/login", data={"token": VIEW_TOKEN}, headers=foreign).status_code == 403
    assert world.request("POST", "/ui/logout", headers=foreign).status_code == 403


def test_another_machine_sees_nothing_without_tokens() -> None:
    world = UiWorld()
    world.client = ("192.0.2.7", 5_000)
    for path in ("/ui/", "/ui/stream?page=overview", "/ui/search?q=n1", "/ui/node?id=n1"):
        response = world.request("GET", path)
        assert response.status_code == 403
        assert "n1" not in response.text
    open_world = UiWorld(http_anonymous_view=True)
    open_world.client = ("192.0.2.7", 5_000)
    assert open_world.page("/ui/node?id=n1")


# bounds ---------------------------------------------------------------------------------------------------------------


def test_a_login_form_may_be_so_large(tokens: Path) -> None:
    response = UiWorld(tokens=tokens).request("POST", "/ui/login", data={"token": "x" * LOGIN_BYTES_MAX})
    assert response.status_code == 413


def test_a_login_form_may_have_so_many_fields(tokens: Path) -> None:
    for count, status in ((LOGIN_FIELDS_MAX, 401), (LOGIN_FIELDS_MAX + 1, 400)):
        form = "&".join(f"f{number}=x" for number in range(count))
        headers = {"content-type": "application/x-www-form-urlencoded"}
        response = UiWorld(tokens=tokens).request("POST", "/ui/login", content=form, headers=headers)
        assert response.status_code == status


def test_logins_on_the_page_are_limited_by_rate(tokens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "LOGIN_SECONDS", 1e9)

    async def act(client: httpx.AsyncClient) -> list[httpx.Response]:
        return [await client.post("/ui/login", data={"token": "wrong"}) for _ in range(FAILED_LOGINS_MAX + 1)]

    *failed, refused = UiWorld(tokens=tokens).run(act)
    assert {one.status_code for one in failed} == {401}
    assert refused.status_code == 429
    assert "may try again every" in refused.text


def test_a_parameter_may_be_so_long() -> None:
    world = UiWorld()
    assert world.request("GET", "/ui/applications", params={"name": "x" * PARAM_LENGTH_MAX}).status_code == 200
    response = world.request("GET", "/ui/applications", params={"name": "x" * (PARAM_LENGTH_MAX + 1)})
    assert response.status_code == 400
    assert f"at most {PARAM_LENGTH_MAX}" in response.text


def test_so_many_pages_are_made_at_a_time() -> None:
    world = UiWorld()

    async def act(client: httpx.AsyncClient) -> None:
        holds = [world.ui._open.held(None) for _ in range(OPEN_MAX)]
        for one in holds:
            one.__enter__()
        response = await client.get("/ui/")
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")
        stream = await client.get("/ui/stream?page=overview")
        assert (stream.status_code, stream.headers["retry-after"]) == (503, "1")
        holds.pop().__exit__(None, None, None)
        assert (await client.get("/ui/")).status_code == 200

    world.run(act)


def many_applications(count: int) -> Conversation:
    talk = a_conversation(a_node("n1", {"memory": 10}), root=a_root(a_queue_spec("a")))
    for first in range(0, count, 200):
        talk.apps(*(an_app(f"app-{number}", "root.a") for number in range(first, min(count, first + 200))))
    return talk


def test_a_page_of_applications_looks_at_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    assert applications.SCANNED_MAX == 20_000
    monkeypatch.setattr(applications, "SCANNED_MAX", 30)
    world = UiWorld(many_applications(100))
    text = world.page("/ui/applications?name=app-1")
    assert "app-99" not in text
    onwards = text.split('" rel="next"')[0].rpartition('href="')[2].replace("&amp;", "&")
    assert "before=" in onwards
    seen = 0
    while 'rel="next"' in text:
        onwards = text.split('" rel="next"')[0].rpartition('href="')[2].replace("&amp;", "&")
        text = world.page(onwards)
        seen += 1
    assert seen == 3
    assert ">app-1</a>" in text


def test_a_search_lists_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    text = UiWorld(many_applications(FOUND_MAX + 5)).page("/ui/search?q=app-")
    assert text.count("<td>application</td>") == FOUND_MAX
    assert f"Only the first {FOUND_MAX} of kind application are listed." in text
    assert '<a href="/ui/applications?name=app-">All of them</a>' in text
    assert SCANNED_MAX == 50_000
    talk = a_conversation(a_node("n1", {"memory": 10}), root=a_root(a_queue_spec("a")))
    talk.apps(an_app("one", "root.a"))
    talk.asks(*(an_ask(f"key-{number}", 1, app="one") for number in range(20)))
    monkeypatch.setattr("schedulerd.daemon.admin.ui.search.SCANNED_MAX", 5)
    assert UiWorld(talk).page("/ui/search?q=ey-").count("<td>pod</td>") == 5
    # What does not match counts too.
    assert UiWorld(talk).request("GET", "/ui/search?q=ey-4").headers["location"].endswith("ask=key-4")
    text = UiWorld(talk).page("/ui/search?q=ey-6")
    assert text.count("<td>pod</td>") == 0
    assert "among the first 50,000 asks" in text


def test_a_node_shows_unclaimed_allocations_with_the_reason() -> None:
    talk = a_conversation(root=a_root(a_queue_spec("a")))
    talk.nodes(a_node("n1", {"memory": 100}, an_existing("e1", "stale", app="<gone>"), an_existing("e2")))
    page = UiWorld(talk).page("/ui/node?id=n1")
    assert "1 allocation, 1 unclaimed" in page
    assert "stale" in page
    assert "unclaimed: applicationID &#39;&lt;gone&gt;&#39; is not a known application" in page


def test_a_node_is_compared_with_so_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    assert GROUPS_SEEN_MAX == 2_000
    monkeypatch.setattr("schedulerd.daemon.admin.ui.pages.node.GROUPS_SEEN_MAX", 3)
    talk = a_conversation(a_node("n1", {"memory": 10}), root=a_root(a_queue_spec("a")))
    for number in range(10):
        talk.apps(an_app(f"app-{number}", "root.a"))
        talk.asks(an_ask("k", 20, app=f"app-{number}"))
    talk.schedule()
    assert '<span data-f="count">3</span>' in UiWorld(talk).page("/ui/node?id=n1")
    talk = a_conversation(a_node("n1", {"memory": 10}), root=a_root(a_queue_spec("a")))
    talk.asks(*(an_ask(f"k-{number}", 20 + number) for number in range(10)))
    talk.schedule()
    assert '<span data-f="count">3</span>' in UiWorld(talk).page("/ui/node?id=n1")


def a_large_cluster() -> Conversation:
    talk = a_conversation(
        root=a_root(*(a_queue_spec(f"queue-{number}", max={"memory": 10_000}) for number in range(60)))
    )
    # Not by `talk.step`, which looks at everything after each step.
    talk.step = lambda command: talk.scheduler.step(talk.now_ns, command)  # type: ignore[method-assign]
    talk.nodes(*(a_node(f"node-{number:05}.eu.example", {"memory": 1_000, "vcore": 16_000}) for number in range(2_000)))
    talk.apps(*(an_app(f"application-{number:05}", f"root.queue-{number % 60}") for number in range(1_000)))
    for number in range(1_000):
        app = f"application-{number:05}"
        talk.asks(*(an_ask(f"{app}-{ask}", 100 + 10 * ask, app=app, count=20) for ask in range(3)))
    talk.cycle(500)
    return talk


def test_the_pages_of_a_large_cluster_stay_small() -> None:
    world = UiWorld(a_large_cluster())

    async def act(client: httpx.AsyncClient) -> None:
        for path in (
            "",
            "queues",
            "queue?path=root.queue-1",
            "applications",
            "application?id=application-00999",
            "nodes",
            "node?id=node-00001.eu.example",
            "search?q=application",
        ):
            response = await client.get(f"/ui/{path}")
            assert response.status_code == 200
            assert 2_000 < len(response.content) < 60 * 1024, path

    world.run(act)


def test_several_partitions_are_told_apart() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}), root=a_root(a_queue_spec("a")))
    talk.register(a_partition_spec(a_root(a_queue_spec("a"))), a_partition_spec(a_root(a_queue_spec("b")), name="gpu"))
    talk.connect()
    world = UiWorld(talk)
    text = world.page("/ui/")
    assert '<a href="/ui/?rm=rm-1&amp;partition=gpu">rm-1 / gpu</a>' in text
    assert 'href="/ui/queue?path=root.a&amp;rm=rm-1&amp;partition=default"' in text
    text = world.page("/ui/queues?rm=rm-1&partition=gpu")
    assert 'href="/ui/queue?path=root.b&amp;rm=rm-1&amp;partition=gpu"' in text
    assert '<input type="hidden" name="partition" value="gpu">' in text
    assert world.request("GET", "/ui/?partition=none").status_code == 404


def test_a_rejected_application_says_why() -> None:
    talk = a_conversation(root=a_root(a_queue_spec("a")))
    talk.apps(an_app("lost", "root.nowhere"))
    world = UiWorld(talk)
    assert "It was rejected: " in world.page("/ui/application?id=lost")
    assert ">lost</a>" in world.page("/ui/applications?state=rejected")
    assert "1 application rejected in the last 10 minutes" in world.page("/ui/")


def test_an_ended_application_keeps_its_states() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}), root=a_root(a_queue_spec("a")))
    talk.asks(an_ask("k", 10))
    (allocated,) = of(Allocated, talk.schedule())
    talk.release(uuid=allocated.uuid)
    talk.sleep(60 * SECOND_NS)
    world = UiWorld(talk)
    text = world.page("/ui/application?id=app")
    for state in ("Accepted", "Starting", "Completing", "Completed"):
        assert f">{state}</span>" in text
    assert "Nothing is allocated." in text
    assert ">app</a>" in world.page("/ui/applications?state=completed")
    assert world.request("GET", "/ui/search?q=app").headers["location"] == "/ui/application?id=app"
