"""Writes of a Lease, by which replicas agree on a leader. Each is sent once, by the keeper of the lease and not by a
pool: nothing else may leave without a lease, so nothing may hold it up.

Every write carries the resource version of what it replaces: a 409 is the only fence there is. The lease is read then.
"""

from __future__ import annotations

from typing import Any

import msgspec

from schedulerd.kubernetes.api.errors import Refused
from schedulerd.kubernetes.api.resources import LEASES
from schedulerd.kubernetes.api.watch_events import PlainMetadata
from schedulerd.kubernetes.api.writes.base import Caller, Outcome, Result, Retry, Write


class LeaseRecord(msgspec.Struct, rename="camel", frozen=True):
    """The spec of a Lease. Times stay texts: nobody compares clocks, but only whether a time has changed."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseMetadata(PlainMetadata, rename="camel"):
    """With what other people write there, which an update must keep."""

    labels: dict[str, str] | None = None
    owner_references: list[dict[str, Any]] | None = None
    finalizers: list[str] | None = None


class Lease(msgspec.Struct):
    metadata: LeaseMetadata
    spec: LeaseRecord = LeaseRecord()


_LEASE = msgspec.json.Decoder(Lease)


def lease_of(body: bytes) -> Lease:
    """A lease in JSON, which is `Outcome.object`."""
    return _LEASE.decode(body)


class _LeaseWrite(Write):
    def __init__(self, namespace: str, name: str) -> None:
        self.namespace, self.name = namespace, name

    async def _look_up(self, caller: Caller, wanted: LeaseRecord, version: str, message: str) -> Outcome | None:
        """Whose record is there; None if it is still the one that this write was to replace."""
        try:
            body = (await caller.get(LEASES, LEASES.path(self.namespace, self.name))).body
        except Refused as error:
            if error.status.code != 404:
                raise
            return Outcome(Result.GONE, message, 404) if version else None
        found = _LEASE.decode(body)
        if found.spec == wanted:
            return Outcome(Result.DONE, message, object=body)
        if found.metadata.resource_version == version:
            return None
        return Outcome(Result.CONFLICT, message, object=body)

    def _body(self, record: LeaseRecord, version: str, kept: LeaseMetadata | None = None) -> bytes:
        metadata: dict[str, Any] = {"name": self.name, "namespace": self.namespace}
        if version:
            metadata["resourceVersion"] = version
        if kept is not None:
            others = {
                "labels": kept.labels,
                "annotations": kept.annotations,
                "ownerReferences": kept.owner_references,
                "finalizers": kept.finalizers,
            }
            metadata |= {key: value for key, value in others.items() if value}
        return msgspec.json.encode(
            {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": record}
        )


class CreateLease(_LeaseWrite):
    """DONE, CONFLICT if somebody else made it first, GONE without the namespace."""

    kind = "lease_create"

    def __init__(self, namespace: str, name: str, record: LeaseRecord) -> None:
        super().__init__(namespace, name)
        self._record = record

    async def attempt(self, caller: Caller) -> Outcome | Retry:
        try:
            answer = await caller.send("POST", LEASES, LEASES.path(self.namespace), self._body(self._record, ""))
        except Refused as error:
            status = error.status
            if status.code == 404:
                return Outcome(Result.GONE, status.message, 404)
            if status.code != 409:
                raise
            found = await self._look_up(caller, self._record, "", status.message)
            return found or Retry("conflict", status.message, None, 409)
        return Outcome(Result.DONE, code=answer.status, object=answer.body)


class UpdateLease(_LeaseWrite):
    """DONE, CONFLICT (`object` is the lease as another holder wrote it), GONE."""

    kind = "lease_update"

    def __init__(
        self,
        namespace: str,
        name: str,
        record: LeaseRecord,
        resource_version: str,
        metadata: LeaseMetadata | None = None,
    ) -> None:
        """`metadata` is that of the lease in this version: labels and the like are kept."""
        super().__init__(namespace, name)
        self._record, self._version, self._metadata = record, resource_version, metadata

    async def attempt(self, caller: Caller) -> Outcome | Retry:
        record, version = self._record, self._version
        try:
            path = LEASES.path(self.namespace, self.name)
            answer = await caller.send("PUT", LEASES, path, self._body(record, version, self._metadata))
        except Refused as error:
            status = error.status
            if status.code == 404:
                return Outcome(Result.GONE, status.message, 404)
            if status.code != 409:
                raise
            found = await self._look_up(caller, record, version, status.message)
            return found or Retry("conflict", status.message, None, 409)
        return Outcome(Result.DONE, code=answer.status, object=answer.body)
