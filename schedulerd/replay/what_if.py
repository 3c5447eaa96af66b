"""What-if: the same demand under other queue files.

The scheduler is the real one. Simulated resource managers send the demand when it is due, let each pod run for its time
from its placement here, and confirm requests of the scheduler as fast as in the record. A cycle runs whenever the
scheduler wants one, after all commands of an instant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias

from schedulerd.core.language.commands import (
    AllocationRelease,
    Command,
    GivePredicateResults,
    PredicateResult,
    RingAlarms,
    RunCycle,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
)
from schedulerd.core.language.facts.fact import (
    Allocated,
    AllocationChanged,
    ApplicationAccepted,
    ApplicationRejected,
    Fact,
    RejectCode,
    Released,
    ReleaseRequested,
    ResourceManagerChanged,
)
from schedulerd.core.language.facts.predicates import PredicateWanted, PreemptionPredicateWanted
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.specs import MINUTE_NS
from schedulerd.core.scheduler import Scheduler
from schedulerd.replay.demand import Answer, ApplicationDemand, Demand, Origin, Run, Send, is_idle
from schedulerd.replay.derivation import question_of
from schedulerd.replay.names import ApplicationName, PodName, application_of, pod_of
from schedulerd.replay.playback import Step

SETTLED_NS = 10 * MINUTE_NS
"""The run ends when nothing is to come and nothing was placed or released for so long."""

_Act: TypeAlias = Callable[[], Command | None]
"""A due action; gives None if it is no longer needed."""


@dataclass(slots=True, eq=False)
class _Course:
    """How far an application has come."""

    demand: ApplicationDemand
    name: ApplicationName
    """As it is called here: the queue file may spell its partition otherwise."""
    chapter: int = 0
    unsent: int = 0
    """Of this chapter."""
    is_over: bool = False
    """Whether its resource manager has registered again or is gone."""
    is_rejected: bool = False
    """It was not accepted, so it does not count until it is submitted again."""
    placed: Counter[str] = field(default_factory=Counter)
    """By allocation key, how many so far."""


@dataclass(slots=True, eq=False)
class _Pod:
    """An allocation that is there."""

    placement: Allocated
    run: Run
    is_leaving: bool = False
    """The scheduler has requested its release, and the confirmation is to come."""


class WhatIf:
    """Iterate over it once, for the steps of the other world in their order."""

    def __init__(self, demand: Demand, scheduler: Scheduler) -> None:
        """`scheduler` is an empty one that makes UUIDs of its own."""
        self._demand = demand
        self._scheduler = scheduler
        self._serials = count()
        self._numbers = count(1)
        self._agenda: list[tuple[int, Origin, int, _Act, _Course | None]] = []
        """(time, what it goes back to, serial, what, of whom): what was first is first here."""
        self._begun: dict[_Course, None] = {}
        self._accepted: dict[ApplicationName, _Course] = {}
        self._pods: dict[PodName, _Pod] = {}
        self._answers_due = 0
        """How many entries of the agenda are answers."""
        self._moved_ns = demand.end_ns
        for at_ns, number, command in demand.commands:
            self._at(at_ns, Origin(number), partial(_as_it_is, command))
        for application in demand.applications:
            self._begin_chapter(_Course(application, application.name), application.begins_ns)

    def __iter__(self) -> Iterator[Step]:
        """Ends when all demand is done, or nothing changes any more."""
        while (now_ns := self._next_ns()) is not None:
            yield from self._instant(now_ns)

    def _next_ns(self) -> int | None:
        """When something happens next; None if nothing but alarms and answers to questions is to come for long."""
        due_ns = [entry[0] for entry in self._agenda[:1]]
        deadline_ns = self._scheduler.next_deadline_ns()
        if deadline_ns is not None:
            due_ns.append(deadline_ns)
        next_ns = min(due_ns, default=None)
        if next_ns is None or (len(self._agenda) == self._answers_due and next_ns > self._moved_ns + SETTLED_NS):
            return None
        return next_ns

    def _instant(self, now_ns: int) -> Iterator[Step]:
        """Handles all actions of one time, and what follows from them at once."""
        while True:
            if self._agenda and self._agenda[0][0] <= now_ns:
                _, _, _, act, course = heappop(self._agenda)
                command = act()
                if command is not None:
                    yield self._step(now_ns, command, course)
                elif course is not None:
                    self._turn_page(course, now_ns)
            elif (deadline_ns := self._scheduler.next_deadline_ns()) is not None and deadline_ns <= now_ns:
                yield self._step(now_ns, RingAlarms())
            elif self._scheduler.wants_cycle():
                yield self._step(now_ns, RunCycle(self._demand.placements_max))
            else:
                return

    def _step(self, now_ns: int, command: Command, course: _Course | None = None) -> Step:
        facts = self._scheduler.step(now_ns, command)
        touched = {course: None}
        for fact in facts:
            self._take(now_ns, fact, course)
            if hasattr(fact, "application_id"):
                touched[self._accepted.get(application_of(fact))] = None
        for one in touched:
            if one is not None:
                self._turn_page(one, now_ns)
        return Step(next(self._numbers), now_ns, command, facts)

    def _at(self, at_ns: int, origin: Origin, act: _Act, course: _Course | None = None) -> None:
        heappush(self._agenda, (at_ns, origin, next(self._serials), act, course))

    # applications ---------------------------------------------------------------------------------------------------

    def _begin_chapter(self, course: _Course, at_ns: int) -> None:
        chapter = course.demand.chapters[course.chapter]
        course.unsent = len(chapter.sends)
        for send in chapter.sends:
            self._at(at_ns + send.after_ns, send.origin, partial(self._send, course, send), course)

    def _send(self, course: _Course, send: Send) -> Command | None:
        course.unsent -= 1
        if course.is_over:
            return None
        self._begun[course] = None
        is_submission = isinstance(send.command, UpdateApplications) and bool(send.command.new)
        if course.is_rejected and not is_submission:
            return None
        return send.command

    def _turn_page(self, course: _Course, now_ns: int) -> None:
        """Begins the next chapter in its time, if this one is over."""
        chapters = course.demand.chapters
        if course.unsent or course.is_over or course.chapter + 1 == len(chapters):
            return
        if is_idle(self._scheduler, course.name):
            course.chapter += 1
            self._begin_chapter(course, now_ns + chapters[course.chapter].pause_ns)

    # facts ----------------------------------------------------------------------------------------------------------

    def _take(self, now_ns: int, fact: Fact, course: _Course | None) -> None:
        """`course` is of the application that the command of the fact is about, if there is one."""
        match fact:
            case Allocated(slot=True) | Released(slot=True):
                self._moved_ns = max(now_ns, self._moved_ns)
            case Allocated():
                self._place(now_ns, fact)
            case AllocationChanged():
                pod = self._pods[pod_of(fact)] = self._pods.pop(pod_of(fact)._replace(uuid=fact.old_uuid))
                pod.placement = replace(pod.placement, uuid=fact.uuid)
            case Released():
                self._moved_ns = max(now_ns, self._moved_ns)
                del self._pods[pod_of(fact)]
            case ReleaseRequested():
                self._confirm(now_ns, fact)
            case ApplicationAccepted() if course is not None:
                course.name, course.is_rejected = application_of(fact), False
                self._accepted[course.name] = course
            case ApplicationRejected() if course is not None and fact.code is not RejectCode.DUPLICATE_ID:
                course.is_rejected = True
            case PredicateWanted() | PreemptionPredicateWanted():
                self._answer(now_ns, fact)
            case ResourceManagerChanged(state=ResourceManagerState.INIT | ResourceManagerState.STOPPED):
                self._drop(fact.rm_id)

    def _place(self, now_ns: int, fact: Allocated) -> None:
        self._moved_ns = max(now_ns, self._moved_ns)
        course, key = self._accepted[application_of(fact)], fact.allocation_key
        run = course.demand.run(key, course.placed[key], placeholder=fact.placeholder)
        course.placed[key] += 1
        pod = self._pods[pod_of(fact)] = _Pod(fact, run)
        if run.run_ns is not None:
            self._at(now_ns + run.run_ns, run.origin, partial(self._end, pod, TerminationType.STOPPED_BY_RM))

    def _confirm(self, now_ns: int, fact: ReleaseRequested) -> None:
        pod = self._pods[pod_of(fact)]
        pod.is_leaving = True
        usual_ns = self._demand.usual_confirmation_ns.get(fact.termination, 0)
        after_ns = pod.run.confirmed_ns if pod.run.termination is fact.termination else usual_ns
        self._at(now_ns + after_ns, pod.run.origin, partial(self._end, pod, fact.termination))

    def _end(self, pod: _Pod, termination: TerminationType) -> Command | None:
        """The resource manager says that it has ended, unless it is gone, or that is about to be said otherwise."""
        one = pod.placement
        by_itself = termination is TerminationType.STOPPED_BY_RM
        if self._pods.get(pod_of(one)) is not pod or (by_itself and pod.is_leaving):
            return None
        release = AllocationRelease(one.application_id, one.partition, one.uuid, one.allocation_key, termination)
        return UpdateAllocations(one.rm_id, releases=[release])

    def _answer(self, now_ns: int, fact: PredicateWanted | PreemptionPredicateWanted) -> None:
        """As it did when it was asked the same; else it agrees, if need be when all the victims are gone."""
        question = question_of(fact)
        usual = Answer(self._demand.usual_answer_ns, last_victim=max(0, len(question.victim_keys) - 1))
        answer = self._demand.answers.get(question, usual)
        if answer is not None:
            results = GivePredicateResults(
                fact.rm_id, [PredicateResult(fact.call_id, answer.refusal, answer.last_victim)]
            )
            self._at(now_ns + answer.after_ns, Origin(0), partial(self._give, results))
            self._answers_due += 1

    def _give(self, results: GivePredicateResults) -> Command:
        self._answers_due -= 1
        return results

    def _drop(self, rm_id: str) -> None:
        """Nothing is left of what was under way: what its resource manager reports after that is a beginning."""
        self._pods = {name: pod for name, pod in self._pods.items() if name.rm_id != rm_id}
        self._accepted = {name: course for name, course in self._accepted.items() if name.rm_id != rm_id}
        for course in [course for course in self._begun if course.name.rm_id == rm_id]:
            course.is_over = True
            del self._begun[course]


def _as_it_is(command: Command) -> Command:
    return command
