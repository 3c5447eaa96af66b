"""What is due later. A timer that is no longer needed stays, and its handler finds nothing to do."""

from __future__ import annotations

import heapq
from enum import Enum
from itertools import count
from typing import NamedTuple

from schedulerd.kubernetes.metadata.application_ids import ApplicationId


class Due(Enum):
    """What is to be done; the key says for which object."""

    ASK_AGAIN = "ask again"
    BIND_AGAIN = "bind again"
    VOLUMES = "volumes"
    DELETE_AGAIN = "delete again"
    FAIL_AGAIN = "fail again"
    TELL_CONDITION = "tell condition"
    TELL_GANG = "tell gang"
    ADD_APPLICATION = "add application"
    CREATE_NODE = "create node"
    UPDATE_NODE = "update node"
    RELEASE_AGAIN = "release again"
    REPORT_POD = "report pod"
    NEW_CLASSES = "new classes"
    IDLE_CLASSES = "idle classes"
    ASK_REFUSED = "ask refused"
    GANG = "gang"
    GANGS_EXCLUDE = "gangs exclude each other"
    KEPT_ROOM = "kept room"
    PROMISE = "promise"
    DECLARATION = "declaration"
    DAEMON_SET = "daemon set"


class Timer(NamedTuple):
    due_ns: int
    number: int
    kind: Due
    key: str | ApplicationId


class Timers:
    def __init__(self) -> None:
        self.next_due_ns: int | None = None
        """When the earliest timer is due; None if none is set."""
        self._heap: list[Timer] = []
        self._numbers = count()

    def set(self, due_ns: int, kind: Due, key: str | ApplicationId = "") -> None:
        heapq.heappush(self._heap, Timer(due_ns, next(self._numbers), kind, key))
        self.next_due_ns = self._heap[0].due_ns

    def pop(self) -> Timer:
        """The earliest timer."""
        timer = heapq.heappop(self._heap)
        self.next_due_ns = self._heap[0].due_ns if self._heap else None
        return timer
