"""What an application may do in a state, and how long it may stay there, judged fact by fact like the gang design.

A state that ends by itself has to end in time and not before; what ends with it has to be asked to go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schedulerd.core.gangs.sentences import GANG_TIMEOUT
from schedulerd.core.language.commands import Command, NewApplication, RingAlarms, UpdateApplications
from schedulerd.core.language.facts.fact import Allocated, ApplicationChanged, Fact, ReleaseRequested
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.specs import MILLISECOND_NS
from tests.sim.clusters import IDLE_NS, TIMEOUTS
from tests.sim.gang_books import GangBook
from tests.sim.oracle import PLACEABLE_STATES


def timeout_ns(spec: NewApplication) -> int:
    """How long its gang may take (SEMANTICS E3, G5)."""
    if spec.execution_timeout_ms > 0 and not spec.placeholder_ask.is_zero():
        return spec.execution_timeout_ms * MILLISECOND_NS
    return TIMEOUTS.placeholder_ns


def judged(
    book: GangBook, command: Command, fact: Allocated | ApplicationChanged, later: Sequence[Fact], now_ns: int
) -> Iterator[str]:
    """What is wrong with a placement in this state, or with this move; the book is as before the fact."""
    match fact:
        case Allocated(recovered=False):
            is_swapped = bool(fact.replaces) and book.state is ApplicationState.RESUMING
            if book.state not in PLACEABLE_STATES and not is_swapped:
                yield f"{fact.uuid} is placed while it is {book.state}"
        case ApplicationChanged(old_state=ApplicationState.FAILING, state=ApplicationState.FAILED):
            pass  # it says why it failed as it did when it began to
        case ApplicationChanged(cause=cause) if cause.startswith(GANG_TIMEOUT):
            given_up = ApplicationState.FAILING if book.spec.gang_style == "Hard" else ApplicationState.RESUMING
            if fact.old_state not in PLACEABLE_STATES or book.has_run or fact.state is not given_up:
                style = book.spec.gang_style
                yield f"its gang is given up with style {style!r}, from {fact.old_state} to {fact.state}"
        case ApplicationChanged(old_state=ApplicationState.ACCEPTED, state=ApplicationState.STARTING):
            yield from _started(book, later)
        case ApplicationChanged(old_state=ApplicationState.COMPLETING, state=ApplicationState.RUNNING):
            if not (book.spec.placeholder_ask.is_zero() or book.has_run or book.has_started):
                yield "runs, and its gang was never complete"
        case ApplicationChanged(state=ApplicationState.COMPLETING):
            if book.resumed:
                yield "goes on without its gang, and completes before a real ask can come"
        case ApplicationChanged(state=ApplicationState.COMPLETED) if not isinstance(command, UpdateApplications):
            is_limited = book.spec.execution_timeout_ms > 0 and book.spec.placeholder_ask.is_zero()
            if now_ns < book.since_ns + TIMEOUTS.completing_ns and not is_limited:
                yield f"is Completed {now_ns - book.since_ns} ns after it was Completing"


def unused(book: GangBook, fact: ReleaseRequested, now_ns: int) -> Iterator[str]:
    """Placeholders go unused when their application completes, or when no ask took one of a complete gang for long."""
    since_ns = book.idle_since_ns
    if book.state is ApplicationState.COMPLETING:
        return
    if since_ns is None or now_ns < since_ns + IDLE_NS:
        yield f"{fact.uuid} goes unused, though it is idle since {since_ns} only"


def overdue(book: GangBook, command: Command, now_ns: int) -> Iterator[str]:
    """What should have happened by now."""
    idle = [one.uuid for one in book.placeholders.values() if one.uuid not in book.leaving]
    if isinstance(command, RingAlarms):
        if book.began_ns is not None and book.began_ns + timeout_ns(book.spec) <= now_ns:
            yield "its gang should be out of time by now"
        if book.state is ApplicationState.STARTING and book.since_ns + TIMEOUTS.starting_ns <= now_ns:
            yield "should be Running by now"
        is_over = book.state is ApplicationState.COMPLETING and book.since_ns + TIMEOUTS.completing_ns <= now_ns
        if is_over and (idle or not book.placeholders):
            yield f"should have ended by now, and asks for no release of its placeholders {idle}"
    ask = book.spec.placeholder_ask
    is_whole = bool(idle) and not ask.is_zero() and book.held.lacks(ask.items()) is None
    if is_whole and book.state is ApplicationState.ACCEPTED:
        yield "has its whole gang and is still Accepted"
    idle_until_ns = book.idle_since_ns + IDLE_NS if book.idle_since_ns is not None else None
    if isinstance(command, RingAlarms) and idle_until_ns is not None and idle_until_ns <= now_ns:
        yield f"is complete, and no ask takes its placeholders {idle}, which should be asked to go by now"


def _started(book: GangBook, later: Sequence[Fact]) -> Iterator[str]:
    """Only by its first real allocation, or by its whole gang."""
    cause = next((one for one in later if isinstance(one, Allocated) and _is_of(book, one)), None)
    if book.real or (cause is not None and not cause.placeholder):
        return
    ask = book.spec.placeholder_ask
    held = book.held if cause is None else book.held.plus(cause.resources)
    if ask.is_zero() or held.lacks(ask.items()) is not None:
        yield f"is Starting with {held} of {ask}"


def _is_of(book: GangBook, fact: Allocated) -> bool:
    return fact.application_id == book.spec.application_id and fact.queue == book.queue
