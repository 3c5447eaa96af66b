"""What is outstanding, against the slow way: ask by ask, each on top of all others that are.

Which of several asks a quota is too small for is left open. What is held against the rules is that all of them could be
placed together, that nothing else keeps any of them, and that not one more of those that no node takes could be added.
"""

from __future__ import annotations

from copy import copy

import pytest
from hypothesis import Phase, event, example, given, settings

from schedulerd.core.autoscaling.rules import outstanding
from schedulerd.core.language.facts.fact import Allocated
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.quotas.headroom import Headroom
from schedulerd.core.views.values import Amounts, ApplicationView
from tests.property.naive import Recount
from tests.property.naive_order import Sorted, fits
from tests.property.story import Move, Story, plans, several_trees
from tests.property.trees import STAFF_FIRST, Tree
from tests.unit.core import builders


class Supposed(Recount):
    """A recount that goes on from another one, with allocations that were never made."""

    def __init__(self, known: Recount) -> None:
        super().__init__(known.specs)
        self.applications = {name: copy(one) for name, one in known.applications.items()}
        self.allocations = dict(known.allocations)

    def place(self, application_id: str, size: Amounts) -> None:
        queue, uuid = self.applications[application_id].queue, f"supposed-{len(self.allocations)}"
        self.hear(
            Allocated(
                rm_id="",
                partition="",
                queue=queue,
                application_id=application_id,
                allocation_key="",
                uuid=uuid,
                node_id="",
                resources=Resources(size),
                priority=0,
                tags={},
                task_group="",
                placeholder=False,
                recovered=False,
                asked_at_ns=0,
            )
        )


def unplaceable(story: Story) -> list[tuple[str, str, Amounts, int]]:
    """(application, key, size, count) of all that is pending, may be looked at, and finds no node."""
    shown = story.view()
    rooms = [node.available for node in shown.nodes if node.schedulable]
    order, queues = Sorted(shown, story.recount), {queue.path: queue for queue in shown.queues}

    def is_its_turn(app: ApplicationView) -> bool:
        return order._is_its_turn(queues[app.queue], app)

    return [
        (app.application_id, ask.allocation_key, ask.resources, ask.pending)
        for app in shown.applications
        if is_its_turn(app)
        for ask in app.asks
        if not any(fits(ask.resources, room) for room in rooms)
    ]


def check_outstanding(files: list[Tree], plan: list[Move]) -> None:
    story = Story(files, keeps_room=False)
    for number, move in enumerate(plan):
        story.play(*move)
        if number % 5 == 4:
            story.schedule()
            check_now(story)


def check_now(story: Story) -> None:
    waiting = {(app, key): (size, count) for app, key, size, count in unplaceable(story)}
    supposed = Supposed(story.recount)
    in_order = outstanding.outstanding_asks(story.model())
    listed = [(application.application_id, ask.key, count) for application, ask, count in in_order]
    assert sorted(listed) == sorted(story.outstanding())
    counted = sum(one.pending for one in outstanding.outstanding(story.model()))
    assert counted == sum(count for _, _, count in listed)
    rest = {name: count for name, (_, count) in waiting.items()}
    for app, key, count in listed:
        assert (app, key) in waiting, "a node has room for it, or it is not looked at"
        rest[app, key] -= count
        assert rest[app, key] >= 0, "more than is pending"
        for _ in range(count):
            assert not supposed.refusal(app, waiting[app, key][0]), "a rule does not let it in"
            supposed.place(app, waiting[app, key][0])
    for (app, key), count in rest.items():
        assert not count or supposed.refusal(app, waiting[app, key][0]), f"{app} {key} could be added"
    cut = any(rest[app, key] for app, key, _ in listed)
    event("outstanding in part" if cut else "outstanding" if listed else "nothing outstanding")
    if any(rest.values()):
        event("a rule keeps what finds no node")


IN_BOTH_GROUPS = [("ask", 0, 0, 0), ("ask", 2, 0, 0), *[("drain", 0, 0, 0)] * 3]
"""The groups of the third application are `lab` and `staff`, in this order; one application of `staff` may run."""


@given(several_trees, plans)
@example([STAFF_FIRST], IN_BOTH_GROUPS)
def test_as_many_are_outstanding_as_rules_would_let_in_together(files: list[Tree], plan: list[Move]) -> None:
    check_outstanding(files, plan)


@pytest.mark.interpreted
@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (Headroom, "take", lambda *_: None),
        (Headroom, "start", lambda *_: None),
        (Headroom, "room_for", lambda _self, _leaf, _shape, count: count),
        (Headroom, "lets_start", lambda *_: False),
        (outstanding, "lacks_room_only", lambda _, request_class: len(request_class.items) == 1),
    ],
    ids=["what was counted is forgotten", "nothing starts", "no quotas", "nothing may start", "small ones only"],
)
def test_the_slow_way_finds_broken_code(
    owner: object, name: str, broken: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builders, "violations", lambda _: [])
    monkeypatch.setattr(owner, name, broken)
    one_failure = settings(max_examples=1_000, phases=[Phase.generate], report_multiple_bugs=False)
    with pytest.raises(AssertionError):
        one_failure(given(several_trees, plans)(check_outstanding))()
