"""The states of gangs that declare their task groups: the only place that changes them, so each change is said."""

from __future__ import annotations

from schedulerd.core.language.facts.gangs import GangStateChanged
from schedulerd.core.language.fsm import move
from schedulerd.core.language.lifecycles import GANG, GangState, GangTrigger
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.step_context import StepContext


def declare(context: StepContext, application: Application) -> None:
    """The application declares its task groups."""
    assert application.gang is not None
    context.partition_of(application).declared_gangs[application] = None
    _set(context, application, GangState.FORMING, "its application declares it")


def enter(context: StepContext, application: Application, trigger: GangTrigger) -> None:
    """Moves the gang to its next state. Raises IllegalMove if the table has no such move."""
    gang = application.gang
    assert gang is not None
    assert gang.state is not None
    _set(context, application, move(GANG, gang.state, trigger), trigger.value)


def forget(context: StepContext, application: Application, cause: str) -> None:
    """The application ends, or its resource manager asks for placeholders after all. The state stays, as the last
    one."""
    declared = context.partition_of(application).declared_gangs
    if application in declared:
        del declared[application]
        assert application.gang is not None
        _tell(context, application, application.gang.state, None, cause)


def _set(context: StepContext, application: Application, state: GangState, cause: str) -> None:
    gang = application.gang
    assert gang is not None
    old, gang.state = gang.state, state
    _tell(context, application, old, state, cause)


def _tell(
    context: StepContext, application: Application, old: GangState | None, state: GangState | None, cause: str
) -> None:
    gang = application.gang
    assert gang is not None
    context.emit(
        GangStateChanged(
            rm_id=application.rm_id,
            partition=application.partition_name,
            queue=application.queue.path,
            application_id=application.application_id,
            old_state=old,
            state=state,
            cause=cause,
            needed=sum(group.min for group in gang.declared.values()),
            members=sum(group.members for group in gang.task_groups.values()),
        )
    )
