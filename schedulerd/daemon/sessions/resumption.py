"""Continues an update stream where an earlier one of its kind broke off, with nothing lost and nothing done twice.

The interface has no acknowledgements, so both sides are in doubt about what was under way when a connection broke. A
client may say in the headers of a stream how far it has come: how many responses it has received on streams of this
kind since it registered, and how many requests came before the next one that it will send. Both sides keep what they
have sent for a while, and skip what the other side has. The first request of a stream does not count: it only says to
which RM the stream belongs. The client gets our headers when its stream continues, not before. A client without these
headers is served as usual, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import grpc

from schedulerd.core.language.checks import shown
from schedulerd.core.language.commands import Command
from schedulerd.core.language.reading import Unreadable, whole_number
from schedulerd.daemon.sessions.open_calls import Refused
from schedulerd.daemon.sessions.outbox import Outbox

RESUMES = (("schedulerd-resumes", "1"),)
"""The header that says that the daemon supports resumption."""
RECEIVED_HEADER = "schedulerd-received"
SENT_HEADER = "schedulerd-sent"

AHEAD = (
    "this client has received more than was sent to its rmID since it was registered: another client has registered it"
)
BEHIND = "RESYNC: more was lost with the connection than is kept; register again and report everything"


@dataclass(frozen=True, slots=True)
class Position:
    """How far a client has come when it opens a stream: messages received and sent."""

    received: int
    sent: int


def takes_part(headers: Iterable[tuple[str, str | bytes]]) -> bool:
    """Whether a client says how far it has come, even if what it says is invalid."""
    return any(name in (RECEIVED_HEADER, SENT_HEADER) for name, _ in headers)


def position(headers: Iterable[tuple[str, str | bytes]]) -> Position | None:
    """The position in the headers of a call; None if the client takes no part. Raises ValueError if invalid."""
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
    """Counts the requests taken from streams of one kind, and the commands taken of the request after them."""

    def __init__(self) -> None:
        self._requests = self._commands = 0
        self._repeated = 0

    def resume(self, sent: int) -> bool:
        """Notes that the next request is the one after the first `sent`. Returns False if there is a gap before it."""
        self._repeated = self._requests - sent
        return self._repeated >= 0

    def new(self, commands: Iterable[Command]) -> Iterator[Command]:
        """The commands of the next request that were not taken before. Each is to be reported by `command_taken`."""
        if self._repeated > 0:
            return iter(())
        return islice(commands, self._commands, None)

    def command_taken(self) -> None:
        self._commands += 1

    def request_taken(self) -> None:
        """Notes that all commands of the request were taken, now or before."""
        if self._repeated > 0:
            self._repeated -= 1
        else:
            self._requests += 1
            self._commands = 0


def resume(position: Position | None, outbox: Outbox, taken: Taken) -> Taken:
    """Continues a stream at the position of its client; returns the counter of the requests after the first one.

    `position` is None for a client that takes no part: nothing is kept for it, and its requests are counted from zero.
    Raises `Refused` if the client has received more than was sent, or if one side has lost more than the other keeps.
    """
    if position is None:
        outbox.keep_nothing()
        return Taken()
    try:
        outbox.resume(position.received)
    except ValueError:
        raise Refused(grpc.StatusCode.ABORTED, AHEAD) from None
    except IndexError:
        raise Refused(grpc.StatusCode.ABORTED, BEHIND, resync=True) from None
    if not taken.resume(position.sent):
        raise Refused(grpc.StatusCode.ABORTED, BEHIND, resync=True)
    return taken
