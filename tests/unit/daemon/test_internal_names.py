"""Names that mean something to programs alone reach nobody: the attributes that stand for classes of pods."""

from __future__ import annotations

import pytest

from schedulerd.core.state.constraints.node_class_attributes import attributes_for_people, tags_for_people
from tests.unit.core.builders import Conversation, a_conversation, a_node, a_queue_spec, a_root, an_app, an_ask
from tests.unit.daemon.admin.api.api_world import ApiWorld
from tests.unit.daemon.admin.ui.ui_world import UiWorld

NODE_CLASS, OTHER = "c/51b8d6c2a0e1f394", "c/00112233aabbccdd"
WHY = "taint dedicated=gpu:NoSchedule, which the pod does not tolerate"
SELECTOR = "schedulerd.io/node-selector"


def a_cluster() -> Conversation:
    """One node has a taint, of another nothing is known; the ask tolerates no taint."""
    refused = {"zone": "a", NODE_CLASS.replace("c/", "c!/"): WHY}
    talk = a_conversation(
        a_node("n1", {"memory": 100}, attributes=refused),
        a_node("n2", {"memory": 100}, attributes={"zone": "a", OTHER: "true"}),
        root=a_root(a_queue_spec("a")),
    )
    talk.apps(an_app("app", "root.a"))
    talk.asks(an_ask("k", 10, tags={SELECTOR: f"zone=a,{NODE_CLASS}"}))
    talk.schedule()
    return talk


def test_a_node_that_is_ruled_out_is_explained_by_the_taint() -> None:
    answer = ApiWorld(a_cluster()).get("/explain/ask", application="app", ask="k")
    (said,) = answer["summary"]
    assert f"1 is ruled out: {WHY}" in said
    assert "1 is ruled out: not admitted by its resource manager" in said


@pytest.mark.parametrize(
    "path",
    [
        "/explain/ask?application=app&ask=k",
        "/explain/application?application=app",
        "/explain/queue?queue=root",
        "/nodes",
        "/nodes/n1",
        "/asks",
        "/applications/app",
        "/events",
    ],
)
def test_the_api_shows_no_node_classes(path: str) -> None:
    said = ApiWorld(a_cluster()).request("GET", path)
    assert said.status_code == 200
    assert NODE_CLASS[2:] not in said.text
    assert OTHER[2:] not in said.text


@pytest.mark.parametrize(
    "path", ["/ui/node?id=n1", "/ui/node?id=n2", "/ui/application?id=app", "/ui/ask?application=app&ask=k"]
)
def test_the_page_shows_no_node_classes(path: str) -> None:
    said = UiWorld(a_cluster()).page(path)
    assert NODE_CLASS[2:] not in said
    assert OTHER[2:] not in said


def test_a_state_dump_shows_no_node_classes() -> None:
    talk = a_cluster()
    assert NODE_CLASS[2:] not in repr(talk.view())
    assert WHY in repr(talk.view())


def test_tags_and_attributes_are_shown_without_node_classes() -> None:
    def shown(selector: str) -> str | None:
        return tags_for_people({"a": "b", SELECTOR: selector}).get(SELECTOR)

    assert shown(f"zone=a,{NODE_CLASS}") == "zone=a"
    assert shown(f"{NODE_CLASS},si/hostname notin (n1)") == "si/hostname notin (n1)"
    assert shown(NODE_CLASS) is None
    assert shown("zone in (a,b),c/short,xc/51b8d6c2a0e1f394") == "zone in (a,b),c/short,xc/51b8d6c2a0e1f394"
    kept = {"zone": "a", "c/short": "x", "c!/short": "y"}
    assert attributes_for_people({**kept, NODE_CLASS: "true", NODE_CLASS.replace("c/", "c!/"): WHY}) == kept
