"""The example of `docs/placement-constraints.md` comes out as the page says, and its texts are said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schedulerd.core.language.commands import AllocationAffinity, NewAsk, PlacementConstraint
from schedulerd.core.state.constraints.node_selector import NODE_SELECTOR_TAG, parse
from tests.unit.core.builders import Conversation, a_conversation, a_node, an_ask, placed

PAGE = (Path(__file__).parents[5] / "docs" / "placement-constraints.md").read_text(encoding="utf-8")
CARDINALITY = re.compile(r"(\w+): `(.*)` (\d+)\.\.(\d+)")

Row = dict[str, str]


def tables(section: str) -> list[list[Row]]:
    """Each table as rows by its headings, without the marks of code."""
    found: list[list[Row]] = []
    headings: list[str] = []
    for line in PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            headings = []
        elif not headings:
            headings = cells
            found.append([])
        elif set(line) != set("|-"):
            found[-1].append(dict(zip(headings, cells, strict=True)))
    return found


NODES, ASKS = tables("Example")


def pairs(text: str) -> dict[str, str]:
    return dict(one.split(": ") for one in text.split(", ")) if text else {}


def an_ask_of(row: Row) -> NewAsk:
    tags, said = pairs(row["tags"]), row["constraint"]
    found = CARDINALITY.fullmatch(said)
    if found is None:
        return an_ask(row["ask"], tags={**tags, NODE_SELECTOR_TAG: said.strip("`")})
    scope, expressions, least, most = found.groups()
    affinity = AllocationAffinity(scope, parse(expressions), int(least), int(most))
    return an_ask(row["ask"], tags=tags, constraint=PlacementConstraint(allocations=affinity))


@pytest.fixture
def talk() -> Conversation:
    return a_conversation(
        *(a_node(row["node"], {"memory": int(row["memory"])}, attributes=pairs(row["attributes"])) for row in NODES)
    )


def test_every_ask_of_the_example_is_placed_as_the_page_says(talk: Conversation) -> None:
    where: dict[str, str] = {}
    for row in ASKS:
        talk.asks(an_ask_of(row))
        where.update({key: node_id for _, key, node_id in placed(talk.schedule())})
    zones = {row["node"]: pairs(row["attributes"]).get("zone") for row in NODES}
    named = {row["ask"]: re.findall(r"\bn\d\b", row["is placed on"]) for row in ASKS}
    assert all(where[ask] in nodes for ask, nodes in named.items() if nodes)
    assert {zones[where["web-1"]], zones[where["web-2"]]} == {"eu-1", "eu-2"}
    assert "web-3" not in where
    assert f"    {talk.app().asks[-1].waiting_for}\n" in PAGE
    talk.release(allocation_key="web-1")
    assert [zones[node_id] for _, _, node_id in placed(talk.schedule())] == [zones[where["web-1"]]]


@pytest.mark.parametrize("row", tables("Node selectors in tags")[0], ids=lambda row: row["requirement"])
def test_every_requirement_of_the_page_is_what_it_says(row: Row) -> None:
    for text in re.findall(r"`(.*?)`", row["requirement"]):
        (expression,) = parse(text)
        said = row["is"].replace("`", "").split()
        assert said in ([expression.key, expression.operator], [expression.operator])
