"""Execution timeouts of applications and allocations (SI `executionTimeoutMilliSeconds`; SEMANTICS E2, E3).

The time of an allocation runs from its allocation. The time of an application runs from Starting; `application_states`
starts it. A recovered allocation has none, because the report of the resource manager does not have it.
"""

from __future__ import annotations

from schedulerd.core.language.facts.fact import ReleaseCause
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.state.actions import application_states, releases
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.step_context import StepContext

EXECUTION_TIMEOUT = "ExecutionTimeout"


def end_allocation(context: StepContext, allocation: Allocation) -> None:
    """The execution timeout is over: asks the RM to release the allocation."""
    allocation.alarm = None
    timeout_ms = allocation.spec.execution_timeout_ms
    message = f"allocation {allocation.key} reached its execution timeout of {timeout_ms} ms"
    partition = context.partition_of(allocation.application)
    releases.request_release(context, partition, allocation, ReleaseCause.TIMED_OUT, message)


def end_application(context: StepContext, application: Application) -> None:
    """The execution timeout is over: the application fails, and the RM is asked to release all of its allocations. A
    Completing application ends its wait at once."""
    application.run_alarm = None
    if application.state is ApplicationState.COMPLETING:
        context.cluster.alarms.cancel(application.alarm)
        application_states.on_state_timeout(context, application)
        return
    timeout_ms = application.spec.execution_timeout_ms
    message = f"application {application.application_id} reached its execution timeout of {timeout_ms} ms"
    application_states.fail(context, application, f"{EXECUTION_TIMEOUT}: {message}", message)
