"""Mutants of the Kubernetes shim's gangs."""

from __future__ import annotations

from typing import Any

from schedulerd.kubernetes.cluster import allocations, failing, pods
from schedulerd.kubernetes.cluster.gangs import (
    answers,
    declared,
    forming,
    late_declaration,
    life,
    membership,
    placeholder_pods,
    slots,
    surplus,
    waiting,
)
from schedulerd.kubernetes.cluster.gangs.model import Gang, Slot
from schedulerd.kubernetes.cluster.model import Application, Model, OwnPod
from schedulerd.kubernetes.metadata.application_ids import ApplicationId
from tests.kubernetes.cluster import (
    test_begun_anew,
    test_declared_gangs,
    test_gang_bound_elsewhere,
    test_gang_declared_late,
    test_gang_members,
    test_gang_metadata,
    test_gang_simulation,
    test_gang_sources,
    test_gang_stand_ins,
    test_gang_starts,
    test_gang_timeouts,
    test_gangs,
    test_lost_writes,
)
from tests.mutants.changes import By, Compares, Replaced, Within, getter, gives, left_out, nothing
from tests.mutants.finders import Seeds, TestsOf
from tests.mutants.mutant import Mutant
from tests.mutants.rules import Rule

GANGS = TestsOf(
    test_gangs,
    test_gang_members,
    test_gang_bound_elsewhere,
    test_gang_declared_late,
    test_gang_sources,
    test_gang_stand_ins,
    test_gang_starts,
)
DECLARED = TestsOf(test_declared_gangs)
SIMULATION = Seeds(lambda seed: test_gang_simulation.check(test_gang_simulation.play(seed, crashes=seed % 2 == 1)))


def all_pods(
    original: By, model: Model, application: Application, real: list[OwnPod]
) -> tuple[list[OwnPod], list[OwnPod]]:
    return real, [own for own in real if own.node]


def fails_each_time(
    original: By, model: Model, application: Application, gang: Gang, message: str, *, is_rejected: bool
) -> None:
    gang.has_failed_pods = False
    original(model, application, gang, message, is_rejected=is_rejected)


def of_the_next(original: By, originator_uid: str, application_id: str, group: str, index: int) -> str:
    return str(original(originator_uid + "'", application_id, group, index))


def at_once(original: By, model: Model, application: Application, slot: Any) -> None:
    slot.not_before_ns = model.now_ns


def until_asked_again(original: By, slot: Slot) -> bool:
    return slot.is_to_come or (slot.own is not None and slot.own.is_ask_rejected)


def over_by_the_clock(original: By, model: Model, application_id: ApplicationId, uid: str) -> bool:
    return bool(model.waiting_for_declaration[application_id][uid] <= model.now_ns)


