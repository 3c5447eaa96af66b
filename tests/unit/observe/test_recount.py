"""Every gauge, kept from facts alone, equals what a count over the scheduler's own state gives.

The real core is driven with a seeded random workload of two resource managers that do all they may and some of what
they may not; after every few steps the text of a scrape is compared with a fresh count over the views.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache

import pytest

from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.views import view
from schedulerd.observe import families
from schedulerd.observe.families import Kind
from tests.instants import at
from tests.loops import each_seed
from tests.unit.observe.recounted_world import RMS, World, allocated_placeholders, pending_asks, pending_placeholders
from tests.unit.observe.scrape import Samples, all_samples

SEEDS, STEPS, STEPS_PER_RECOUNT = 3, 700, 20
Counts = Counter[tuple[str, ...]]
Gauges = dict[str, Counts]


def path_to_root(path: str) -> Iterator[str]:
    """The queue and all above it; '' for an application without a queue stays alone."""
    while path:
        yield path
        path = path.rpartition(".")[0]


def recount(world: World) -> Gauges:
    """Every gauge that comes from facts, counted over the scheduler's state; labels in the order of their names."""
    gauges: Gauges = defaultdict(Counter)
    for rm in view.resource_managers(world.scheduler.cluster):
        gauges["schedulerd_resource_managers"][(rm.state,)] += 1
        # Nothing is reloaded here, so what was read last is what the RM registered with.
        gauges["schedulerd_config_last_reload_timestamp_seconds"][(rm.rm_id,)] = (
            at(rm.configured_at_ns).wall_ns // SECOND_NS
        )
        gauges["schedulerd_config_last_reload_successful"][(rm.rm_id,)] = 1
    for partition in world.partitions():
        name, rm_id = partition.name, partition.rm_id
        for queue in partition.queues:
            for resource, amount in queue.pending.items():
                gauges["schedulerd_pending_resources"][name, queue.path, resource, rm_id] += amount
            for resource, amount in queue.allocated.items():
                gauges["schedulerd_allocated_resources"][name, queue.path, resource, rm_id] += amount
            for resource, amount in queue.guaranteed.items():
                gauges["schedulerd_guaranteed_resources"][name, queue.path, resource, rm_id] += amount
            for resource, amount in queue.max.items():
                gauges["schedulerd_max_resources"][name, queue.path, resource, rm_id] += amount
            if queue.max_applications:
                gauges["schedulerd_max_applications"][name, queue.path, rm_id] += queue.max_applications
        for app in (*partition.applications, *partition.terminated):
            for path in tuple(path_to_root(app.queue)) or ("",):
                gauges["schedulerd_applications"][name, path, rm_id, app.state.lower()] += 1
                gauges["schedulerd_pending_allocations"][name, path, rm_id] += pending_asks(app)
                slots = sum(ask.pending for ask in app.asks if ask.slot)
                gauges["schedulerd_pending_slots"][name, path, rm_id] += slots
                gauges["schedulerd_held_slots"][name, path, rm_id] += sum(one.slot for one in app.allocations)
                gauges["schedulerd_asks_awaiting_placeholder"][name, path, rm_id] += app.awaiting_placeholder
                gauges["schedulerd_pending_placeholders"][name, path, rm_id] += pending_placeholders(app)
                gauges["schedulerd_allocated_placeholders"][name, path, rm_id] += allocated_placeholders(app)
        for app in partition.applications:
            if app.gang_state:
                gauges["schedulerd_gang_states"][name, rm_id, app.gang_state.replace(" ", "_")] += 1
        for node in partition.nodes:
            gauges["schedulerd_unclaimed_allocations"][name, rm_id] += len(node.unclaimed)
            gauges["schedulerd_nodes"][name, rm_id, node.state] += 1
            for reservation in node.reservations:
                gauges["schedulerd_reservations"]["entitled" if reservation.entitled else "aging", name, rm_id] += 1
            for resource, amount in node.occupied.items():
                gauges["schedulerd_occupied_resources"][name, resource, rm_id] += amount
        for resource, amount in partition.total.items():
            gauges["schedulerd_capacity_resources"][name, resource, rm_id] += amount
    return gauges


