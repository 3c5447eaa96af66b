"""What the API and the page show of a gang that declares its task groups."""

from __future__ import annotations

from schedulerd.core.language.facts.fact import Allocated
from schedulerd.core.language.specs import SECOND_NS
from tests.unit.core.builders import a_conversation, a_node, an_ask, of
from tests.unit.core.gangs.test_declared_gangs import declares, member
from tests.unit.daemon.admin.api.api_world import ApiWorld
from tests.unit.daemon.admin.ui.ui_world import UiWorld


def test_a_gang_that_declares_its_task_groups_has_members_and_no_placeholders() -> None:
    """Two of three slots are held, one after the other; nobody asked for them."""
    talk = a_conversation(a_node("n1", {"memory": 20}), a_node("n2", {"memory": 10}))
    talk.asks(an_ask("x", 10, 3))
    uuids = [one.uuid for one in of(Allocated, talk.schedule())]
    talk.apps(declares({"name": "w", "min": 3, "max": 5}))
    talk.asks(*map(member, "abcd"))
    talk.schedule()
    talk.sleep(3 * SECOND_NS)
    talk.schedule()
    for uuid in uuids[:2]:
        talk.release(uuid=uuid)
    talk.schedule()
    world = ApiWorld(talk)
    found = world.get("/applications/gang")
    assert {name: found["gang"][name] for name in ("state", "with_room", "needed", "pending", "task_groups")} == {
        "state": "gathering", "with_room": 2, "needed": 3, "pending": 1, "task_groups": []
    }  # fmt: skip
    [group] = found["gang"]["members"]
    assert group == {
        "name": "w", "min": 3, "max": 5, "asked": 4, "held": 2, "allocated": 0, "level": "", "required": False,
        "domain": "",
    }  # fmt: skip
    one = found["application"]
    assert (one["allocations"], one["pending_allocations"]) == (0, 4)
    assert (one["placeholders"], one["held"]) == ({}, {"memory": 20})
    assert [ask["ask"] for ask in world.get("/asks", application="gang")["items"]] == list("abcd")
    assert [gang["application"] for gang in world.get("/gangs", complete=False)["items"]] == ["gang"]
    assert "gang" not in [gang["application"] for gang in world.get("/gangs", complete=True)["items"]]
    page = UiWorld(talk).page("/ui/application?id=gang")
    assert "2 held, 2 waiting; it needs 3, and has 5 at most" in page
    assert "0 allocations" in page
    assert page.count("held for its gang") == 2
    assert "2 of 3" in UiWorld(talk).page("/ui/applications")
