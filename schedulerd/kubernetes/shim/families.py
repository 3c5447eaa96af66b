"""Every metric of the shim, as one table; `docs/kubernetes.md` has the same, which a test checks.

Names follow Prometheus' conventions. No label takes a value that users of the cluster can invent: no names of pods,
namespaces, nodes or queues. Those are in the metrics of the daemon.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PREFIX = "schedulerd_kubernetes_"


class Kind(StrEnum):
    """Type of a metric, spelled as in the exposition format."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    kind: Kind
    labels: tuple[str, ...]
    documentation: str


FAMILIES: list[Family] = []


def _family(name: str, kind: Kind, labels: tuple[str, ...], documentation: str) -> Family:
    family = Family(PREFIX + name, kind, labels, documentation)
    FAMILIES.append(family)
    return family


def _counter(name: str, labels: tuple[str, ...], documentation: str) -> Family:
    return _family(f"{name}_total", Kind.COUNTER, labels, documentation)


def _gauge(name: str, labels: tuple[str, ...], documentation: str) -> Family:
    return _family(name, Kind.GAUGE, labels, documentation)


def _histogram(name: str, labels: tuple[str, ...], documentation: str) -> Family:
    return _family(f"{name}_seconds", Kind.HISTOGRAM, labels, documentation)


LEADER = Family("schedulerd_leader", Kind.GAUGE, (), "1 if this process schedules: it holds the Lease, or needs none.")
FAMILIES.append(LEADER)
INFO = _gauge(
    "info", ("scheduler_name",), "Always 1; a series for each scheduler name whose pods this process schedules."
)
LEASE_SECONDS_LEFT = _gauge(
    "lease_seconds_left", (), "For how long writes may still leave without another renewal of the Lease."
)
LEASE_RENEWALS = _counter(
    "lease_renewals", ("result",), "Attempts to take or renew the Lease, by result: done, failed, conflict."
)
LEASE_TRANSITIONS = _gauge("lease_transitions", (), "How often the Lease has changed its holder, as it says itself.")
TAKEOVER = _gauge(
    "takeover_seconds", (), "At the leader: from getting the Lease until everything was reported to the daemon."
)
READY = _gauge(
    "ready",
    (),
    "1 if everything is listed and reported to the daemon, which is connected; at a standby, if it could take over.",
)
PODS = _gauge("pods", ("state",), "Pods that have not ended and are scheduled by this scheduler, by state.")
APPLICATIONS = _gauge("applications", ("state",), "Applications of these pods, by state.")
NODES = _gauge("nodes", (), "Nodes of the cluster.")
BINDING = _histogram(
    "pod_bound", (), "From when a pod is first seen without scheduling gates until it is bound, with all waits."
)
REASONS_WRITTEN = _counter("reasons_written", (), "Conditions and events that say why pods wait.")
REASONS_WAITING = _gauge("reasons_waiting", (), "Pods whose reason has changed and is not written yet.")

REQUESTS = _counter(
    "requests",
    ("method", "resource", "code"),
    "Requests to the API server, by HTTP status; unreachable: without an answer. Watches have the method WATCH.",
)
REQUEST_DURATION = _histogram(
    "request_duration", ("method", "resource"), "From a request to its answer; without watches."
)
UNAUTHORIZED = _counter("unauthorized", (), "Answers 401; after each, the credentials are read again.")
WATCH_EVENTS = _counter("watch_events", ("resource", "type"), "Events that watches told.")
WATCH_BYTES = _counter("watch_bytes", ("resource",), "Bytes that watches told.")
WATCHES_ENDED = _counter("watches_ended", ("resource", "cause"), "Watches that ended; closed is the usual cause.")
LISTS = _counter(
    "lists", ("resource", "cause"), "Lists of all objects, by the cause: any but start is a watch that had a gap."
)
OBJECTS_FOUND_DELETED = _counter(
    "objects_found_deleted", ("resource",), "Objects that a list no longer had, and whose deletion no watch has told."
)
OBJECTS_UNDECODABLE = _counter("objects_undecodable", ("resource",), "Objects that cannot be read and are left out.")
OBJECTS = _gauge("objects", ("resource",), "Objects in the cache.")
WATCH_FAILING = _gauge(
    "watch_failing", ("resource",), "1 while the API server lets a resource be neither listed nor watched."
)
WATCH_SILENCE = _gauge("watch_silence_seconds", ("resource",), "Since the API server last said anything in a watch.")

WRITES = _counter("writes", ("kind", "result"), "Writes to the API server that are over, by the result.")
WRITE_RETRIES = _counter(
    "write_retries", ("kind", "cause"), "Writes that are tried again; pushed_back: the API server limits its clients."
)
WRITE_WAIT = _histogram("write_wait", ("kind",), "From a write being wanted until it leaves: throttling by the shim.")
WRITES_QUEUED = _gauge("writes_queued", ("urgency",), "Writes that wait until they may leave.")
WRITES_IN_FLIGHT = _gauge("writes_in_flight", (), "Writes that have left and are not answered.")
LOST_ANSWERS = _counter(
    "lost_answers", ("kind", "found"), "Answers to writes that were lost, by what was found when the object was read."
)
WRITE_BUGS = _counter(
    "write_bugs", ("kind",), "Attempts at a write that ended with a bug of schedulerd; the log has the traceback."
)
EVENTS_DROPPED = _counter("events_dropped", (), "Events that were not written because too many waited.")

JOURNAL_RECORDING = _gauge(
    "journal_recording", (), "Whether the journal is being written: 1 or 0. Missing without a journal."
)
JOURNAL_WRITTEN = _counter("journal_written_bytes", (), "Bytes written to the journal.")
JOURNAL_ENTRIES = _counter("journal_entries", (), "Steps and questions of the daemon written to the journal.")
JOURNAL_WAITING = _gauge("journal_waiting_events", (), "Events and effects that wait to be written to the journal.")

DAEMON_RESUMED = _counter("daemon_resumed", (), "Lost connections to the daemon that went on where they were.")
DAEMON_RESYNCED = _counter("daemon_resynced", (), "Times that everything was reported to the daemon again.")
