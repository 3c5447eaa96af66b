"""What the API uses of the rest of the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from schedulerd.core.language.commands import Command
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.scheduler import Scheduler
from schedulerd.daemon.admin.api.access import Access
from schedulerd.daemon.admin.state_queries import StateQueries
from schedulerd.daemon.files.files_in_force import BrokenFile
from schedulerd.daemon.files.queue_files import Load
from schedulerd.daemon.runtime.event_feed import EventFeed
from schedulerd.instant import Instant, read_clocks
from schedulerd.observe.ended import Ended

Submit: TypeAlias = Callable[[Command], Awaitable["asyncio.Future[list[Fact]]"]]
"""Returns when the command is queued; its future is done when it is carried out."""

PodSaid: TypeAlias = Callable[[str, str, str], Awaitable[str]]
"""What the resource manager with this id says of the pod with this namespace and name; '' if it does not know it.
Raises `NoPodAnswer`."""


async def nothing_said(_rm_id: str, _namespace: str, _pod: str) -> str:
    """Of no pod."""
    return ""


@dataclass(frozen=True, slots=True)
class ApiSources:
    """All functions are called on the loop."""

    scheduler: Scheduler
    """Read only; commands go through the owner."""
    queries: StateQueries
    """What paces the reading of the state."""
    feed: EventFeed
    access: Access
    submit: Submit
    """Hands a command to the scheduler."""
    validate: Load
    """Reads the text of a queue file, in a process of its own."""
    clocks: Callable[[], Instant] = read_clocks
    ended: Ended = field(default_factory=Ended)
    """What has become of asks and applications that are not there."""
    pod_said: PodSaid = nothing_said
    broken_files: Callable[[], Sequence[BrokenFile]] = tuple
    """The queue files that cannot be used at present."""
