"""Which ask is next, against the slow way: after every placement everything is sorted anew."""

from __future__ import annotations

import pytest
from hypothesis import event, given

from schedulerd.core.language.commands import RingAlarms
from schedulerd.core.state.pending import capacity_renewal
from tests.property.naive_order import Sorted
from tests.property.story import Move, Story, plans, several_trees
from tests.property.trees import Tree
from tests.unit.core.builders import placed


def place_one(story: Story) -> bool:
    """One placement, held against the slow way. False if there is none, and nobody was let in to start either."""
    before = let_start(story)
    expected = Sorted(story.view(), story.recount).next()
    found = [(app, key) for app, key, _ in placed(story.cycle(1))]
    assert found == ([] if expected is None else [expected])
    if expected is None and story.scheduler.wants_cycle():
        assert let_start(story) > before, "nothing else is left for a cycle to do"
        return True
    return expected is not None


def let_start(story: Story) -> int:
    """How many applications let the next one of their leaf start."""
    return sum(one.lets_next_start for one in story.view().applications)


def check_next_ask(files: list[Tree], plan: list[Move]) -> None:
    """More is asked for than placed on the way, so that there is much to choose from."""
    story = Story(files, keeps_room=False)
    for number, move in enumerate(plan):
        story.play(*move)
        if number % 3 == 0:
            place_one(story)
    while place_one(story):
        pass
    story.note_why_asks_wait()


@given(several_trees, plans)
def test_the_next_ask_is_what_sorting_everything_anew_says(files: list[Tree], plan: list[Move]) -> None:
    check_next_ask(files, plan)


@pytest.mark.interpreted
@given(several_trees, plans)
def test_keys_that_are_renewed_one_at_a_time_are_all_right_in_the_end(files: list[Tree], plan: list[Move]) -> None:
    """Whatever happens while they are not: nodes and applications come and go, asks are placed, files change."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(capacity_renewal, "RENEWED_MAX", 1)
        story = Story(files, keeps_room=False)
        for number, move in enumerate(plan):
            story.play(*move)
            if number % 3 == 0:
                event("keys are due" if story.model().capacity.is_due else "no keys are due")
                story.cycle(1)
            if number % 7 == 6:
                renew_all(story)
                place_one(story)
        renew_all(story)
        while place_one(story):
            pass


def renew_all(story: Story) -> None:
    while story.model().capacity.is_due:
        assert story.scheduler.wants_cycle()
        story.step(RingAlarms())


@given(several_trees, plans)
def test_a_long_cycle_places_what_many_short_ones_place(files: list[Tree], plan: list[Move]) -> None:
    """The order is settled at the start of a cycle and kept right on its way."""
    short, long = Story(files), Story(files)
    for number, move in enumerate(plan):
        short.play(*move)
        long.play(*move)
        if number % 5 == 4:
            one_by_one, at_once = schedule(short, 1), schedule(long, 1_000)
            event("something is placed" if one_by_one else "nothing is placed")
            assert at_once == one_by_one


def schedule(story: Story, placements_max: int) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    while story.scheduler.wants_cycle():
        found += placed(story.cycle(placements_max))
    return found
