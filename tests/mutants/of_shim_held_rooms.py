"""Mutants of the room that is held for the members of gangs, by placeholder pods and by the daemon."""

from __future__ import annotations

from schedulerd.kubernetes.cluster import allocations, pods, questions
from schedulerd.kubernetes.cluster.gangs import giving_way, held_rooms, holds, leaving
from schedulerd.kubernetes.cluster.model import Application, Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import PodTrigger
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates import held_room
from tests.kubernetes.cluster import test_core_simulation, test_exclusive_gangs, test_held_rooms, test_holds
from tests.mutants.changes import By, Replaced, Within, gives, left_out, nothing
from tests.mutants.finders import Seeds, TestsOf
from tests.mutants.mutant import Mutant
from tests.mutants.rules import Rule

ROOMS = TestsOf(test_held_rooms)
HOLDS = TestsOf(test_holds)


def counts_as_itself(original: By, placeholder: Pod, member: Pod) -> Pod:
    return placeholder


def only_the_pod(original: By, model: Model, own: OwnPod, trigger: PodTrigger) -> None:
    own.stop_asking(trigger)


def the_oldest(original: By, model: Model, stuck: list[Application]) -> list[Application]:
    return stuck[: giving_way.GANGS_MAX]


MUTANTS = (
    Mutant(
        "a placeholder counts as itself",
        Rule.SHIM_HELD_ROOMS,
        Replaced(held_room._like, counts_as_itself),
        (ROOMS, Seeds(lambda seed: test_exclusive_gangs.check(test_exclusive_gangs.play(seed)), 25)),
    ),
    Mutant(
        "a node that suits a pod is promised to others as well",
        Rule.SHIM_HELD_ROOMS,
        Replaced(questions.promise, nothing),
        (ROOMS,),
    ),
    Mutant(
        "room that the daemon holds no longer counts all the same",
        Rule.SHIM_HELD_ROOMS,
        Replaced(holds.freed, nothing),
        (HOLDS, Seeds(lambda seed: test_core_simulation.check_gangs(test_core_simulation.play_gangs(seed)))),
    ),
    Mutant(
        "the room that a member takes is free until it is allocated",
        Rule.SHIM_HELD_ROOMS,
        left_out(holds.freed, questions.promise),
        (HOLDS,),
    ),
    Mutant(
        "what was promised to a task group counts beside what is held for it",
        Rule.SHIM_HELD_ROOMS,
        Replaced(questions.take_promise, gives("")),
        (HOLDS,),
    ),
    Mutant(
        "a pod that is withdrawn counts where room was held for it",
        Rule.SHIM_HELD_ROOMS,
        Replaced(Model.stop_asking, only_the_pod),
        (HOLDS,),
    ),
    Mutant(
        "a member is judged with all placeholders of its gang",
        Rule.SHIM_HELD_ROOMS,
        Within(questions.predicates, held_rooms.idle_on, gives([])),
        (ROOMS,),
    ),
    Mutant(
        "the room of a placeholder that a member replaces is free at once",
        Rule.SHIM_HELD_ROOMS,
        left_out(pods.gone, held_rooms.keep),
        (ROOMS,),
    ),
    Mutant(
        "the room that a member has got is kept as well",
        Rule.SHIM_HELD_ROOMS,
        left_out(allocations.allocated, held_rooms.taken),
        (ROOMS,),
    ),
    Mutant(
        "gangs that exclude each other hold their parts for ever",
        Rule.SHIM_HELD_ROOMS,
        Replaced(giving_way.check, nothing),
        (ROOMS,),
    ),
    Mutant(
        "gangs that nobody can help keep others from being helped",
        Rule.SHIM_HELD_ROOMS,
        Replaced(giving_way._next_ones, the_oldest),
        (ROOMS,),
    ),
    Mutant(
        "a member leaves the room of its gang though another one cannot",
        Rule.SHIM_HELD_ROOMS,
        Replaced(leaving.strands_another, gives(False)),
        (ROOMS,),
    ),
)
