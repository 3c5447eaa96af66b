"""Counts what became of every placeholder and of every ask that awaits one, from facts alone.

The scheduler keeps the same counts as it goes; they are what metrics and the view show, so they have to be the sum of
what was said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from schedulerd.core.language.commands import Command, NewApplication, UpdateApplications
from schedulerd.core.language.facts.fact import (
    Allocated,
    AllocationChanged,
    ApplicationAccepted,
    ApplicationChanged,
    ApplicationForgotten,
    ApplicationRejected,
    AskAdded,
    AskWithdrawn,
    Fact,
    ReleaseCause,
    Released,
    ReleaseRequested,
    ResourceManagerChanged,
    WithdrawCause,
)
from schedulerd.core.language.facts.gangs import GangTimedOut
from schedulerd.core.language.lifecycles import TERMINAL_STATES, ApplicationState, ResourceManagerState
from schedulerd.core.language.resources import Items, Resources
from schedulerd.core.views.values import ApplicationView, ResourceManagerView
from tests.reference.changes import changed
from tests.sim.oracle import PLACEABLE_STATES

Name = tuple[str, str, str]
"""Resource manager, partition, application."""

COUNTED = {
    ReleaseCause.TIMED_OUT: "timed_out",
    ReleaseCause.TOO_SMALL: "unused",
    ReleaseCause.UNUSED: "unused",
    ReleaseCause.GAVE_WAY: "gave_back",
    ReleaseCause.PREEMPTED: "preempted",
}
"""As what a placeholder counts that has to go; a replaced one counts when its ask has the room."""


def name_of(fact: Fact) -> Name:
    """Whom the fact is about; the application is '' where it is about something else."""
    return getattr(fact, "rm_id", ""), getattr(fact, "partition", ""), getattr(fact, "application_id", "")


BEGINS = PLACEABLE_STATES | {ApplicationState.COMPLETING}
"""In these a first placeholder starts the time that a gang has."""


@dataclass
class GangBook:
    """One application, from its submission to its end."""

    spec: NewApplication
    queue: str
    age: tuple[int, str]
    """Since when it is there, and its id."""
    state: ApplicationState = ApplicationState.NEW
    since_ns: int = 0
    """When it entered that state."""
    resumed: bool = False
    """True in the step in which it goes on without its gang."""
    placeholders: dict[str, Allocated] = field(default_factory=dict)
    """Those that are there."""
    allocations: dict[str, Allocated] = field(default_factory=dict)
    """All that it has, by UUID."""
    leaving: dict[str, ReleaseRequested] = field(default_factory=dict)
    """Those of them that the RM was asked to release."""
    pending: int = 0
    """Placeholders asked for and not placed."""
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By task group and what it counts, as `TaskGroupView` names it."""
    wanted: int = 0
    missed: int = 0
    """Placeholders that were never placed, as their time was over."""
    gave_way: bool = False
    awaiting: Counter[tuple[str, Items]] = field(default_factory=Counter)
    """By key and size of the asks."""
    held: Resources = field(default_factory=Resources)
    """By placeholders and real allocations."""
    grouped: Resources = field(default_factory=Resources)
    """By those of them that belong to a task group, recovered ones and real ones included."""
    real: int = 0
    has_run: bool = False
    """Whether anything real was ever allocated."""
    has_started: bool = False
    """Whether it was ever Starting: by something real, or by the whole of its `placeholderAsk`."""
    was_complete: bool = False
    """Whether it ever had all that was announced, and no placeholder pending."""
    idle_since_ns: int | None = None
    """Since when it is complete and has placeholders that no ask takes."""
    began_ns: int | None = None
    """When the first placeholder was placed; None while the gang has no time that could run out."""
    wanted_room: Resources = field(default_factory=Resources)
    """For the pending placeholders."""
    promised: Resources = field(default_factory=Resources)
    """What was asked for when the gang began, and is to come still; what is announced but not asked for, or asked for
    anew, is left out, so the scheduler may promise more."""

    def idle(self, task_group: str) -> list[Allocated]:
        """Its placeholders that wait to be replaced."""
        there = self.placeholders.values()
        return [one for one in there if one.task_group == task_group and one.uuid not in self.leaving]

    @property
    def is_complete(self) -> bool:
        """Then it has no deadline (SEMANTICS I8)."""
        ask = self.spec.placeholder_ask
        is_whole = ask.is_zero() or self.held.lacks(ask.items()) is None
        return not self.pending and (is_whole or (self.was_complete and self.has_run))

    def review(self, now_ns: int) -> None:
        """The step is over: the gang may be complete now, or not any longer."""
        idle = [one for one in self.placeholders.values() if one.uuid not in self.leaving]
        if self.wanted and self.is_complete:
            self.was_complete = True
            self.end()
        elif self.began_ns is None and idle and self.state in BEGINS:
            self.begin(now_ns)
        if not (idle and self.is_complete and self.state in PLACEABLE_STATES):
            self.idle_since_ns = None
        elif self.idle_since_ns is None:
            self.idle_since_ns = now_ns

    def begin(self, now_ns: int) -> None:
        self.began_ns = now_ns
        self.promised = self.wanted_room
        self.lower_promise()

    @property
    def lacking(self) -> Resources:
        """What its task groups do not have yet of all that was announced."""
        ask = self.spec.placeholder_ask
        return Resources({name: max(0, amount - self.grouped[name]) for name, amount in ask.items()})

    def lower_promise(self) -> None:
        """It has more than before, or wants less."""
        lacking = self.lacking
        self.promised = Resources(
            {name: min(amount, self.wanted_room[name], lacking[name]) for name, amount in self.promised.items()}
        )

    def end(self) -> None:
        """The gang is complete, there is no placeholder left, or their time is over."""
        self.began_ns = None
        self.promised = Resources()


