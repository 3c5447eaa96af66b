"""Writes Events of events.k8s.io: created once, and a series when the same comes again."""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from schedulerd.kubernetes.api.errors import Refused
from schedulerd.kubernetes.api.resources import EVENTS
from schedulerd.kubernetes.api.transport import MERGE_PATCH
from schedulerd.kubernetes.api.writes.base import Caller, Outcome, Result, Retry, Urgency, Write


class Reference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """The object that an event is about. Without its UID, `kubectl describe` does not show the event."""

    kind: str
    name: str
    uid: str
    namespace: str = ""
    api_version: str = "v1"
    resource_version: str = ""


class EventName(msgspec.Struct, frozen=True, gc=False):
    name: str
    namespace: str


class Series(msgspec.Struct, frozen=True, rename="camel", gc=False):
    count: int
    last_observed_time: str


class Event(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """As the API server takes it. Thousands may wait to leave, and as a dict each would take a kilobyte."""

    metadata: EventName
    regarding: Reference
    type: str
    reason: str
    action: str
    note: str
    event_time: str
    reporting_controller: str
    reporting_instance: str
    series: Series | msgspec.UnsetType = msgspec.UNSET
    api_version: str = EVENTS.api_version
    kind: str = EVENTS.kind


class WriteEvent(Write):
    """DONE, GONE (no such namespace), REFUSED. `count` above 1 makes it a series."""

    kind = "event"
    urgency = Urgency.EVENT
    seconds_max = 120.0
    tries_max = 12

    def __init__(self, key: Hashable | None, event: Event, count: int, last_time: str, *, was_sent: bool) -> None:
        """`event` is without its series, and `key` what its repetitions have in common; `was_sent` if it is likely to
        exist already."""
        self._key = key
        self._event = event
        self._count = count
        self._last_time = last_time
        self._exists = was_sent

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
            answer = await caller.send("POST", EVENTS, EVENTS.path(self._event.metadata.namespace), self._created())
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
            name = self._event.metadata
            path = EVENTS.path(name.namespace, name.name)
            answer = await caller.send("PATCH", EVENTS, path, body, content_type=MERGE_PATCH)
        except Refused as error:
            if error.status.code == 404:
                return None
            raise
        return Outcome(Result.DONE, code=answer.status)

    def _series(self) -> Series:
        return Series(self._count, self._last_time)

    def _created(self) -> bytes:
        event = self._event
        return msgspec.json.encode(msgspec.structs.replace(event, series=self._series()) if self._count > 1 else event)
