"""The client of the Kubernetes API server: watches in, writes out.

    transport = Transport(load_access())
    queue = EventQueue()
    pods = Reflector(transport, PODS, Pod, queue.put, field_selector="status.phase!=Succeeded,status.phase!=Failed")
    task = asyncio.create_task(pods.run())
    resource, events = await queue.get()          # [Upserted(pod, old), Deleted(pod), Synced(is_first)]

    pool = WritePool(transport, may_write=leadership.seconds_left)
    outcome = await pool.submit(Bind(namespace, name, uid, node))
    Recorder(pool, "schedulerd", pod_name).record(Reference("Pod", name, uid, namespace), "Scheduled", "Binding", note)

The contract of a watch: of each resource every object is told, changes in their order, and deletions exactly once,
whatever happens to connections; see `watch_events`. Between resources there is no order. The decoded type is any class
that msgspec can decode, with `metadata.name`, `namespace`, `uid` and `resource_version`.

The contract of a write: `submit` gives a future whose result is an `Outcome`, always and within the write's time. A
lost answer is looked up; where that fails too, the result is UNKNOWN. It asks `may_write` when it leaves. Nothing here
keeps state of the cluster beyond the last object that each watch told.
"""

from schedulerd.kubernetes.api.backoff import BackoffSettings
from schedulerd.kubernetes.api.errors import AnswerUnusable, ApiError, Refused, Unreachable
from schedulerd.kubernetes.api.event_queue import EventQueue
from schedulerd.kubernetes.api.metrics import ApiMetrics
from schedulerd.kubernetes.api.pool import PoolSettings, WritePool
from schedulerd.kubernetes.api.reader import get, knows, server_version
from schedulerd.kubernetes.api.recorder import Recorder
from schedulerd.kubernetes.api.reflector import Reflector, WatchSettings
from schedulerd.kubernetes.api.resources import Resource
from schedulerd.kubernetes.api.transport import Transport
from schedulerd.kubernetes.api.watch_events import Deleted, Synced, Upserted, WatchEvent
from schedulerd.kubernetes.api.writes import Outcome, Result, Urgency

__all__ = [
    "AnswerUnusable",
    "ApiError",
    "ApiMetrics",
    "BackoffSettings",
    "Deleted",
    "EventQueue",
    "Outcome",
    "PoolSettings",
    "Recorder",
    "Reflector",
    "Refused",
    "Resource",
    "Result",
    "Synced",
    "Transport",
    "Unreachable",
    "Upserted",
    "Urgency",
    "WatchEvent",
    "WatchSettings",
    "WritePool",
    "get",
    "knows",
    "server_version",
]
