"""How far a gang is, and what its next placeholder waits for."""

from __future__ import annotations

from typing import NamedTuple

from schedulerd.core.language.resources import Items
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.pending.rules.states import PendingState, class_state
from schedulerd.core.state.quotas.rules import Blocked


class GangProgress(NamedTuple):
    placed: int
    """Placeholders allocated so far."""
    wanted: int
    needs: Items
    """What the next placeholder asks for; empty if none is pending."""
    state: PendingState | None
    """What it waits for, apart from its gang."""
    rule: Blocked | None
    """The quota or limit that blocks it."""
    is_restricted: bool
    """Whether it may not run on every node."""


def gang_progress(application: Application) -> GangProgress:
    """Of an application with a gang."""
    groups = application.gang.task_groups.values() if application.gang is not None else ()
    placed, wanted = sum(one.placed for one in groups), sum(one.wanted for one in groups)
    group = next((one for one in application.groups.values() if one.placeholder and one.pending), None)
    if group is None:
        return GangProgress(placed, wanted, (), None, None, is_restricted=False)
    state, cause = class_state(application.queue, group.pending_class)
    request_class = group.pending_class.request_class
    is_restricted = request_class.constraint is not None or bool(request_class.required_node)
    rule = cause if isinstance(cause, Blocked) else None
    return GangProgress(placed, wanted, request_class.items, state, rule, is_restricted)