class GangBooks:
    """The books of all applications that are in a queue."""

    def __init__(self) -> None:
        self.by_name: dict[Name, GangBook] = {}
        self._submitted: dict[str, list[NewApplication]] = {}

    def expect(self, command: Command) -> None:
        """The answers to the applications of this command come in their order."""
        self._submitted.clear()
        for spec in command.new if isinstance(command, UpdateApplications) else ():
            self._submitted.setdefault(spec.application_id, []).append(spec)

    def take(self, fact: Fact, now_ns: int) -> None:
        match fact:
            case ResourceManagerChanged():
                if fact.state in (ResourceManagerState.INIT, ResourceManagerState.STOPPED):
                    self.by_name = {name: book for name, book in self.by_name.items() if name[0] != fact.rm_id}
            case ApplicationAccepted():
                spec = self._submitted[fact.application_id].pop(0)
                name = fact.rm_id, fact.partition, fact.application_id
                if name in self.by_name:  # its namespace has other tags, and nothing else of it is new
                    return
                since_ns = now_ns if spec.asked_at_ns is None else min(now_ns, spec.asked_at_ns)
                self.by_name[name] = GangBook(spec, fact.queue, (since_ns, fact.application_id))
            case ApplicationRejected():
                self._submitted[fact.application_id].pop(0)
            case _:
                book = self.by_name.get(name_of(fact))
                if book is not None:
                    self._enter(book, fact, now_ns)

    def _enter(self, book: GangBook, fact: Fact, now_ns: int) -> None:
        match fact:
            case ApplicationChanged() if fact.old_state is not None and fact.old_state not in TERMINAL_STATES:
                book.resumed = fact.old_state is ApplicationState.RESUMING
                book.state, book.since_ns = fact.state, now_ns
                book.has_started |= fact.state is ApplicationState.STARTING
            case AskAdded(awaited_placeholder=True):
                book.awaiting[fact.allocation_key, fact.resources.canonical()] -= 1
            case AskAdded(placeholder=True):
                book.pending += fact.count
                book.wanted += fact.count
                book.wanted_room.add(fact.resources.items(), fact.count)
            case AskWithdrawn(placeholder=True):
                book.pending -= fact.count
                book.wanted_room.subtract(fact.resources.items(), fact.count)
                book.lower_promise()
                if fact.cause is WithdrawCause.TIMEOUT:
                    book.missed += fact.count
                else:
                    book.wanted -= fact.count
            case AskWithdrawn(cause=WithdrawCause.AWAITING_PLACEHOLDER):
                book.awaiting[fact.allocation_key, fact.resources.canonical()] += 1
            case Allocated():
                self._allocated(book, fact, now_ns)
            case AllocationChanged():
                self._changed(book, fact)
            case ReleaseRequested(placeholder=True) if fact.uuid in book.placeholders:
                book.leaving[fact.uuid] = fact
                if fact.cause is ReleaseCause.REPLACED and book.idle_since_ns is not None:
                    book.idle_since_ns = now_ns
                if fact.cause in COUNTED:
                    book.counts[book.placeholders[fact.uuid].task_group, COUNTED[fact.cause]] += 1
                book.gave_way |= fact.cause in (ReleaseCause.GAVE_WAY, ReleaseCause.PREEMPTED)
            case Released():
                self._released(book, fact)
            case GangTimedOut():
                book.end()
            case ApplicationForgotten() if fact.state not in TERMINAL_STATES:
                del self.by_name[fact.rm_id, fact.partition, fact.application_id]

    def _changed(self, book: GangBook, fact: AllocationChanged) -> None:
        before = book.allocations.pop(fact.old_uuid)
        after = changed(before, fact)
        book.allocations[fact.uuid] = after
        totals = [book.held]
        if before.task_group:
            totals.append(book.grouped)
        for total in totals:
            total.subtract(fact.old_resources.items())
            total.add(fact.resources.items())
        if before.placeholder:
            del book.placeholders[fact.old_uuid]
            book.placeholders[fact.uuid] = after
        if fact.old_uuid in book.leaving:
            book.leaving[fact.uuid] = book.leaving.pop(fact.old_uuid)
        if book.began_ns is not None:
            book.lower_promise()

    def _allocated(self, book: GangBook, fact: Allocated, now_ns: int) -> None:
        items = fact.resources.canonical()
        book.held.add(items)
        book.allocations[fact.uuid] = fact
        if fact.task_group:
            book.grouped.add(items)
        if not fact.placeholder:
            book.real += 1
            book.has_run = True
            if fact.replaces:
                book.awaiting[fact.allocation_key, items] -= 1
                book.counts[fact.task_group, "replaced"] += 1
            return
        book.placeholders[fact.uuid] = fact
        book.counts[fact.task_group, "placed"] += 1
        if fact.recovered:
            book.wanted += 1
        else:
            book.pending -= 1
            book.wanted_room.subtract(items)
        if book.began_ns is not None:
            book.lower_promise()
        elif book.state in BEGINS and not book.is_complete:
            book.begin(now_ns)

    def _released(self, book: GangBook, fact: Released) -> None:
        allocated = book.allocations.pop(fact.uuid, None)
        if allocated is None:  # the auditor says so
            return
        items = allocated.resources.canonical()
        book.held.subtract(items)
        if allocated.task_group:
            book.grouped.subtract(items)
        if not allocated.placeholder:
            book.real -= 1
            return
        del book.placeholders[fact.uuid]
        book.leaving.pop(fact.uuid, None)
        if not book.placeholders:
            book.end()

    def close(self, now_ns: int) -> Iterator[str]:
        """Ends the step. Applications that ended in it must not leave anything behind."""
        for name, book in list(self.by_name.items()):
            book.resumed = False
            book.review(now_ns)
            if book.state in TERMINAL_STATES:
                del self.by_name[name]
                if book.placeholders or book.pending or +book.awaiting:
                    yield (
                        f"{name} is {book.state} with {len(book.placeholders)} placeholders, {book.pending} pending "
                        f"ones, and awaiting {dict(+book.awaiting)}"
                    )

    def differences(self, state: Sequence[ResourceManagerView]) -> Iterator[str]:
        """Where the scheduler's own counts are not those of the facts, as sentences."""
        for rm in state:
            for partition in rm.partitions:
                for item in partition.applications:
                    book = self.by_name.get((rm.rm_id, partition.name, item.application_id))
                    if book is None:
                        yield f"{item.application_id} was never accepted"
                        continue
                    for what, counted, shown in _counts(book, item):
                        if counted != shown:
                            yield f"{what} of {item.application_id}: facts say {counted}, the scheduler {shown}"