INTERESTING = (
    *("Allocated", "Released", "AskWithdrawn", "ApplicationForgotten", "ReleaseIgnored"),
    *("AllocationUnclaimed", "GangCompleted", "GangStateChanged", "GangTimedOut", "SwapRefused"),
    *("Reserved", "ReservationEnded", "Preempted", "PreemptionRefused", "RoomMade"),
)
STATES = tuple(ResourceManagerState)
READ_AT_SCRAPE = (
    *(families.INBOX_DEPTH, families.OUTBOX_DEPTH, families.BUILD_INFO, families.CONFIG_INFO),
    *(families.EVENT_FOLLOWERS, families.CALLBACK_STREAMS, families.JOURNAL_RECORDING, families.JOURNAL_WAITING),
    *(families.OUTSTANDING, families.OUTSTANDING_RESOURCES, families.USED, families.ALLOCATIONS_USED),
    *(families.PENDING_ASKS, families.LEAF_PENDING_ASKS),
    *(families.QUEUE_FILE_VALID, families.SERIES_LEFT_OUT),
)
"""Gauges that are asked for when somebody looks and cannot drift; `test_metrics` and the contract tests look."""
GAUGES = {family.name for family in families.FAMILIES if family.kind is Kind.GAUGE and family not in READ_AT_SCRAPE}


def scraped(found: Mapping[str, Samples]) -> Gauges:
    gauges: Gauges = {name: Counter({labels: int(value) for labels, value in found[name].items()}) for name in GAUGES}
    del gauges["schedulerd_resource_managers"][("stopped",)]  # the core forgets whom it stopped
    return gauges


def nonzero(gauges: Gauges) -> dict[str, dict[tuple[str, ...], int]]:
    found = {name: {labels: value for labels, value in counts.items() if value} for name, counts in gauges.items()}
    return {name: counts for name, counts in found.items() if counts}


def assert_every_ask_is_accounted_for(found: Mapping[str, Samples], dropped: Mapping[str, Counter[str]]) -> None:
    """The sums that `docs/metrics.md` promises."""
    added, placed = found["schedulerd_asks_added_total"], found["schedulerd_placements_total"]
    withdrawn, placeholders = found["schedulerd_asks_withdrawn_total"], found["schedulerd_placeholders_total"]
    requested, victims = found["schedulerd_release_requests_total"], found["schedulerd_preemption_victims_total"]
    for rm_id in RMS:

        def root(name: str, rm_id: str = rm_id) -> float:
            return found[name].get(("default", "root", rm_id), 0)

        def event(name: str, rm_id: str = rm_id) -> float:
            return placeholders.get((name, "default", rm_id), 0)

        lost = dropped.get(rm_id, Counter())
        gone = sum(value for (_, _, rm), value in withdrawn.items() if rm == rm_id)
        waiting = root("schedulerd_pending_allocations") + root("schedulerd_asks_awaiting_placeholder")
        key = ("default", rm_id)
        assert added.get(key, 0) == placed.get(key, 0) + gone + waiting + lost["wanted"]
        waiting = root("schedulerd_pending_placeholders")
        assert event("asked") == event("placed") + event("withdrawn") + waiting + lost["pending_placeholders"]
        there = root("schedulerd_allocated_placeholders")
        assert event("placed") + event("recovered") == event("released") + there + lost["placeholders"]
        assert victims.get(("default", "root", rm_id), 0) == requested.get((*key, "preempted_by_scheduler"), 0)

        def of_all_kinds(name: str, rm_id: str = rm_id) -> float:
            return sum(value for labels, value in found[name].items() if rm_id in labels)

        there = of_all_kinds("schedulerd_reservations")
        made, ended = (
            of_all_kinds("schedulerd_reservations_made_total"),
            of_all_kinds("schedulerd_reservations_ended_total"),
        )
        assert made == ended + there + lost["reservations"]


@cache
def reached(seed: int) -> Counter[str]:
    world = World(seed)
    drive(world, f"seed {seed}")
    return world.reached


@each_seed(range(SEEDS))
def test_gauges_equal_a_recount_of_the_state(seed: int) -> None:
    assert reached(seed)


@pytest.mark.slow
def test_everything_was_reached() -> None:
    seen = sum((reached(seed) for seed in range(SEEDS)), Counter[str]())
    assert [interesting for interesting in (*INTERESTING, *STATES) if not seen[interesting]] == []


def drive(world: World, name: str) -> None:
    """Random steps; every few of them all is counted anew."""
    most: Counter[str] = Counter()
    for step in range(STEPS):
        world.random_step()
        if step % STEPS_PER_RECOUNT == 0:
            counted = nonzero(recount(world))
            found = all_samples(world.metrics)
            assert nonzero(scraped(found)) == counted, f"{name}, step {step}"
            assert_every_ask_is_accounted_for(found, world.dropped)
            most |= Counter({name: len(counts) for name, counts in counted.items()})
    assert set(most) == GAUGES, "every gauge is counted anew here, and had something to count"
