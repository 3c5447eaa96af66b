"""Back-pressure: an RM does not keep up with its responses, or the scheduler does not keep up with an RM's requests.

Responses. Two marks bound memory. When an outbox is over half of its bound, its RM counts as away even if its stream is
open: its requests are not read, so HTTP/2 flow control holds it back, and nothing is allocated for it, as for an RM
that is Paused (SEMANTICS C3: an RM is Running while it can receive). The RM counts as back when no outbox is over a
quarter of its bound. With one mark for both, a slow reader would leave and return with every message, and all results
that it is asked for would be void each time. So an RM that sends without reading costs only what was under way, and is
served again after it has read. It has to resync if it has not read within the reconnect timeout, or if an outbox
exceeds its bound even then. No response is ever dropped while its RM is expected to read it.

Requests. The number of commands of a stream in the inbox is bounded, and a reader waits while the inbox is full, so
HTTP/2 flow control holds the client back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection

from schedulerd.core.language.commands import Command
from schedulerd.core.language.facts.fact import Fact
from schedulerd.daemon.runtime.owner import Owner
from schedulerd.daemon.sessions.outbox import Outbox

COMMANDS_UNDER_WAY_MAX = 5
"""Maximum number of commands of one stream in the inbox. It keeps an RM from crowding out others in the inbox, and from
getting many responses while it does not read. Decoding them takes a few milliseconds, then the loop turns. It pays to
take more than a cycle allocates: applications that run out of asks in every turn have to be put in order again in the
next turn."""


class Backlog:
    """The responses that wait for an RM, and whether the RM keeps up with them."""

    def __init__(self, outboxes: Collection[Outbox], bytes_max: int) -> None:
        """`bytes_max` is the bound of each outbox."""
        self.keeps_up = True
        self._outboxes = outboxes
        self._bytes_max = bytes_max

    def regulate(self) -> bool:
        """Computes `keeps_up` again after an outbox has grown or shrunk; returns whether it has changed."""
        mark_bytes = self._bytes_max // (2 if self.keeps_up else 4)
        before, self.keeps_up = self.keeps_up, self._largest_bytes() <= mark_bytes
        return self.keeps_up != before

    @property
    def is_too_large(self) -> bool:
        """Whether an outbox exceeds its bound although the RM counts as away."""
        return not self.keeps_up and self._largest_bytes() > self._bytes_max

    def _largest_bytes(self) -> int:
        return max(outbox.size_bytes for outbox in self._outboxes)


class CommandsUnderWay:
    """The commands of one stream that wait in the owner's inbox."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._waiting: deque[asyncio.Future[list[Fact]]] = deque()

    async def submit(self, command: Command, size_bytes: int) -> None:
        """Queues a command from a request of this size; waits while too many of the stream, or of all, are queued."""
        if len(self._waiting) >= COMMANDS_UNDER_WAY_MAX:
            await self._waiting.popleft()
        self._waiting.append(await self._owner.submit(command, size_bytes))

    async def taken(self) -> None:
        """Returns when the scheduler has taken all queued commands."""
        await asyncio.gather(*self._waiting)
