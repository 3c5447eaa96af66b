"""An ask for several allocations gets room for all of them at once, like as many asks for one."""

from __future__ import annotations

import pytest

from schedulerd.core.facts import Allocated, ReleaseRequested
from schedulerd.core.specs import SECOND_NS
from tests.unit.core.builders import of
from tests.unit.core.preemption_builders import (
    an_entitled_ask,
    confirm_releases,
    full_nodes,
    guaranteed_root,
    reservations_of,
    wait,
)

DELAY_NS = 30 * SECOND_NS

Story = list[tuple[int, str, str]]
"""What happened to whom, and when."""


def a_story(asks_count: int, each: int, nodes: dict[str, list[int]]) -> Story:
    """So many asks, each for so many allocations of 10: who is preempted, and where they run as victims end."""
    talk = full_nodes(guaranteed_root(80), **nodes)
    start_ns = talk.now_ns
    talk.asks(*(an_entitled_ask(f"c{number}", count=each) for number in range(asks_count)))
    story: Story = []
    for _ in range(16):
        facts = wait(talk, 5 * SECOND_NS)
        at_ns = talk.now_ns - start_ns
        story += [(at_ns, "preempted", one.allocation_key) for one in of(ReleaseRequested, facts)]
        story += [(at_ns, "placed", one.node_id) for one in of(Allocated, facts)]
        if any(what == "preempted" for _, what, _ in story):
            leaving = [one.key for one in talk.model().allocations.values() if one.releasing is not None]
            facts = confirm_releases(talk, *leaving[:1]) + talk.schedule()
            story += [(at_ns, "placed", one.node_id) for one in of(Allocated, facts)]
    assert not reservations_of(talk)
    return story


@pytest.mark.parametrize(
    "nodes",
    [{"n1": [10] * 8}, {"n1": [10] * 5, "n2": [10] * 3}, {f"n{number}": [10] for number in range(8)}],
    ids=["one node", "two nodes", "eight nodes"],
)
def test_one_ask_for_eight_is_served_like_eight_asks(nodes: dict[str, list[int]]) -> None:
    one_ask = a_story(1, 8, nodes)
    assert one_ask == a_story(8, 1, nodes)
    assert [(at_ns, what) for at_ns, what, _ in one_ask][:8] == [(DELAY_NS, "preempted")] * 8
    assert [what for _, what, _ in one_ask[8:]] == ["placed"] * 8
