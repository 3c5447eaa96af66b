"""The worlds with resource managers that have a say: they answer late, never, twice, with nonsense, and hang up."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from schedulerd.core.language.ask_tags import PREDICATES_TAG
from schedulerd.core.language.commands import (
    Command,
    ConnectCallbacks,
    DisconnectCallbacks,
    GivePredicateResults,
    PredicateResult,
    RegisterResourceManager,
    RingAlarms,
)
from schedulerd.core.language.facts.fact import Allocated, Fact, ItemIgnored, ResourceManagerChanged
from schedulerd.core.language.facts.predicates import (
    PredicateAnswered,
    PredicateOutcome,
    PredicateWanted,
    PreemptionPredicateWanted,
)
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.specs import Timeouts
from tests.sim.contested_world import ContestedWorld
from tests.sim.gang_world import GangWorld
from tests.sim.rm_memory import ResourceManagerMemory
from tests.sim.world import Move, World

Wanted = PredicateWanted | PreemptionPredicateWanted
Placed = tuple[str, str, str, str]
"""Partition, application, key and node."""

EXPECTED = (
    *(f"result {outcome}" for outcome in PredicateOutcome),
    *("call to allocate", "call to reserve room", "call to preempt", "placed on predicate check", "answer to nothing"),
    *("stream lost with open calls", "set aside after refusals", "called back", "swap agreed"),
)


@dataclass
class Calls:
    """What one resource manager was asked, by what it heard."""

    rm_id: str
    stream: ConnectCallbacks | None = None
    open: dict[int, Wanted] = field(default_factory=dict)
    asked_at_ns: dict[int, int] = field(default_factory=dict)
    over: deque[int] = field(default_factory=lambda: deque(maxlen=20))
    agreed: Counter[Placed] = field(default_factory=Counter)
    """Placements it agreed to that it did not hear of."""

    def hear(self, now_ns: int, command: Command, facts: Sequence[Fact], seen: Counter[str]) -> Iterator[str]:
        """Takes in what was said, and yields where that breaks a promise."""
        if getattr(command, "rm_id", None) == self.rm_id:
            self._spoke(command, seen)
        for fact in facts:
            if getattr(fact, "rm_id", None) != self.rm_id:
                continue
            match fact:
                case PredicateWanted() | PreemptionPredicateWanted():
                    yield from self._wanted(now_ns, fact, seen)
                case PredicateAnswered():
                    yield from self._reached(fact, seen)
                case Allocated(recovered=False):
                    yield from self._placed(fact, seen)
                case ItemIgnored() if isinstance(command, GivePredicateResults):
                    seen["answer to nothing"] += 1
                case ResourceManagerChanged(state=ResourceManagerState.STOPPED | ResourceManagerState.INIT):
                    self.stream, self.open, self.asked_at_ns = None, {}, {}
                    self.agreed.clear()
                    self.over.clear()
        if isinstance(command, RingAlarms):
            for call_id in self.open:
                if now_ns - self.asked_at_ns[call_id] >= Timeouts().predicates_ns:
                    yield f"call {call_id} of {self.rm_id} is open for too long"

    def _spoke(self, command: Command, seen: Counter[str]) -> None:
        if isinstance(command, ConnectCallbacks | DisconnectCallbacks | RegisterResourceManager):
            seen["stream lost with open calls"] += bool(self.open)
            self.stream = command if isinstance(command, ConnectCallbacks) else None
            self.agreed.clear()

    def _wanted(self, now_ns: int, fact: Wanted, seen: Counter[str]) -> Iterator[str]:
        is_preemption = isinstance(fact, PreemptionPredicateWanted)
        answers = self.stream and (self.stream.preemption_predicates if is_preemption else self.stream.predicates)
        if not answers:
            yield f"call {fact.call_id} to {self.rm_id}, which does not answer such"
        if fact.call_id in self.open or fact.call_id in self.over:
            yield f"call {fact.call_id} to {self.rm_id} is made twice"
        self.open[fact.call_id] = fact
        self.asked_at_ns[fact.call_id] = now_ns
        keeps = isinstance(fact, PredicateWanted) and not fact.allocate
        seen["call to preempt" if is_preemption else "call to reserve room" if keeps else "call to allocate"] += 1

    def _reached(self, fact: PredicateAnswered, seen: Counter[str]) -> Iterator[str]:
        seen[f"result {fact.outcome}"] += 1
        wanted = self.open.pop(fact.call_id, None)
        self.over.append(fact.call_id)
        if wanted is None:
            yield f"a result on call {fact.call_id} of {self.rm_id}, which is not open"
        elif fact.outcome is PredicateOutcome.AGREED and isinstance(wanted, PredicateWanted) and wanted.allocate:
            self.agreed[fact.partition, fact.application_id, fact.allocation_key, fact.node_id] += 1

    def _placed(self, fact: Allocated, seen: Counter[str]) -> Iterator[str]:
        place = (fact.partition, fact.application_id, fact.allocation_key, fact.node_id)
        if self.stream is None or not self.stream.predicates:
            return
        if fact.tags.get(PREDICATES_TAG):
            seen["swap without a call" if fact.replaces else "placed without a call"] += 1
            return
        if self.agreed[place]:
            self.agreed[place] -= 1
            seen["swap agreed" if fact.replaces else "placed on predicate check"] += 1
        elif not fact.replaces:  # a swap may have begun before there was a stream
            yield f"{place} was placed, and {self.rm_id} did not agree to that"


class AnyJudgingWorld(World):
    """What resource managers with a say do beside the rest."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.calls = {rm_id: Calls(rm_id) for rm_id in self.memories}
        self._loses_streams = bool(seed % 2)

    def last_moves(self) -> list[Move]:
        """With an odd seed the callback streams are lost in the end, whatever was asked there; else all is answered."""
        lost = [DisconnectCallbacks(rm_id) for rm_id in self.memories if self._loses_streams]
        return [*super().last_moves(), *lost]

    def kinds(self) -> tuple[tuple[float, Callable[[ResourceManagerMemory], Move]], ...]:
        mine = ((1.0, self._open_stream), (0.3, self._hang_up), (14.0, self._answer), (1.0, self._answer_wrongly))
        return (*super().kinds(), *mine)

    def _open_stream(self, rm: ResourceManagerMemory) -> Move:
        predicates = self._random.random() < 0.9
        share = self._random.random()
        return ConnectCallbacks(
            rm.rm_id, predicates, share < 0.7, scheduling_states=share > 0.4, pending_reasons=share > 0.5
        )

    def _hang_up(self, rm: ResourceManagerMemory) -> Move:
        return DisconnectCallbacks(rm.rm_id)

    def _answer(self, rm: ResourceManagerMemory) -> Move:
        """Some or all of what is open, in any order; much of it is refused."""
        calls = list(self.calls[rm.rm_id].open.values())
        self._random.shuffle(calls)
        chosen = calls[: self._random.choice((1, 2, len(calls)))]
        return GivePredicateResults(rm.rm_id, [self._result(one) for one in chosen])

    def _result(self, one: Wanted) -> PredicateResult:
        if self._random.random() < 0.35:
            return PredicateResult(one.call_id, self._random.choice(("taint", "no port", "affinity")))
        last = len(one.victim_keys) - 1 if isinstance(one, PreemptionPredicateWanted) else 0
        return PredicateResult(one.call_id, "", self._or_garbage(self._random.randint(0, last), 99))

    def _answer_wrongly(self, rm: ResourceManagerMemory) -> Move:
        """What nobody asked, what is over, and two answers to one call that contradict each other."""
        calls = self.calls[rm.rm_id]
        results = [PredicateResult(self._random.choice((0, -1, 10**9))), *map(PredicateResult, list(calls.over)[-2:])]
        for one in list(calls.open.values())[:1]:
            results += [PredicateResult(one.call_id), PredicateResult(one.call_id, "on second thought")]
        return GivePredicateResults(rm.rm_id, results)


class JudgingWorld(AnyJudgingWorld):
    pass


class JudgingGangWorld(AnyJudgingWorld, GangWorld):
    pass


class JudgingContestedWorld(AnyJudgingWorld, ContestedWorld):
    pass
