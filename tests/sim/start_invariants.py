"""Who may start to run: no more applications than queues and limits allow, and one at a time where that is the rule.

It is judged in the steps in which nothing ends, and so nobody makes place for others: cycles and results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schedulerd.core.language.commands import Command, GivePredicateResults, RunCycle
from schedulerd.core.language.facts.fact import Allocated, ApplicationChanged, Fact
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.specs import ApplicationOrder
from schedulerd.core.views.values import ApplicationView, PartitionView, ResourceManagerView
from tests.sim.oracle import Accounts

Name = tuple[str, str]
"""Resource manager and partition."""
Told = Allocated | ApplicationChanged
"""What is said of an application that may have started."""


class StartInvariants:
    """Judges the steps of one history in their order."""

    def __init__(self) -> None:
        self._before: dict[Name, PartitionView] = {}

    def after(self, command: Command, facts: Sequence[Fact], state: Sequence[ResourceManagerView]) -> Iterator[str]:
        """Who started and may not, as sentences; `state` is the one after the step."""
        shown = {(rm.rm_id, partition.name): partition for rm in state for partition in rm.partitions}
        if isinstance(command, RunCycle | GivePredicateResults):
            for name, partition in shown.items():
                before = self._before[name]
                if partition is before:
                    continue
                told = [one for one in facts if isinstance(one, Told) and (one.rm_id, one.partition) == name]
                yield from _one_too_many(before, partition, [one for one in told if isinstance(one, Allocated)])
                for fact in told:
                    if isinstance(fact, ApplicationChanged):
                        yield from _out_of_turn(before, partition, fact)
        self._before = shown


def _one_too_many(before: PartitionView, after: PartitionView, placed: Sequence[Allocated]) -> Iterator[str]:
    """Who starts needs a free place to be placed. Who runs again after Completing needs none, but counts."""
    accounts = Accounts(before)
    then = {item.application_id: item for item in before.applications}
    for fact in placed:
        item = then[fact.application_id]
        if item.application_id not in accounts.running:
            accounts.running.add(item.application_id)
            if not _runs_again(item):
                yield from (f"{item.application_id} runs as one too many in {path}" for path in accounts.crowded(item))
    for name in sorted(accounts.running ^ Accounts(after).running):
        yield f"{name} is not counted as running from its first allocation on"


def _runs_again(item: ApplicationView) -> bool:
    """New asks bring one that is Completing back to Running (gang design, Cleanup): it does not start."""
    return [state for _, state, _ in item.state_log][-2:] == [ApplicationState.COMPLETING, ApplicationState.RUNNING]


def _out_of_turn(before: PartitionView, after: PartitionView, fact: ApplicationChanged) -> Iterator[str]:
    """Others came first, or are starting: all the time, as it is not known who changed when."""
    if (fact.old_state, fact.state) != (ApplicationState.ACCEPTED, ApplicationState.STARTING):
        return
    queue = next(queue for queue in after.queues if queue.path == fact.queue)
    if queue.application_order != ApplicationOrder.STATE_AWARE:
        return
    then = {item.application_id: item for item in before.applications}
    it = then[fact.application_id]
    for item in after.applications:
        was = then[item.application_id]
        if item.queue != fact.queue or item.application_id == fact.application_id:
            continue
        if item.state == was.state == ApplicationState.STARTING:
            yield f"{fact.application_id} starts while {item.application_id} does"
        elif _waits(was) and _waits(item) and item.asked_at_ns < it.asked_at_ns and not item.lets_next_start:
            yield f"{fact.application_id} starts before {item.application_id}, which came first"


def _waits(item: ApplicationView) -> bool:
    return item.state == ApplicationState.ACCEPTED and any(ask.pending for ask in item.asks)