MUTANTS = (
    Mutant(
        "real pods do not wait for their placeholders",
        Rule.SHIM_GANGS,
        Replaced(membership.may_ask, gives(True)),
        (GANGS,),
    ),
    Mutant(
        "nothing stands in for a placeholder that is to be made again",
        Rule.SHIM_GANGS,
        Replaced(slots._stand_in, nothing),
        (GANGS, SIMULATION),
    ),
    Mutant(
        "what stands in for a placeholder stays",
        Rule.SHIM_GANGS,
        Replaced(slots.end_stand_ins, nothing),
        (GANGS, SIMULATION),
    ),
    Mutant(
        "what stands in for a placeholder stays when that is allocated after all",
        Rule.SHIM_GANGS,
        Replaced(getter(Slot, "is_missing"), until_asked_again),
        (GANGS,),
    ),
    Mutant(
        "a placeholder pod that somebody else has bound is not made again",
        Rule.SHIM_GANGS,
        left_out(pods.report_running, slots.replace_pod),
        (GANGS,),
    ),
    Mutant(
        "a placeholder pod that was gone when it was to be bound is not made again at once",
        Rule.SHIM_GANGS,
        left_out(allocations.bind_ended, slots.replace_pod),
        (GANGS,),
    ),
    Mutant(
        "a gang is complete when somebody else has bound a member",
        Rule.SHIM_GANGS,
        Replaced(membership.all_hold_room, gives(True)),
        (GANGS,),
    ),
    Mutant(
        "pods of a PodGroup do not wait for each other",
        Rule.SHIM_GANGS,
        Replaced(forming._is_whole, gives(True)),
        (GANGS,),
    ),
    Mutant(
        "placeholder pods are made though all members exist",
        Rule.SHIM_GANGS,
        Replaced(declared._all_exist, gives(False)),
        (DECLARED,),
    ),
    Mutant(
        "a new daemon is not told that the gang has begun",
        Rule.SHIM_GANGS,
        Within(declared._said, getter(Gang, "was_complete"), gives(False)),
        (DECLARED,),
    ),
    Mutant(
        "the daemon is not told that a PodGroup needs another number of members",
        Rule.SHIM_GANGS,
        Replaced(life._min_changed, nothing),
        (DECLARED,),
    ),
    Mutant(
        "a pod does not wait for the one that declares its task group",
        Rule.SHIM_GANGS,
        Replaced(late_declaration.missing_declaration, gives("")),
        (GANGS,),
    ),
    Mutant(
        "only the first pod of an application declares its gang",
        Rule.SHIM_GANGS,
        Replaced(late_declaration.declaring, gives([])),
        (GANGS,),
    ),
    Mutant(
        "an application is taken from the pod that waits for its declaration",
        Rule.SHIM_GANGS,
        Replaced(late_declaration.why_kept, gives(None)),
        (GANGS,),
    ),
    Mutant(
        "anybody declares a gang",
        Rule.SHIM_GANGS,
        Replaced(late_declaration._may_declare, gives(True)),
        (GANGS,),
    ),
    Mutant(
        "a wait for a declaration is over in the middle of a step",
        Rule.SHIM_GANGS,
        Replaced(late_declaration._is_over, over_by_the_clock),
        (GANGS,),
    ),
    Mutant(
        "a pod waits for a declaration in an application of its own",
        Rule.SHIM_GANGS,
        Replaced(late_declaration._is_shared, gives(True)),
        (GANGS,),
    ),
    Mutant(
        "a gang does not show what it waits for",
        Rule.SHIM_GANGS,
        Replaced(waiting.show, nothing),
        (GANGS,),
    ),
    Mutant(
        "placeholder pods are made before the daemon has accepted their gang",
        Rule.SHIM_PLACEHOLDERS,
        Compares(slots.place, ("application", "state"), "is"),
        (GANGS,),
    ),
    Mutant(
        "placeholders have other names with another shim",
        Rule.SHIM_PLACEHOLDERS,
        Replaced(placeholder_pods.name, of_the_next),
        (TestsOf(test_gang_metadata),),
    ),
    Mutant(
        "placeholders that nobody wants are left at a start",
        Rule.SHIM_PLACEHOLDERS,
        Replaced(life.remove_unwanted, nothing),
        (GANGS, SIMULATION),
    ),
    Mutant(
        "placeholders outlive their gang",
        Rule.SHIM_PLACEHOLDERS,
        Replaced(slots.clear, nothing),
        (GANGS, SIMULATION),
    ),
    Mutant(
        "room is held for a member that somebody else has bound",
        Rule.SHIM_PLACEHOLDERS,
        Replaced(surplus.runs_elsewhere, nothing),
        (GANGS, SIMULATION),
    ),
    Mutant(
        "members do not say who has bound them",
        Rule.SHIM_PLACEHOLDERS,
        Replaced(allocations._says_who_binds, gives(False)),
        (GANGS,),
    ),
    Mutant(
        "a new shim takes a gang for complete of which somebody else has bound a member",
        Rule.SHIM_PLACEHOLDERS,
        Replaced(forming._is_placed_here, gives(True)),
        (GANGS,),
    ),
    Mutant(
        "a new shim makes placeholders again that were used",
        Rule.SHIM_PLACEHOLDERS,
        Replaced(forming._is_placed_here, gives(False)),
        (GANGS,),
    ),
    Mutant(
        "a new shim counts pods of other users as members",
        Rule.SHIM_PLACEHOLDERS,
        Replaced(forming._without_others, all_pods),
        (GANGS,),
    ),
    Mutant(
        "a placeholder that is left over by a swap and a binding of somebody else stays",
        Rule.SHIM_PLACEHOLDERS,
        Replaced(surplus.allocated, nothing),
        (GANGS,),
    ),
    Mutant(
        "placeholders that are there are not adopted",
        Rule.SHIM_PLACEHOLDERS,
        Replaced(membership.adopt_found, gives([])),
        (GANGS,),
    ),
    Mutant(
        "placeholders are adopted whoever owns them",
        Rule.SHIM_PLACEHOLDERS,
        Replaced(membership._is_owned, gives(True)),
        (GANGS,),
    ),
    Mutant(
        "a refused creation is tried again at once",
        Rule.SHIM_PLACEHOLDERS,
        Replaced(membership.back_off, at_once),
        (GANGS,),
    ),
    Mutant(
        "placeholders outlive an application that is forgotten",
        Rule.SHIM_PLACEHOLDERS,
        Replaced(membership.forget, nothing),
        (TestsOf(test_begun_anew), DECLARED),
    ),
    Mutant(
        "a gang waits for its placeholders for ever",
        Rule.SHIM_GANG_TIME,
        Replaced(life._is_too_late, gives(False)),
        (GANGS,),
    ),
    Mutant(
        "pods of a Hard gang fail each time",
        Rule.SHIM_GANG_TIME,
        Replaced(life.failed, fails_each_time),
        (GANGS,),
    ),
    Mutant(
        "a pod that could not be failed stays pending",
        Rule.SHIM_GANG_TIME,
        Replaced(failing.fail_again, nothing),
        (TestsOf(test_lost_writes),),
    ),
    Mutant(
        "the time of a gang does not begin",
        Rule.SHIM_GANG_TIME,
        Replaced(answers.note_placed, nothing),
        (GANGS,),
    ),
    Mutant(
        "what a gang lacked is forgotten when its placeholders time out",
        Rule.SHIM_GANG_TIME,
        left_out(life.timed_out, waiting.note_timed_out),
        (TestsOf(test_gang_timeouts),),
    ),
    Mutant(
        "a gang that runs already asks again for placeholders whose time is over",
        Rule.SHIM_GANG_TIME,
        left_out(life.timed_out, life._end),
        (GANGS,),
    ),
    Mutant(
        "a gang that the daemon gives up goes on waiting",
        Rule.SHIM_GANG_TIME,
        left_out(life.updated, life._end),
        (GANGS,),
    ),
)
