"""Every route of /api/v1 answers what its users expect, wrong requests included."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from schedulerd.core.language.commands import NodeAction
from schedulerd.core.language.facts.fact import AskRejected, RejectCode
from schedulerd.core.language.queue_commands import SetQueueStopped
from schedulerd.core.language.specs import SECOND_NS, Acl
from schedulerd.daemon.admin.api import event_scan, explain_routes, finding, pages
from schedulerd.daemon.admin.api.app import SCHEMA_FILE
from schedulerd.daemon.admin.api.event_stream import HEARTBEAT_SECONDS, STREAM_SECONDS_MAX
from schedulerd.daemon.admin.api.guard import API_BODY_BYTES_MAX
from schedulerd.daemon.admin.api.schema import openapi
from schedulerd.observe import ended
from schedulerd.observe.event_record import SI, Record
from schedulerd.wire.callback import NoPodAnswer
from tests.instants import at
from tests.unit import virtual_loop
from tests.unit.core.builders import (
    a_conversation,
    a_node,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    an_existing,
)
from tests.unit.core.gang_builders import a_gang
from tests.unit.core.preemption_builders import an_entitled_ask, full_nodes, wait
from tests.unit.daemon.admin.api.api_world import EPOCH_NS, ApiWorld


@pytest.fixture(scope="module")
def world() -> ApiWorld:
    return ApiWorld()


# explanations


def test_an_ask_is_explained(world: ApiWorld) -> None:
    answer = world.get("/explain/ask", application="app", ask="k")
    assert answer["summary"] == [
        "Queue root.a would be above its quota: 30 of 50 memory used, 30 more asked. Nodes are not the cause."
    ]
    assert answer["details"][0] == "Used by application app (30 memory)."
    found = answer["explanation"]
    assert (found["pod"], found["pending"], found["allocated"]) == ("ns/pod-1", 1, 1)
    assert found["waiting"][0]["cause"]["missing"] == 10
    assert found["now_ns"] == EPOCH_NS + world.talk.now_ns


def test_unclaimed_allocations_are_explained_and_counted() -> None:
    talk = a_conversation(root=a_root(a_queue_spec("a")))
    both = an_existing("e1", "k1", app="gone"), an_existing("e2", "k2", app="gone")
    talk.nodes(a_node("n1", {"memory": 100}, *both), a_node("n2", {"memory": 100}, an_existing("e3", app="gone")))
    world = ApiWorld(talk)
    why = "applicationID 'gone' is not a known application; it must be added before it can have asks or allocations, "
    (said,) = world.get("/explain/application", application="gone")["summary"]
    assert said.startswith(f"3 unclaimed allocations count on nodes n1, n2 and in no queue: {why}")
    (said,) = world.get("/explain/ask", application="gone", ask="k2")["summary"]
    assert said.startswith(f"1 unclaimed allocation counts on node n1 and in no queue: {why}")
    nodes = {one["node"]: (one["unclaimed"], one["used"]) for one in world.get("/nodes")["items"]}
    assert nodes == {"n1": (2, {"memory": 20}), "n2": (1, {"memory": 10})}


def test_the_only_ask_need_not_be_named(world: ApiWorld) -> None:
    assert world.get("/explain/ask", application="app")["explanation"]["allocation_key"] == "k"


def test_a_pod_is_explained(world: ApiWorld) -> None:
    answer = world.get("/explain/pod", namespace="ns", pod="pod-1")
    assert answer["explanation"]["application_id"] == "app"
    assert world.refused("/explain/pod", namespace="ns", pod="other") == (
        404,
        "pod: 'ns/other' is not known here: it was never seen, or is no longer remembered; is its schedulerName right?",
    )


def test_a_pod_is_not_called_unknown_if_its_resource_manager_cannot_be_asked(world: ApiWorld) -> None:
    world.pods["ns", "other"] = NoPodAnswer("it has no callback stream")
    status, detail = world.refused("/explain/pod", namespace="ns", pod="other")
    why = "the resource manager could not be asked about it: it has no callback stream"
    assert (status, detail) == (404, f"pod: there is no ask of 'ns/other', and {why}")
    del world.pods["ns", "other"]


def test_the_work_to_find_a_pod_does_not_grow_with_the_asks_of_other_namespaces() -> None:
    def work(others: int) -> int:
        talk = a_conversation(a_node("n1", {"memory": 1}), root=a_root(a_queue_spec("a")))
        for name in [*(f"ns-{number}" for number in range(others)), "mine"]:
            talk.apps(an_app(f"{name}.app", "root.a", tags={"namespace": name}))
            keys = [f"pod-{number}" for number in range(200)]
            tags = {"kubernetes.io/meta/namespace": name}
            talk.asks(
                *(an_ask(key, app=f"{name}.app", tags={**tags, "kubernetes.io/meta/podName": key}) for key in keys)
            )
        place = finding.place(talk.scheduler, finding.Where())
        return sum(1 for _ in explain_routes._find_pod(place, "mine", "pod-199"))

    assert work(1) == work(10) <= 5


def test_a_pod_that_was_not_asked_for_is_explained_by_its_resource_manager() -> None:
    world = ApiWorld()
    world.pods["ns", "held"] = "Waits: PodGroup 'pg' not found."
    answer = world.get("/explain/pod", namespace="ns", pod="held")
    assert answer == {"summary": ["Waits: PodGroup 'pg' not found."], "details": [], "explanation": None}
    assert world.get("/explain/pod", namespace="ns", pod="pod-1")["explanation"] is not None


def test_what_has_become_of_an_ask_is_known_after_it_has_gone() -> None:
    world = ApiWorld()
    talk = world.talk
    placed = talk.model().applications["app"].allocations
    world.step(*talk.release(uuid=next(iter(placed)), application_id="app"))
    world.step(*talk.release_asks(allocation_key="k"))
    world.step(*talk.asks(an_ask("bad", -1)))
    talk.sleep(5 * SECOND_NS)

    def said(application: str, ask: str) -> str:
        (sentence,) = world.get("/explain/ask", application=application, ask=ask)["summary"]
        return str(sentence)

    assert said("app", "k") == (
        "Ask k of application app was withdrawn by its resource manager before it was allocated (5 s ago)."
    )
    assert said("app", "bad").startswith(
        "Ask bad of application app was rejected (5 s ago): resourceAsk['memory'] is -1"
    )
    assert world.refused("/explain/ask", application="app", ask="never")[1].startswith(
        "ask: 'never' is no ask of 'app'"
    )
    assert world.refused("/explain/ask", application="none", ask="never")[0] == 404


def test_what_has_become_of_an_application_is_known_after_it_has_gone() -> None:
    world = ApiWorld()
    talk = world.talk
    talk.step(SetQueueStopped(talk.rm_id, "root.a", stopped=True))
    world.step(*talk.apps(an_app("late", "root.a"), an_app("lost", "root.nowhere"), an_app("done", "root.b")))
    world.step(*talk.asks(an_ask("x", 1, app="done")), *talk.schedule())
    world.step(*talk.remove("big"))
    uuid = next(iter(talk.model().applications["done"].allocations))
    world.step(*talk.release(uuid=uuid, application_id="done"), *talk.sleep(40 * SECOND_NS))

    def said(application: str) -> str:
        answer = world.get("/explain/application", application=application)
        assert (answer["explanation"], answer["reasons"], answer["next_ask"]) == (None, [], [])
        (sentence,) = answer["summary"]
        return str(sentence)

    assert said("late").startswith("Application late was rejected (40 s ago): queueName 'root.a': ")
    assert said("late").endswith("root.a is stopped by an operator: it takes no new applications.")
    assert said("lost").startswith("Application lost was rejected (40 s ago): queue root.nowhere does not exist")
    assert said("big") == "Application big is gone, after it was Completed (40 s ago)."
    unknown = (404, "application: 'never' is not known here: it was never seen, or is no longer remembered")
    assert world.refused("/explain/application", application="never") == unknown
    assert world.refused("/explain/ask", application="never", ask="k") == unknown
    assert world.refused("/explain/ask", application="big", ask="never") == (
        404,
        "application: Application big is gone, after it was Completed (40 s ago).",
    )
    assert said("done").startswith("Application done has ended in queue root.b: it is Completed since 10 s")
    assert world.refused("/explain/application", application="never")[0] == 404


def test_an_ended_ask_with_long_ids_is_remembered() -> None:
    """Each id is as long as one may be."""
    world, app, key = ApiWorld(), "a" * 1_024, "k" * 1_024
    world.step(AskRejected("rm", "default", app, key, RejectCode.INVALID_FIELD, "why"))
    assert "was rejected" in world.ended.ask("rm", "default", app, key, 0)


def test_an_ended_ask_is_remembered_with_a_short_reason() -> None:
    world, long = ApiWorld(), "x" * 2_000
    rejected = (AskRejected("rm", "default", "app", key, RejectCode.INVALID_FIELD, long) for key in ("k2", long))
    world.step(*rejected)
    assert len(world.ended) == 1
    assert len(world.ended.ask("rm", "default", "app", "k2", 0)) < 1_200


def test_so_many_ended_asks_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended, "REMEMBERED_MAX", 3)
    world = ApiWorld()
    world.step(*world.talk.asks(*(an_ask(f"bad-{number}", -1) for number in range(10))))
    assert len(world.ended) == 3
    assert world.refused("/explain/ask", application="app", ask="bad-6")[0] == 404
    assert world.get("/explain/ask", application="app", ask="bad-7")["explanation"] is None


def test_an_application_is_explained(world: ApiWorld) -> None:
    answer = world.get("/explain/application", application="big")
    assert answer["summary"] == ["Application big in queue root.b is Accepted for 0 s: 0 allocated, 1 pending."]
    assert [(one["allocations"], one["sentence"]) for one in answer["reasons"]] == [
        (1, "no node can ever fit 500 memory; the largest has 100")
    ]
    assert answer["next_ask"][0] == "No node can ever fit 500 memory; the largest has 100."


def test_a_queue_is_explained(world: ApiWorld) -> None:
    answer = world.get("/explain/queue", queue="root")
    assert answer["summary"] == ["Queue root runs 1 application; 2 pending."]
    assert sorted(one["sentence"] for one in answer["reasons"]) == [
        "no node can ever fit 500 memory; the largest has 100",
        "queue root.a would be above its quota: 30 of 50 memory used, 30 more asked",
    ]
    leaf = world.get("/explain/queue", queue="ROOT.a")
    assert leaf["summary"][1] == "30 of 50 memory used."


def test_what_if_an_ask_came(world: ApiWorld) -> None:
    def fits(**body: Any) -> dict[str, Any]:
        response = world.request("POST", "/whatif/fits", json={"queue": "root.b", **body})
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    before = world.get("/nodes")
    assert fits(resources={"memory": 60})["summary"].startswith("It would be placed now, on node n")
    assert fits(resources={"memory": 101})["summary"] == (
        "It would not be placed now: no node can ever fit 101 memory; the largest has 100."
    )
    assert fits(queue="root.a", resources={"memory": 30})["summary"] == (
        "It would not be placed now: queue root.a would be above its quota: 30 of 50 memory used, 30 more asked."
    )
    required = fits(resources={"memory": 1}, required_node="gone")
    assert required["finding"]["nodes"]["counts"] == [{"cause": "unregistered", "detail": "gone", "nodes": 1}]
    assert world.get("/nodes") == before


def test_what_if_an_ask_came_of_an_application_that_is_not_taken() -> None:
    root = a_queue_spec("root", a_queue_spec("open", submit_acl=Acl(users=frozenset({"ann"}))), a_queue_spec("old"))
    talk = a_conversation(a_node("n1", {"memory": 100}), root=root)
    world = ApiWorld(talk)

    def fits(queue: str, user: str = "ann") -> str:
        body = {"queue": queue, "user": user, "resources": {"memory": 1}}
        answer = world.request("POST", "/whatif/fits", json=body).json()
        assert answer["finding"]["fits"] is (answer["finding"]["node_id"] != "")
        return str(answer["summary"])

    assert fits("root.open") == "It would be placed now, on node n1."
    no = "It would not be placed now: "
    assert fits("root.open", "bob").startswith(f"{no}user 'bob' with groups [] may not submit to root.open; ")
    talk.step(SetQueueStopped(talk.rm_id, "root.open", stopped=True))
    assert fits("root.open") == f"{no}root.open is stopped by an operator: it takes no new applications."
    talk.disconnect()
    assert fits("root.open") == f"{no}resource manager {talk.rm_id!r} is paused: nothing is placed for it."
    talk.connect()
    talk.model().root.children["old"].set_draining(True)
    assert fits("root.old") == f"{no}root.old is draining: it is no longer in the queue file."


# lists


def test_queues_with_parents_first(world: ApiWorld) -> None:
    found = world.get("/queues")["items"]
    assert [one["queue"] for one in found] == ["root", "root.a", "root.b"]
    assert (found[1]["max"], found[1]["used"], found[1]["pending"]) == ({"memory": 50}, {"memory": 30}, {"memory": 30})
    assert [one["queue"] for one in world.get("/queues", leaf=True, queue="root.b")["items"]] == ["root.b"]


@pytest.mark.parametrize(
    ("path", "query", "field", "expected"),
    [
        ("/applications", {}, "application", ["app", "big"]),
        ("/applications", {"queue": "root.b"}, "application", ["big"]),
        ("/applications", {"state": "accepted"}, "application", ["big"]),
        ("/applications", {"user": "nobody"}, "application", []),
        ("/applications", {"sort": "-id"}, "application", ["big", "app"]),
        ("/applications", {"sort": "allocations"}, "application", ["big", "app"]),
        ("/asks", {}, "application", ["app", "big"]),
        ("/asks", {"state": "unschedulable"}, "application", ["big"]),
        ("/asks", {"namespace": "ns", "pod": "pod-1"}, "application", ["app"]),
        ("/asks", {"application": "big", "pending": True}, "application", ["big"]),
        ("/asks", {"sort": "-queue"}, "application", ["big", "app"]),
        ("/nodes", {}, "node", ["n1", "n2"]),
        ("/nodes", {"state": "draining"}, "node", []),
        ("/nodes", {"attribute": "hostname=n2"}, "node", ["n2"]),
        ("/users", {"kind": "user", "queue": "root.a"}, "name", ["somebody"]),
        ("/limits", {}, "queue", ["root.a"]),
        ("/gangs", {}, "application", []),
        ("/reservations", {}, "node", []),
        ("/preemptions", {}, "node", []),
    ],
)
def test_lists_filters_and_orders(
    world: ApiWorld, path: str, query: dict[str, Any], field: str, expected: list[str]
) -> None:
    answer = world.get(path, **query)
    assert ([one[field] for one in answer["items"]], answer["next"]) == (expected, "")


def test_gangs_reservations_and_preemptions() -> None:
    talk = full_nodes(n1=[10, 10])
    talk.asks(an_entitled_ask())
    wait(talk, 30 * SECOND_NS)
    world = ApiWorld(talk)
    [reserved] = world.get("/reservations")["items"]
    assert (reserved["node"], reserved["application"], reserved["victims"]) == ("n1", "claimer", 1)
    [preempted] = world.get("/preemptions", application="claimer")["items"]
    assert (preempted["ask"], preempted["victim_node"]) == ("c", "n1")
    talk = a_conversation(a_node("n1", {"memory": 15}))
    talk.apps(a_gang())
    talk.asks(a_placeholder("p", count=2, app="gang"))
    talk.schedule()
    [gang] = ApiWorld(talk).get("/gangs", complete=False)["items"]
    assert (gang["pending"], gang["task_groups"][0]["placed"]) == (1, 1)


def many(count: int) -> ApiWorld:
    talk = a_conversation(a_node("n1", {"memory": 5}))
    talk.apps(*(an_app(f"app-{number}") for number in range(count)))
    for number in range(count):
        talk.asks(an_ask("k1", app=f"app-{number}"), an_ask("k2", app=f"app-{number}"))
    return ApiWorld(talk)


@pytest.mark.parametrize("query", [{}, {"sort": "id"}, {"sort": "-queue"}])
def test_pages_show_everything_once(query: dict[str, str]) -> None:
    world = many(7)
    seen, cursor = [], ""
    while True:
        page = world.get("/asks", limit=3, cursor=cursor, **query)
        assert len(page["items"]) <= 3
        seen += [(one["application"], one["ask"]) for one in page["items"]]
        cursor = page["next"]
        if not cursor:
            break
    assert sorted(seen) == sorted({*seen})
    assert len(seen) == 14


def test_what_comes_and_goes_between_pages_hides_nothing_that_stays() -> None:
    world = many(4)
    first = world.get("/applications", limit=2)
    world.talk.remove("app")
    world.talk.apps(an_app("late"))
    second = world.get("/applications", limit=10, cursor=first["next"])
    assert [one["application"] for one in second["items"]] == ["app-1", "app-2", "app-3", "late"]


def test_a_page_ends_after_so_many_objects_that_it_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "SCANNED_MAX", 4)
    world = many(6)
    page = world.get("/applications", user="nobody")
    assert page["items"] == []
    assert page["next"]
    pages_seen = 1
    while page["next"]:
        page = world.get("/applications", user="nobody", cursor=page["next"])
        pages_seen += 1
    assert pages_seen == 2


def test_sorting_by_a_field_that_changes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "SORTED_MAX", 3)
    status, detail = many(6).refused("/applications", sort="allocations")
    assert (status, detail.split(":")[0]) == (422, "sort")


# single objects


def test_single_objects_and_their_tags(world: ApiWorld) -> None:
    assert world.get("/queues/root.A")["queue"] == "root.a"
    assert world.get("/nodes/n1")["capacity"] == {"memory": 100}
    response = world.request("GET", "/applications/app")
    assert [one["state"] for one in response.json()["state_log"]] == ["Accepted", "Starting"]
    again = world.request("GET", "/applications/app", headers={"If-None-Match": response.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("name", ["a\r\nb", "a/b", "a%2fb", "\x1b[31m", "\u202e", "?#&"])
def test_objects_of_any_name(name: str) -> None:
    talk = a_conversation(a_node(name, {"memory": 5}))
    assert ApiWorld(talk).get(f"/nodes/{quote(name, safe='')}")["node"] == name


def test_a_tag_changes_with_the_object() -> None:
    world = ApiWorld()
    before = world.request("GET", "/nodes/n1").headers["etag"]
    world.talk.nodes(a_node("n1", {"memory": 101}, action=NodeAction.UPDATE))
    response = world.request("GET", "/nodes/n1", headers={"If-None-Match": before})
    assert response.status_code == 200


# events


@pytest.fixture
def busy() -> ApiWorld:
    """Three events of a registration, and two of each of three applications."""
    world = ApiWorld()
    world.events.register()
    world.events.happen(3)
    return world


def test_an_event_of_an_ask_has_the_name_of_its_pod() -> None:
    world = ApiWorld()
    for key, group in (("k", "app"), ("k", "big"), ("gone", "app"), ("k", "gone")):
        record = Record(SI.REQUEST, key, SI.NONE, SI.DETAILS_NONE, group, group=group)
        world.events.feed.ring.add(at(1), world.talk.rm_id, "default", 1, lambda what: (what,), record)
    assert [one["pod"] for one in world.get("/events")["items"]] == ["ns/pod-1", "", "", ""]


def test_the_last_events_are_listed_and_what_comes_after_them(busy: ApiWorld) -> None:
    found = busy.get("/events", limit=2)
    assert [one["id"] for one in found["items"]] == ["this-run:7", "this-run:8"]
    assert (found["next"], found["lost"]) == ("this-run:8", 0)
    assert busy.get("/events", after=found["next"])["items"] == []
    busy.events.happen(1)
    assert [one["id"] for one in busy.get("/events", after=found["next"])["items"]] == ["this-run:9", "this-run:10"]


def test_a_search_for_events_ends_with_a_place_to_go_on(busy: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of a filter can be empty: each looks at four of the nine events."""
    monkeypatch.setattr(event_scan, "SCANNED_MAX", 4)
    pages = [busy.get("/events", object="rm")]
    while pages[-1]["previous"]:
        pages.append(busy.get("/events", object="rm", before=pages[-1]["previous"]))
    assert [[one["id"] for one in page["items"]] for page in pages] == [[], [], ["this-run:0"]]
    assert [page["next"] for page in pages] == ["this-run:8", "this-run:4", "this-run:0"]
    later = [busy.get("/events", object="app-2", after="this-run:0")]
    while later[-1]["next"] != "this-run:8":
        later.append(busy.get("/events", object="app-2", after=later[-1]["next"]))
    assert [len(page["items"]) for page in later] == [0, 2]


