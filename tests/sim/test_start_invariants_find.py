"""The invariant of how many applications may run finds facts that are left out; `tests.mutants` breaks the code."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import Command
from schedulerd.core.language.facts.fact import Allocated, Fact
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.views import view
from tests.sim.start_invariants import StartInvariants
from tests.unit.core.answering_rm import AnsweringRM
from tests.unit.core.builders import a_node, a_queue_spec, a_root, an_app, an_ask, placed

pytestmark = pytest.mark.interpreted


class Watched(AnsweringRM):
    """One application may run in root.a, of `first` and `second`; what the invariant says of each step is kept."""

    def __init__(self, *, has_a_say: bool = False) -> None:
        super().__init__()
        self.withholds_answers = True
        self.hides_placements = False
        self.found: list[str] = []
        self._law = StartInvariants()
        self.begin(a_root(a_queue_spec("a", max_applications=1)), predicates=has_a_say)
        self.nodes(a_node("n1", {"memory": 100}))
        self.apps(an_app("first"), an_app("second"))

    def step(self, command: Command) -> list[Fact]:
        facts = super().step(command)
        told = [fact for fact in facts if not (self.hides_placements and isinstance(fact, Allocated))]
        self.found += self._law.after(command, told, view.resource_managers(self.scheduler.cluster))
        return facts

    def let_first_complete(self) -> None:
        self.asks(an_ask("k", app="first"))
        self.schedule()
        self.release(application_id="first")


def both_run() -> Watched:
    """`first` was Completing, and runs again when its place is taken."""
    talk = Watched()
    talk.let_first_complete()
    talk.asks(an_ask("k", app="second"))
    talk.schedule()
    talk.asks(an_ask("again", app="first"))
    return talk


def test_an_application_that_runs_again_is_not_one_too_many() -> None:
    talk = both_run()
    assert placed(talk.schedule()) == [("first", "again", "n1")]
    assert (talk.queue().running_applications, talk.found) == (2, [])


def test_nor_is_one_that_started_before_in_the_same_cycle() -> None:
    talk = Watched()
    talk.let_first_complete()
    talk.asks(an_ask("k", app="second", priority=1), an_ask("again", app="first"))
    assert placed(talk.cycle()) == [("second", "k", "n1"), ("first", "again", "n1")]
    assert (talk.queue().running_applications, talk.found) == (2, [])


def test_running_is_no_excuse_without_having_been_completing() -> None:
    talk = both_run()
    log = talk.model().applications["first"].state_log
    log.remove(next(entry for entry in log if entry[1] is ApplicationState.COMPLETING))
    talk.nodes(a_node("n2", {"memory": 1}))
    talk.schedule()
    assert talk.found == ["first runs as one too many in root.a"]


def test_an_application_that_runs_without_an_allocation_is_named() -> None:
    talk = Watched()
    talk.hides_placements = True
    talk.asks(an_ask("k", app="first"))
    talk.schedule()
    assert talk.found == ["first is not counted as running from its first allocation on"]
