"""Everything that the shim changes in the cluster, as one class per kind of write.

A write knows how to send itself, what each answer means, and how to find out what became of a lost answer. When it is
sent, how often, and in which order is decided by `schedulerd.kubernetes.api.pool`.
"""

from schedulerd.kubernetes.api.writes.base import Caller, Outcome, Result, Retry, Urgency, Write
from schedulerd.kubernetes.api.writes.binding import Bind
from schedulerd.kubernetes.api.writes.creation import Create
from schedulerd.kubernetes.api.writes.deletion import Delete
from schedulerd.kubernetes.api.writes.event_records import Reference, WriteEvent
from schedulerd.kubernetes.api.writes.leases import CreateLease, LeaseRecord, UpdateLease
from schedulerd.kubernetes.api.writes.patching import Patch, PatchVolume

__all__ = [
    "Bind",
    "Caller",
    "Create",
    "CreateLease",
    "Delete",
    "LeaseRecord",
    "Outcome",
    "Patch",
    "PatchVolume",
    "Reference",
    "Result",
    "Retry",
    "UpdateLease",
    "Urgency",
    "Write",
    "WriteEvent",
]
