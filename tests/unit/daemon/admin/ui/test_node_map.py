"""The drawing of all nodes: every node is a square of it, and the page stays small whatever the nodes are like."""

from __future__ import annotations

import random
import re

import pytest

from schedulerd.core.language.commands import NodeAction
from schedulerd.core.language.resources import Resources
from schedulerd.daemon.admin.ui.bars import SHADES
from schedulerd.daemon.admin.ui.pages import node_map, nodes
from schedulerd.daemon.admin.ui.pages.node_map import LABELS_MAX, WIDTH, Drawing, Square, draw
from schedulerd.daemon.admin.ui.texts import visible
from tests.unit.core.builders import Conversation, a_conversation, a_node, a_queue_spec, a_root
from tests.unit.core.explain.explained import finish
from tests.unit.daemon.admin.ui.ui_world import UiWorld


def squares(path: str) -> list[tuple[int, int]]:
    """Where the squares of a path are."""
    found, x, y = [], 0, 0
    for right, down, length in re.findall(r"m(-?\d+) (-?\d+)h(\d+)", path):
        x, y = x + int(right), y + int(down)
        found += [(x + at, y) for at in range(int(length))]
        x += int(length)
    return found


def drawn(racks: dict[str, list[Square]]) -> Drawing:
    return finish(draw(racks, visible))


@pytest.mark.parametrize("size", [1, 7, 18, 40, 130, 500])
def test_every_node_is_one_square_inside_the_drawing(size: int) -> None:
    chance = random.Random(size)
    racks = {
        f"rack-{number}": [Square(chance.randrange(SHADES + 1), ()) for _ in range(size)] for number in range(1, 24)
    }
    found = drawn(racks)
    floor = squares(found.paths["floor"])
    assert len(set(floor)) == len(floor) == 23 * size
    assert all(0 <= x < WIDTH and 0 <= y < found.height for x, y in floor)
    shaded = [one for level in range(1, SHADES + 1) for one in squares(found.paths[f"shade{level}"])]
    assert len(set(shaded)) == len(shaded) == sum(one.level > 0 for rack in racks.values() for one in rack)
    assert set(shaded) <= set(floor)
    labels = [(x, y) for x, y, _ in found.labels]
    assert len(set(labels)) == 23
    assert not set(labels) & set(floor)


def test_equal_neighbours_are_one_line() -> None:
    found = drawn({"": [Square(3, ()), Square(3, ()), Square(0, ("draining",)), Square(3, ())]})
    assert found.paths["floor"] == "m0 2h4"
    assert found.paths["shade3"] == "m0 2h2m1 0h1"
    assert found.paths["draining"] == "m2 2h1"
    assert found.labels == [(0, 1, "nodes")]


def test_so_many_racks_have_a_name() -> None:
    assert LABELS_MAX == 250
    found = drawn({f"rack-{number}": [Square(1, ())] for number in range(LABELS_MAX + 3)})
    assert (len(found.labels), found.labels_left_out) == (LABELS_MAX, 3)
    assert len(squares(found.paths["shade1"])) == LABELS_MAX + 3
    long = drawn({"a-very-long-name-of-a-rack": [Square(1, ())], "other": []})
    assert long.labels[0][2] == "a-very-long…"


def a_cluster_of(count: int, a_rack: int) -> Conversation:
    """Nodes that use shares of all sizes, the most that a drawing can need."""
    talk = a_conversation(root=a_root(a_queue_spec("a")))
    talk.step = lambda command: talk.scheduler.step(talk.now_ns, command)  # type: ignore[method-assign]
    chance = random.Random(25)
    for first in range(0, count, 200):
        talk.nodes(
            *(
                a_node(
                    f"node-{number:05}.eu.example",
                    {"memory": 100},
                    occupied=Resources(),
                    attributes={"si/rackname": f"rack-{number // a_rack:03}"} if a_rack else {},
                )
                for number in range(first, first + 200)
            )
        )
    for node in talk.model().nodes.values():  # as if so much were allocated there
        node.allocated = Resources(memory=chance.randrange(100))
    return talk


@pytest.mark.parametrize("a_rack", [0, 18, 40, 250])
def test_five_thousand_nodes_are_on_one_page(a_rack: int) -> None:
    text = UiWorld(a_cluster_of(5_000, a_rack)).page("/ui/nodes")
    assert len(text.encode()) < 60 * 1024
    path = re.search(r'class="floor" d="([^"]+)"', text)
    assert path is not None
    assert len(squares(path[1])) == 5_000
    assert "5,000 of 5,000 nodes" in text
    assert 'rel="next"' not in text


def test_a_rack_of_the_drawing_leads_to_its_nodes() -> None:
    world = UiWorld(a_cluster_of(400, 40))
    text = world.page("/ui/nodes?state=schedulable")
    assert '<a href="?state=schedulable&amp;rack=rack-003">' in text
    rack = world.page("/ui/nodes?state=schedulable&rack=rack-003")
    assert rack.count('<a data-f="n"') == 40 + 1  # and the pattern
    assert "node-00120.eu.example" in rack


def test_so_many_nodes_are_links_or_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (nodes.LINKED_MAX, nodes.DRAWN_MAX) == (300, 6_000)
    monkeypatch.setattr(nodes, "LINKED_MAX", 3)
    monkeypatch.setattr(nodes, "DRAWN_MAX", 4)
    talk = a_conversation(*(a_node(f"n{number}", {"memory": 10}) for number in range(6)))
    talk.nodes(a_node("n5", action=NodeAction.DRAIN_NODE))
    world = UiWorld(talk)
    text = world.page("/ui/nodes")
    assert 'class="floor" d="m0 2h4"' in text
    assert "1 to 4 of 6 shown" in text
    assert '<a href="/ui/nodes?from=4" rel="next">Next</a>' in text
    rest = world.page("/ui/nodes?from=4")
    assert 'class="floor" d="m0 2h2"' in rest
    assert 'class="draining" d="m1 2h1"' in rest
    assert world.page("/ui/nodes?state=draining").count('<a data-f="n"') == 1 + 1
    assert node_map.MARKS == ("reserved", "draining", "not_ready")
