"""A small cluster whose nodes come, change and go, and asks that are choosy; all of it made up from numbers.

The slow reference hears every word: what is placed is held against it at that moment, and what waits when nothing moves
any more.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st

from schedulerd.core.language.commands import (
    AllocationAffinity,
    AllocationRelease,
    Command,
    ExistingAllocation,
    Expression,
    NewAsk,
    NodeAction,
    NodeUpdate,
    Operator,
    PlacementConstraint,
    UpdateAllocations,
)
from schedulerd.core.language.facts.fact import Allocated, AskRejected, Fact, Released, ReleaseRequested
from schedulerd.core.language.facts.reservations import ReservationEnd, ReservationEnded
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import MINUTE_NS, SECOND_NS, NodeOrder, Timeouts
from tests.property.naive_constraints import HOST, REQUIRED_NODE, SELECTOR, Estate, Machine
from tests.unit.core.builders import Conversation, a_partition_spec, a_scheduler, an_app, of

TIMEOUTS = Timeouts(completing_ns=60 * MINUTE_NS)
PAUSE_NS = 16 * SECOND_NS
"""After it, who waits has room kept."""
NODES_MAX = 7
ATTRIBUTES: tuple[dict[str, str], ...] = (
    {"zone": "a"},
    {"zone": "a", "gpu": "1"},
    {"zone": "b"},
    {"zone": "b", "rack": "r1"},
    {"zone": "c", "spot": "yes", "rack": "r1"},
    {"gpu": "1", "rack": "r2"},
    {"zone": "a", "ready": "false"},
    {"zone": "c", "si/hostname": "twin"},
)
TAGS: tuple[dict[str, str], ...] = (
    {},
    {"app": "web"},
    {"app": "web", "tier": "gold"},
    {"app": "db"},
    {"tier": "gold"},
)
SELECTORS = {
    "zone in (a,b)": (Expression("zone", Operator.IN, ("a", "b")),),
    "!spot, gpu": (Expression("gpu", Operator.EXIST), Expression("spot", Operator.NOT_EXIST)),
    "zone!=a": (Expression("zone", Operator.NOT_IN, ("a",)),),
}
NODE_DEMANDS: tuple[tuple[Expression, ...], ...] = (
    (),
    (),
    (Expression("zone", Operator.IN, ("a", "c")),),
    (Expression("gpu", Operator.EXIST),),
    (Expression("rack", Operator.NOT_EXIST), Expression("zone", Operator.NOT_IN, ("c",))),
    (Expression(HOST, Operator.NOT_IN, ("n0", "twin")),),
)
MATCHES: tuple[tuple[Expression, ...], ...] = (
    (Expression("app", Operator.IN, ("web",)),),
    (Expression("app", Operator.IN, ("db", "web")), Expression("tier", Operator.NOT_EXIST)),
    (Expression("tier", Operator.EXIST),),
    (Expression("app", Operator.NOT_IN, ("db",)),),
    (),
)
CARDINALITIES = ((0, 1), (0, 2), (1, 0), (2, 3), (1, 1), (2, 0), (0, 1))
SCOPES = ("zone", "rack", HOST, HOST)

Move = tuple[str, int, int, int]
_MOVES: tuple[str, ...] = (
    ("ask",) * 9 + ("release",) * 4 + ("node", "node", "change", "change", "drain", "undrain", "remove")
)
_MOVES += ("gang", "gang", "confirm", "confirm", "withdraw", "cycle", "cycle", "wait")
_numbers = st.integers(0, 2**16)
plans = st.lists(st.tuples(st.sampled_from(_MOVES), _numbers, _numbers, _numbers), min_size=10, max_size=40)


def a_constraint(one: int, two: int) -> PlacementConstraint | None:
    """None for some numbers: who is not choosy is counted all the same."""
    affinity = None
    if one % 4:
        least, most = CARDINALITIES[two % len(CARDINALITIES)]
        affinity = AllocationAffinity(
            SCOPES[one // 4 % len(SCOPES)], MATCHES[two // 8 % len(MATCHES)], least, most, required=one // 16 % 4 != 0
        )
    node = NODE_DEMANDS[two // 64 % len(NODE_DEMANDS)]
    return PlacementConstraint(node, affinity) if node or affinity is not None else None


class Choosy(Conversation):
    def __init__(self, node_order: NodeOrder = NodeOrder.FAIR) -> None:
        super().__init__(a_scheduler(TIMEOUTS))
        self.estate = Estate(selectors=SELECTORS)
        self.specs: dict[tuple[str, str], NewAsk] = {}
        """What was asked for last, by application and key."""
        self.to_confirm: dict[str, ReleaseRequested] = {}
        self.seen: Counter[str] = Counter()
        self._serial = 0
        self._room_was_kept = False
        """Whether the last fact was that an ask gets the room that was kept for it."""
        self.register(a_partition_spec(node_order=node_order))
        self.connect()
        self.apps(an_app(), an_app("gang"), an_app("late"))
        for number in range(3):
            self._node(number, number)

    def step(self, command: Command) -> list[Fact]:
        facts = super().step(command)
        for fact in facts:
            self._hear(fact)
        return facts

    def _hear(self, fact: Fact) -> None:
        if isinstance(fact, Allocated) and not fact.recovered:
            self._check_placed(fact)
        self._room_was_kept = isinstance(fact, ReservationEnded) and fact.end is ReservationEnd.PLACED
        self.seen["placed where room was kept"] += self._room_was_kept
        if isinstance(fact, Released):
            self.to_confirm.pop(fact.uuid, None)
        if isinstance(fact, ReleaseRequested):
            self.to_confirm[fact.uuid] = fact
        self.estate.hear(fact)

    def _check_placed(self, fact: Allocated) -> None:
        """It may run there, and nowhere better if it has a wish."""
        ask, estate = self.specs[fact.application_id, fact.allocation_key], self.estate
        there = estate.machines[fact.node_id]
        assert estate.may(ask, there, kept=False), f"{ask} was placed on {there}"
        self.seen["placed"] += 1
        if ask.constraint is None:
            return
        self.seen["placed with a constraint"] += 1
        wish = ask.constraint.allocations
        if wish is None or wish.required or ask.tags.get(REQUIRED_NODE) or fact.replaces or self._room_was_kept:
            return
        if estate.suits(wish, ask, there):
            self.seen["wish fulfilled"] += 1
            return
        self.seen["wish not fulfilled"] += 1
        better = [one for one in estate.machines.values() if estate.may(ask, one) and estate.suits(wish, ask, one)]
        assert not better, f"{ask} was placed on {there}, and prefers {better}"

    def check_waiting(self) -> None:
        """Nothing moves any more: whoever waits has no node."""
        for app in self.view().applications:
            has_placeholders_to_come = any(ask.placeholder and ask.pending for ask in app.asks)
            for one in app.asks:
                ask = self.specs[one.application_id, one.allocation_key]
                if not one.pending or (has_placeholders_to_come and not one.placeholder):
                    continue
                feasible = [machine for machine in self.estate.machines.values() if self.estate.may(ask, machine)]
                assert not feasible, f"{ask} waits ({one.waiting_for}), and might run on {feasible}"
                assert one.waiting_for
                self.seen["waits with a constraint" if ask.constraint is not None else "waits"] += 1

    # moves ----------------------------------------------------------------------------------------------------------

    def play(self, what: str, one: int, two: int, three: int) -> None:
        """What a move does if there is anything to do it to."""
        machines = sorted(self.estate.machines)
        node_id = machines[one % len(machines)] if machines else ""
        match what:
            case "ask":
                self._ask(one, two, three)
            case "gang":
                self._gang(one, two, three)
            case "node" if len(machines) < NODES_MAX:
                self._node(one, two, existing=three % 3 == 0)
            case "change" if machines:
                self._change(node_id, two, three)
            case "drain" | "undrain" if machines:
                self.estate.machines[node_id].draining = what == "drain"
                self._update(node_id, NodeAction.DRAIN_NODE if what == "drain" else NodeAction.DRAIN_TO_SCHEDULABLE)
            case "remove" if len(machines) > 1:
                self._update(node_id, NodeAction.DECOMISSION)
                del self.estate.machines[node_id]
            case "release" if self.estate.running:
                self._release(two)
            case "confirm":
                self.confirm()
            case "withdraw":
                keys = sorted({key for app, key in self.specs if app == "app"})
                if keys:
                    self.release_asks(allocation_key=keys[one % len(keys)])
            case "cycle":
                self.cycle(1 + one % 3)
            case "wait":
                self.sleep(PAUSE_NS)

    def settle(self) -> None:
        """Until nothing moves any more."""
        self.schedule()
        while self.to_confirm:
            self.confirm()
            self.schedule()

    def confirm(self) -> None:
        asked = list(self.to_confirm.values())
        if asked:
            releases = [
                AllocationRelease(one.application_id, one.partition, one.uuid, one.allocation_key, one.termination)
                for one in asked
            ]
            self.step(UpdateAllocations(self.rm_id, releases=releases))

    def _ask(self, one: int, two: int, three: int) -> None:
        """New for the most part; now and then another for the same key."""
        self._serial += one % 5 != 0
        tags = dict(TAGS[three % len(TAGS)])
        if three // 8 % 5 == 0:
            tags[SELECTOR] = list(SELECTORS)[one % len(SELECTORS)]
        if three // 64 % 9 == 0:
            tags[REQUIRED_NODE] = f"n{one % NODES_MAX}"
        application = ("app", "app", "late")[three % 3]
        self._say(
            NewAsk(
                application_id=application,
                allocation_key=f"k{self._serial}",
                resources=Resources(memory=10 + 15 * (two % 3)),
                max_allocations=1 + three // 16 % 3,
                tags=tags,
                constraint=a_constraint(one, two),
            )
        )

    def _gang(self, one: int, two: int, three: int) -> None:
        """A placeholder, or a real ask that may be choosier than that."""
        self._serial += 1
        self._say(
            NewAsk(
                application_id="gang",
                allocation_key=f"g{self._serial}",
                resources=Resources(memory=20),
                max_allocations=1 + three % 2,
                tags=TAGS[two % len(TAGS)],
                task_group="members",
                placeholder=one % 2 == 0,
                constraint=a_constraint(one // 2, two) if three % 3 else None,
            )
        )

    def _say(self, ask: NewAsk) -> None:
        """A rejected ask changes nothing, and a resize changes only resources of what runs already (SEMANTICS I17)."""
        name = ask.application_id, ask.allocation_key
        before = self.specs.get(name)
        self.specs[name] = ask
        if of(AskRejected, self.asks(ask)) and before is not None:
            self.specs[name] = before

    def _node(self, one: int, two: int, *, existing: bool = False) -> None:
        free = [f"n{number}" for number in range(NODES_MAX) if f"n{number}" not in self.estate.machines]
        node_id = free[one % len(free)]
        attributes = ATTRIBUTES[two % len(ATTRIBUTES)]
        self.estate.machines[node_id] = Machine(node_id, Resources(memory=100), dict(attributes))
        self._serial += 1
        runs = ExistingAllocation("app", f"e{self._serial}", f"e{self._serial}", Resources(memory=15))
        runs.tags = TAGS[one % len(TAGS)]
        self.specs["app", runs.allocation_key] = NewAsk("app", runs.allocation_key, runs.resources, tags=runs.tags)
        self._update(node_id, NodeAction.CREATE, existing=[runs] if existing else [])

    def _change(self, node_id: str, two: int, three: int) -> None:
        machine = self.estate.machines[node_id]
        machine.attributes = dict(ATTRIBUTES[two % len(ATTRIBUTES)])
        machine.capacity = Resources(memory=(60, 100, 100)[three % 3])
        self._update(node_id, NodeAction.UPDATE)

    def _update(self, node_id: str, action: NodeAction, existing: list[ExistingAllocation] | None = None) -> None:
        machine = self.estate.machines[node_id]
        self.nodes(
            NodeUpdate(
                node_id=node_id,
                action=action,
                capacity=Resources(machine.capacity),
                attributes=machine.attributes,
                existing=existing or [],
            )
        )

    def _release(self, two: int) -> None:
        running = list(self.estate.running.values())
        fact = running[two % len(running)]
        self.release(application_id=fact.application_id, uuid=fact.uuid)
