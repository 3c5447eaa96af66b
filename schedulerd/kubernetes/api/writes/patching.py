"""Patches an object or its status. A patch says what the result shall be, so that sending it twice does no harm."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import msgspec

from schedulerd.kubernetes.api.errors import Refused
from schedulerd.kubernetes.api.resources import Resource
from schedulerd.kubernetes.api.transport import STRATEGIC_MERGE_PATCH
from schedulerd.kubernetes.api.writes.base import Caller, Outcome, Result, Retry, Urgency, Write


class Patch(Write):
    """DONE (`object` is the result), GONE, CONFLICT (another resource version), REFUSED.

    Strategic merge patches keep lists such as `conditions` apart by their keys: no read is needed, and nothing that
    others have written is lost. Custom resources know merge patches only. Of several patches that change the same part
    of an object only the newest leaves, so it has to say everything that the older ones said.
    """

    kind = "status"
    urgency = Urgency.STATUS
    seconds_max = 120.0

    def __init__(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        uid: str,
        patch: Mapping[str, Any],
        *,
        subresource: str = "status",
        part: str = "",
        resource_version: str = "",
        content_type: str = STRATEGIC_MERGE_PATCH,
    ) -> None:
        """`part` of the subresource is changed; empty: all of it. With `resource_version` the patch is done only if the
        object is still of that version."""
        self.resource, self.namespace, self.name, self.uid = resource, namespace, name, uid
        self._subresource, self._part = subresource, part
        self._content_type = content_type
        # The server answers 409 if the object has another UID by now.
        precondition = {"uid": uid} | ({"resourceVersion": resource_version} if resource_version else {})
        self._body = msgspec.json.encode({**patch, "metadata": {**patch.get("metadata", {}), **precondition}})
        self._is_conditional = bool(resource_version)

    @property
    def key(self) -> Hashable:
        return patch_key(self.resource, self.namespace, self.name, self._subresource, self._part)

    async def attempt(self, caller: Caller) -> Outcome | Retry:
        path = self.resource.path(self.namespace, self.name, self._subresource)
        try:
            answer = await caller.send("PATCH", self.resource, path, self._body, content_type=self._content_type)
        except Refused as error:
            status = error.status
            if status.code == 404:
                return Outcome(Result.GONE, status.message, 404)
            if status.code != 409 and not (status.code == 422 and _is_about_uid(error)):
                raise
            return await self._conflict(caller, error)
        if self.in_doubt:
            self.in_doubt = False
            caller.found_out(self, "performed")  # now it is
        return Outcome(Result.DONE, code=answer.status, object=answer.body)

    async def _conflict(self, caller: Caller, error: Refused) -> Outcome | Retry:
        try:
            answer = await caller.get(self.resource, self.resource.path(self.namespace, self.name))
        except Refused as missing:
            if missing.status.code != 404:
                raise
            return Outcome(Result.GONE, missing.status.message, 404)
        uid = _OBJECT.decode(answer.body).metadata.uid
        if uid != self.uid:
            return Outcome(Result.GONE, f"{self.resource} {self.name} has been replaced by another of its name")
        if self._is_conditional:
            return Outcome(Result.CONFLICT, error.status.message, error.status.code, object=answer.body)
        return Retry("conflict", error.status.message, error.retry_after_s, error.status.code)


class PatchVolume(Patch):
    """A volume or claim that a pod waits for before it can be bound."""

    kind = "volume"
    urgency = Urgency.BIND


def patch_key(resource: Resource, namespace: str, name: str, subresource: str = "status", part: str = "") -> Hashable:
    """The key of patches of this part of an object."""
    return "patch", resource, namespace, name, subresource, part


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata


_OBJECT = msgspec.json.Decoder(_Object)


def _is_about_uid(error: Refused) -> bool:
    details = error.status.details
    return details is not None and any(cause.field == "metadata.uid" for cause in details.causes or ())
