"""Mutants of alarms, deadlines and retries."""

from __future__ import annotations

from schedulerd.core.applications.handlers import execution_times
from schedulerd.core.language.alarms import Alarm, Alarms
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.resource_managers.handlers import resource_managers
from schedulerd.core.state.actions import application_states, releases
from schedulerd.core.state.actions import early_items as early
from schedulerd.core.state.model.due import Due
from schedulerd.core.state.pending.retry_timers import RetryTimers
from tests.mutants.changes import By, Compares, Replaced, left_out, nothing
from tests.mutants.finders import UnitTested
from tests.mutants.mutant import Mutant
from tests.mutants.proofs import ANY_WORLD, PREEMPTION
from tests.mutants.rules import Rule
from tests.unit.core.preemption import test_preemption_again
from tests.unit.core.state.actions import test_early_items as test_early


def early_by(time_ns: int) -> By:
    def broken(original: By, alarms: Alarms, now_ns: int) -> Alarm | None:
        found: Alarm | None = original(alarms, now_ns + time_ns)
        return found

    return broken


MUTANTS = (
    Mutant("alarms are never cancelled", Rule.ALARMS, Replaced(Alarms.cancel, nothing), (ANY_WORLD,)),
    Mutant("an alarm rings after its time", Rule.ALARMS, Replaced(Alarms.pop_due, early_by(-1)), (ANY_WORLD,)),
    Mutant("an alarm rings before its time", Rule.ALARMS, Replaced(Alarms.pop_due, early_by(SECOND_NS)), (ANY_WORLD,)),
    Mutant(
        "the time of a state goes on in the next",
        Rule.DEADLINES,
        left_out(application_states.fire, Alarms.cancel),
        (ANY_WORLD,),
    ),
    Mutant(
        "a resource manager that is back is given up all the same",
        Rule.DEADLINES,
        left_out(resource_managers.connect, Alarms.cancel),
        (ANY_WORLD,),
    ),
    Mutant(
        "alarms outlive their resource manager",
        Rule.DEADLINES,
        left_out(resource_managers._drop, Alarms.cancel),
        (ANY_WORLD,),
    ),
    Mutant(
        "an allocation is out of time when it is gone",
        Rule.DEADLINES,
        left_out(releases.free, Alarms.cancel),
        (ANY_WORLD,),
    ),
    Mutant(
        "an early item is out of time when it was taken",
        Rule.EARLY_ITEMS,
        left_out(early.release, Alarms.cancel),
        (ANY_WORLD,),
    ),
    Mutant(
        "a backlog rings after its application is gone",
        Rule.EARLY_ITEMS,
        left_out(early.forget_backlog, Alarms.cancel),
        (UnitTested(test_early.test_an_application_that_is_accepted_after_all_gets_what_is_left),),
    ),
    Mutant(
        "no state ends by itself", Rule.DEADLINES, Replaced(application_states.on_state_timeout, nothing), (ANY_WORLD,)
    ),
    Mutant(
        "applications run for ever", Rule.DEADLINES, Replaced(execution_times.end_application, nothing), (ANY_WORLD,)
    ),
    Mutant(
        "a thing that is put off is due as before",
        Rule.RETRIES,
        Compares(Due.set_earlier, ("at_ns", "known"), ">"),
        (PREEMPTION,),
    ),
    Mutant(
        "whoever waits for any change is not looked at",
        Rule.RETRIES,
        Replaced(RetryTimers.retry_waiting, nothing),
        (UnitTested(test_preemption_again.test_the_same_is_tried_again_when_something_moved_and_not_too_soon),),
    ),
)
