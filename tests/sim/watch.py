"""What there is to see after a step, and what of it may have changed.

A step is about one resource manager, as a rule, and most of what there is belongs to others: to look at all of it
after every step takes most of the time of a simulation. Where that matters, a partition that no fact tells of, and in
which the counts and ledgers that move with nearly everything stand still, is taken to be as it was, and is shown as
the very same object; so whoever judges can tell that it was judged before. That might hide a break, so all are looked
at anew now and then.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from schedulerd.core.language.commands import (
    Command,
    GivePredicateResults,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.facts.configuration import ConfigurationRejected
from schedulerd.core.language.facts.fact import (
    ApplicationRejected,
    AskRejected,
    Fact,
    ItemIgnored,
    NodeRejected,
    ReleaseIgnored,
)
from schedulerd.core.language.resources import Resources
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.parent_entity import ParentEntity
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.core.views import view
from schedulerd.core.views.state_query import StateQuery
from schedulerd.core.views.values import PartitionView, ResourceManagerView

PartitionName = tuple[str, str]
"""Resource manager and partition."""

OF_ITEMS = (UpdateAllocations, UpdateApplications, UpdateNodes, GivePredicateResults)
"""Facts tell what comes of each item of these; of other commands not always."""
REFUSALS = (ApplicationRejected, AskRejected, ConfigurationRejected, ItemIgnored, NodeRejected, ReleaseIgnored)

Pulse = tuple[object, ...]


class Watch:
    """Looks at one scheduler after each of its steps."""

    def __init__(self, scheduler: Scheduler, look_at_all_every: int = 1) -> None:
        """In so many steps everything is looked at once, whatever the steps were about."""
        self.state: list[ResourceManagerView] = []
        """All there is, after the last step."""
        self.changed: dict[PartitionName, Partition] = {}
        """What may not be as it was before that step."""
        self._scheduler = scheduler
        self._look_at_all_every = look_at_all_every
        self._steps = 0
        self._seen: dict[PartitionName, tuple[Partition, Pulse, PartitionView]] = {}

    def only(self, names: Container[PartitionName]) -> list[ResourceManagerView]:
        """`state`, but of the partitions only these."""
        shown = ([one for one in rm.partitions if (one.rm_id, one.name) in names] for rm in self.state)
        return [
            rm if len(partitions) == len(rm.partitions) else replace(rm, partitions=partitions)
            for rm, partitions in zip(self.state, shown, strict=True)
        ]

    def look(self, command: Command, facts: Sequence[Fact]) -> None:
        """Takes in what is there after this step."""
        self._steps += 1
        about = _about(command, facts) if self._steps % self._look_at_all_every else None
        before, self._seen, self.changed = self._seen, {}, {}
        managers = self._scheduler.cluster.resource_managers
        self.state = [
            view.resource_manager(managers[rm_id], self._partitions(managers[rm_id], about, before), StateQuery())
            for rm_id in sorted(managers)
        ]

    def _partitions(
        self,
        rm: ResourceManager,
        about: set[PartitionName] | None,
        before: dict[PartitionName, tuple[Partition, Pulse, PartitionView]],
    ) -> list[PartitionView]:
        shown = []
        for one in (rm.partitions[name] for name in sorted(rm.partitions)):
            name = rm.rm_id, one.name
            known, pulse = before.get(name), _pulse(rm, one)
            is_about = about is None or name in about or (rm.rm_id, "") in about
            if is_about or known is None or known[0] is not one or known[1] != pulse:
                self.changed[name] = one
                known = one, pulse, view.partition(self._scheduler.cluster, *name)
            self._seen[name] = known
            shown.append(known[2])
        return shown


def _about(command: Command, facts: Iterable[Fact]) -> set[PartitionName]:
    """What facts tell of, but for refusals, and whose the command is: a partition, or with '' a resource manager."""
    told = (fact for fact in facts if not isinstance(fact, REFUSALS))
    about = {(getattr(fact, "rm_id", ""), getattr(fact, "partition", "")) for fact in told}
    if not isinstance(command, OF_ITEMS):
        about.add((getattr(command, "rm_id", ""), ""))
    return about


def _pulse(rm: ResourceManager, one: Partition) -> Pulse:
    """What hardly anything can happen in a partition without: its counters, its ledgers, and who waits where."""
    root, timers = one.root, one.retry_timers
    return (
        (
            rm.state,
            len(rm.callbacks.open_predicate_checks),
            one.serial,
            one.moves,
            one.changes,
            one.asks_tried,
            one.aging_reservations,
        ),
        (
            len(one.allocations),
            len(one.applications),
            len(one.terminated),
            len(one.reservations),
            len(one.reservations_to_check),
        ),
        (one.spec, one.wants_cycle, one.priority_gang, one.cleanup_alarm, timers.search, len(timers.preemptors)),
        [
            *map(
                _amounts,
                (
                    root.quota_reserved,
                    root.leaving,
                    root.gang_quota_promised,
                    root.predicate_reserved,
                    one.used,
                    one.allocations_used,
                ),
            )
        ],
        [(_amounts(queue.allocated), _amounts(queue.pending), _standing(queue)) for queue in root.subtree()],
        [(node.state, node.changed, len(node.allocations), _amounts(node.free)) for node in one.nodes.values()],
        [(app.state, app.awaiting_placeholder, len(app.asks), _standing(app)) for app in one.applications.values()],
    )


def _amounts(ledger: Resources) -> tuple[tuple[str, int], ...]:
    return tuple(ledger.items())


def _standing(ancestor: ParentEntity) -> tuple[int, int, int]:
    return ancestor.pending_index.places_given, len(ancestor.pending_index.blocked_by), len(ancestor.needs)
