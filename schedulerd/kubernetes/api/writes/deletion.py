"""Deletes an object, and never another one of its name."""

from __future__ import annotations

import msgspec

from schedulerd.kubernetes.api.errors import Refused
from schedulerd.kubernetes.api.resources import Resource
from schedulerd.kubernetes.api.writes.base import Caller, Outcome, Result, Retry, Urgency, Write


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] | None = None

    @property
    def is_left(self) -> bool:
        """Nothing is waited for: the server was killed between the two writes of a deletion at once."""
        return self.deletion_grace_period_seconds == 0 and not self.finalizers


class _Object(msgspec.Struct):
    metadata: _Metadata


_OBJECT = msgspec.json.Decoder(_Object)


class Delete(Write):
    """DONE (a pod with a node goes when its kubelet is done), GONE, REFUSED.

    Without `grace_period_s` the object decides itself. Zero removes a pod without waiting for its kubelet, which is
    right for no pod that may run.
    """

    kind = "delete"
    urgency = Urgency.DELETE
    seconds_max = 120.0

    def __init__(
        self, resource: Resource, namespace: str, name: str, uid: str, grace_period_s: int | None = None
    ) -> None:
        self.resource, self.namespace, self.name, self.uid = resource, namespace, name, uid
        options: dict[str, object] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        self._body = msgspec.json.encode(options)

    async def attempt(self, caller: Caller) -> Outcome | Retry:
        if self.in_doubt and (outcome := await self._look_up(caller)) is not None:
            return outcome
        try:
            path = self.resource.path(self.namespace, self.name)
            answer = await caller.send("DELETE", self.resource, path, self._body)
        except Refused as error:
            if error.status.code == 404:
                return Outcome(Result.GONE, error.status.message, 404)
            if error.status.code != 409:
                raise
            # Another UID, or somebody else wrote the object at this moment.
            found = await self._look_up(caller)
            return found or Retry("conflict", error.status.message, None, 409)
        return Outcome(Result.DONE, code=answer.status)

    async def _look_up(self, caller: Caller) -> Outcome | None:
        """What is left of the object; None if it has to be deleted, still or to the end."""
        try:
            answer = await caller.get(self.resource, self.resource.path(self.namespace, self.name))
        except Refused as error:
            if error.status.code != 404:
                raise
            self._found(caller, "performed")
            return Outcome(Result.GONE, error.status.message, 404)
        metadata = _OBJECT.decode(answer.body).metadata
        if metadata.uid != self.uid:
            self._found(caller, "performed")
            return Outcome(Result.GONE, f"{self.resource} {self.name} has been replaced by another of its name")
        if metadata.deletion_timestamp is not None and not metadata.is_left:
            self._found(caller, "performed")
            return Outcome(Result.DONE)
        self._found(caller, "not_performed")
        return None

    def _found(self, caller: Caller, what: str) -> None:
        if self.in_doubt:
            caller.found_out(self, what)
        self.in_doubt = False
