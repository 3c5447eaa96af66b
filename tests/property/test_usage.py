"""What is used and what may be used, against a recount from the facts: quotas, limits and running applications."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import event, example, given

from schedulerd.core.language.facts.fact import Allocated, Fact
from schedulerd.core.language.resources import Limits
from schedulerd.core.views.values import UserView
from tests.property.naive import Recount
from tests.property.naive_order import Sorted
from tests.property.story import Move, Story, plans, several_trees
from tests.property.trees import STAFF_FIRST, Tree
from tests.reference.queue_paths import path_to_root

CYCLE_EVERY = 3
"""Moves between two cycles, so that a cycle has several things to place."""


class Watched(Story):
    """Holds every placement against the rules as they are at that very moment."""

    def hear(self, fact: Fact) -> None:
        if isinstance(fact, Allocated) and not fact.recovered and not fact.replaces:
            assert self.recount.refusal(fact.application_id, fact.resources) == ""
            event("placed")
        super().hear(fact)


def check_quotas(files: list[Tree], plan: list[Move]) -> None:
    story = Watched(files, keeps_room=False)
    for number, move in enumerate(plan):
        story.play(*move)
        if number % CYCLE_EVERY == 0:
            story.schedule()
            check_nothing_is_overlooked(story)
        check_headroom(story)
    story.schedule()
    check_nothing_is_overlooked(story)
    story.note_why_asks_wait()


def check_nothing_is_overlooked(story: Story) -> None:
    assert not story.scheduler.wants_cycle()
    assert Sorted(story.view(), story.recount).next() is None


def check_headroom(story: Story) -> None:
    recount = story.recount
    for queue in story.view().queues:
        left = Limits()
        for path in path_to_root(queue.path):
            used = recount.usage(path)
            left = left.tightest({name: most - used[name] for name, most in recount.specs[path].max.items()})
        assert queue.headroom == left


def check_usage(files: list[Tree], plan: list[Move]) -> None:
    story = Story(files)
    for number, move in enumerate(plan):
        story.play(*move)
        if number % CYCLE_EVERY == 0:
            story.schedule()
        view, recount = story.view(), story.recount
        for queue in view.queues:
            assert queue.allocated == recount.usage(queue.path)
            assert queue.running_applications == len(recount.running(queue.path))
        users = {one.user for one in recount.applications.values()}
        groups = {one.group for one in recount.applications.values() if one.group}
        assert shown(view.users) == {
            who: counted(recount, user=who) for who in users if recount.running("root", user=who)
        }
        assert shown(view.groups) == {
            who: counted(recount, group=who) for who in groups if recount.running("root", group=who)
        }
        for one in groups:
            event(f"group {one} is counted")


Account = Mapping[str, tuple[dict[str, int], list[str]]]
"""By queue: usage and running applications."""


def shown(views: list[UserView]) -> dict[str, Account]:
    return {one.user: {path: (usage, one.applications[path]) for path, usage in one.usage.items()} for one in views}


def counted(recount: Recount, *, user: str | None = None, group: str | None = None) -> Account:
    found = {
        path: (recount.usage(path, user=user, group=group).nonzero(), recount.running(path, user=user, group=group))
        for path in recount.specs
    }
    return {path: one for path, one in found.items() if one[1]}


@given(several_trees, plans)
def test_all_that_may_be_placed_is_placed_and_nothing_else(files: list[Tree], plan: list[Move]) -> None:
    check_quotas(files, plan)


@given(several_trees, plans)
@example([STAFF_FIRST], [("ask", 2, 0, 0), ("wait", 0, 0, 0), ("wait", 0, 0, 0), ("wait", 0, 0, 0)])
def test_usage_of_queues_users_and_groups_is_what_a_recount_says(files: list[Tree], plan: list[Move]) -> None:
    check_usage(files, plan)
