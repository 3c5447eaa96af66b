"""A resource manager that takes part in predicates, for tests: what it is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from schedulerd.config import matches
from schedulerd.core.language.commands import (
    Command,
    ConnectCallbacks,
    DisconnectCallbacks,
    GivePredicateResults,
    PredicateResult,
)
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.facts.predicates import PredicateAnswered, PredicateWanted, PreemptionPredicateWanted
from schedulerd.core.language.specs import QueueSpec, Timeouts
from schedulerd.core.scheduler import Scheduler
from tests.unit.core.builders import Conversation, a_node, a_partition_spec, an_app, numbered, of

Wanted: TypeAlias = PredicateWanted | PreemptionPredicateWanted
Refusal: TypeAlias = Callable[[Wanted], str]
"""Why the RM refuses the ask there; '' if the ask may run there."""


class Refuses:
    """Refuses these pairs of a key and a node, with or without victims."""

    def __init__(self, *pairs: tuple[str, str], reason: str = "tainted") -> None:
        self.pairs = set(pairs)
        self.reason = reason

    def __call__(self, wanted: Wanted) -> str:
        return self.reason if (wanted.allocation_key, wanted.node_id) in self.pairs else ""


class AnsweringRM(Conversation):
    """Answers at once what it is asked in a step, unless `withholds_answers` is set."""

    def __init__(self, refusal_of: Refusal | None = None, timeouts: Timeouts | None = None) -> None:
        super().__init__(Scheduler(timeouts or Timeouts(), numbered(), matches))
        self.refusal_of = refusal_of or Refuses()
        self.withholds_answers = False
        self.asked: list[Wanted] = []
        """Everything it was asked, in order."""

    def begin(self, root: QueueSpec | None = None, *, predicates: bool = True, preemption: bool = True) -> None:
        """Registers, connects, and opens the callback stream."""
        self.register(a_partition_spec(root))
        self.connect()
        self.callbacks(predicates=predicates, preemption=preemption)

    def callbacks(self, *, predicates: bool = True, preemption: bool = True) -> list[Fact]:
        return self.step(ConnectCallbacks(self.rm_id, predicates, preemption))

    def disconnect_callbacks(self) -> list[Fact]:
        return self.step(DisconnectCallbacks(self.rm_id))

    def step(self, command: Command) -> list[Fact]:
        facts = super().step(command)
        wanted: list[Wanted] = [fact for fact in facts if isinstance(fact, Wanted)]
        self.asked += wanted
        if wanted and not self.withholds_answers:
            facts = facts + self.answer(*wanted)
        return facts

    def answer(self, *wanted: Wanted) -> list[Fact]:
        """Gives the results of these calls."""
        return self.give(*(self.result(one) for one in wanted))

    def result(self, one: Wanted) -> PredicateResult:
        return PredicateResult(one.call_id, self.refusal_of(one), getattr(one, "start_index", 0))

    def give(self, *results: PredicateResult) -> list[Fact]:
        return self.step(GivePredicateResults(self.rm_id, list(results)))

    def take_asked(self) -> list[tuple[str, str]]:
        """Key and node of everything it was asked so far, which is forgotten then."""
        pairs, self.asked = self.asked_pairs, []
        return pairs

    @property
    def asked_pairs(self) -> list[tuple[str, str]]:
        """Key and node of everything it was asked so far."""
        return [(one.allocation_key, one.node_id) for one in self.asked]

    @property
    def open_calls(self) -> int:
        return len(self.scheduler.cluster.resource_managers[self.rm_id].callbacks.open_predicate_checks)


def a_judge(*, silent: bool = False, refuses: tuple[tuple[str, str], ...] = ()) -> AnsweringRM:
    """With a node of 100 and an application; a silent one does not answer."""
    judge = AnsweringRM(Refuses(*refuses))
    judge.begin()
    judge.withholds_answers = silent
    judge.nodes(a_node("n1", {"memory": 100}))
    judge.apps(an_app())
    return judge


def outcomes(facts: list[Fact]) -> list[tuple[str, str, str]]:
    """Key, node and outcome of every call that is over."""
    return [(one.allocation_key, one.node_id, one.outcome.value) for one in of(PredicateAnswered, facts)]
