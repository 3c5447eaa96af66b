"""The time a gang has: from its first placeholder placed until there are none, or the time is over (SEMANTICS G5).

While it has its time, what it still lacks is promised to it, and it is looked at again and again whether others have to
give way to it.
"""

from __future__ import annotations

from schedulerd.core import commit
from schedulerd.core.alarms import AlarmKind
from schedulerd.core.gang_facts import GangCompleted
from schedulerd.core.lifecycles import ApplicationState
from schedulerd.core.model.application import Application
from schedulerd.core.specs import MILLISECOND_NS, Timeouts
from schedulerd.core.turn import Turn


def begin(turn: Turn, application: Application) -> None:
    """Its first placeholder is there. One that is Completing is not waited for, so nothing is promised to it."""
    deadline_ns = turn.now_ns + timeout_ns(turn.cluster.timeouts, application)
    application.gang_alarm = turn.cluster.alarms.set(deadline_ns, AlarmKind.PLACEHOLDER_TIMEOUT, application)
    if application.state is not ApplicationState.COMPLETING:
        commit.promise(application)
    watch(turn, application)


def watch(turn: Turn, application: Application, patience_ns: int = 0) -> None:
    """After `patience_ns`, or as long as is usual, it is looked at whether the gang finds the room it needs."""
    timeouts, gang = turn.cluster.timeouts, application.gang
    assert gang is not None
    if timeouts.gang_patience_ns:
        patience_ns = patience_ns or min(timeouts.gang_patience_ns, timeout_ns(timeouts, application) // 2)
        alarm = turn.cluster.alarms.set(turn.now_ns + patience_ns, AlarmKind.GANG_PATIENCE, application)
        gang.patience = alarm


def end(turn: Turn, application: Application) -> None:
    """Its placeholders are gone, or their time is over; fine if there was none."""
    if application.gang_alarm is not None:
        turn.cluster.alarms.cancel(application.gang_alarm)
        application.gang_alarm = None
        assert application.gang is not None
        turn.cluster.alarms.cancel(application.gang.patience)
        application.gang.patience = None
        if application.partition.favoured is application:
            application.partition.favour(None)
        commit.end_promise(application)


def say_if_full(turn: Turn, application: Application) -> None:
    """A placeholder was placed: it may have been the last that was missing."""
    gang, partition, queue = application.gang, application.partition, application.queue
    assert gang is not None
    if gang.pending or not gang.awaits_full:
        return
    if not application.spec.placeholder_ask.is_zero() and not has_whole_gang(application):
        return
    assert gang.first_asked_ns is not None
    assert queue is not None
    gang.full_ns, gang.awaits_full = turn.now_ns, False
    turn.say(
        GangCompleted(
            rm_id=partition.rm_id,
            partition=partition.name,
            queue=queue.path,
            application_id=application.application_id,
            placeholders=application.placeholders,
            waited_ns=turn.now_ns - gang.first_asked_ns,
        )
    )


def has_whole_gang(application: Application) -> bool:
    """Whether it has all that it announced; what it has beside its gang counts as well, as recorded."""
    ask = application.spec.placeholder_ask
    held = application.placeholder_allocated.plus(application.allocated)
    return not ask.is_zero() and held.lacks(ask.items()) is None


def timeout_ns(timeouts: Timeouts, application: Application) -> int:
    """How long a gang may take: what the application says, if it says for what (SEMANTICS E3), else the default."""
    spec = application.spec
    if spec.execution_timeout_ms > 0 and not spec.placeholder_ask.is_zero():
        return spec.execution_timeout_ms * MILLISECOND_NS
    return timeouts.placeholder_ns
