"""What of a history is demand: each case is a short history that is played by hand."""

from __future__ import annotations

from schedulerd.core.language.commands import (
    AbsenceCause,
    AllocationRelease,
    Command,
    ConnectCallbacks,
    DisconnectResourceManager,
    ExistingAllocation,
    GivePredicateResults,
    NodeAction,
    NodeUpdate,
    PredicateResult,
    RegisterResourceManager,
    ReportUtilization,
    RingAlarms,
    StopCause,
    StopResourceManager,
    TerminationType,
    UpdateAllocations,
    UpdateConfiguration,
    UpdateNodes,
)
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.replay.demand import Answer, ApplicationDemand, Demand, Question
from schedulerd.replay.names import ApplicationName
from tests.unit.replay.commands import (
    CONNECT,
    CORE,
    CYCLE,
    ask,
    node,
    queue_file,
    release,
    release_ask,
    remove,
    submit,
)
from tests.unit.replay.recorded import RM, START_NS, derived, registration, timed

BEGINNING: tuple[tuple[float, Command], ...] = (
    (0, registration(queue_file())),
    (0, CONNECT),
    (0, node()),
    (1, submit()),
)
"""Two pods fit into the queue at a time."""
APP = ApplicationName(RM, "default", "app")


def demand(*moves: tuple[float, Command]) -> Demand:
    return derived(timed(*BEGINNING, *moves))


def only(demand: Demand) -> ApplicationDemand:
    (application,) = demand.applications
    return application


def sends(application: ApplicationDemand) -> list[tuple[float, list[tuple[float, Command]]]]:
    """Of each chapter, the pause before it and what is said in it, in seconds."""
    return [
        (chapter.pause_ns / SECOND_NS, [(send.after_ns / SECOND_NS, send.command) for send in chapter.sends])
        for chapter in application.chapters
    ]


def run_s(demand: Demand) -> dict[str, list[float | None]]:
    return {
        key: [None if run.run_ns is None else run.run_ns / SECOND_NS for run in runs]
        for key, runs in only(demand).runs.items()
    }


def test_a_pod_runs_from_its_placement_to_its_release_however_it_is_named() -> None:
    found = demand(
        (2, ask("k1", "k2")),
        (3, CYCLE),
        (5, release(uuid="uuid-1")),
        (6, ask("k3")),
        (8, CYCLE),
        (9, release("k3")),
        (10, release()),
    )
    assert run_s(found) == {"k1": [2], "k2": [7], "k3": [1]}


def test_each_allocation_of_an_ask_has_its_time_in_the_order_of_placement() -> None:
    found = demand(
        (2, ask("k", max_allocations=3)), (3, CYCLE), (5, release(uuid="uuid-2")), (6, CYCLE), (9, release())
    )
    assert run_s(found) == {"k": [6, 2, 3]}


def test_what_is_still_there_at_the_end_runs_for_ever() -> None:
    assert run_s(demand((2, ask("k")), (3, CYCLE), (9, RingAlarms()))) == {"k": [None]}


def test_what_ends_with_its_application_or_its_resource_manager_ran_until_then() -> None:
    assert run_s(demand((2, ask("k")), (3, CYCLE), (9, remove()))) == {"k": [6]}
    assert run_s(demand((2, ask("k")), (3, CYCLE), (9, registration()))) == {"k": [6]}


def test_releases_cycles_alarms_and_reports_are_no_demand() -> None:
    found = demand((2, ask("k")), (3, CYCLE), (4, ReportUtilization(RM, [])), (5, release()), (6, RingAlarms()))
    assert [type(command).__name__ for _, _, command in found.commands] == [
        "RegisterResourceManager",
        "ConnectResourceManager",
        "UpdateNodes",
    ]
    assert sends(only(found)) == [(0, [(0, submit())]), (1, [(0, ask("k"))])]
    assert found.end_ns == START_NS + 6 * SECOND_NS


def test_what_is_said_when_all_was_over_comes_as_long_after_that() -> None:
    found = demand(
        (2, ask("k1")),
        (2.5, ask("k2")),
        (3, CYCLE),
        (5, release("k1")),
        (6, release("k2")),
        (6.25, ask("k3")),
        (7, CYCLE),
        (8, release("k3")),
        (10, remove()),
    )
    assert sends(only(found)) == [
        (0, [(0, submit())]),
        (1, [(0, ask("k1")), (0.5, ask("k2"))]),
        (0.25, [(0, ask("k3"))]),
        (2, [(0, remove())]),
    ]


def test_a_removal_while_something_runs_is_a_chapter_without_a_pause_and_takes_back_what_waits() -> None:
    found = demand((2, ask("k1", "k2", "k3")), (3, CYCLE), (5, remove()))
    assert sends(only(found)) == [
        (0, [(0, submit())]),
        (1, [(0, ask("k1", "k2", "k3")), (3, release_ask("k3", partition="default"))]),
        (0, [(0, remove())]),
    ]


def test_an_ask_release_is_demand_if_it_took_something_back() -> None:
    found = demand((2, ask("k1", "k2", "k3")), (3, CYCLE), (4, release_ask("k1")), (5, release_ask()))
    assert sends(only(found))[1:] == [(1, [(0, ask("k1", "k2", "k3")), (3, release_ask("k3", partition="default"))])]


def test_an_ask_that_comes_before_its_application_belongs_to_it() -> None:
    found = derived(timed(*BEGINNING[:3], (1, ask("k")), (2, submit()), (3, CYCLE), (5, release())))
    assert sends(only(found)) == [(0, [(0, ask("k"))]), (1, [(0, submit())])]
    assert run_s(found) == {"k": [2]}


