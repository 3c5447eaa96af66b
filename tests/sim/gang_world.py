"""A world that is about gangs: whole task groups, real asks for them, and resource managers of doubtful character.

Next to the noise of the plain world: placeholders as single asks or as one, real asks that fit or do not, releases that
are confirmed late, twice, never, or as something else, nodes that vanish under a swap, messages at the very instant an
alarm is due, and resource managers that come back and report what they have.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from schedulerd.core.language.commands import (
    AllocationRelease,
    ConnectResourceManager,
    ExistingAllocation,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.facts.fact import Allocated
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS
from tests.sim import plots
from tests.sim.clusters import USERS
from tests.sim.plots import Members, Plan
from tests.sim.rm_memory import Place, ResourceManagerMemory, plain_name
from tests.sim.world import Move, Sleep, World

GANGS = tuple(f"gang-{number}" for number in range(1, 5))
FIFO_LEAVES = {
    "default": ("root.open", "root.open", "root.batch.fifo"),
    "gpu": ("root.open", "root.limited", "root.turns"),
}
NEVER_CONFIRMED_SHARE = 0.1


class GangWorld(World):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._plans: dict[tuple[str, Place], Plan] = {}
        self._script: deque[Move] = deque()
        """What has to follow what was sent before; goes first."""
        self._never: set[tuple[str, Place]] = set()
        """Releases that this world does not confirm."""
        self._seen: set[tuple[str, Place]] = set()

    def next_move(self) -> Move:
        return self._script.popleft() if self._script else super().next_move()

    def kinds(self) -> tuple[tuple[float, Callable[[ResourceManagerMemory], Move]], ...]:
        return (
            *super().kinds(),
            (9, self._submit_gang),
            (10, self._ask_placeholders),
            (14, self._ask_reals),
            (14, self._confirm_in_character),
            (8, self._disturb_a_swap),
            (8, self._wait_for_alarm),
            (1, self._come_back_with_a_report),
            (2, self._play_a_plot),
            (3, self._confirm_what_is_over),
        )

    # Gangs

    def _submit_gang(self, rm: ResourceManagerMemory) -> Move:
        partition = self._partition(rm)
        groups = tuple(
            Members(f"g{number}", self._size(25), self._random.randint(1, 4))
            for number in range(self._random.choice((1, 1, 2, 3)))
        )
        whole = Resources()
        for group in groups:
            whole.add(group.size.items(), group.count)
        part = Resources({name: amount // 2 for name, amount in whole.items()})
        application = NewApplication(
            application_id=self._random.choice(GANGS),
            queue=self._random.choice(FIFO_LEAVES["gpu" if partition.endswith("gpu") else "default"]),
            partition=partition,
            user=self._random.choice(USERS),
            execution_timeout_ms=self._random.choice((0, 60_000, 60_000, 5_000)),
            placeholder_ask=self._random.choice((*(whole,) * 7, part, Resources(), Resources(memory=10_000))),
            gang_style=self._random.choice(("", "Soft", "Hard")),
        )
        place = plain_name(partition), application.application_id
        if place not in rm.applications:
            self._plans[rm.rm_id, place] = Plan(application, groups)
            if self._random.random() < 0.7:
                self._script.append(UpdateAllocations(rm.rm_id, asks=self._placeholders(application, groups)))
        return UpdateApplications(rm.rm_id, new=[application])

    def _play_a_plot(self, rm: ResourceManagerMemory) -> Move:
        plot = self._random.choice(plots.PLOTS)
        style = self._random.choice(("Soft", "Hard"))
        plans, moves = plot(rm.rm_id, style, rack_is_known=(plots.PARTITION, plots.RACK) in rm.nodes)
        for plan in plans:
            self._plans[rm.rm_id, (plots.PARTITION, plan.application.application_id)] = plan
        self._script.extend((*moves, Sleep(self._random.randrange(12 * SECOND_NS))))
        return self._script.popleft()

    def _placeholders(self, application: NewApplication, groups: tuple[Members, ...]) -> list[NewAsk]:
        asks = []
        for group in groups:
            as_one = self._random.random() < 0.4
            for number in range(1 if as_one else group.count):
                asks.append(
                    NewAsk(
                        application_id=application.application_id,
                        allocation_key=f"ph-{group.name}-{number}",
                        resources=group.size,
                        partition=application.partition,
                        max_allocations=group.count if as_one else 1,
                        execution_timeout_ms=self._random.choice((0,) * 9 + (20_000,)),
                        task_group=group.name,
                        placeholder=True,
                    )
                )
        return asks

    def _plan(self, rm: ResourceManagerMemory) -> Plan | None:
        plans = [plan for (rm_id, place), plan in self._plans.items() if rm_id == rm.rm_id and place in rm.applications]
        return self._random.choice(plans) if plans else None

    def _ask_placeholders(self, rm: ResourceManagerMemory) -> Move:
        plan = self._plan(rm)
        if plan is None:
            return self._submit_gang(rm)
        groups = tuple(group for group in plan.groups if self._random.random() < 0.8)
        return UpdateAllocations(rm.rm_id, asks=self._placeholders(plan.application, groups))

    def _ask_reals(self, rm: ResourceManagerMemory) -> Move:
        plan = self._plan(rm)
        if plan is None:
            return self._submit_gang(rm)
        asks = []
        for group in plan.groups:
            asks += [self._real(plan, group, number) for number in range(self._random.randint(0, group.count + 1))]
        return UpdateAllocations(rm.rm_id, asks=asks)

    def _real(self, plan: Plan, group: Members, number: int) -> NewAsk:
        equal = group.size
        smaller = Resources({name: max(1, amount - 1) for name, amount in equal.items() if amount})
        larger = Resources({name: amount + 3 for name, amount in equal.items()})
        return NewAsk(
            application_id=plan.application.application_id,
            allocation_key=f"{self._or_garbage('r', 'ph')}-{group.name}-{number}",
            resources=self._random.choice((*(equal,) * 7, smaller, larger, equal.plus(Resources(gpu=1)))),
            partition=plan.application.partition,
            max_allocations=self._random.choice((1, 1, 1, 1, 2)),
            priority=self._random.choice((0, 0, 0, 5)),
            execution_timeout_ms=self._random.choice((0,) * 9 + (20_000,)),
            task_group=self._or_garbage(group.name, "unknown"),
        )

    # Releases

    def _confirm_in_character(self, rm: ResourceManagerMemory) -> Move:
        """Some or all of what the core asked for: most of it rightly, some as something else, some of it never."""
        for place in rm.to_confirm:
            if (rm.rm_id, place) not in self._seen:
                self._seen.add((rm.rm_id, place))
                if self._random.random() < NEVER_CONFIRMED_SHARE:
                    self._never.add((rm.rm_id, place))
        asked = [one for place, one in rm.to_confirm.items() if (rm.rm_id, place) not in self._never]
        if not asked:
            return self._ask_reals(rm)
        if self._random.random() < 0.5:
            asked = [self._random.choice(asked)]
        releases = []
        for one in asked:
            release = AllocationRelease(
                one.application_id, one.partition, one.uuid, one.allocation_key, one.termination
            )
            change = self._random.random()
            if change < 0.1:
                release = replace(release, termination=self._random.choice(tuple(TerminationType)))
            elif change < 0.15:
                release = replace(release, uuid="")
            elif change < 0.17:
                release = replace(release, uuid="", allocation_key="")
            releases += [release] * self._random.choice((1, 1, 1, 2))
        asks = []
        plan = self._plan(rm)
        if plan is not None and self._random.random() < 0.2:
            group = self._random.choice(plan.groups)
            asks = [self._real(plan, group, self._random.randrange(group.count))]
        return UpdateAllocations(rm.rm_id, asks=asks, releases=releases)

    def _confirm_what_is_over(self, rm: ResourceManagerMemory) -> Move:
        """So late that it went with its node, or in another way, meanwhile."""
        if not rm.over:
            return self._disturb_a_swap(rm)
        one = self._random.choice(rm.over)
        late = AllocationRelease(one.application_id, one.partition, one.uuid, one.allocation_key, one.termination)
        return UpdateAllocations(rm.rm_id, releases=[late])

    # Nodes

    def _disturb_a_swap(self, rm: ResourceManagerMemory) -> Move:
        """The node of a placeholder that is being released goes, drains or shrinks."""
        nodes = sorted({(one.partition, one.node_id) for one in rm.to_confirm.values()})
        if not nodes:
            return self._update_nodes(rm)
        partition, node_id = self._random.choice(nodes)
        action = self._random.choice((NodeAction.DECOMISSION, NodeAction.DRAIN_NODE, NodeAction.UPDATE))
        shrunk = Resources(memory=5, vcore=1) if action is NodeAction.UPDATE else None
        return UpdateNodes(rm.rm_id, [NodeUpdate(node_id, action, partition, shrunk)])

    # Time

    def _wait_for_alarm(self, rm: ResourceManagerMemory) -> Move:
        """To the very instant of the next alarm; what is sent then is handled before it rings, or just after it."""
        at_once = self._random.choice((self._confirm_in_character, self._release, self._ask_reals))
        self._script.append(at_once(rm))
        return Sleep(0, rings=self._random.random() < 0.5, to_deadline=True)

    # Recovery

    def _come_back_with_a_report(self, rm: ResourceManagerMemory) -> Move:
        """It registers anew and tells what it has: all of it, or what it remembers; nodes or applications first."""
        held = [one for one in rm.held.values() if self._random.random() < 0.97 or not self._is_forgetful()]
        by_node: dict[tuple[str, str], list[Allocated]] = {}
        for one in held:
            by_node.setdefault((one.partition, one.node_id), []).append(one)
        nodes = [
            NodeUpdate(
                node_id=node_id,
                action=self._random.choice((NodeAction.CREATE, NodeAction.CREATE, NodeAction.CREATE_DRAIN)),
                partition=partition,
                capacity=self._capacity(),
                existing=[_existing(one) for one in by_node.get((partition, node_id), ())],
            )
            for partition, node_id in sorted(rm.nodes)
            if node_id in (*self.node_ids, plots.RACK)
        ]
        applications = [
            plan.application
            for (rm_id, place), plan in self._plans.items()
            if rm_id == rm.rm_id and place in rm.applications
        ]
        plain = [
            NewApplication(application_id, "root.open", partition, "ann")
            for partition, application_id in sorted(rm.applications)
            if (rm.rm_id, (partition, application_id)) not in self._plans
        ]
        report: list[Move] = [UpdateNodes(rm.rm_id, nodes), UpdateApplications(rm.rm_id, new=applications + plain)]
        self._random.shuffle(report)
        self._script.extend((ConnectResourceManager(rm.rm_id), *report))
        return self._register(rm)

    def _is_forgetful(self) -> bool:
        return self._random.random() < 0.3


def _existing(fact: Allocated) -> ExistingAllocation:
    return ExistingAllocation(
        application_id=fact.application_id,
        allocation_key=fact.allocation_key,
        uuid=fact.uuid,
        resources=fact.resources,
        node_id=fact.node_id,
        priority=fact.priority,
        task_group=fact.task_group,
        placeholder=fact.placeholder,
    )
