"""One scheduling cycle: place the next ask, and the next, up to a bound.

What cannot be placed is set aside with its reason (the queue whose quota is short, or no node with room) for all asks
of its shape at once, so a cycle spends its time on what moves. The bounds are counts: a bound by time would make a
replay of the same commands diverge.
"""

from __future__ import annotations

from schedulerd.core import commit
from schedulerd.core.decide.next_ask import next_ask
from schedulerd.core.facts import Allocated, CycleRan
from schedulerd.core.handlers import application_states, execution_times, gangs
from schedulerd.core.lifecycles import ApplicationState
from schedulerd.core.model.application import Application
from schedulerd.core.model.host import ClosedFor, Closing, Host
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.queue import Queue
from schedulerd.core.model.shape import Shape
from schedulerd.core.turn import Turn

PARKED_MAX = 1_000
"""How many shapes one cycle may find impossible in a partition before it gives the loop back."""


def run_cycle(turn: Turn, placements_max: int) -> None:
    """Places up to `placements_max` asks over all partitions whose resource manager is there."""
    partitions = turn.cluster.running_partitions()
    if not partitions:
        return
    first = turn.cluster.cycle_turn % len(partitions)
    turn.cluster.cycle_turn += 1
    placements = parked = 0
    more = False
    for partition in partitions[first:] + partitions[:first]:
        placed, refused, cut = _run_partition(turn, partition, placements_max - placements)
        placements += placed
        parked += refused
        more = more or cut
    if placements or parked:
        turn.say(CycleRan(placements=placements, parked=parked, more=more))


def _run_partition(turn: Turn, partition: Partition, placements_max: int) -> tuple[int, int, bool]:
    """Returns how many asks were placed, how many shapes set aside, and whether it stopped at a bound."""
    placements = parked = repeated = 0
    first_fit = partition.first_fit
    new_uuid = turn.cluster.new_uuid
    say = turn.say
    while placements < placements_max and parked + repeated < PARKED_MAX:
        if partition.swaps and gangs.swap_next(turn, partition):
            placements += 1
            continue
        found = next_ask(partition)
        if found is None:
            return placements, parked, False
        application, group, closing = found
        queue = application.queue
        assert queue is not None
        shape = group.kind
        if closing is not None:
            _repeat(closing, application, shape)
            repeated += 1
            continue
        short = _without_quota(queue, shape)
        if short is not None:
            short.close(shape, ClosedFor.QUOTA)
            parked += 1
            continue
        node = first_fit(shape)
        if node is None:
            partition.park(shape)
            parked += 1
            continue
        ask = group.first()
        uuid = new_uuid()
        allocation = commit.place(application, ask, node, uuid)
        placements += 1
        if application.state is not ApplicationState.RUNNING or allocation.placeholder:
            application_states.on_placed(turn, application, allocation)
        spec = ask.spec
        if spec.execution_timeout_ms > 0:
            execution_times.begin(turn, allocation)
        say(
            Allocated(
                partition.rm_id,
                partition.name,
                queue.path,
                application.application_id,
                spec.allocation_key,
                uuid,
                node.node_id,
                shape.resources,
                spec.priority,
                spec.tags,
                spec.task_group,
                allocation.placeholder,
                False,
                ask.asked_at_ns,
            )
        )
    return placements, parked, True


def _repeat(closing: Closing, application: Application, shape: Shape) -> None:
    """The shape is closed above: do not come across it on this way again."""
    hosts: list[Host] = [application]
    assert application.queue is not None
    hosts.extend(application.queue.lineage)
    for host in hosts:
        if host is closing.origin:
            return
        if shape not in host.lines.closed:
            host.repeat(shape, closing)


def _without_quota(queue: Queue, shape: Shape) -> Queue | None:
    """The highest queue on the path that lets no more of the shape in."""
    short = None
    for one in queue.lineage:
        if (one.max or shape.starts or shape.party is not None) and one.refusal(shape) is not None:
            short = one
    return short