def test_pages_of_events_have_every_event_once(busy: ApiWorld) -> None:
    seen: list[str] = []
    before = ""
    while True:
        page = busy.get("/events", limit=2, before=before)
        seen = [one["id"] for one in page["items"]] + seen
        before = page["previous"]
        if not before:
            break
    assert seen == [f"this-run:{number}" for number in range(9)]


def test_events_of_the_resource_manager_have_a_type_and_are_found_by_it(busy: ApiWorld) -> None:
    found = busy.get("/events", type="resource_manager")["items"]
    assert [(one["type"], one["object"]) for one in found] == [("resource_manager", "rm")]


def test_events_are_filtered(busy: ApiWorld) -> None:
    assert {one["object"] for one in busy.get("/events", object="app-1", type="app")["items"]} == {"app-1"}
    assert len(busy.get("/events", type="queue")["items"]) + len(busy.get("/events", type="app")["items"]) <= 9
    assert busy.get("/events", rm="other")["items"] == []


def test_events_of_another_run_are_resumed_from_the_first(busy: ApiWorld) -> None:
    assert busy.get("/events", after="earlier-run:77", limit=1)["items"][0]["id"] == "this-run:0"


def test_a_stream_sends_what_happens_and_ends_in_time(busy: ApiWorld) -> None:
    response = busy.request("GET", "/events/stream", headers={"Last-Event-ID": "this-run:6"})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert re.findall(r"^id: (.*)$", response.text, re.MULTILINE) == ["this-run:7", "this-run:8"]
    assert response.text.count(": still here") == int(STREAM_SECONDS_MAX // HEARTBEAT_SECONDS)


# wrong requests


@pytest.mark.parametrize(
    ("path", "query", "status", "said"),
    [
        ("/nope", {}, 404, "there is no /api/v1/nope; /api/v1/docs lists what there is"),
        ("/queues/root.x", {}, 404, "queue: 'root.x' does not exist; write its full path, like root.a"),
        ("/applications/x", {}, 404, "application: 'x' is not there"),
        ("/nodes/x", {}, 404, "node: 'x' is not registered"),
        ("/queues", {"rm": "x"}, 404, "rm: 'x' is not registered; there are 'rm-1'"),
        ("/queues", {"partition": "x"}, 404, "partition: 'x' is none of 'rm-1'; there are 'default'"),
        ("/explain/ask", {"application": "app", "ask": "x"}, 404, "ask: 'x' is no ask of 'app'; there are 'k'"),
        ("/explain/ask", {}, 422, "application: Field required (got {})"),
        ("/queues", {"limit": "0"}, 422, "limit: must be greater than or equal to 1 (got '0')"),
        ("/queues", {"limit": "1001"}, 422, "limit: must be less than or equal to 1000 (got '1001')"),
        ("/queues", {"colour": "red"}, 422, "colour: Extra inputs are not permitted (got 'red')"),
        ("/queues", {"cursor": "!"}, 422, ""),
        ("/queues", {"cursor": "x"}, 422, "cursor: is none of ours; take `next` of the page before as it is"),
        ("/queues", {"cursor": "WzFd"}, 422, "cursor: is of another list or another sorting; begin without one"),
        ("/applications", {"sort": "colour"}, 422, ""),
        ("/queues", {"queue": "root.nope"}, 404, "queue: 'root.nope' does not exist; write its full path, like root.a"),
        ("/asks", {"queue": "nope"}, 404, "queue: 'nope' does not exist; write its full path, like root.a"),
        ("/nodes", {"attribute": "zone"}, 422, "attribute: is 'zone'; it must be NAME=VALUE"),
        ("/nodes", {"attribute": "=a"}, 422, "attribute: is '=a'; it must be NAME=VALUE"),
        (
            "/nodes",
            {"state": "tired"},
            422,
            "state: is 'tired'; it must be one of schedulable, draining, not_ready, removed",
        ),
        ("/applications", {"state": "Runing"}, 422, ""),
        ("/users", {"kind": "x"}, 422, "kind: must be 'user', 'group' or '' (got 'x')"),
        ("/events", {"after": "x"}, 422, ""),
        (
            "/events",
            {"after": "this-run:1", "before": "this-run:2"},
            422,
            "before: is set, and after is too; set one of them",
        ),
        (
            "/events",
            {"before": "other:1"},
            422,
            "before: is 'other:1', of another run of the daemon; begin without it",
        ),
        ("/events/stream", {"after": "x:" + "9" * 40}, 422, ""),
    ],
)
def test_wrong_requests(world: ApiWorld, path: str, query: dict[str, str], status: int, said: str) -> None:
    found, detail = world.refused(path, **query)
    assert found == status
    assert not said or detail == said


def test_a_wrong_state_names_each_state_once(world: ApiWorld) -> None:
    status, detail = world.refused("/asks", state="late")
    assert (status, detail.count("quota_blocked"), "''" in detail) == (422, 1, False)
    assert detail.startswith("state: must be 'ready'")


def test_states_are_found_in_any_case(world: ApiWorld) -> None:
    assert len(world.get("/asks", state="Quota_Blocked")["items"]) == 1
    assert len(world.get("/nodes", state="Schedulable")["items"]) == 2
    assert [one["application"] for one in world.get("/applications", state="ACCEPTED")["items"]] == ["big"]
    assert len(world.get("/asks", state="")["items"]) == 2


def test_a_daemon_without_resource_managers_says_so() -> None:
    world = ApiWorld()
    world.talk.scheduler.cluster.resource_managers.clear()
    assert world.refused("/queues") == (404, "No resource manager is registered yet.")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"queue": "root.b", "resources": {}},
        {"queue": "root.b", "resources": {"memory": -1}},
        {"queue": "root.b", "resources": {"memory": 2**63}},
        {"queue": "root.b", "resources": {"memory": "1"}},
        {"queue": "root.b", "resources": {"memory": 1}, "colour": "red"},
        {"queue": "root", "resources": {"memory": 1}},
    ],
)
def test_wrong_suppositions(world: ApiWorld, body: dict[str, Any]) -> None:
    assert world.request("POST", "/whatif/fits", json=body).status_code == 422


