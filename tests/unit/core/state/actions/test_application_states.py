"""Every legal move of an application as a story through the scheduler, and every illegal one refused (SEMANTICS A)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import pytest

from schedulerd.core.language.commands import TerminationType, UpdateConfiguration
from schedulerd.core.language.facts.fact import ApplicationChanged, ApplicationRejected, Fact
from schedulerd.core.language.fsm import IllegalMove
from schedulerd.core.language.lifecycles import ApplicationState, ApplicationTrigger
from schedulerd.core.language.specs import MILLISECOND_NS, SECOND_NS, Timeouts
from schedulerd.core.state.actions import application_states
from schedulerd.core.state.step_context import StepContext
from schedulerd.wire.dialect import Stream
from tests.loops import each_row
from tests.unit.core.application_table import TABLE, Cell
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_partition_spec,
    a_placeholder,
    an_app,
    an_ask,
    of,
    only,
    states,
)
from tests.unit.core.gang_builders import a_gang
from tests.unit.core.heard import responses, updated

S = ApplicationState
T = ApplicationTrigger
TIMES = Timeouts()
LIMIT_NS = 2_000 * MILLISECOND_NS
TIMED_OUT = TerminationType.TIMEOUT

Moves = Callable[[Conversation], list[Fact]]


def submitted(talk: Conversation) -> list[Fact]:
    return talk.apps(an_app("job"))


def asks(talk: Conversation) -> list[Fact]:
    return talk.asks(an_ask("k", app="job"))


def places(talk: Conversation) -> list[Fact]:
    return talk.schedule()


def releases(talk: Conversation) -> list[Fact]:
    return talk.release(application_id="job")


def takes_its_asks_back(talk: Conversation) -> list[Fact]:
    return talk.release_asks(application_id="job")


def half_a_gang(style: str) -> Moves:
    """A gang of three of which one has room; it may take two seconds."""

    def submit(talk: Conversation) -> list[Fact]:
        talk.apps(a_gang("job", 300, gang_style=style, execution_timeout_ms=2_000))
        return talk.asks(a_placeholder("p", 100, 3, "job"))

    return submit


def a_soft_gang(talk: Conversation) -> list[Fact]:
    """A complete one of two, which may take two seconds when it is incomplete again."""
    talk.apps(a_gang("job", 20, gang_style="Soft", execution_timeout_ms=2_000))
    return talk.asks(a_placeholder("p", 10, 2, "job")) + talk.schedule()


def asks_for_another_member(talk: Conversation) -> list[Fact]:
    """One that has no room."""
    return talk.asks(a_placeholder("q", 500, 1, "job"))


def limited_run(talk: Conversation) -> list[Fact]:
    """It may run for two seconds."""
    return talk.apps(an_app("job", execution_timeout_ms=2_000))


def rejected(talk: Conversation) -> list[Fact]:
    return talk.apps(an_app("job", "root.nowhere"))


def sleeps(ns: int) -> Moves:
    return lambda talk: talk.sleep(ns)


def confirms(talk: Conversation) -> list[Fact]:
    return talk.release(application_id="job", termination=TIMED_OUT)


def loses_its_partition(talk: Conversation) -> list[Fact]:
    return talk.step(UpdateConfiguration(RM, (a_partition_spec(name="another"),)))


NO_PARTITION = "partition default is no longer in the queue file"
GANG_TIMEOUT = "ResourceReservationTimeout"
RUN_TIMEOUT = "ExecutionTimeout"


@dataclass(frozen=True)
class Story:
    """What happens one after the other; the last makes the move, and `cause` is what is said of it."""

    steps: tuple[Moves, ...]
    cause: str
    is_forgotten: bool = False
    """Nothing can be seen of the application afterwards."""


RUNS = (submitted, asks, places)
FAILS = (half_a_gang("Hard"), places, sleeps(LIMIT_NS))
LIMITED = (limited_run, asks, places, sleeps(LIMIT_NS))

STORIES: dict[Cell, Story] = {
    (S.NEW, T.RUN): Story((submitted, asks), "runApplication"),
    (S.NEW, T.FAIL): Story((submitted, loses_its_partition), NO_PARTITION, is_forgotten=True),
    (S.ACCEPTED, T.RUN): Story(RUNS, "runApplication"),
    (S.ACCEPTED, T.COMPLETE): Story((submitted, asks, takes_its_asks_back), "completeApplication"),
    (S.ACCEPTED, T.FAIL): Story(FAILS, GANG_TIMEOUT),
    (S.ACCEPTED, T.RESUME): Story((half_a_gang("Soft"), places, sleeps(LIMIT_NS)), GANG_TIMEOUT),
    (S.STARTING, T.RUN): Story((*RUNS, sleeps(TIMES.starting_ns)), "runApplication"),
    (S.STARTING, T.COMPLETE): Story((*RUNS, releases), "completeApplication"),
    (S.STARTING, T.FAIL): Story(LIMITED, RUN_TIMEOUT),
    (S.STARTING, T.RESUME): Story((a_soft_gang, asks_for_another_member, sleeps(LIMIT_NS)), GANG_TIMEOUT),
    (S.RUNNING, T.COMPLETE): Story((*RUNS, sleeps(TIMES.starting_ns), releases), "completeApplication"),
    (S.RUNNING, T.FAIL): Story((*RUNS, sleeps(TIMES.starting_ns), loses_its_partition), NO_PARTITION, True),
    (S.RUNNING, T.RESUME): Story(
        (a_soft_gang, sleeps(TIMES.starting_ns), asks_for_another_member, sleeps(LIMIT_NS)), GANG_TIMEOUT
    ),
    (S.COMPLETING, T.RUN): Story((*RUNS, releases, asks), "runApplication"),
    (S.COMPLETING, T.RESUME): Story((half_a_gang("Hard"), takes_its_asks_back, asks), "resumeApplication"),
    (S.COMPLETING, T.COMPLETE): Story((*RUNS, releases, sleeps(TIMES.completing_ns)), "completeApplication"),
    (S.COMPLETED, T.EXPIRE): Story(
        (*RUNS, releases, sleeps(TIMES.completing_ns), sleeps(TIMES.retention_ns)), "expireApplication", True
    ),
    (S.FAILING, T.FAIL): Story((*FAILS, confirms), GANG_TIMEOUT),
    (S.FAILED, T.EXPIRE): Story((*FAILS, confirms, sleeps(TIMES.retention_ns)), "expireApplication", True),
    (S.REJECTED, T.EXPIRE): Story((rejected, sleeps(TIMES.retention_ns)), "expireApplication", True),
    (S.RESUMING, T.RUN): Story((half_a_gang("Soft"), places, sleeps(LIMIT_NS), confirms), "runApplication"),
}
"""All but three: a rejection is said in another way (below), what runs and runs on says nothing (below), and no gang's
time can be over while its application is New, as the placeholder that starts it has made it Accepted."""

WITHOUT_STORY = {(S.NEW, T.REJECT), (S.RUNNING, T.RUN), (S.NEW, T.RESUME)}


def a_talk() -> Conversation:
    talk = a_conversation(a_node("n1", {"memory": 100}))
    talk.remove("app")
    return talk


def log_of(talk: Conversation) -> list[tuple[int, str, str]]:
    """What is remembered of the life of `job`; nothing if it is not known."""
    if "default" not in talk.scheduler.cluster.resource_managers[RM].partitions:
        return []
    view = talk.view()
    return next((one.state_log for one in [*view.applications, *view.terminated] if one.application_id == "job"), [])


def test_every_legal_move_has_its_story() -> None:
    assert set(STORIES) | WITHOUT_STORY == set(TABLE)


@each_row("cell", STORIES, ids=lambda cell: f"{cell[0]} {cell[1]}")
def test_a_move_is_said_once_and_logged_and_told_with_its_time_and_cause(cell: Cell) -> None:
    story, talk = STORIES[cell], a_talk()
    for step in story.steps[:-1]:
        step(talk)
    before = log_of(talk)
    facts = story.steps[-1](talk)
    changed = next(iter(of(ApplicationChanged, facts)))
    if story.cause in (GANG_TIMEOUT, RUN_TIMEOUT):  # followed by the numbers
        assert changed.cause.startswith((f"{GANG_TIMEOUT}: after ", f"{RUN_TIMEOUT}: application job reached "))
        story = replace(story, cause=changed.cause)
    entry = (talk.now_ns, TABLE[cell].value, story.cause)
    assert (changed.old_state, changed.state, changed.cause) == (cell[0], TABLE[cell], story.cause)
    assert states(facts, "job").count(TABLE[cell]) == 1
    assert updated(facts)[0] == ("job", entry[1], entry[0], entry[2])
    if story.is_forgotten:
        assert log_of(talk) == []
    else:
        assert log_of(talk)[: len(before) + 1] == [*before, entry]


@pytest.mark.parametrize(("way", "cause"), [(FAILS, GANG_TIMEOUT), (LIMITED, RUN_TIMEOUT)])
def test_failed_says_why_like_failing(way: tuple[Moves, ...], cause: str) -> None:
    talk = a_talk()
    facts = [fact for step in (*way, confirms) for fact in step(talk)]
    messages = {state: message for key, state, _, message in updated(facts) if key == "job"}
    assert messages[S.FAILED.value] == messages[S.FAILING.value]
    assert messages[S.FAILED.value].startswith(f"{cause}: ")


def test_a_rejection_is_told_as_one_and_is_the_first_of_its_log() -> None:
    talk = a_talk()
    facts = rejected(talk)
    reason = only(ApplicationRejected, facts).reason
    changed = only(ApplicationChanged, facts)
    assert (changed.old_state, changed.state, changed.cause) == (None, S.REJECTED, reason)
    assert log_of(talk) == [(talk.now_ns, "Rejected", reason)]
    response = responses(facts)[Stream.APPLICATION]
    assert [(one.applicationID, one.reason) for one in response.rejected] == [("job", reason)]
    assert updated(facts) == []


def test_what_runs_and_runs_on_says_nothing() -> None:
    talk = a_talk()
    submitted(talk)
    talk.asks(an_ask("k", app="job", count=5))
    assert states(talk.cycle(2), "job") == [S.STARTING, S.RUNNING]
    before = log_of(talk)
    talk.now_ns += 1
    assert states(talk.schedule(), "job") == []
    assert log_of(talk) == before


@each_row(
    ("state", "trigger"),
    [cell for cell in product(S, T) if cell not in TABLE],
    ids=lambda one: str(one),
)
def test_an_illegal_move_is_refused_and_nothing_changes(state: S, trigger: T) -> None:
    talk = a_talk()
    submitted(talk)
    asks(talk)
    application = talk.model().applications["job"]
    application.state = state
    alarms, log = talk.scheduler.cluster.alarms.live(), list(application.state_log)
    turn = StepContext(talk.scheduler.cluster, talk.now_ns)
    with pytest.raises(IllegalMove):
        application_states.fire(turn, application, trigger)
    assert (application.state, list(application.state_log), turn.facts) == (state, log, [])
    assert talk.scheduler.cluster.alarms.live() == alarms
    assert talk.model().applications["job"] is application


def test_a_whole_life_is_logged_in_order_and_told_the_same_way() -> None:
    talk = a_talk()
    start_ns = talk.now_ns
    facts = submitted(talk)
    for step in (asks, places, releases, asks, places, releases):
        talk.now_ns += SECOND_NS
        facts += step(talk)
    facts += talk.sleep(TIMES.completing_ns)
    run, complete = "runApplication", "completeApplication"
    expected = [
        (start_ns + 1 * SECOND_NS, "Accepted", run),
        (start_ns + 2 * SECOND_NS, "Starting", run),
        (start_ns + 3 * SECOND_NS, "Completing", complete),
        (start_ns + 4 * SECOND_NS, "Running", run),
        (start_ns + 6 * SECOND_NS, "Completing", complete),
        (start_ns + 6 * SECOND_NS + TIMES.completing_ns, "Completed", complete),
    ]
    assert log_of(talk) == expected
    assert updated(facts) == [("job", state, at_ns, cause) for at_ns, state, cause in expected]


def test_the_log_keeps_the_latest_hundred() -> None:
    talk = a_talk()
    submitted(talk)
    for _ in range(120):
        talk.now_ns += SECOND_NS
        asks(talk)
        places(talk)
        releases(talk)
    log = log_of(talk)
    assert len(log) == 100
    assert [entry[1] for entry in log] == ["Running", "Completing"] * 50
    assert log[-1][0] == talk.now_ns
    assert [entry[0] for entry in log] == sorted(entry[0] for entry in log)