def _counts(book: GangBook, item: ApplicationView) -> Iterator[tuple[str, object, object]]:
    """What is counted, by the facts and by the scheduler."""
    awaiting = sum(book.awaiting.values())
    swaps = sum(one.cause is ReleaseCause.REPLACED for one in book.leaving.values())
    yield "asks that await placeholders", awaiting, item.awaiting_placeholder
    yield "asks that await placeholders without a placeholder that is about to go", max(0, awaiting - swaps), 0
    yield "asks that await placeholders below zero", [name for name, count in book.awaiting.items() if count < 0], []
    yield "pending placeholders", book.pending, sum(ask.pending for ask in item.asks if ask.placeholder)
    yield "running gang", book.began_ns is not None, item.gang_started
    for group in item.task_groups:
        for what in ("placed", "replaced", "unused", "gave_back", "preempted"):
            yield f"{what} {group.name}", book.counts[group.name, what], getattr(group, what)
        yield f"idle {group.name}", len(book.idle(group.name)), group.idle
    timed_out = sum(count for (_, what), count in book.counts.items() if what == "timed_out") + book.missed
    yield "timed out placeholders", timed_out, sum(group.timed_out for group in item.task_groups)
    if not book.gave_way:
        yield "wanted placeholders", book.wanted, sum(group.wanted for group in item.task_groups)
    known = {group.name for group in item.task_groups}
    yield "task groups not shown", {name for (name, _), count in book.counts.items() if count} - known, set()