def test_a_method_that_a_route_does_not_take(world: ApiWorld) -> None:
    response = world.request("DELETE", "/queues")
    assert (response.status_code, response.json()["detail"]) == (405, "/api/v1/queues takes GET, not DELETE")


def test_a_body_that_is_too_large(world: ApiWorld) -> None:
    response = world.request("POST", "/whatif/fits", content=b"x" * (API_BODY_BYTES_MAX + 1))
    assert response.status_code == 413


def test_so_many_lists_are_written_at_a_time() -> None:
    world = many(40)

    async def story() -> list[int]:
        async with await world.client_of() as client:
            answers: list[httpx.Response] = await asyncio.gather(
                *(client.get("/asks", params={"limit": 1_000}) for _ in range(pages.LISTS_MAX + 1))
            )
            assert all(one.headers["retry-after"] == "1" for one in answers if one.status_code == 503)
            return sorted(one.status_code for one in answers)

    assert virtual_loop.run(story()) == [200] * pages.LISTS_MAX + [503]


# schema


def test_the_schema_is_that_of_the_models() -> None:
    """`python -m schedulerd.daemon.admin.api.schema` writes the file again."""
    assert SCHEMA_FILE.read_text(encoding="utf-8") == openapi()


def test_the_schema_and_its_page_ask_no_other_server(world: ApiWorld) -> None:
    schema = world.get("/openapi.json")
    assert schema["openapi"].startswith("3.1")
    page = world.request("GET", "/docs")
    assert "<script" not in page.text
    assert "http" not in page.text.replace("http_tokens_file", "")
    assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'")
    assert all(f"/api/v1{path}</code>" in page.text for path in schema["paths"])
    assert "`" not in page.text
    assert ">Page of ApplicationItem</a>" in page.text
    assert world.request("GET", "/docs.css").headers["content-type"].startswith("text/css")
