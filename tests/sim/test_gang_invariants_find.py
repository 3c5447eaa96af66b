"""Every rule about gangs is shown to bite: what was said of a small story is lost or changed, and it is noticed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import pytest

from schedulerd.core.language.commands import (
    AllocationRelease,
    AskRelease,
    Command,
    ConnectResourceManager,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    RegisterResourceManager,
    RingAlarms,
    RunCycle,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.facts.fact import (
    Allocated,
    ApplicationChanged,
    AskAdded,
    AskWithdrawn,
    Fact,
    ReleaseCause,
    Released,
    ReleaseRequested,
)
from schedulerd.core.language.facts.gangs import GangCompleted, GangGaveWay, GangTimedOut, SwapRefused
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import MINUTE_NS
from schedulerd.core.views import view
from schedulerd.core.views.values import LimitView, ResourceManagerView
from tests.loops import each_row
from tests.sim.clusters import PARTITIONS
from tests.sim.gang_invariants import GangInvariants
from tests.sim.simulation import START_NS, new_scheduler

pytestmark = pytest.mark.interpreted

RM = "rm-b"
SIZE = Resources(memory=10)
WHOLE = Resources(memory=30)


class Step(NamedTuple):
    now_ns: int
    command: Command
    facts: list[Fact]
    state: list[ResourceManagerView]


Change = Callable[[Step], Step]


def _ask(application_id: str, key: str, group: str, *, memory: int = 10, placeholder: bool = False) -> NewAsk:
    return NewAsk(application_id, key, Resources(memory=memory), task_group=group, placeholder=placeholder)


class Storyteller:
    """Tells the story once, to the scheduler itself."""

    def __init__(self) -> None:
        self._scheduler = new_scheduler()
        self.steps: list[Step] = []

    def tell(self, command: Command, after_ns: int = 0) -> list[Fact]:
        now_ns = (self.steps[-1].now_ns if self.steps else START_NS) + after_ns
        facts = self._scheduler.step(now_ns, command)
        self.steps.append(Step(now_ns, command, facts, view.resource_managers(self._scheduler.cluster)))
        return facts

    def ask(self, *asks: NewAsk) -> None:
        self.tell(UpdateAllocations(RM, asks=list(asks)))
        self.tell(RunCycle(50))
        self.confirm()

    def confirm(self) -> None:
        requests = [fact for fact in self.steps[-1].facts if isinstance(fact, ReleaseRequested)]
        if requests:
            releases = [
                AllocationRelease(one.application_id, one.partition, one.uuid, termination=one.termination)
                for one in requests
            ]
            self.tell(UpdateAllocations(RM, releases=releases))

    def ring(self) -> None:
        deadline_ns = self._scheduler.next_deadline_ns()
        assert deadline_ns is not None
        self.tell(RingAlarms(), deadline_ns - self.steps[-1].now_ns)
        self.confirm()


@cache
def story() -> tuple[Step, ...]:
    """gang-1 is placed whole, has one ask swapped and one refused, loses the rest, and ends; gang-2 gets no gang."""
    teller = Storyteller()
    teller.tell(RegisterResourceManager(RM, PARTITIONS[RM]))
    teller.tell(ConnectResourceManager(RM))
    room = [("node-1", 50), ("node-2", 15)]
    nodes = [NodeUpdate(name, NodeAction.CREATE, capacity=Resources(memory=memory)) for name, memory in room]
    teller.tell(UpdateNodes(RM, nodes))
    gangs = [
        NewApplication("gang-1", "root.batch.fifo", user="ann", placeholder_ask=WHOLE, gang_style="Hard"),
        NewApplication("gang-2", "root.open", user="ann", placeholder_ask=WHOLE, gang_style="Soft"),
    ]
    teller.tell(UpdateApplications(RM, new=gangs))
    placeholders = (("ph-a-0", "a"), ("ph-a-1", "a"), ("ph-b", "b"))
    teller.ask(*(_ask("gang-1", key, group, placeholder=True) for key, group in placeholders))
    teller.ask(_ask("gang-1", "r-a", "a"))
    teller.ask(_ask("gang-1", "r-big", "b", memory=20))
    teller.ask(_ask("gang-2", "ph-c", "c", placeholder=True), _ask("gang-2", "ph-d", "c", memory=99, placeholder=True))
    states = {"gang-1": ApplicationState.RUNNING, "gang-2": ApplicationState.ACCEPTED}
    assert {item.application_id: item.state for item in teller.steps[-1].state[0].partitions[0].applications} == states
    while not any(isinstance(fact, GangTimedOut) for step in teller.steps[-2:] for fact in step.facts):
        teller.ring()
    teller.tell(UpdateAllocations(RM, releases=[AllocationRelease("gang-1")]))
    for _ in range(4):
        teller.ring()
    teller.tell(RingAlarms(), 10 * MINUTE_NS)
    return tuple(teller.steps)


def judged(change: Change) -> list[str]:
    invariants = GangInvariants()
    found: list[str] = []
    for step in story():
        found += invariants.after(*change(step._replace(facts=copy.deepcopy(step.facts))))
    return found


def test_the_story_is_sound_and_says_enough() -> None:
    assert judged(lambda step: step) == []
    said = [fact for step in story() for fact in step.facts]
    for kind in (GangCompleted, GangTimedOut, SwapRefused):
        assert any(isinstance(fact, kind) for fact in said)
    assert {fact.cause for fact in said if isinstance(fact, ReleaseRequested)} >= {
        ReleaseCause.REPLACED,
        ReleaseCause.TOO_SMALL,
        ReleaseCause.TIMED_OUT,
    }
    states = {fact.state for fact in said if isinstance(fact, ApplicationChanged)}
    assert {ApplicationState.RESUMING, ApplicationState.COMPLETING, ApplicationState.COMPLETED} <= states


def _is(fact: Fact, kind: type, fields: dict[str, Any]) -> bool:
    return isinstance(fact, kind) and all(getattr(fact, name) == value for name, value in fields.items())


def without(kind: type, **fields: object) -> Change:
    """The facts with these fields are not told."""
    return lambda step: step._replace(facts=[fact for fact in step.facts if not _is(fact, kind, fields)])


def told_as(kind: type, change: dict[str, Any], **fields: object) -> Change:
    """The facts with these fields are told otherwise."""

    def changed(fact: Fact) -> Fact:
        return replace(fact, **change) if _is(fact, kind, fields) else fact

    return lambda step: step._replace(facts=[changed(fact) for fact in step.facts])


def followed_by(said: Callable[[Any], Fact], kind: type, **fields: object) -> Change:
    """The facts with these fields are followed by another one."""

    def change(step: Step) -> Step:
        told = [[fact, said(fact)] if _is(fact, kind, fields) else [fact] for fact in step.facts]
        return step._replace(facts=[fact for facts in told for fact in facts])

    return change


def ends_of(application_id: str, *states: ApplicationState) -> Change:
    """The application is not said to leave these states, or to enter what comes after."""

    def change(step: Step) -> Step:
        gone = [
            fact
            for fact in step.facts
            if isinstance(fact, ApplicationChanged)
            and fact.application_id == application_id
            and fact.old_state in states
        ]
        return step._replace(facts=[fact for fact in step.facts if fact not in gone])

    return change


def limited_to_nothing(step: Step) -> Step:
    """The root queue is shown with a limit that lets no user have any memory."""
    none = LimitView(("*",), (), {"memory": 0}, 0)
    state = [
        replace(
            rm,
            partitions=[
                replace(one, queues=[replace(one.queues[0], limits=[none]), *one.queues[1:]]) for one in rm.partitions
            ],
        )
        for rm in step.state
    ]
    return step._replace(state=state)


def _asked_anew(fact: Allocated) -> AskAdded:
    return AskAdded(
        fact.rm_id, fact.partition, fact.queue, fact.application_id, fact.allocation_key, SIZE, 1, False, True
    )


def _waits_instead(step: Step) -> Step:
    facts = [_asked_anew(fact) if isinstance(fact, Allocated) and fact.replaces else fact for fact in step.facts]
    return step._replace(facts=facts)


def _takes_back(step: Step) -> Step:
    taken_back = UpdateAllocations(RM, ask_releases=[AskRelease("gang-1", allocation_key="r-a")])
    is_parked = any(_is(fact, ReleaseRequested, {"cause": ReleaseCause.REPLACED}) for fact in step.facts)
    return step._replace(command=taken_back) if is_parked else step


def _gang_gave_way(fact: GangCompleted) -> GangGaveWay:
    return GangGaveWay(RM, fact.partition, fact.queue, "gang-1", 3, in_favour_of="gang-2")


def _goes_on(state: ApplicationState) -> Callable[[ApplicationChanged], ApplicationChanged]:
    return lambda fact: replace(fact, old_state=fact.state, state=state)


S = ApplicationState
REPLACED, TIMED_OUT, TOO_SMALL = ReleaseCause.REPLACED, ReleaseCause.TIMED_OUT, ReleaseCause.TOO_SMALL

RULES: dict[str, tuple[Change, str]] = {
    "the gate": (told_as(Allocated, {"queue": "root.nothing"}, placeholder=True), "root.nothing, which has 0"),
    "the gate of a limit": (limited_to_nothing, "promised in root for user ann, which has 0"),
    "real asks wait for their gang": (
        without(Allocated, allocation_key="ph-b"),
        "is placed while 1 placeholders are pending",
    ),
    "swaps wait for their gang": (
        without(Allocated, allocation_key="ph-b"),
        "awaits a placeholder while 1 placeholders",
    ),
    "placeholders first": (told_as(Allocated, {"replaces": ""}, allocation_key="r-a"), "takes new room, though"),
    "awaits nothing": (without(ReleaseRequested, cause=REPLACED), "no placeholder of it asked to go"),
    "awaits another's": (
        told_as(ReleaseRequested, {"application_id": "gang-2"}, cause=REPLACED),
        "which is not its own",
    ),
    "awaits a small one": (
        told_as(Allocated, {"resources": Resources(memory=1)}, placeholder=True),
        "awaits one of {'memory': 1}",
    ),
    "awaits one of another group": (told_as(Allocated, {"task_group": "z"}, placeholder=True), "of task group z"),
    "real asks outlive the gang's time": (
        told_as(AskWithdrawn, {"placeholder": False}, application_id="gang-2"),
        "is withdrawn for a timeout of others",
    ),
    "replaced without being asked to": (
        told_as(Released, {"termination": TerminationType.PLACEHOLDER_REPLACED}, allocation_key="ph-b"),
        "ends as replaced, which it was not",
    ),
    "what gave way returns": (
        told_as(ReleaseRequested, {"cause": ReleaseCause.GAVE_WAY}, cause=TOO_SMALL),
        "gave way and is not asked for again",
    ),
    "the same node first": (told_as(Allocated, {"node_id": "node-2"}, allocation_key="r-a"), "takes room on node-2"),
    "another node then": (_waits_instead, "r-a waits anew, though there is room on"),
    "as many as do not fit": (told_as(SwapRefused, {"placeholders": 5}), "with 1 idle placeholders"),
    "complete with the last": (told_as(GangCompleted, {"placeholders": 7}), "before its last placeholder"),
    "out of time but once": (followed_by(copy.copy, GangTimedOut), "is out of time, though its gang began None"),
    "out of time is out of Accepted": (told_as(GangTimedOut, {"state": S.ACCEPTED}), "and still Accepted"),
    "out of time with everything": (without(ReleaseRequested, cause=TIMED_OUT), "not asked to go and 0 pending"),
    "the later one gives way": (followed_by(_gang_gave_way, GangCompleted), "which is no earlier incomplete gang"),
    "what is taken back": (_takes_back, "asks ['r-a'] await placeholders, and were taken back"),
    "nothing placed while it fails": (
        told_as(ApplicationChanged, {"state": S.FAILING}, state=S.STARTING),
        "is placed while it is Failing",
    ),
    "hard and soft": (told_as(ApplicationChanged, {"state": S.FAILING}, state=S.RESUMING), "with style 'Soft'"),
    "started by the whole gang": (without(Allocated, allocation_key="ph-b"), "is Starting with {'memory': 20}"),
    "time for real asks": (
        followed_by(_goes_on(S.COMPLETING), ApplicationChanged, old_state=S.RESUMING),
        "completes before a real ask can come",
    ),
    "completed in time": (
        followed_by(_goes_on(S.COMPLETED), ApplicationChanged, state=S.COMPLETING),
        "is Completed 0 ns after it was Completing",
    ),
    "gang timed out in time": (without(GangTimedOut), "its gang should be out of time by now"),
    "running in time": (ends_of("gang-1", S.STARTING, S.RUNNING, S.COMPLETING), "should be Running by now"),
    "ended in time": (ends_of("gang-1", S.COMPLETING), "should have ended by now"),
    "accepted no longer": (ends_of("gang-1", S.ACCEPTED), "has its whole gang and is still Accepted"),
}


@each_row(("change", "sentence"), RULES.values(), ids=RULES.keys())
def test_a_rule_notices(change: Change, sentence: str) -> None:
    found = judged(change)
    assert any(sentence in problem for problem in found), found


COUNTS: dict[str, tuple[Change, str]] = {
    "asks": (without(AskAdded, allocation_key="ph-c"), "pending placeholders of gang-2: facts say"),
    "wanted": (without(AskAdded, allocation_key="ph-d"), "wanted placeholders of gang-2: facts say 1"),
    "placed": (without(Allocated, allocation_key="ph-a-1"), "placed a of gang-1: facts say 1, the scheduler 2"),
    "idle": (without(ReleaseRequested, cause=REPLACED), "idle a of gang-1: facts say 2, the scheduler 1"),
    "awaiting": (
        without(AskWithdrawn, allocation_key="r-a"),
        "asks that await placeholders of gang-1: facts say 0, the scheduler 1",
    ),
    "replaced": (told_as(Allocated, {"replaces": ""}, allocation_key="r-a"), "replaced a of gang-1: facts say 0"),
    "unused": (
        told_as(ReleaseRequested, {"cause": TIMED_OUT}, cause=TOO_SMALL),
        "unused b of gang-1: facts say 0, the scheduler 1",
    ),
    "timed out": (
        without(ReleaseRequested, cause=TIMED_OUT),
        "timed out placeholders of gang-2: facts say 1, the scheduler 2",
    ),
    "gave back": (
        told_as(ReleaseRequested, {"cause": ReleaseCause.GAVE_WAY}, cause=TOO_SMALL),
        "gave_back b of gang-1: facts say 1, the scheduler 0",
    ),
    "its time": (without(GangTimedOut), "running gang of gang-2: facts say True, the scheduler False"),
    "left behind": (without(Released, allocation_key="ph-a-1"), "is Completed with 1 placeholders"),
}


@each_row(("change", "sentence"), COUNTS.values(), ids=COUNTS.keys())
def test_the_books_notice(change: Change, sentence: str) -> None:
    found = judged(change)
    assert any(sentence in problem for problem in found), found