def test_an_id_that_is_used_again_goes_on_in_the_same_story() -> None:
    found = demand((2, ask("k")), (3, CYCLE), (4, release()), (4, remove()), (9, submit()), (9, ask("k")), (9, CYCLE))
    assert [pause_s for pause_s, _ in sends(only(found))] == [0, 1, 0, 5, 0]
    assert run_s(found) == {"k": [1, None]}


def test_a_placeholder_ends_when_it_is_not_needed_unless_its_resource_manager_says_so() -> None:
    history = timed(
        *BEGINNING[:3],
        (1, submit(execution_timeout_ms=60_000)),
        (2, ask("p1", "p2", placeholder=True, task_group="g")),
        (2, CYCLE),
        (4, ask("r1", task_group="g")),
        (4, CYCLE),
        (5, release(uuid="uuid-1", termination=TerminationType.PLACEHOLDER_REPLACED)),
        (7, release("p2")),
        (9, release("r1")),
    )
    found = derived(history)
    assert run_s(found) == {"p1": [None], "p2": [5], "r1": [4]}
    assert found.usual_confirmation_ns == {TerminationType.PLACEHOLDER_REPLACED: SECOND_NS}
    assert only(found).usual_run_ns == 4 * SECOND_NS
    assert [pause_s for pause_s, _ in sends(only(found))] == [0, 1, 2]


def test_an_rm_that_registers_anew_begins_anew() -> None:
    again = registration(queue_file())
    found = demand((2, ask("k")), (3, CYCLE), (9, again), (9, CONNECT), (9, node()), (10, submit()), (11, ask("k")))
    assert [application.name for application in found.applications] == [APP, APP]
    assert [application.begins_ns for application in found.applications] == [
        START_NS + SECOND_NS,
        START_NS + 10 * SECOND_NS,
    ]


def test_a_goodbye_and_the_end_of_the_daemon_are_no_demand() -> None:
    gone = DisconnectResourceManager(RM, AbsenceCause.GONE)
    assert demand((3, gone), (3, StopResourceManager(RM, StopCause.UNREGISTERED))).commands[3:] == []
    assert demand((3, DisconnectResourceManager(RM, AbsenceCause.SHUTDOWN))).commands[3:] == []
    assert demand((3, StopResourceManager(RM, StopCause.UNREGISTERED)), (3, gone), (3, ask("k"))).commands[3:] == []
    assert [command for _, _, command in demand((3, gone), (4, CONNECT)).commands[3:]] == [gone, CONNECT]


def test_what_was_never_placed_is_expected_to_run_as_the_others_did() -> None:
    found = demand(
        (2, ask("k1", "k2", "k3")),
        (2, CYCLE),
        (3, release("k1")),
        (7, release("k2")),
        (7, submit("other")),
        (7, submit("elsewhere", "root.b")),
    )
    usual_s = {one.name.application_id: one.usual_run_ns for one in found.applications}
    assert usual_s["app"] == usual_s["other"] == SECOND_NS
    assert found.applications[0].run("k3", 0, placeholder=False).run_ns == SECOND_NS
    assert found.applications[0].run("k3", 0, placeholder=True).run_ns is None
    assert usual_s["elsewhere"] is None


def test_a_result_is_the_answer_to_its_question() -> None:
    found = demand(
        (2, ConnectCallbacks(RM, predicates=True)),
        (2, node(name="n2")),
        (3, ask("k1", "k2")),
        (3, CYCLE),
        (4, GivePredicateResults(RM, [PredicateResult(1, refusal="port in use")])),
        (20, RingAlarms()),
    )
    refused = [question for question, answer in found.answers.items() if answer == Answer(SECOND_NS, "port in use")]
    silent = [question for question, answer in found.answers.items() if answer is None]
    assert [question.allocation_key for question in refused] == ["k1"]
    assert [question.allocation_key for question in silent] == ["k2"]
    assert isinstance(refused[0], Question)
    assert found.usual_answer_ns == SECOND_NS


def test_another_queue_file_holds_from_the_beginning_to_the_end() -> None:
    new = registration(queue_file(7))
    reload = UpdateConfiguration(RM, new.partitions, new.configuration)
    other_rm = registration(queue_file(3), rm_id="rm-2")
    found = demand((3, reload), (4, other_rm))
    assert {rm_id: file.checksum for rm_id, file in found.configurations().items()} == {
        RM: new.configuration.checksum,
        "rm-2": other_rm.configuration.checksum,
    }
    wanted = registration(queue_file(9))
    under = found.under([RM], wanted.partitions, wanted.configuration)
    registered = [command for _, _, command in under.commands if isinstance(command, RegisterResourceManager)]
    assert [command.partitions for command in registered] == [wanted.partitions, other_rm.partitions]
    assert not any(isinstance(command, UpdateConfiguration) for _, _, command in under.commands)
    assert len(under.commands) == len(found.commands) - 1


def test_an_unclaimed_allocation_comes_with_its_node_and_is_released_when_it_was() -> None:
    existing = [ExistingAllocation("gone", "k", uuid, CORE) for uuid in ("e1", "e2")]
    reports = UpdateNodes(RM, [NodeUpdate("n2", NodeAction.CREATE, capacity=CORE.times(8), existing=existing)])
    found = demand((2, reports), (5, release(uuid="e1", application_id="gone")), (6, remove("gone")))
    after = [((at_ns - START_NS) / SECOND_NS, command) for at_ns, _, command in found.commands[3:]]
    first, second = (
        UpdateAllocations(RM, releases=[AllocationRelease("gone", "default", one)]) for one in ("e1", "e2")
    )
    assert after == [(2, reports), (5, first), (6, second)]
