"""Writes Events of events.k8s.io: created once, and a series when the same comes again."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import msgspec

from schedulerd.kubernetes.api.errors import Refused
from schedulerd.kubernetes.api.resources import EVENTS
from schedulerd.kubernetes.api.transport import MERGE_PATCH
from schedulerd.kubernetes.api.writes.base import Caller, Outcome, Result, Retry, Urgency, Write


class Reference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The object that an event is about. Without its UID, `kubectl describe` does not show the event."""

    kind: str
    name: str
    uid: str
    namespace: str = ""
    api_version: str = "v1"
    resource_version: str = ""


class WriteEvent(Write):
    """DONE, GONE (no such namespace), REFUSED. `count` above 1 makes it a series."""

    kind = "event"
    urgency = Urgency.EVENT
    seconds_max = 120.0
    tries_max = 12

    def __init__(
        self, key: Hashable | None, body: dict[str, Any], count: int, last_time: str, *, was_sent: bool
    ) -> None:
        """`body` is the event without its series, and `key` what its repetitions have in common; `was_sent` if it is
        likely to exist already."""
        self._key = key
        self._body = body
        self._count = count
        self._last_time = last_time
        self._exists = was_sent
        metadata = body["metadata"]
        self.namespace, self.name = metadata["namespace"], metadata["name"]

    @property
    def key(self) -> Hashable | None:
        return self._key

    async def attempt(self, caller: Caller) -> Outcome | Retry:
        # A repetition does no harm: the name is fixed and the count is absolute.
        self.in_doubt = False
        if self._exists:
            outcome = await self._patch(caller)
            if outcome is not None:
                return outcome
            self._exists = False
        try:
            answer = await caller.send("POST", EVENTS, EVENTS.path(self.namespace), self._created())
        except Refused as error:
            status = error.status
            if status.code == 404 or status.has_cause("NamespaceTerminating"):
                return Outcome(Result.GONE, status.message, status.code)
            if status.code != 409 or status.reason != "AlreadyExists":
                raise
            self._exists = True
            if self._count > 1:
                return await self._patch(caller) or Retry("conflict", status.message, None, 409)
            return Outcome(Result.DONE, status.message, 409)
        return Outcome(Result.DONE, code=answer.status)

    async def _patch(self, caller: Caller) -> Outcome | None:
        """None if the event is gone: the API server forgets them after an hour."""
        body = msgspec.json.encode({"series": self._series()})
        try:
            path = EVENTS.path(self.namespace, self.name)
            answer = await caller.send("PATCH", EVENTS, path, body, content_type=MERGE_PATCH)
        except Refused as error:
            if error.status.code == 404:
                return None
            raise
        return Outcome(Result.DONE, code=answer.status)

    def _series(self) -> dict[str, Any]:
        return {"count": self._count, "lastObservedTime": self._last_time}

    def _created(self) -> bytes:
        return msgspec.json.encode({**self._body, "series": self._series()} if self._count > 1 else self._body)
