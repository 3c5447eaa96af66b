"""Mutants of alarms and ledgers."""

from __future__ import annotations

from typing import Any

from schedulerd.core import commit, commit_room
from schedulerd.core.alarms import Alarm, Alarms
from schedulerd.core.applications.handlers import application_states, execution_times, releases
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.due import Due
from schedulerd.core.model.predicate_check import PredicateCheck
from schedulerd.core.partition import Partition
from schedulerd.core.pending.retry_timers import RetryTimers
from schedulerd.core.quotas.limit_subject import group_of
from schedulerd.core.recovery.handlers import early
from schedulerd.core.resource_managers.handlers import resource_managers
from schedulerd.core.resources import Resources
from schedulerd.core.specs import SECOND_NS
from tests.mutants.changes import By, Compares, Replaced, gives, left_out, nothing
from tests.mutants.finders import UnitTested
from tests.mutants.mutant import Mutant
from tests.mutants.proofs import ANY_WORLD, CONTESTED, PREEMPTION, USAGE
from tests.mutants.rules import Rule
from tests.unit.core.preemption import test_preemption_again
from tests.unit.core.recovery import test_early

# What is done instead


def early_by(time_ns: int) -> By:
    def broken(original: By, alarms: Alarms, now_ns: int) -> Alarm | None:
        found: Alarm | None = original(alarms, now_ns + time_ns)
        return found

    return broken


def subtract_once(original: By, ledger: Resources, items: Any, times: int = 1) -> None:
    original(ledger, items)


def free_but(*ledgers: str) -> By:
    """What is freed is still counted here: in the ledger of the user, the node, the gang or the root."""

    def broken(original: By, partition: Partition, allocation: Allocation) -> None:
        application, items = allocation.application, allocation.request_class.items
        user, node, gang = application.usage_ledgers[-1], allocation.node, application.gang
        original(partition, allocation)
        if "user" in ledgers:
            user.usage.add(items)
        if "node" in ledgers:
            node.allocated.add(items)
        if "gang" in ledgers and gang is not None and allocation.spec.task_group:
            gang.held.add(items)
        if "root" in ledgers:
            partition.root.allocated.add(items)

    return broken


def still_runs_for_its_user(original: By, partition: Partition, application: Application) -> None:
    ledgers = list(application.usage_ledgers)
    original(partition, application)
    for ledger in ledgers:
        ledger.applications[application.application_id] = None


def still_runs_in_its_queues(original: By, partition: Partition, application: Application) -> None:
    had = bool(application.usage_ledgers)
    original(partition, application)
    for queue in application.queue.path_to_root if had and not application.usage_ledgers else ():
        queue.running += 1


def counted_twice(original: By, allocation: Allocation, times: int) -> None:
    original(allocation, 2 * times)


def makes_room_for_ever(original: By, partition: Partition, reservation: Any) -> None:
    victims = list(reservation.victims)
    original(partition, reservation)
    for victim in victims:
        victim.makes_room = reservation


def claimed_for_ever(original: By, partition: Partition, reservation: Any) -> None:
    original(partition, reservation)
    for queue in reservation.application.queue.path_to_root if reservation.is_entitled else ():
        queue.quota_reserved.add(reservation.items)


def asked_before(original: By, reservation: Any, victim: Allocation, now_ns: int) -> None:
    original(reservation, victim, reservation.made_at_ns - 1)


def promised_for_ever(original: By, partition: Partition, application: Application) -> None:
    gang = application.gang
    promised = gang.promised.items() if gang is not None else ()
    original(partition, application)
    for queue in application.queue.path_to_root:
        queue.gang_quota_promised.add(promised)


def awaits_for_ever(original: By, placeholder: Allocation) -> Ask | None:
    ask: Ask | None = original(placeholder)
    placeholder.application.awaiting_placeholder += ask is not None
    return ask


def holds_for_ever(original: By, partition: Partition, check: PredicateCheck) -> None:
    original(partition, check)
    assert check.ask.predicate_history is not None
    check.ask.predicate_history.predicate_reserved += check.uses_allocation


MUTANTS = (
    # Time
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
    # Ledgers
    Mutant("several are subtracted as one", Rule.LEDGERS, Replaced(Resources.subtract, subtract_once), (ANY_WORLD,)),
    Mutant(
        "what a user frees is still used", Rule.LEDGERS, Replaced(commit.free, free_but("user")), (ANY_WORLD, USAGE)
    ),
    Mutant("a release is forgotten on its node", Rule.LEDGERS, Replaced(commit.free, free_but("node")), (ANY_WORLD,)),
    Mutant("a gang still holds what went", Rule.LEDGERS, Replaced(commit.free, free_but("gang")), (ANY_WORLD,)),
    Mutant("the root still uses what went", Rule.LEDGERS, Replaced(commit.free, free_but("root")), (ANY_WORLD, USAGE)),
    Mutant(
        "an application that ended still runs for its user",
        Rule.LEDGERS,
        Replaced(commit.retire, still_runs_for_its_user),
        (ANY_WORLD,),
    ),
    Mutant(
        "an application that ended still runs in its queues",
        Rule.LEDGERS,
        Replaced(commit.retire, still_runs_in_its_queues),
        (ANY_WORLD,),
    ),
    Mutant("usage outlives its application", Rule.LEDGERS, Replaced(commit.retire, nothing), (ANY_WORLD, USAGE)),
    Mutant("finished asks are kept", Rule.LEDGERS, Replaced(commit.forget_if_done, nothing), (ANY_WORLD,)),
    Mutant("groups are not counted", Rule.LEDGERS, Replaced(group_of, gives("")), (USAGE,)),
    Mutant("what leaves is not counted", Rule.LEDGERS, Replaced(commit_room.count_leaving, nothing), (ANY_WORLD,)),
    Mutant(
        "what leaves is counted twice", Rule.LEDGERS, Replaced(commit_room.count_leaving, counted_twice), (ANY_WORLD,)
    ),
    Mutant(
        "the quota of a reservation stays reserved when it ends",
        Rule.LEDGERS,
        Replaced(commit_room.end_reservation, claimed_for_ever),
        (ANY_WORLD,),
    ),
    Mutant(
        "what waits for a placeholder waits on",
        Rule.LEDGERS,
        Replaced(commit.end_placeholder_wait, awaits_for_ever),
        (ANY_WORLD,),
    ),
    Mutant(
        "an ask stays awaiting when its placeholder goes",
        Rule.LEDGERS,
        Replaced(commit.end_placeholder_wait, lambda _, placeholder: placeholder.swap),
        (ANY_WORLD,),
    ),
    Mutant(
        "a promise stays when the gang is over",
        Rule.LEDGERS,
        Replaced(commit.end_promise, promised_for_ever),
        (ANY_WORLD,),
    ),
    Mutant(
        "a result is waited for for ever",
        Rule.LEDGERS,
        Replaced(commit_room.end_predicate_check, holds_for_ever),
        (ANY_WORLD.from_seed(7),),
    ),
    Mutant(
        "a victim never stops making room",
        Rule.RESERVATION_FACTS,
        Replaced(commit_room.end_reservation, makes_room_for_ever),
        (CONTESTED.from_seed(8),),
    ),
    Mutant(
        "the wait for room starts with the reservation",
        Rule.RESERVATION_FACTS,
        Replaced(commit_room.make_room, asked_before),
        (CONTESTED.from_seed(8),),
    ),
)
