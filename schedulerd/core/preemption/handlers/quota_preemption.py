"""Quota relief: the excess of a queue above a lowered max is preempted after its delay (`actions.relief_time`)."""

from __future__ import annotations

from schedulerd.core.language.facts.fact import ReleaseCause
from schedulerd.core.language.facts.preemption import QuotaPreempted
from schedulerd.core.language.specs import MILLISECOND_NS, SECOND_NS
from schedulerd.core.preemption.rules.quota_relief import Relief
from schedulerd.core.state.actions import releases, relief_time
from schedulerd.core.state.alarm_events import ReliefPass
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import StepContext
from schedulerd.sentences import quotas
from schedulerd.sentences.words import sentence

PASS_EACH_NS = SECOND_NS
"""Time between two passes over a queue that is still above its max, if the last pass preempted something."""
VISITS_PER_SLICE = 1_000
"""Visits (queues, allocations, search steps) of a pass in one slice, before other commands get a turn."""
VICTIMS_PER_SLICE = 250
"""Releases requested in one slice, before other commands get a turn."""
SLICE_EACH_NS = MILLISECOND_NS


def on_time_over(context: StepContext, partition: Partition, queue: Queue, relief: ReliefPass | None = None) -> None:
    """The delay of the queue is over: asks the RM to release the excess, as far as guarantees below allow.

    `relief` is the pass to continue; None starts a new one.
    """
    queue.above_max_alarm = None
    above = queue.excess()
    if not above:
        if relief is not None:
            relief.end()
        relief_time.forget(context, queue)
        return
    relief = relief or Relief(partition.spec, queue)
    assert isinstance(relief, Relief)
    if not relief.run(VISITS_PER_SLICE):
        relief_time.ring_at(context, partition, queue, context.now_ns + SLICE_EACH_NS, relief)
        return
    if not relief.found:
        queue.above_max_since_ns = None
        context.emit(_said(partition, queue, above, 0))
        return
    victims = relief.next_victims(VICTIMS_PER_SLICE)
    if victims:
        context.emit(_said(partition, queue, above, len(victims)))
    for victim in victims:
        message = sentence(_why(queue, above))
        releases.request_release(context, partition, victim, ReleaseCause.PREEMPTED, message)
    if relief.found:
        relief_time.ring_at(context, partition, queue, context.now_ns + SLICE_EACH_NS, relief)
    elif queue.excess():
        relief_time.ring_at(context, partition, queue, context.now_ns + PASS_EACH_NS)
    else:
        queue.above_max_since_ns = None


def _said(partition: Partition, queue: Queue, above: dict[str, int], victims: int) -> QuotaPreempted:
    return QuotaPreempted(partition.rm_id, partition.name, queue.path, victims, _why(queue, above))


def _why(queue: Queue, above: dict[str, int]) -> str:
    return quotas.above_max(queue.written, {name: (queue.allocated[name], queue.max[name]) for name in above})
