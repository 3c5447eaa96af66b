"""Small clusters that are full, and what happens to them when somebody asks for more; all of it made up from numbers.

The slow reference hears every word, and what the scheduler says of preemption is held against it at that very moment.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from hypothesis import strategies as st

from schedulerd.core.language.commands import AskRelease, Command, NewAsk, NodeAction, UpdateAllocations
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.facts.preemption import Preempted, PreemptionRefusal, PreemptionRefused
from schedulerd.core.language.facts.reservations import ReservationEnd, ReservationEnded, Reserved
from schedulerd.core.language.resources import Items, Resources
from schedulerd.core.language.specs import MINUTE_NS, SECOND_NS, PartitionSpec, Timeouts
from tests.property.full_scenes import UNITS, Scene
from tests.property.naive_victims import Bench, Choice, Waiting, required_node
from tests.reference.queue_paths import common_queue
from tests.unit.core.builders import Conversation, a_node, a_scheduler, an_app

NODES_MAX = 4
ALLOCATIONS_MAX = 6
"""On one node."""
TIMEOUTS = Timeouts()
PAUSES_NS = (SECOND_NS, 3 * SECOND_NS, 16 * SECOND_NS, 16 * SECOND_NS, 40 * SECOND_NS, 40 * SECOND_NS, 6 * MINUTE_NS)
"""After these, what asked at the start is older than: the shortest preemption delay, a reservation delay, an attempt,
every preemption delay, a reservation."""

Move = tuple[str, int, int]
_MOVES = ("ask",) * 8 + ("wait",) * 6 + ("confirm",) * 3 + ("stop", "drain", "undrain", "withdraw", "resize")
_numbers = st.integers(0, 2**16)
plans = st.lists(st.tuples(st.sampled_from(_MOVES), _numbers, _numbers), min_size=8, max_size=16)


class Refusal(NamedTuple):
    """Of asks of a kind."""

    priority: int
    at_ns: int


class Crowd(Conversation):
    """A full cluster, and the reference that hears every word."""

    def __init__(self, scene: Scene, *, interleaved: bool = False) -> None:
        """`interleaved`: things change while a search goes on, so it may find what was best and is only good."""
        super().__init__(a_scheduler(TIMEOUTS))
        self.scene = scene
        scene.random.seed(scene.seed)
        self.interleaved = interleaved
        self.bench = Bench(scene.tree.specs, scene.opt_out)
        self.seen: Counter[str] = Counter()
        """How often what was met that makes a story interesting."""
        self.victims: set[str] = set()
        """All that were asked to end for others."""
        self._refused: dict[tuple[str, Items, str], list[Refusal]] = {}
        """Of each kind of ask: priority and time of every refusal."""
        self._rests_until_ns: dict[str, int] = {}
        """Of each ask whose reservation was in vain, until when it may preempt nothing."""
        self._asks = 0
        self.register(
            PartitionSpec(
                "default",
                scene.tree.root,
                node_weights={},
                preemption_enabled=scene.preempts,
                preemption_optout=scene.opt_out,
            )
        )
        self.connect()
        self.apps(*(an_app(f"a{number}", leaf) for number, leaf in enumerate(scene.leaves)))
        for number in range(scene.random.randint(1, NODES_MAX)):
            self._fill(f"n{number}")

    def _fill(self, node_id: str) -> None:
        """A new node with something on it, and not much room beside; what no quota lets in is taken back."""
        scene = self.scene
        self.nodes(a_node(node_id, dict.fromkeys(scene.resources, 1_000)))
        count = scene.random.randint(1, ALLOCATIONS_MAX)
        self._ask(*(scene.filler(self._key("r"), node_id) for _ in range(count)))
        self.schedule()
        over = [AskRelease(one.ask.application_id, "", one.ask.allocation_key) for one in self.bench.waiting.values()]
        if over:
            self.step(UpdateAllocations(self.rm_id, ask_releases=over))
        used = Resources()
        for one in self.bench.on(node_id):
            used = used.plus(one.ask.resources)
        self._resize(
            node_id, {name: used[name] + UNITS[name] * scene.random.choice((0, 0, 1, 3)) for name in scene.resources}
        )

    def _key(self, letter: str) -> str:
        self._asks += 1
        return f"{letter}{self._asks:03}"

    def _ask(self, *asks: NewAsk) -> None:
        self.bench.known_asks.update({ask.allocation_key: ask for ask in asks})
        self.asks(*asks)

    def _resize(self, node_id: str, capacity: dict[str, int]) -> None:
        self.nodes(a_node(node_id, capacity, action=NodeAction.UPDATE))

    # moves ----------------------------------------------------------------------------------------------------------

    def play(self, what: str, one: int, two: int) -> None:
        """What a move does if there is anything to do it to."""
        nodes = sorted(self.bench.nodes)
        node_id = nodes[one % len(nodes)]
        running = list(self.bench.running.values())
        match what:
            case "ask":
                self.scene.random.seed(one)
                there = [run.ask.resources for run in self.bench.on(node_id)]
                self._ask(self.scene.asker(self._key("k"), len(nodes), there))
            case "wait":
                self.sleep(PAUSES_NS[one % len(PAUSES_NS)])
            case "stop" if running:
                self._end(one % len(running))
            case "confirm":
                leaving = [number for number, run in enumerate(running) if run.leaves]
                if leaving:
                    self._end(leaving[one % len(leaving)])
            case "drain" | "undrain":
                action = NodeAction.DRAIN_NODE if what == "drain" else NodeAction.DRAIN_TO_SCHEDULABLE
                self.nodes(a_node(node_id, action=action))
            case "withdraw" if self.bench.waiting:
                ask = list(self.bench.waiting.values())[one % len(self.bench.waiting)].ask
                self.release_asks(application_id=ask.application_id, allocation_key=ask.allocation_key)
            case "resize":
                capacity = self.bench.nodes[node_id].capacity
                self._resize(
                    node_id, {name: max(0, amount + UNITS[name] * (two % 5 - 2)) for name, amount in capacity.items()}
                )

    def _end(self, number: int) -> None:
        run = list(self.bench.running.values())[number]
        self.release(application_id=run.ask.application_id, uuid=run.uuid)

    def confirm_all(self) -> bool:
        """The RM confirms the end of everything that was asked to end; False if there is nothing."""
        leaving = [run for run in self.bench.running.values() if run.leaves]
        for run in leaving:
            self.release(application_id=run.ask.application_id, uuid=run.uuid)
        return bool(leaving)

    # what is said ---------------------------------------------------------------------------------------------------

    def step(self, command: Command) -> list[Fact]:
        facts = super().step(command)
        self.bench.now_ns = self.now_ns
        for fact in facts:
            match fact:
                case Preempted():
                    self._judge(fact)
                case PreemptionRefused():
                    self._judge_refusal(fact)
                case ReservationEnded():
                    self._judge_end(fact)
                case Reserved(entitled=False):
                    self.seen["room is kept softly"] += 1
            self.bench.hear(fact)
            self._forget_refusals()
        return facts

    def _forget_refusals(self) -> None:
        """What was found out about a kind of ask is forgotten with the last of them."""
        kinds = {_kind(waiting) for waiting in self.bench.waiting.values() if waiting.pending}
        for kind in self._refused.keys() - kinds:
            del self._refused[kind]

    def _judge(self, fact: Preempted) -> None:
        """What was decided, by the state without the reservation that comes of the decision itself."""
        bench, key, node_id = self.bench, fact.allocation_key, fact.node_id
        waiting = bench.waiting[key]
        victims = frozenset(uuid for _, uuid in fact.victims)
        assert self.scene.preempts
        assert len(victims) == len(fact.victims)
        assert all(bench.running[uuid].queue == queue for queue, uuid in fact.victims)
        assert not victims & self.victims, "the same victim for two"
        self.victims |= victims
        place = key, node_id, fact.number
        assert bench.kept[place], "nothing is kept for the ask"
        only = required_node(waiting.ask)
        if only:
            assert not bench.exceeds_quota(waiting), "others end in vain"
        else:
            del bench.kept[place]
            assert waiting.pending > bench.entitled_reserved(key), "others end already for all that is pending"
            assert self._may_attempt(waiting)
        choices = {choice.victims: choice for choice in bench.choices_on(waiting, node_id, fact.number if only else 0)}
        assert victims in choices, "victims that are not right, or more than needed"
        found = choices[victims]
        least = min(choice.order for choice in choices.values())
        assert found.order[:2] == least[:2], "others would do less cost"
        assert not found.lacks_room or found.order == least, "there are younger ones on the node"
        assert only or bench.may_preempt(waiting, node_id), "the ask has no right to it"
        best = found if only or self.interleaved else bench.best(waiting)
        assert best is not None
        assert best.node_id == node_id, "another node is better"
        self._note(waiting, found)
        bench.kept[place] = True

    def _may_attempt(self, waiting: Waiting) -> bool:
        """Whether it may be looked at now who could end for the ask."""
        due_ns = waiting.asked_at_ns + self.bench.specs[waiting.queue].properties.preemption_delay_ns
        allows = waiting.ask.allow_preempt_other and not required_node(waiting.ask) and self.scene.preempts
        return allows and self.now_ns >= due_ns and not self._was_refused_lately(waiting)

    def _judge_refusal(self, fact: PreemptionRefused) -> None:
        bench, waiting = self.bench, self.bench.waiting[fact.allocation_key]
        only = required_node(waiting.ask)
        if only:
            assert self.scene.preempts
            exceeds_quota = bench.exceeds_quota(waiting, stays=True)
            assert (fact.refusal is PreemptionRefusal.QUOTA) is exceeds_quota
            numbers = bench.numbers_of(fact.allocation_key)
            is_hopeless = any(bench.choices_on(waiting, only, number) == [] for number in numbers)
            assert exceeds_quota or is_hopeless, "somebody could be ended"
            self.seen[f"refused on its only node: {fact.refusal}"] += 1
            return
        assert self._may_attempt(waiting)
        refusals = self._refused.setdefault(_kind(waiting), [])
        refusals.append(Refusal(waiting.ask.priority, self.now_ns))
        self.seen[f"refused: {fact.refusal}"] += 1
        if self.interleaved:
            return
        assert bench.best(waiting) is None, "somebody could be ended"
        entitlement = bench.entitlement(waiting)
        assert (fact.refusal is PreemptionRefusal.QUOTA) is entitlement.is_beyond_its_leaf
        if fact.refusal is not PreemptionRefusal.QUOTA:
            assert (fact.refusal is PreemptionRefusal.NOT_ENTITLED) is not entitlement.is_entitled

    def _judge_end(self, fact: ReservationEnded) -> None:
        """An ask whose reservation was in vain waits, so that nothing spins; an allocated one may preempt at once."""
        key, waiting = fact.allocation_key, self.bench.waiting[fact.allocation_key]
        rests_ns = {
            ReservationEnd.EXPIRED: TIMEOUTS.reservation_ns if fact.entitled else 0,
            ReservationEnd.NODE: TIMEOUTS.preemption_attempt_ns,
            ReservationEnd.QUOTA: TIMEOUTS.preemption_attempt_ns,
        }.get(fact.end, 0)
        self._rests_until_ns[key] = max(self._rests_until_ns.get(key, 0), self.now_ns + rests_ns)
        if fact.entitled:
            self.seen[f"an entitled reservation ends: {fact.end}"] += 1
            if fact.end is ReservationEnd.QUOTA:
                assert self.bench.exceeds_quota(waiting)

    def _note(self, waiting: Waiting, choice: Choice) -> None:
        bench = self.bench
        count = len(choice.victims)
        if required_node(waiting.ask):
            self.seen[f"{count} end on the only node"] += 1
            return
        self.seen[f"{count} end for a right"] += 1
        queues = {bench.running[uuid].queue for uuid in choice.victims}
        common = {common_queue(queue, waiting.queue) for queue in queues}
        interesting = {
            "victims of several ranks": len(choice.order[0]) > 1,
            "victims of several queues": len(queues) > 1,
            "victims below several queues of the ask": len(common) > 1,
            "victims not below the root only": bool(common - {"root"}),
            "victims with guarantees": any(bench.specs[queue].guaranteed for queue in queues),
            "victims for a quota": bool(bench.entitlement(waiting).lacking) and count > 0,
            "victims for a quota, elsewhere": any(
                bench.running[uuid].node_id != choice.node_id for uuid in choice.victims
            ),
            "the node is about to have more": any(one.leaves for one in bench.on(choice.node_id)),
            "others have entitled reservations": any(entitled for entitled in bench.kept.values()),
            "the node is kept for others": any(node_id == choice.node_id for _, node_id, _ in bench.kept),
        }
        self.seen.update(what for what, is_so in interesting.items() if is_so)

    # what is not said -----------------------------------------------------------------------------------------------

    def check_no_ask_is_overlooked(self) -> None:
        """Nothing moves any more: then nobody waits for whom others would have to end."""
        assert not self.scheduler.wants_cycle()
        for key, waiting in self.bench.waiting.items():
            if not self.scene.preempts or self.now_ns < self._rests_until_ns.get(key, 0):
                continue
            if required_node(waiting.ask):
                self._check_only_node(waiting)
            elif self._may_attempt(waiting) and waiting.pending > self.bench.entitled_reserved(key):
                assert self.bench.best(waiting) is None, f"{key} is overlooked"
                self.seen["nobody could be ended"] += 1

    def _check_only_node(self, waiting: Waiting) -> None:
        """It is looked at again when something on the node is gone; until then what is about to go may come to help."""
        node_id = required_node(waiting.ask)
        if self.bench.entitled_reserved(waiting.ask.allocation_key, node_id):
            is_settled = not any(one.leaves for one in self.bench.on(node_id))
            numbers = self.bench.numbers_of(waiting.ask.allocation_key)
            choices = [one for number in numbers for one in self.bench.choices_on(waiting, node_id, number)]
            would_help = any(choice.victims for choice in choices)
            assert not (is_settled and would_help), f"{waiting.ask.allocation_key} is overlooked"

    def check_entitled_asks_are_served(self) -> None:
        """Everything that was asked to end has ended: who has room kept on a node that has it, got it."""
        assert not any(one.leaves for one in self.bench.running.values())
        for (key, node_id, number), entitled in self.bench.kept.items():
            waiting = self.bench.waiting[key]
            if entitled:
                assert self.bench.lacking(waiting.ask, node_id, number) or self.bench.exceeds_quota(waiting)
                self.seen["an entitled ask stays without room"] += 1

    def _was_refused_lately(self, waiting: Waiting) -> bool:
        return any(
            one.priority >= waiting.ask.priority and self.now_ns < one.at_ns + TIMEOUTS.preemption_attempt_ns
            for one in self._refused.get(_kind(waiting), [])
        )


def _kind(waiting: Waiting) -> tuple[str, Items, str]:
    """Of asks of the same kind, none is tried that ranks below one that was refused."""
    return waiting.queue, waiting.ask.resources.canonical(), required_node(waiting.ask)
