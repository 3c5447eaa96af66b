"""A recorded history -> the demand in it: taken from the commands where they do not depend on the outcome, else from
the facts.

A release by UUID says nothing in a world with other UUIDs; how long the allocation ran does. An ask release that came
too late withdrew nothing and is no demand; one that withdrew is. Cycles and alarms are the scheduler's own business.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median_low

from schedulerd.core.language.commands import (
    OF_RM,
    AbsenceCause,
    AllocationRelease,
    ApplicationRemoval,
    AskRelease,
    Command,
    DisconnectCallbacks,
    DisconnectResourceManager,
    GivePredicateResults,
    NewAsk,
    ReportUtilization,
    RingAlarms,
    RunCycle,
    StopCause,
    StopResourceManager,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
)
from schedulerd.core.language.facts.fact import (
    Allocated,
    AllocationChanged,
    ApplicationAccepted,
    ApplicationForgotten,
    AskAdded,
    AskWithdrawn,
    Fact,
    Released,
    ReleaseRequested,
    ResourceManagerChanged,
    WithdrawCause,
)
from schedulerd.core.language.facts.predicates import (
    PredicateAnswered,
    PredicateOutcome,
    PredicateWanted,
    PreemptionPredicateWanted,
)
from schedulerd.core.language.facts.unclaimed import UnclaimedEnd, UnclaimedEnded
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.scheduler import Scheduler
from schedulerd.replay.demand import (
    Answer,
    ApplicationDemand,
    Demand,
    Origin,
    Question,
    Run,
    RunSegment,
    Send,
    is_idle,
)
from schedulerd.replay.names import ApplicationName, PodName, QueueName, application_of, pod_of, queue_of
from schedulerd.replay.playback import Step

_GIVEN_UP = (WithdrawCause.RELEASED_BY_RM, WithdrawCause.APPLICATION_REMOVED)
"""Asks that end for these causes were no longer wanted, in any run."""


@dataclass(slots=True)
class _Open:
    """An application in the making."""

    demand: ApplicationDemand
    began_ns: int
    """Its last chapter."""
    idle_since_ns: int | None
    """Start of idleness; None while the application is active."""
    queue: QueueName | None = None
    """None if the application was never accepted."""
    run_times_ns: list[int] = field(default_factory=list)
    """Of its real allocations that have ended."""


@dataclass(slots=True)
class _Running:
    """An allocation that is there."""

    run: Run
    opened: _Open
    placed_ns: int
    placeholder: bool
    asked_to_end_ns: int = 0


class Derivation:
    """Give it every step of a history with `observe`, and take the `demand` at the end."""

    def __init__(self, scheduler: Scheduler, placements_max: int) -> None:
        """`scheduler` makes the steps; it is only read here."""
        self._scheduler = scheduler
        self._demand = Demand(placements_max=placements_max)
        self._open: dict[ApplicationName, _Open] = {}
        self._all: list[_Open] = []
        self._running: dict[PodName, _Running] = {}
        self._questions: dict[tuple[str, int], Question] = {}
        """By resource manager and call."""
        self._indices: dict[tuple[str, int], int] = {}
        """Indices of victims in preemption predicate results, by resource manager and call."""
        self._answered_ns: list[int] = []
        self._confirmed_ns: dict[TerminationType, list[int]] = {}

    def observe(self, step: Step) -> None:
        """Processes one command and its facts."""
        self._demand.end_ns = step.now_ns
        sent = self._send(step)
        touched = dict.fromkeys(sent)
        for position, fact in enumerate(step.facts, start=1):
            name = self._take(step, fact, Origin(step.number, position))
            if name is not None:
                touched[name] = None
        for name in sent:
            if name in self._open:
                self._open[name].idle_since_ns = None
        for name in touched:
            self._look(name, step.now_ns)

    def demand(self) -> Demand:
        """Of all that was observed."""
        by_queue: dict[QueueName | None, list[int]] = {}
        for opened in self._all:
            by_queue.setdefault(opened.queue, []).extend(opened.run_times_ns)
        for opened in self._all:
            run_times_ns = opened.run_times_ns or by_queue[opened.queue]
            opened.demand.usual_run_ns = median_low(run_times_ns) if run_times_ns else None
        self._demand.usual_answer_ns = median_low(self._answered_ns or [0])
        self._demand.usual_confirmation_ns = {kind: median_low(took) for kind, took in self._confirmed_ns.items()}
        return self._demand

    # commands -------------------------------------------------------------------------------------------------------

    def _send(self, step: Step) -> list[ApplicationName]:
        """Notes a command; returns the applications that it says something of."""
        if self._is_said_by_nobody(step.command):
            return []
        match step.command:
            case RunCycle() | RingAlarms() | ReportUtilization():
                return []
            case StopResourceManager(cause=StopCause.UNREGISTERED):
                self._forget_goodbye(step.command.rm_id)
                return []
            case DisconnectResourceManager(cause=AbsenceCause.SHUTDOWN):
                return []
            case UpdateAllocations() as command:
                return self._asks(step, command)
            case UpdateApplications() as command:
                return self._applications(step, command)
            case GivePredicateResults() as command:
                for one in command.results:
                    if (call := (command.rm_id, one.call_id)) in self._questions:
                        self._indices.setdefault(call, one.index)
                return []
            case _:
                self._demand.commands.append((step.now_ns, step.number, step.command))
                return []

    def _is_said_by_nobody(self, command: Command) -> bool:
        """Whether the resource manager is not registered, so that the command had no effect; in another run it might
        have one."""
        rm_id = getattr(command, "rm_id", None)
        is_gone = rm_id is not None and rm_id not in self._scheduler.cluster.resource_managers
        return is_gone and not isinstance(command, StopResourceManager)

    def _forget_goodbye(self, rm_id: str) -> None:
        """A resource manager leaves when all is over, which is when it makes no difference any longer."""
        own = [at for at, (_, _, command) in enumerate(self._demand.commands) if getattr(command, "rm_id", "") == rm_id]
        while own and isinstance(self._demand.commands[own[-1]][2], DisconnectResourceManager | DisconnectCallbacks):
            del self._demand.commands[own.pop()]

    def _asks(self, step: Step, command: UpdateAllocations) -> list[ApplicationName]:
        by_name: dict[ApplicationName, list[NewAsk]] = {}
        for ask in command.asks:
            by_name.setdefault(self._name(command.rm_id, ask.partition, ask.application_id), []).append(ask)
        for name, asks in by_name.items():
            self._say(step, name, UpdateAllocations(command.rm_id, asks=asks), Origin(step.number))
        return list(by_name)

    def _applications(self, step: Step, command: UpdateApplications) -> list[ApplicationName]:
        sent = []
        for new in command.new:
            sent.append(name := self._name(command.rm_id, new.partition, new.application_id))
            self._say(step, name, UpdateApplications(command.rm_id, new=[new]), Origin(step.number))
        for removal in command.remove:
            name = self._name(command.rm_id, removal.partition, removal.application_id)
            if name in self._open:
                sent.append(name)
                self._close(step, name, removal)
        return sent

    def _say(self, step: Step, name: ApplicationName, command: Command, origin: Origin) -> None:
        """Adds to the chapter of the application, or begins one."""
        opened = self._open.get(name)
        if opened is None:
            opened = self._open[name] = _Open(ApplicationDemand(name, step.now_ns), step.now_ns, step.now_ns)
            self._all.append(opened)
            self._demand.applications.append(opened.demand)
        if opened.idle_since_ns is not None:
            self._begin_chapter(step, opened)
        opened.demand.chapters[-1].sends.append(Send(step.now_ns - opened.began_ns, origin, command))

    def _begin_chapter(self, step: Step, opened: _Open) -> None:
        since_ns = step.now_ns if opened.idle_since_ns is None else opened.idle_since_ns
        opened.demand.chapters.append(RunSegment(step.now_ns - since_ns))
        opened.began_ns = step.now_ns
        opened.idle_since_ns = None

    def _close(self, step: Step, name: ApplicationName, removal: ApplicationRemoval) -> None:
        """Its removal is a chapter of its own, even if it cut short what was under way: that ended with it, and the
        times that it ran say so. What it still waited for was given up."""
        opened = self._open[name]
        for position, fact in enumerate(step.facts, start=1):
            if isinstance(fact, AskWithdrawn) and fact.cause is WithdrawCause.APPLICATION_REMOVED:
                self._give_up(step, fact, name, Origin(step.number, position))
        self._begin_chapter(step, opened)
        self._say(step, name, UpdateApplications(name.rm_id, remove=[removal]), Origin(step.number))

    def _give_up(self, step: Step, fact: AskWithdrawn, name: ApplicationName, origin: Origin) -> None:
        if application_of(fact) == name:
            release = AskRelease(fact.application_id, fact.partition, fact.allocation_key)
            self._say(step, name, UpdateAllocations(fact.rm_id, ask_releases=[release]), origin)

    def _name(self, rm_id: str, partition: str, application_id: str) -> ApplicationName:
        rm = self._scheduler.cluster.resource_managers[rm_id]
        return ApplicationName(rm_id, rm.known_partition_name(partition), application_id)

    # facts ----------------------------------------------------------------------------------------------------------

    def _take(self, step: Step, fact: Fact, origin: Origin) -> ApplicationName | None:
        """Notes a fact; returns the application that may have more or less to do since."""
        match fact:
            case AskAdded(slot=True) | AskWithdrawn(slot=True) | Allocated(slot=True) | Released(slot=True):
                pass  # another run has slots of its own
            case Allocated():
                self._place(step, fact, origin)
            case AllocationChanged():
                self._running[pod_of(fact)] = self._running.pop(pod_of(fact)._replace(uuid=fact.old_uuid))
            case Released():
                self._end(step, fact, origin)
            case UnclaimedEnded(cause=UnclaimedEnd.RELEASED):
                self._release_unclaimed(step, fact)
                return None
            case ApplicationAccepted():
                self._open[application_of(fact)].queue = queue_of(fact)
            case ReleaseRequested():
                self._running[pod_of(fact)].asked_to_end_ns = step.now_ns
            case AskWithdrawn(cause=WithdrawCause.RELEASED_BY_RM):
                self._give_up(step, fact, application_of(fact), origin)
            case AskAdded() | AskWithdrawn() | ApplicationForgotten():
                pass
            case ResourceManagerChanged(state=ResourceManagerState.INIT | ResourceManagerState.STOPPED):
                self._drop(step, fact.rm_id)
                return None
            case PredicateWanted() | PreemptionPredicateWanted():
                self._questions[fact.rm_id, fact.call_id] = question_of(fact)
                return None
            case PredicateAnswered():
                self._answer(fact)
                return None
            case _:
                return None
        return application_of(fact)

    def _release_unclaimed(self, step: Step, fact: UnclaimedEnded) -> None:
        """What no application has ends when it ended, in any run: it came with its node, and has no demand."""
        release = AllocationRelease(fact.application_id, fact.partition, fact.uuid)
        command = UpdateAllocations(fact.rm_id, releases=[release])
        self._demand.commands.append((step.now_ns, step.number, command))

    def _place(self, step: Step, fact: Allocated, origin: Origin) -> None:
        opened = self._open[application_of(fact)]
        run = Run(origin)
        opened.demand.runs.setdefault(fact.allocation_key, []).append(run)
        self._running[pod_of(fact)] = _Running(run, opened, step.now_ns, fact.placeholder)

    def _end(self, step: Step, fact: Released, origin: Origin) -> None:
        running = self._running.pop(pod_of(fact))
        run = running.run
        run.origin = origin
        wished = fact.termination in OF_RM and isinstance(step.command, UpdateAllocations)
        if wished or not running.placeholder:
            run.run_ns = step.now_ns - running.placed_ns
        if not running.placeholder:
            running.opened.run_times_ns.append(step.now_ns - running.placed_ns)
        if running.asked_to_end_ns and fact.termination not in OF_RM:
            run.termination = fact.termination
            run.confirmed_ns = step.now_ns - running.asked_to_end_ns
            self._confirmed_ns.setdefault(fact.termination, []).append(run.confirmed_ns)

    def _drop(self, step: Step, rm_id: str) -> None:
        """All of a resource manager is forgotten: what it reports after that is a beginning."""
        for name in [name for name in self._running if name.rm_id == rm_id]:
            running = self._running.pop(name)
            running.run.origin = Origin(step.number)
            running.run.run_ns = None if running.placeholder else step.now_ns - running.placed_ns
        self._open = {name: opened for name, opened in self._open.items() if name.rm_id != rm_id}
        self._questions = {key: question for key, question in self._questions.items() if key[0] != rm_id}

    def _answer(self, fact: PredicateAnswered) -> None:
        call = fact.rm_id, fact.call_id
        question, index = self._questions.pop(call), self._indices.pop(call, 0)
        if fact.outcome is PredicateOutcome.TIMED_OUT:
            self._demand.answers[question] = None
        elif fact.outcome is not PredicateOutcome.VOID:
            self._demand.answers[question] = Answer(fact.waited_ns, fact.reason, index)
            self._answered_ns.append(fact.waited_ns)

    def _look(self, name: ApplicationName, now_ns: int) -> None:
        """Notes whether the application has become idle or active."""
        opened = self._open.get(name)
        if opened is None:
            return
        if not is_idle(self._scheduler, name):
            opened.idle_since_ns = None
        elif opened.idle_since_ns is None:
            opened.idle_since_ns = now_ns


def question_of(fact: PredicateWanted | PreemptionPredicateWanted) -> Question:
    """Without the number of the call, which is another one in another world."""
    victim_keys = fact.victim_keys if isinstance(fact, PreemptionPredicateWanted) else ()
    return Question(application_of(fact), fact.allocation_key, fact.node_id, victim_keys)


def derive(steps: Iterable[Step], scheduler: Scheduler, placements_max: int) -> Demand:
    """The demand in a history that `scheduler` plays."""
    derivation = Derivation(scheduler, placements_max)
    for step in steps:
        derivation.observe(step)
    return derivation.demand()
