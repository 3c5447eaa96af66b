"""Applications as rows of a table."""

from __future__ import annotations

from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.rejected_application import RejectedApplication
from schedulerd.core.views.gang_progress import gang_progress
from schedulerd.daemon.admin.ui.context import Context
from schedulerd.daemon.admin.ui.texts import NONE, amounts, count, row_key
from schedulerd.daemon.admin.ui.view import View
from schedulerd.sentences.words import duration

STATE_KINDS = {
    ApplicationState.RUNNING: "ok",
    ApplicationState.STARTING: "ok",
    ApplicationState.FAILING: "bad",
    ApplicationState.FAILED: "bad",
    ApplicationState.REJECTED: "bad",
    ApplicationState.RESUMING: "warn",
}
"""Classes of states; other states are neutral."""


def add_application(made: View, context: Context, one: Application) -> None:
    """Adds a row to the list `applications`."""
    waiting = one.pending_of_rm
    used = one.allocated.plus(one.placeholder_allocated)
    gang = ""
    if one.declares_gang:
        found = gang_progress(one)
        gang = f"{found.placed} of {found.wanted}"
    elif one.gang is not None and one.gang.task_groups:
        groups = one.gang.task_groups.values()
        gang = f"{sum(group.placed for group in groups)} of {sum(group.wanted for group in groups)}"
    made.add(
        "applications",
        row_key(one.serial),
        name=one.application_id,
        name__href=context.links.application(one.application_id),
        state=one.state.value,
        state__class=f"badge {STATE_KINDS.get(one.state, '')}",
        queue=one.queue.written,
        queue__href=context.links.queue(one.queue.written),
        user=one.spec.user,
        running=count(len(one.allocations) - one.held_slots),
        waiting=count(waiting),
        waiting__class="num warn" if waiting else "num",
        gang=gang or NONE,
        used=amounts({name: used[name] for name in ("vcore", "memory") if used[name]}) or NONE,
        age=duration(context.now.monotonic_ns - one.submitted_at_ns),
    )


def add_rejected(made: View, context: Context, one: RejectedApplication) -> None:
    """Adds a row for an application that was rejected."""
    made.add(
        "applications",
        row_key(one.serial),
        name=one.application_id,
        name__href=context.links.application(one.application_id),
        state=one.state.value,
        state__class="badge bad",
        queue=one.queue or one.spec.queue,
        queue__href=context.links.to("queues"),
        user=one.spec.user,
        running=NONE,
        waiting=NONE,
        waiting__class="num",
        gang=NONE,
        used=one.reason,
        age=duration(context.now.monotonic_ns - one.submitted_at_ns),
    )
