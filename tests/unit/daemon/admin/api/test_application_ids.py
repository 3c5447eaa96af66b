"""An application is found by its id, and by the one that pods of its namespace give it."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.language.commands import NewApplication, UpdateApplications
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.daemon.admin.api import finding
from tests.unit.core.builders import a_conversation, a_node, an_app, an_ask
from tests.unit.daemon.admin.api.api_world import ApiWorld
from tests.unit.daemon.admin.ui.ui_world import UiWorld

SEVERAL = "application: several namespaces have 'web'; name one of 'one.web', 'two.web'"


def of_namespaces(*ids: str) -> Any:
    """Applications as the Kubernetes shim adds them; one of another resource manager has a dot in its id too."""
    talk = a_conversation(a_node("n1", {"memory": 1_000}))
    namespaces = {one: one.partition(".")[0] for one in ids}
    talk.apps(*(an_app(one, tags={"namespace": namespaces[one]}) for one in ids), an_app("three.plain"))
    talk.asks(*(an_ask(f"k-{one}", app=one, tags={"kubernetes.io/meta/namespace": namespaces[one]}) for one in ids))
    talk.schedule()
    return talk


@pytest.fixture(scope="module")
def world() -> ApiWorld:
    return ApiWorld(of_namespaces("one.web", "one.db.1", "two.web", "two.podgroup.two.pg"))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"application": "one.db.1"}, "one.db.1"),
        ({"application": "db.1"}, "one.db.1"),
        ({"application": "podgroup.two.pg"}, "two.podgroup.two.pg"),
        ({"application": "two.web"}, "two.web"),
        ({"application": "web", "namespace": "two"}, "two.web"),
    ],
)
def test_the_id_of_its_pods_finds_an_application(world: ApiWorld, query: dict[str, str], found: str) -> None:
    assert world.get("/explain/application", **query)["explanation"]["application_id"] == found
    assert world.get("/explain/ask", **query)["explanation"]["application_id"] == found
    name = query.pop("application")
    assert world.get(f"/applications/{name}", **query)["application"]["application"] == found
    assert [one["application"] for one in world.get("/asks", application=name, **query)["items"]] == [found]
    listed = world.get("/applications", application=name, **query)["items"]
    assert [one["application"] for one in listed] == [found]


def test_of_several_namespaces_one_has_to_be_named(world: ApiWorld) -> None:
    for path in ("/explain/application", "/explain/ask", "/applications", "/asks", "/gangs", "/reservations"):
        assert world.refused(path, application="web") == (404, SEVERAL)
    assert world.refused("/applications/web") == (404, SEVERAL)


@pytest.mark.parametrize(
    "query",
    [
        {"application": "1"},
        {"application": "plain"},
        {"application": "db.1", "namespace": "two"},
        {"application": "eb"},
    ],
)
def test_parts_of_an_id_are_none(world: ApiWorld, query: dict[str, str]) -> None:
    assert world.refused("/explain/application", **query)[0] == 404


def test_what_is_gone_is_found_in_the_same_way_and_after_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "_APPLICATIONS_A_TURN", 1)
    talk = of_namespaces("one.web", "two.web", "one.old", "two.gone", "one.twice", "two.twice")
    world = ApiWorld(talk)
    world.step(*talk.remove("one.web", "two.gone", "one.twice", "two.twice"))
    talk.release(application_id="one.old", uuid=next(iter(talk.model().applications["one.old"].allocations)))
    talk.sleep(60 * SECOND_NS)
    assert "one.old" in talk.model().terminated_by_id
    assert world.get("/explain/application", application="web")["explanation"]["application_id"] == "two.web"
    for name, whole in (("old", "one.old"), ("gone", "two.gone")):
        assert whole in world.get("/explain/application", application=name)["summary"][0]
    assert "two.gone" in world.get("/explain/ask", application="gone", ask="k-two.gone")["summary"][0]
    assert world.refused("/explain/application", application="twice")[1].endswith("one of 'one.twice', 'two.twice'")
    said = world.get("/explain/application", application="twice", namespace="two")["summary"][0]
    assert "two.twice" in said


def test_pages_take_it_as_well() -> None:
    world = UiWorld(of_namespaces("one.web", "one.db", "two.web"))
    assert "one.db" in world.page("/ui/application?id=db")
    assert "one.db" in world.page("/ui/ask?application=db&ask=k-one.db")
    refused = world.request("GET", "/ui/application?id=web")
    assert refused.status_code == 404
    assert "one.web" in refused.text
    found = world.request("GET", "/ui/search", params={"q": "db"})
    assert (found.status_code, found.headers["location"]) == (303, "/ui/application?id=one.db")


def test_events_of_an_application_are_found_by_it() -> None:
    world = ApiWorld(of_namespaces("one.db", "one.web", "two.web"))
    world.events.register()
    for name in ("one.db", "two.web"):
        world.events.step(UpdateApplications("rm", [NewApplication(name, "root.a", user="u")]))
    for query in ({"object": "one.db"}, {"object": "db"}, {"object": "db", "type": "app"}):
        found = world.get("/events", **query)["items"]
        assert {one["object"] for one in found if one["type"] == "app"} == {"one.db"}
    assert world.refused("/events", object="web") == (404, SEVERAL)
    assert world.refused("/events/stream", object="web") == (404, SEVERAL)
    assert world.get("/events", object="web", type="node")["items"] == []
    assert world.get("/events", object="two.web")["items"] != []
