"""Mutants of applications, releases, gangs, recovery, and of what is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from schedulerd.core.applications.handlers import asks, rm_releases
from schedulerd.core.gangs.handlers import gangs
from schedulerd.core.gangs.rules import gang_deadlock
from schedulerd.core.language import fsm
from schedulerd.core.language.commands import NodeUpdate
from schedulerd.core.language.facts.fact import Allocated, AskWithdrawn
from schedulerd.core.language.lifecycles import ApplicationState, ApplicationTrigger
from schedulerd.core.nodes.handlers import existing
from schedulerd.core.state.actions import (
    allocating,
    application_states,
    gang_time,
    gone,
    queue_changes,
    releases,
    swaps,
    unclaimed,
)
from schedulerd.core.state.ledger import commit, commit_unclaimed
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.early import EarlyItems
from schedulerd.core.state.model.gang import TaskGroup
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending import asks as pending_asks
from schedulerd.core.state.pending import gang_order
from schedulerd.core.state.pending.request_class import PendingClass, RequestClass, RequestClasses
from schedulerd.core.state.quotas import rules as quota_rules
from schedulerd.core.state.quotas.quota_key import QuotaKey
from schedulerd.core.state.quotas.rules import Blocked
from schedulerd.core.views import view
from schedulerd.core.views.values import AskView, NodeView
from tests.mutants.changes import By, Constant, Replaced, Within, gives, left_out, nothing, while_
from tests.mutants.finders import Simulated, TestsOf, UnitTested
from tests.mutants.mutant import Mutant
from tests.mutants.proofs import ANY_WORLD, GANGS, LIMITED_GANGS
from tests.mutants.rules import Rule
from tests.sim.gang_world import GangWorld
from tests.unit.core.gangs import test_gang_limits, test_lost_gangs
from tests.unit.core.nodes import test_existing_in_updates
from tests.unit.core.state.actions import test_early_items as test_early


def never_runs_again(original: By, table: Any, state: Any, trigger: Any) -> Any:
    if state is ApplicationState.COMPLETING and trigger is ApplicationTrigger.RUN:
        return state
    return original(table, state, trigger)


def confirmed(confirm: bool) -> By:
    def broken(original: By, *arguments: Any, **named: Any) -> Any:
        return original(*arguments, **{**named, "confirm": confirm})

    return broken


def told_as_one(original: By, fact: AskWithdrawn, *fields: Any, **named: Any) -> None:
    original(fact, *fields, **named)
    fact.count = 1


def all_of_it_again(original: By, context: Any, partition: Partition, application: Application, ask: Ask) -> None:
    placed = ask.placed
    ask.placed = 0
    original(context, partition, application, ask)
    ask.placed = placed


def without_termination(
    original: By, context: Any, application: Application, ask: Ask, cause: Any, termination: Any, *others: Any
) -> None:
    original(context, application, ask, cause, None, *others)


def without_priority(original: By, *arguments: Any, **named: Any) -> Allocated:
    fact: Allocated = original(*arguments, **named)
    fact.priority = 0
    return fact


# Gangs


def without_gate(original: By, classes: RequestClasses, request_class: RequestClass, key: QuotaKey) -> PendingClass:
    found: PendingClass = original(classes, request_class, key._replace(gang_gate=()))
    return found


def without_gate_of_limits(original: By, *arguments: Any) -> Blocked | None:
    *others, key = arguments
    found: Blocked | None = original(*others, key._replace(gang_gate=()))
    return found


def placeholders_twice(original: By, application: Application) -> Any:
    with while_(application, allocated=application.placeholder_allocated):
        return original(application)


def replaced_uncounted(
    original: By, context: Any, partition: Partition, placeholder: Allocation, ask: Ask, **named: Any
) -> Any:
    assert placeholder.application.gang is not None
    group = placeholder.application.gang.task_group(placeholder.spec.task_group)
    before = group.replaced
    fact = original(context, partition, placeholder, ask, **named)
    group.replaced = before
    return fact


def makes_no_gang_wait(_: By, partition: Partition, application: Application | None) -> None:
    partition.priority_gang = application


# Recovery and views


def first_existing_alone(original: By, rm: Any, partition: Partition, item: NodeUpdate) -> Any:
    return original(rm, partition, replace(item, existing=item.existing[:1]))


def knows_no_allocation(original: By, rm: Any, partition: Partition, *others: Any, **named: Any) -> Any:
    with while_(partition, allocations={}):
        return original(rm, partition, *others, **named)


def entitled_alone(original: By, *arguments: Any) -> NodeView:
    shown: NodeView = original(*arguments)
    return replace(shown, reserved=shown.entitled_reserved)


def awaiting_as_pending(original: By, application: Application, ask: Ask, *others: Any) -> AskView:
    shown: AskView = original(application, ask, *others)
    return replace(shown, pending=ask.pending + ask.awaiting_placeholder)


MUTANTS = (
    # Applications
    Mutant(
        "a completing application does not run again",
        Rule.APPLICATION_STATES,
        Replaced(fsm.move, never_runs_again),
        (ANY_WORLD,),
    ),
    Mutant(
        "an application whose gang lost all placeholders runs with the next ask",
        Rule.GANG_FIRST,
        Replaced(application_states._has_gang_to_wait_for, gives(False)),
        (
            UnitTested(test_lost_gangs.test_it_starts_when_it_is_complete_and_not_before),
            Simulated((GangWorld,), says="its gang was never complete").from_seed(10),
        ),
    ),
    Mutant(
        "idle applications never complete",
        Rule.APPLICATION_STATES,
        Replaced(application_states.on_less, nothing),
        (ANY_WORLD,),
    ),
    Mutant(
        "nobody waits for real asks",
        Rule.APPLICATION_STATES,
        Replaced(application_states._delay_completion, nothing),
        (GANGS,),
    ),
    Mutant(
        "an application that goes leaves its queue behind",
        Rule.DEADLINES,
        left_out(queue_changes.leave, queue_changes.watch_unneeded),
        (ANY_WORLD.from_seed(19),),
    ),
    # Asks and releases
    Mutant(
        "what is withdrawn of an ask is told as one",
        Rule.RELEASES,
        Replaced(AskWithdrawn.__init__, told_as_one),
        (ANY_WORLD,),
    ),
    Mutant(
        "a release is not confirmed",
        Rule.RELEASES,
        Replaced(gone.finish, confirmed(False)),
        (Simulated(says="vanishes without a word"),),
    ),
    Mutant(
        "what the core asked for is confirmed",
        Rule.RELEASES,
        Within(rm_releases._release, gone.finish, confirmed(True)),
        (ANY_WORLD,),
    ),
    Mutant(
        "the release of an ask is not confirmed",
        Rule.RELEASES,
        Within(asks._release_of, releases.withdraw_ask, without_termination),
        (ANY_WORLD,),
    ),
    Mutant("an update asks for all of it again", Rule.RELEASES, Replaced(asks._demand, all_of_it_again), (ANY_WORLD,)),
    Mutant(
        "an allocation forgets its priority",
        Rule.RELEASES,
        Replaced(allocating.allocated, without_priority),
        (ANY_WORLD,),
    ),
    # Gangs
    Mutant("nobody looks for swaps", Rule.GANG_FIRST, Replaced(pending_asks.note_possible_swap, nothing), (GANGS,)),
    Mutant(
        "placeholders on their way out are taken again",
        Rule.GANG_FIRST,
        Replaced(TaskGroup.drop_idle, nothing),
        (GANGS,),
    ),
    Mutant(
        "real asks do not wait for their gang",
        Rule.GANG_FIRST,
        Replaced(pending_asks.admits_group, gives(True)),
        (GANGS,),
    ),
    Mutant(
        "asks that the resource manager takes back stay awaiting",
        Rule.GANG_FIRST,
        Replaced(releases.forget_swaps, nothing),
        (GANGS.from_seed(8),),
    ),
    Mutant("promises are not lowered", Rule.GANG_GATE, Replaced(commit._lower_promise, nothing), (GANGS,)),
    Mutant("promises do not end", Rule.GANG_GATE, Replaced(commit.end_promise, nothing), (GANGS,)),
    Mutant(
        "limits are no part of the gang gate",
        Rule.GANG_GATE,
        Replaced(quota_rules._blocked_by_user_limit, without_gate_of_limits),
        (LIMITED_GANGS,),
    ),
    Mutant("every gang may start", Rule.GANG_GATE, Replaced(RequestClasses.pending_class, without_gate), (GANGS,)),
    Mutant(
        "a gang starts although it is not whole",
        Rule.GANG_GATE,
        Replaced(gang_time.has_whole_gang, placeholders_twice),
        (GANGS,),
    ),
    Mutant("the time of a gang ends nothing", Rule.GANG_TIME, Replaced(gangs.on_timeout, nothing), (GANGS,)),
    Mutant(
        "a gang has twice its time",
        Rule.GANG_TIME,
        Replaced(gang_time.timeout_ns, lambda original, *arguments: 2 * original(*arguments)),
        (GANGS,),
    ),
    Mutant("no gang fails", Rule.GANG_TIME, Constant(gangs, "HARD_STYLE", "never"), (GANGS,)),
    Mutant(
        "asks of a gang that fails stay awaiting",
        Rule.GANG_TIME,
        left_out(gangs.on_timeout, releases.end_placeholder_wait),
        (GANGS,),
    ),
    Mutant(
        "the placeholder of an ask of a gang that fails stays awaited",
        Rule.GANG_TIME,
        Replaced(releases.end_placeholder_wait, nothing),
        (GANGS,),
    ),
    Mutant(
        "gangs that were held back stay so",
        Rule.GANG_DEADLOCK,
        Replaced(pending_asks.set_priority_gang, makes_no_gang_wait),
        (GANGS,),
    ),
    Mutant("the priority gang has priority for ever", Rule.GANG_DEADLOCK, Replaced(gang_time.end, nothing), (GANGS,)),
    Mutant(
        "a gang that gave way is not asked for again",
        Rule.GANG_DEADLOCK,
        Replaced(commit.make_pending_again, gives(False)),
        (GANGS.from_seed(20),),
    ),
    Mutant(
        "a lowered quota is no gang deadlock",
        Rule.GANG_DEADLOCK,
        Replaced(gang_deadlock._is_blocked_by_rule, gives(False)),
        (UnitTested(test_gang_limits.test_it_is_released_where_only_a_rule_is_in_the_way),),
    ),
    Mutant(
        "later gangs are those that came first",
        Rule.GANG_DEADLOCK,
        Replaced(gang_order.is_ahead, lambda _, one, other: one.age > other.age),
        (GANGS,),
    ),
    Mutant("nobody counts why placeholders go", Rule.GANG_COUNTS, Replaced(TaskGroup.count_release, nothing), (GANGS,)),
    Mutant(
        "a replaced placeholder is not counted",
        Rule.GANG_COUNTS,
        Replaced(swaps.complete_swap, replaced_uncounted),
        (GANGS,),
    ),
    Mutant(
        "placeholders that time out are counted once",
        Rule.GANG_COUNTS,
        Replaced(TaskGroup.count_timed_out, lambda original, group, count: original(group, 1)),
        (GANGS,),
    ),
    # Recovery
    Mutant(
        "only the first existing allocation of a node is checked",
        Rule.RECOVERY,
        Replaced(existing.mistake, first_existing_alone),
        (ANY_WORLD,),
    ),
    Mutant(
        "an allocation is taken over twice",
        Rule.RECOVERY,
        Replaced(existing._contradiction, knows_no_allocation),
        (TestsOf(test_existing_in_updates),),
    ),
    Mutant(
        "an unclaimed allocation still uses its node when it has joined its application",
        Rule.LEDGERS,
        left_out(unclaimed.end, commit_unclaimed.drop),
        (ANY_WORLD,),
    ),
    Mutant(
        "what comes for an application overtakes what waited for it",
        Rule.EARLY_ITEMS,
        Replaced(EarlyItems.has_backlog, gives(False)),
        (UnitTested(test_early.test_what_comes_meanwhile_waits_behind_what_came_before),),
    ),
    # Views
    Mutant(
        "entitled room is shown as all that is reserved", Rule.VIEWS, Replaced(view._node, entitled_alone), (ANY_WORLD,)
    ),
    Mutant(
        "what awaits a placeholder is shown as pending",
        Rule.VIEWS,
        Replaced(view._ask, awaiting_as_pending),
        (ANY_WORLD,),
    ),
)
