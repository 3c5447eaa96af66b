"""Creates an object with a name that the shim has chosen, which makes it safe to try again."""

from __future__ import annotations

from schedulerd.kubernetes.api.errors import Refused
from schedulerd.kubernetes.api.resources import Resource
from schedulerd.kubernetes.api.writes.base import Caller, Outcome, Result, Retry, Urgency, Write


class Create(Write):
    """DONE (`object` is what the server made of it), EXISTS (`object` is what is there), GONE (no such namespace),
    REFUSED (quota, admission, a field)."""

    kind = "create"
    urgency = Urgency.CREATE
    seconds_max = 60.0

    def __init__(self, resource: Resource, namespace: str, name: str, body: bytes) -> None:
        self.resource, self.namespace, self.name, self._body = resource, namespace, name, body

    async def attempt(self, caller: Caller) -> Outcome | Retry:
        if self.in_doubt and (outcome := await self._look_up(caller)) is not None:
            return outcome
        try:
            answer = await caller.send("POST", self.resource, self.resource.path(self.namespace), self._body)
        except Refused as error:
            status = error.status
            if status.code == 404:
                return Outcome(Result.GONE, status.message, 404)
            if status.has_cause("NamespaceTerminating"):
                return Outcome(Result.GONE, status.message, status.code)
            if status.code != 409:
                raise
            # A conflict without an object of that name is one of quotas, which are counted by compare-and-swap.
            found = await self._look_up(caller, status.message) if status.reason == "AlreadyExists" else None
            return found or Retry("conflict", status.message, error.retry_after_s, 409)
        return Outcome(Result.DONE, code=answer.status, object=answer.body)

    async def _look_up(self, caller: Caller, message: str = "") -> Outcome | None:
        """The object of that name; None if there is none."""
        was_in_doubt = self.in_doubt
        try:
            answer = await caller.get(self.resource, self.resource.path(self.namespace, self.name))
        except Refused as error:
            if error.status.code != 404:
                raise
            self.in_doubt = False
            if was_in_doubt:
                caller.found_out(self, "not_performed")
            return None
        self.in_doubt = False
        if was_in_doubt:
            caller.found_out(self, "performed")
        return Outcome(Result.EXISTS, message, object=answer.body)
