"""Events about the Lease, as Kubernetes' own components write them: `kubectl describe lease` shows who led when."""

from __future__ import annotations

from schedulerd.kubernetes.api import Recorder
from schedulerd.kubernetes.api.resources import LEASES
from schedulerd.kubernetes.api.writes import Reference
from schedulerd.kubernetes.election import Leadership

REASON = "LeaderElection"


def tell(recorder: Recorder, leadership: Leadership, what: str) -> None:
    """That this process became leader, or stopped leading."""
    name = leadership.name
    lease = Reference(LEASES.kind, name.name, leadership.lease_uid, name.namespace, LEASES.api_version)
    recorder.record(lease, REASON, REASON, f"{leadership.identity} {what}")
