"""What queues, users and groups use and may use, worked out the slow way: from facts alone, all of it anew each time.

It shares nothing with the scheduler but the specs of the queue file. A test tells it what was configured and what was
said, and holds the scheduler's sums and decisions against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schedulerd.core.language.commands import NewApplication
from schedulerd.core.language.facts.fact import (
    Allocated,
    AllocationChanged,
    ApplicationAccepted,
    ApplicationChanged,
    ApplicationForgotten,
    Fact,
    Released,
)
from schedulerd.core.language.lifecycles import TERMINAL_STATES, ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import LimitSpec, QueueSpec
from tests.reference.changes import changed
from tests.reference.queue_paths import is_below, path_to_root

EVERYBODY_ELSE = "*"
STARTS_IN = (ApplicationState.ACCEPTED, ApplicationState.STARTING)
"""Its first allocation makes an application start to run; the change of state is said just before it."""
Amounts = Mapping[str, int]


def exceeds(used: Amounts, size: Amounts, most: Amounts) -> bool:
    return any(name in most and used.get(name, 0) + amount > most[name] for name, amount in size.items())


@dataclass
class Known:
    """An application that has a queue."""

    user: str
    group: str
    """The one that limits count it for, as found when it was accepted; '' if none."""
    queue: str
    state: ApplicationState = ApplicationState.NEW
    runs: bool = False
    """From its first allocation until it has neither asks nor allocations; this world has no placeholders."""


class Recount:
    """One partition as its facts tell it."""

    def __init__(self, specs: Mapping[str, QueueSpec]) -> None:
        self.specs = dict(specs)
        """What holds, by path; of a queue that is not in the file any longer, what it said last."""
        self.applications: dict[str, Known] = {}
        self.allocations: dict[str, Allocated] = {}
        self._submitted: dict[str, NewApplication] = {}

    def submit(self, application: NewApplication) -> None:
        self._submitted[application.application_id] = application

    def hear(self, fact: Fact) -> None:
        match fact:
            case ApplicationAccepted():
                new = self._submitted[fact.application_id]
                group = self.group_that_counts(fact.queue, new.groups)
                self.applications[fact.application_id] = Known(new.user, group, fact.queue)
            case ApplicationChanged(old_state=old) if old is not None and old not in TERMINAL_STATES:
                self._changed(fact)
            case ApplicationForgotten(state=state) if state not in TERMINAL_STATES:
                del self.applications[fact.application_id]
            case Allocated():
                self.allocations[fact.uuid] = fact
                self.applications[fact.application_id].runs = True
            case AllocationChanged():
                self.allocations[fact.uuid] = changed(self.allocations.pop(fact.old_uuid), fact)
            case Released():
                del self.allocations[fact.uuid]

    def _changed(self, fact: ApplicationChanged) -> None:
        application = self.applications[fact.application_id]
        application.state = fact.state
        if fact.state is ApplicationState.COMPLETING:
            application.runs = False
        elif fact.state in TERMINAL_STATES:
            del self.applications[fact.application_id]

    def group_that_counts(self, queue: str, groups: tuple[str, ...]) -> str:
        """The first group that a limit names and the user is in, from the leaf up and in the order of each queue's
        list, whatever the order of the user's groups (SEMANTICS I21); else `*` if a limit is for all others."""
        named = [[group for limit in self.specs[one].limits for group in limit.groups] for one in path_to_root(queue)]
        for level in reversed(named):
            for group in level:
                if group in groups:
                    return group
        return EVERYBODY_ELSE if any(EVERYBODY_ELSE in level for level in named) else ""

    # usage ----------------------------------------------------------------------------------------------------------

    def usage(self, queue: str, *, user: str | None = None, group: str | None = None) -> Resources:
        """What is allocated in the queue and below: to all, to a user, or to a group."""
        total = Resources()
        for fact in self.allocations.values():
            owner = self.applications[fact.application_id]
            if is_below(fact.queue, queue) and user in (None, owner.user) and group in (None, owner.group):
                total.add(fact.resources.items())
        return total

    def running(self, queue: str, *, user: str | None = None, group: str | None = None) -> list[str]:
        """The applications that run in the queue and below, sorted: of all, of a user, or of a group."""
        return sorted(
            name
            for name, one in self.applications.items()
            if one.runs and is_below(one.queue, queue) and user in (None, one.user) and group in (None, one.group)
        )

    # rules ----------------------------------------------------------------------------------------------------------

    def refusal(self, application_id: str, size: Amounts) -> str:
        """Which rule of which queue does not let the application have one more of this size; '' if all of them do."""
        application = self.applications[application_id]
        starts = application.state in STARTS_IN and not application.runs
        for path in path_to_root(application.queue):
            spec = self.specs[path]
            if exceeds(self.usage(path), size, spec.max):
                return f"quota of {path}"
            if starts and 0 < spec.max_applications <= len(self.running(path)):
                return f"applications of {path}"
            for limit in spec.limits:
                reason = self._limit_refusal(path, limit, application, size, starts=starts)
                if reason:
                    return reason
        return ""

    def _limit_refusal(self, path: str, limit: LimitSpec, application: Known, size: Amounts, *, starts: bool) -> str:
        user, group = application.user, application.group
        is_named = any(user in other.users for other in self.specs[path].limits)
        whose: list[tuple[str, dict[str, str]]] = []
        if user in limit.users or (EVERYBODY_ELSE in limit.users and not is_named):
            whose.append(("user", {"user": user}))
        if group and group in limit.groups:
            whose.append(("group", {"group": group}))
        for kind, account in whose:
            if limit.max is not None and exceeds(self.usage(path, **account), size, limit.max):
                return f"limit of {kind} in {path}"
            if starts and 0 < limit.max_applications <= len(self.running(path, **account)):
                return f"applications of {kind} in {path}"
        return ""
