"""What all writes share: results, and how answers are told apart.

| answer | means |
|---|---|
| 2xx | done |
| 429, 503 with Retry-After | not performed: wait as long as the server says |
| 401 | not performed: credentials were read again already, so wait |
| 409 | depends on the kind of write, which looks at the object |
| 404 | depends on the kind of write |
| other 4xx | refused for good |
| 500, 502, 503, 504, no answer | in doubt: look at the object before anything else |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from enum import IntEnum, StrEnum
from typing import ClassVar, Protocol

import msgspec

from schedulerd.kubernetes.api.errors import UNDECODABLE, AnswerUnusable, Refused, Unreachable
from schedulerd.kubernetes.api.resources import Resource
from schedulerd.kubernetes.api.transport import JSON, Answer


class Urgency(IntEnum):
    """The order in which writes leave."""

    BIND = 0
    DELETE = 1
    CREATE = 2
    STATUS = 3
    EVENT = 4


class Result(StrEnum):
    DONE = "done"
    """The object is as it should be, by this write or by an earlier try of it."""
    GONE = "gone"
    """The object, or its namespace, does not exist (any longer), or has been replaced by another of its name."""
    CONFLICT = "conflict"
    """Somebody else was faster: the pod is on another node, the lease has changed. `object` is what is there."""
    EXISTS = "exists"
    """An object of that name is there already, and is `object`: by an earlier try or by somebody else."""
    REFUSED = "refused"
    """The server will not do it, now or later; its text is the message."""
    FAILED = "failed"
    """Not performed within its time."""
    UNKNOWN = "unknown"
    """The answer was lost, and could not be looked up within its time. The watch will tell."""
    NOT_LEADER = "not_leader"
    """The gate was closed when it should have left."""
    SUPERSEDED = "superseded"
    """A newer write of the same key took its place."""
    DROPPED = "dropped"
    """Too many were waiting."""
    CLOSED = "closed"
    """The pool was closed before it left."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What came of a write."""

    result: Result
    message: str = ""
    """What the server said."""
    code: int = 0
    """The HTTP status that decided; 0 if none did."""
    object: bytes = b""
    """The object as the server has it, in JSON, where the result says so or the server sent it."""
    node: str = ""
    """Of a bind: the node on which the pod is."""


class Retry(msgspec.Struct, frozen=True, gc=False):
    """Not done yet: to be tried again."""

    cause: str
    message: str
    after_s: float | None = None
    """As the server wishes."""
    code: int = 0


class Caller(Protocol):
    """Sends requests for a write."""

    async def send(
        self,
        method: str,
        resource: Resource,
        path: str,
        body: bytes,
        *,
        query: Sequence[tuple[str, str]] = (),
        content_type: str = JSON,
    ) -> Answer:
        """Sends a write, if it may leave. Raises as `Transport.request` does."""
        ...

    async def get(self, resource: Resource, path: str) -> Answer:
        """Looks something up."""
        ...

    def found_out(self, write: Write, what: str) -> None:
        """A lost answer was looked up: performed, not_performed."""
        ...


class Write(ABC):
    """One write; `attempt` is called until it gives an outcome, or its time is over."""

    kind: ClassVar[str]
    """For metrics."""
    urgency: ClassVar[Urgency]
    """In a pool; writes of leases are in none."""
    seconds_max: ClassVar[float]
    """From its submission to its outcome."""
    tries_max: ClassVar[int] = 1000
    in_doubt: bool = False
    """An earlier try may have been performed."""

    @property
    def key(self) -> Hashable | None:
        """Of several writes with one key only the newest counts, and they leave one after the other."""
        return None

    @abstractmethod
    async def attempt(self, caller: Caller) -> Outcome | Retry:
        """Sends it once, after having looked up what became of an earlier try in doubt."""

    async def attempt_once(self, caller: Caller) -> Outcome | Retry:
        """`attempt`, with what every write does about answers that decide nothing."""
        try:
            return await self.attempt(caller)
        except Unreachable as error:
            self.in_doubt = self.in_doubt or error.has_left
            return Retry("unreachable", str(error))
        except Refused as error:
            return self.refused(error)
        except (AnswerUnusable, *UNDECODABLE) as error:
            self.in_doubt = True
            return Retry("unusable", str(error))

    def refused(self, error: Refused) -> Outcome | Retry:
        """What an error means that the kind of write does not know better."""
        code, text, after_s = error.status.code, error.status.message, error.retry_after_s
        if code == 429 or (code == 503 and after_s is not None):
            return Retry("pushed_back", text, after_s, code)
        if code == 401:
            return Retry("unauthorized", text, after_s, code)
        if code >= 500:
            self.in_doubt = True
            return Retry("server_error", text, after_s, code)
        return Outcome(Result.REFUSED, text, code)

    def given_up(self, last: Retry) -> Outcome:
        """Its time is over."""
        return Outcome(Result.UNKNOWN if self.in_doubt else Result.FAILED, last.message, last.code)
