"""How far asks have come, as it was told: once things are quiet, it is what the slow way says of every ask."""

from __future__ import annotations

from hypothesis import event, given

from schedulerd.core.language.commands import ConnectCallbacks
from schedulerd.core.language.facts.fact import Allocated, AskWithdrawn, Fact
from schedulerd.core.language.facts.scheduling_states import (
    PendingReasonChanged,
    SchedulingState,
    SchedulingStateChanged,
)
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.state.pending.rules.states import PendingState, group_state
from schedulerd.core.state.quotas.rules import Blocked
from tests.property.story import Move, Story, plans, several_trees
from tests.property.test_outstanding import unplaceable
from tests.property.trees import Tree
from tests.unit.core.builders import RM

QUIET_NS = 45 * SECOND_NS
"""After this everybody was told what there is to tell, though an ask is told another thing only after a while."""


def quieten(story: Story) -> None:
    """Time goes by until nothing is left for a cycle to do, though blocked applications let others start meanwhile."""
    story.schedule()
    story.sleep(QUIET_NS)
    while story.scheduler.wants_cycle():
        story.schedule()
        story.sleep(QUIET_NS)


class Listener(Story):
    """A story that remembers what it was told last of each ask."""

    def __init__(self, files: list[Tree]) -> None:
        self.told: dict[tuple[str, str], tuple[SchedulingState, int]] = {}
        super().__init__(files, keeps_room=False)
        self.step(ConnectCallbacks(RM, scheduling_states=True))

    def hear(self, fact: Fact) -> None:
        super().hear(fact)
        match fact:
            case SchedulingStateChanged():
                name = fact.application_id, fact.allocation_key
                before = self.told.get(name)
                self.told[name] = fact.state, self.now_ns
                assert fact.reason
                if before is not None and fact.state is not SchedulingState.SCHEDULED:
                    is_soon = before[0] is not SchedulingState.SCHEDULED and self.now_ns < before[1] + 10 * SECOND_NS
                    assert not is_soon, "told another thing too soon"
            case AskWithdrawn():
                self.told.pop((fact.application_id, fact.allocation_key), None)
            case Allocated():
                event("placed")


@given(several_trees, plans)
def test_every_ask_is_told_the_right_reason_for_its_wait(files: list[Tree], plan: list[Move]) -> None:
    story = Listener(files)
    for number, move in enumerate(plan):
        story.play(*move)
        if number % 3 == 2:
            story.schedule()
        if number % 7 == 6:
            story.sleep(SECOND_NS)
    quieten(story)
    for app, key, size, _ in unplaceable(story):
        state, _ = story.told[app, key]
        event(f"waits: {state.name}")
        assert state in (SchedulingState.FAILED, SchedulingState.SKIPPED)
        if story.recount.refusal(app, size):
            assert state is SchedulingState.SKIPPED, "a rule keeps it, and not the nodes"


class ReasonListener(Story):
    """A story that remembers the reason it was told last of each ask."""

    def __init__(self, files: list[Tree]) -> None:
        self.told: dict[tuple[str, str], PendingReasonChanged] = {}
        super().__init__(files, keeps_room=False)
        self.step(ConnectCallbacks(RM, pending_reasons=True))

    def hear(self, fact: Fact) -> None:
        super().hear(fact)
        match fact:
            case PendingReasonChanged():
                self.told[fact.application_id, fact.allocation_key] = fact
            case AskWithdrawn() | Allocated():
                self.told.pop((fact.application_id, fact.allocation_key), None)
            case SchedulingStateChanged():
                raise AssertionError("it was not asked for")


@given(several_trees, plans)
def test_every_ask_is_told_the_state_in_which_it_is(files: list[Tree], plan: list[Move]) -> None:
    """Also those that are in no line: their application or gang has not started."""
    story = ReasonListener(files)
    for number, move in enumerate(plan):
        story.play(*move)
        if number % 3 == 2:
            story.schedule()
        if number % 7 == 6:
            story.sleep(SECOND_NS)
    quieten(story)
    rm = story.scheduler.cluster.resource_managers[RM]
    for partition in rm.partitions.values():
        for application in partition.applications.values():
            for ask in application.asks.values():
                if ask.group is None or ask.unchecked <= 0:
                    continue
                told = story.told.get((application.application_id, ask.key))
                assert told is not None, f"nothing was said of {ask.key}"
                state, cause = group_state(partition, rm.state, application, ask.group)
                event(f"waits: {state}")
                if told.scheduling_state is not SchedulingState.SKIPPED or state is not PendingState.UNSCHEDULABLE:
                    assert told.state == state
                if isinstance(cause, Blocked):
                    assert (told.rule, told.queue, told.resource) == (
                        cause.by.value,
                        cause.queue.written,
                        cause.resource,
                    )
