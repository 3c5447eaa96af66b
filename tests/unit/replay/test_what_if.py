"""What comes of a demand in another world: each case is a short history that is played by hand and then otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from schedulerd.core.language.commands import (
    Command,
    ConnectCallbacks,
    GivePredicateResults,
    NodeAction,
    NodeUpdate,
    PredicateResult,
    RingAlarms,
    RunCycle,
    TerminationType,
    UpdateAllocations,
    UpdateNodes,
)
from schedulerd.core.language.facts.fact import (
    Allocated,
    ApplicationForgotten,
    ApplicationRejected,
    AskAdded,
    Fact,
    Released,
    ReleaseRequested,
)
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.language.task_groups import GROUP_SLOT, SLOT_KEYS, TASK_GROUPS_TAG
from schedulerd.replay.demand import Demand
from schedulerd.replay.playback import Step
from schedulerd.replay.what_if import SETTLED_NS
from schedulerd.simulate.workload import Workload
from tests.loops import each_seed
from tests.unit.replay.commands import CONNECT, CYCLE, ask, node, queue_file, release, remove, submit
from tests.unit.replay.recorded import (
    RM,
    START_NS,
    History,
    Recording,
    after_s,
    derived,
    in_another_world,
    new_scheduler,
    played,
    registration,
    timed,
)

FactT = TypeVar("FactT", bound=Fact)


def under(demand: Demand, text: str) -> Demand:
    new = registration(text)
    return demand.under([RM], new.partitions, new.configuration)


def facts(steps: Sequence[Step], kind: type[FactT]) -> list[tuple[float, FactT]]:
    """Those of a kind, with the seconds since the start."""
    return [(after_s(step), fact) for step in steps for fact in step.facts if isinstance(fact, kind)]


def placed(steps: Sequence[Step]) -> list[tuple[float, str]]:
    return [(at_s, fact.allocation_key) for at_s, fact in facts(steps, Allocated)]


def ended(steps: Sequence[Step]) -> list[tuple[float, str]]:
    return [(at_s, fact.allocation_key) for at_s, fact in facts(steps, Released)]


def recorded(*moves: tuple[float, Command], cores: int = 4) -> History:
    """A history in which the queue holds so many pods at a time."""
    return timed((0, registration(queue_file(cores))), (0, CONNECT), (0, node()), (1, submit()), *moves)


FOUR = recorded(
    (2, ask("k1", "k2", "k3", "k4")),
    (2, CYCLE),
    (5, release("k1")),
    (6, release("k2")),
    (7, release("k3")),
    (8, release("k4")),
    (9, ask("k5")),
    (9, CYCLE),
    (11, release("k5")),
    (11.5, remove()),
)
"""Four pods that run 3, 4, 5 and 6 s, and one of 2 s a second after the last of them."""


@each_seed(range(3))
def test_the_same_file_gives_the_same_placements_at_the_same_times(seed: int) -> None:
    history = Recording(Workload(10, 4.0, seed), new_scheduler()).history
    as_it_was = [
        (step.now_ns, fact.allocation_key, fact.node_id)
        for step in played(history, new_scheduler())
        for fact in step.facts
        if isinstance(fact, Allocated)
    ]
    again = [
        (step.now_ns, fact.allocation_key, fact.node_id)
        for step in in_another_world(derived(history))
        for fact in step.facts
        if isinstance(fact, Allocated)
    ]
    assert len(as_it_was) > 300
    assert again == as_it_was


def test_what_one_command_ended_ends_in_its_order_whatever_was_placed_first() -> None:
    together = UpdateAllocations(RM, releases=[one for key in ("k3", "k1", "k2") for one in release(key).releases])
    steps = in_another_world(derived(recorded((2, ask("k1", "k2", "k3")), (2, CYCLE), (5, together))))
    assert ended(steps) == [(5, "k3"), (5, "k1"), (5, "k2")]


def test_with_less_quota_pods_begin_later_and_run_as_long() -> None:
    steps = in_another_world(under(derived(FOUR), queue_file(2)))
    assert placed(steps) == [(2, "k1"), (2, "k2"), (5, "k3"), (6, "k4"), (13, "k5")]
    assert ended(steps) == [(5, "k1"), (6, "k2"), (10, "k3"), (12, "k4"), (15, "k5")]


def test_with_more_quota_the_next_wave_comes_earlier() -> None:
    one_by_one = recorded(
        (2, ask("k1", "k2")),
        (2, CYCLE),
        (5, release("k1")),
        (5, CYCLE),
        (8, release("k2")),
        (9, ask("k3")),
        (9, CYCLE),
        cores=1,
    )
    steps = in_another_world(under(derived(one_by_one), queue_file(4)))
    assert placed(steps) == [(2, "k1"), (2, "k2"), (6, "k3")]


def test_an_application_is_removed_as_long_after_its_last_pod_as_it_was() -> None:
    for cores, removed_s in ((4, 11.5), (2, 15.5), (1, 23.5)):
        steps = in_another_world(under(derived(FOUR), queue_file(cores)))
        assert [at_s for at_s, _ in facts(steps, ApplicationForgotten)] == [removed_s]


def test_what_no_quota_has_room_for_is_not_placed_and_that_is_the_end() -> None:
    steps = in_another_world(under(derived(FOUR), queue_file(4).replace("vcore: 4", "vcore: 500m")))
    assert placed(steps) == []
    assert facts(steps, ApplicationForgotten) == []
    assert steps[-1].now_ns <= FOUR[-1][0] + SETTLED_NS


def test_nothing_is_said_of_an_application_that_is_not_taken() -> None:
    other = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: b}]}]}]"
    steps = in_another_world(under(derived(FOUR), other))
    assert [fact.application_id for _, fact in facts(steps, ApplicationRejected)] == ["app"]
    assert facts(steps, AskAdded) == []


def test_an_application_that_is_submitted_again_is_heard_again() -> None:
    twice = recorded(
        (2, ask("k1")),
        (2, CYCLE),
        (3, release()),
        (3, remove()),
        (5, submit(queue="root.b")),
        (6, ask("k2")),
        (6, CYCLE),
    )
    other = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: b}]}]}]"
    assert [key for _, key in placed(in_another_world(under(derived(twice), other)))] == ["k2"]


def test_a_cycle_runs_when_all_that_comes_at_an_instant_has_come() -> None:
    two = timed(
        (0, registration(queue_file(4))),
        (0, CONNECT),
        (0, node(cores=1)),
        (1, submit("later", "root.b")),
        (1, submit()),
        (2, ask("low", application_id="later")),
        (2, ask("high", priority=9)),
        (3, CYCLE),
    )
    steps = in_another_world(derived(two))
    assert placed(steps) == [(2, "high")]
    at_2s = [type(step.command).__name__ for step in steps if after_s(step) == 2]
    assert at_2s[:2] == ["UpdateAllocations", "UpdateAllocations"]
    assert set(at_2s[2:]) == {"RunCycle"}


def test_alarms_ring_when_they_are_due() -> None:
    steps = in_another_world(
        derived(recorded((2, ask("k", execution_timeout_ms=3_000)), (2, CYCLE), (2.1, RingAlarms())))
    )
    assert [at_s for at_s, _ in facts(steps, ReleaseRequested)] == [5]
    assert ended(steps) == [(5, "k")]


def test_what_the_scheduler_preempts_is_released_as_fast_as_it_was() -> None:
    timed_out = recorded(
        (2, ask("k", execution_timeout_ms=3_000)),
        (2, CYCLE),
        (5, RingAlarms()),
        (5.75, release("k", termination=TerminationType.TIMEOUT)),
        (6, ask("l", execution_timeout_ms=1_000)),
        (6, CYCLE),
    )
    steps = in_another_world(derived(timed_out))
    assert ended(steps) == [(5.75, "k"), (7.75, "l")]
    assert {fact.termination for _, fact in facts(steps, Released)} == {TerminationType.TIMEOUT}


def test_a_pod_that_is_leaving_does_not_end_twice() -> None:
    preempted = recorded(
        (2, ask("k", execution_timeout_ms=3_000)),
        (2, CYCLE),
        (5, RingAlarms()),
        (9, release("k", termination=TerminationType.TIMEOUT)),
    )
    steps = in_another_world(derived(preempted))
    assert ended(steps) == [(9, "k")]
    assert sum(after_s(step) == 9 and not isinstance(step.command, RunCycle) for step in steps) == 1


def test_a_new_guarantee_has_pods_of_others_preempted() -> None:
    full = timed(
        (0, registration(queue_file(8))),
        (0, CONNECT),
        (0, node()),
        (1, submit("big", "root.b")),
        (1, ask("v", application_id="big", max_allocations=8)),
        (1, CYCLE),
        (1, submit()),
        (2, ask("k", allow_preempt_other=True)),
        (2, CYCLE),
        (60, release(application_id="big")),
        (60, CYCLE),
    )
    assert placed(in_another_world(derived(full)))[-1] == (60, "k")
    steps = in_another_world(under(derived(full), queue_file(8, guaranteed_cores=4)))
    assert placed(steps)[-1] == (3, "k")
    assert [(at_s, fact.termination) for at_s, fact in facts(steps, Released)] == [
        (3, TerminationType.PREEMPTED_BY_SCHEDULER),
        *[(60, TerminationType.STOPPED_BY_RM)] * 7,
    ]


def test_a_gang_swaps_its_placeholders_by_itself() -> None:
    gang = recorded(
        (2, ask("p1", "p2", placeholder=True, task_group="g")),
        (2, CYCLE),
        (4, ask("r1", "r2", task_group="g")),
        (4, CYCLE),
        (5, release("p1", termination=TerminationType.PLACEHOLDER_REPLACED)),
        (5, release("p2", termination=TerminationType.PLACEHOLDER_REPLACED)),
        (8, release("r1")),
        (9, release("r2")),
    )
    steps = in_another_world(derived(gang))
    assert placed(steps) == [(2, "p1"), (2, "p2"), (5, "r1"), (5, "r2")]
    assert ended(steps) == [(5, "p1"), (5, "p2"), (8, "r1"), (9, "r2")]
    one_core = in_another_world(under(derived(gang), queue_file(1)))
    assert placed(one_core)[0] == (2, "p1")


DECLARES = {TASK_GROUPS_TAG: '[{"name": "g", "min": 2, "resources": {"vcore": 1000}}]'}
DECLARED = recorded(
    (2, submit("gang", tags=DECLARES)),
    (2, CYCLE),
    (4, ask("m1", "m2", "m3", application_id="gang", task_group="g")),
    (4, CYCLE),
    (8, release("m1", application_id="gang")),
    (9, release("m2", application_id="gang")),
    (9, release("m3", application_id="gang")),
)
"""A gang of two whose room is held for 2 s before its members come, and a third one."""


def members(found: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    return [one for one in found if not one[1].startswith(SLOT_KEYS)]


def test_a_gang_that_declares_its_task_groups_holds_room_anew() -> None:
    steps = in_another_world(derived(DECLARED))
    assert sorted(members(placed(steps))) == [(4, "m1"), (4, "m2"), (4, "m3")]
    assert members(ended(steps)) == [(8, "m1"), (9, "m2"), (9, "m3")]
    assert placed(steps)[:2] == [(2, f"{GROUP_SLOT}g")] * 2
    with_less = in_another_world(under(derived(DECLARED), queue_file(2)))
    assert sorted(members(placed(with_less))) == [(4, "m1"), (4, "m2"), (8, "m3")]
    assert members(placed(in_another_world(under(derived(DECLARED), queue_file(1))))) == []


def test_what_was_never_placed_runs_as_long_as_the_others() -> None:
    waiting = recorded((2, ask("k1", "k2")), (2, CYCLE), (5, release("k1")), cores=1)
    assert sorted(ended(in_another_world(under(derived(waiting), queue_file(2))))) == [(5, "k1"), (5, "k2")]


def test_what_a_resource_manager_reports_anew_is_a_beginning_in_both_worlds() -> None:
    again = (*FOUR[:7], *((START_NS + 20 * SECOND_NS + now_ns - START_NS, command) for now_ns, command in FOUR))
    steps = in_another_world(under(derived(list(again)), queue_file(1)))
    late = [(at_s, key) for at_s, key in placed(steps) if at_s >= 20]
    assert late == [(22, "k1"), (25, "k2"), (29, "k3"), (34, "k4"), (41, "k5")]
    assert [fact.uuid for at_s, fact in facts(steps, Released) if 20 <= at_s < 25] == []


def test_a_node_that_goes_takes_along_what_is_on_it_here() -> None:
    gone = UpdateNodes(RM, [NodeUpdate("n1", NodeAction.DECOMISSION)])
    steps = in_another_world(derived(recorded((2, ask("k")), (2, CYCLE), (4, gone), (4.5, node(name="n2")))))
    assert ended(steps) == [(4, "k")]


def test_a_resource_manager_answers_as_it_did() -> None:
    asked = recorded(
        (2, ConnectCallbacks(RM, predicates=True)),
        (2, node(name="n2")),
        (3, ask("k")),
        (3, CYCLE),
        (3.25, GivePredicateResults(RM, [PredicateResult(1, refusal="port in use")])),
        (3.25, CYCLE),
        (3.75, GivePredicateResults(RM, [PredicateResult(2)])),
        (4, ask("l")),
        (4, CYCLE),
    )
    as_it_was = [
        (fact.allocation_key, fact.node_id)
        for step in played(asked, new_scheduler())
        for fact in step.facts
        if isinstance(fact, Allocated)
    ]
    steps = in_another_world(derived(asked))
    nodes = [(at_s, fact.allocation_key, fact.node_id) for at_s, fact in facts(steps, Allocated)]
    assert [(key, node_id) for _, key, node_id in nodes][:1] == as_it_was
    assert [(at_s, key) for at_s, key, _ in nodes] == [(3.75, "k"), (4.25, "l")]
