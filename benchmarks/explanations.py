"""What explanations and lists cost: the time of each stop-to-stop step, on a cluster with much waiting.

    python -m benchmarks.explanations

5,000 nodes, 2,000 applications in 20 queues, 100,000 asks. Times are of the processor: a step holds the event loop of
the daemon that long, and the steps of all answers together have the share of state queries.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator, Iterable
from typing import Any

from schedulerd.core.explain.rules.ask import explain_without_nodes
from schedulerd.core.explain.rules.nodes import survey
from schedulerd.core.explain.rules.reasons import explain_application, explain_queue
from schedulerd.core.language.commands import (
    ConnectResourceManager,
    NewAsk,
    RegisterResourceManager,
    RunCycle,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.resources import Resources
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.state.pending.rules.states import PendingState
from schedulerd.daemon.admin.api import listings, pages
from schedulerd.daemon.admin.api.finding import Place
from schedulerd.daemon.admin.api.projections import Projection
from tests.unit.core.builders import RM, a_node, a_partition_spec, a_queue_spec, a_root, a_scheduler, an_app

NODES, APPLICATIONS, ASKS_EACH, QUEUES = 5_000, 2_000, 50, 20
NOW_NS = 1_000


def cluster() -> Place:
    """The partition of a full cluster."""
    rm = filled().cluster.resource_managers[RM]
    return Place(rm, rm.partitions["default"])


def filled() -> Scheduler:
    """A cluster in which some forty thousand asks wait, for quotas and for nodes."""
    scheduler = a_scheduler()
    leaves = [a_queue_spec(f"q{at}", max={"vcore": 2_000_000} if at % 2 else None) for at in range(QUEUES)]
    scheduler.step(NOW_NS, RegisterResourceManager(RM, (a_partition_spec(a_root(*leaves)),)))
    scheduler.step(NOW_NS, ConnectResourceManager(RM))
    nodes = [a_node(f"n{at}", {"vcore": 32_000, "memory": 128 << 30}) for at in range(NODES)]
    scheduler.step(NOW_NS, UpdateNodes(RM, nodes))
    new = [an_app(f"a{at}", f"root.q{at % QUEUES}") for at in range(APPLICATIONS)]
    scheduler.step(NOW_NS, UpdateApplications(RM, new=new))
    sizes = [Resources(vcore=500 * (at + 1), memory=(at + 1) << 30) for at in range(8)]
    for app in range(APPLICATIONS):
        asks = [NewAsk(f"a{app}", f"k{at}", resources=sizes[(app + at) % 8]) for at in range(ASKS_EACH)]
        scheduler.step(NOW_NS, UpdateAllocations(RM, asks=asks))
    while scheduler.wants_cycle():
        scheduler.step(NOW_NS, RunCycle(2_000))
    return scheduler


def steps(work: Generator[Any, None, Any]) -> list[float]:
    """Seconds of each step of a computation."""
    found = []
    is_over = False
    while not is_over:
        began = time.process_time()
        try:
            next(work)
        except StopIteration:
            is_over = True
        found.append(time.process_time() - began)
    return found


def report(what: str, seconds: Iterable[float]) -> None:
    """Prints the distribution in milliseconds."""
    found = sorted(one * 1e3 for one in seconds)
    last = found[int(len(found) * 0.99)]
    print(
        f"{what:<28} {len(found):>6} {statistics.median(found):>8.3f} {last:>8.3f} {found[-1]:>8.3f} {sum(found):>9.1f}"
    )


def main() -> None:
    """Prints a table."""
    found = cluster()
    rm, partition = found
    pending = [(app, ask) for app in partition.applications.values() for ask in app.asks.values() if ask.pending]
    print(f"{len(partition.allocations)} allocated, {len(pending)} asks wait")
    print(f"{'milliseconds':<28} {'steps':>6} {'median':>8} {'p99':>8} {'max':>8} {'sum':>9}")
    single = []
    for app, ask in pending[:: max(1, len(pending) // 400)]:
        began = time.process_time()
        explain_without_nodes(rm, partition, app, ask, NOW_NS)
        single.append(time.process_time() - began)
    report("ask, without nodes", single)
    report("survey of all nodes", steps(survey(partition, pending[0][1].request_class)))
    report("application", steps(explain_application(rm, partition, pending[0][0], NOW_NS)))
    report("queue root", steps(explain_queue(rm, partition, partition.root, NOW_NS)))
    projection = Projection(found, 0)
    for what, query in (
        ("page of 1,000 asks", listings.AskQuery(limit=1_000)),
        ("page of 1,000 asks by id", listings.AskQuery(limit=1_000, sort="id")),
        ("page of blocked asks", listings.AskQuery(limit=1_000, state=PendingState.QUOTA_BLOCKED)),
    ):
        listing = listings.asks(found, query, projection, lambda: True)
        report(what, steps(pages.select(listing, query.limit, None)))


if __name__ == "__main__":
    main()
