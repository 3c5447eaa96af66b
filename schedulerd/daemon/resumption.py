"""How an update stream goes on where an earlier one of its kind broke off, with nothing lost and nothing done twice.

The interface has no acknowledgements, so what was on its way when a connection broke is in doubt on both sides. A
client that wants to know says in the headers of a stream how far it has come: how many responses it has got on streams
of this kind since it registered, and how many requests came before the next one it will send. It keeps what it has sent
for a while, and so do we; each then skips what the other has. The first request of a stream does not count: it says
whose the stream is, and nothing else. It gets our headers when its stream goes on, not before. A client without these
headers is served as ever, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from schedulerd.core.checks import shown
from schedulerd.core.commands import Command
from schedulerd.core.reading import Unreadable, whole_number

RESUMES = (("schedulerd-resumes", "1"),)
"""Our header, which says that we take part."""
RECEIVED_HEADER = "schedulerd-received"
SENT_HEADER = "schedulerd-sent"

AHEAD = "this client has heard more than was said to its rmID since it was registered: somebody else has registered it"
BEHIND = "RESYNC: more was lost with the connection than is kept; register again and report everything"


@dataclass(frozen=True, slots=True)
class Position:
    """How far a client has come when it opens a stream."""

    received: int
    sent: int


def takes_part(headers: Iterable[tuple[str, str | bytes]]) -> bool:
    """Whether a client says how far it has come, in whatever way."""
    return any(name in (RECEIVED_HEADER, SENT_HEADER) for name, _ in headers)


def position(headers: Iterable[tuple[str, str | bytes]]) -> Position | None:
    """What the headers of a call say, None if the client takes no part. Raises ValueError if they make no sense."""
    found = {name: value for name, value in headers if name in (RECEIVED_HEADER, SENT_HEADER)}
    if not found:
        return None
    counts = []
    for name in (RECEIVED_HEADER, SENT_HEADER):
        value = found.get(name, "")
        try:
            counts.append(whole_number(value if isinstance(value, str) else "", 0, signed=False))
        except Unreadable as error:
            raise ValueError(
                f"header {name} is {shown(value) if isinstance(value, str) else 'binary'}; it {error}, and "
                f"{RECEIVED_HEADER} and {SENT_HEADER} go together"
            ) from None
    return Position(*counts)


class Taken:
    """How many requests of streams of one kind were taken, to the command: a request may be cut into several."""

    def __init__(self) -> None:
        self._requests = self._commands = 0
        self._repeated = 0

    def resume(self, sent: int) -> bool:
        """The next request is the one after the first `sent`. False if there is a gap before it."""
        self._repeated = self._requests - sent
        return self._repeated >= 0

    def new(self, commands: Iterable[Command]) -> Iterator[Command]:
        """Of the commands of the next request, those that were not taken yet; each is to be reported by `taken`."""
        if self._repeated > 0:
            return iter(())
        return islice(commands, self._commands, None)

    def command_taken(self) -> None:
        self._commands += 1

    def request_taken(self) -> None:
        """All commands of the request were taken, this time or before."""
        if self._repeated > 0:
            self._repeated -= 1
        else:
            self._requests += 1
            self._commands = 0
