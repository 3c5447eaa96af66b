"""Every metric family the daemon exposes of its own, as one literal table.

One place for names, labels and meanings, so that the exposition, the reference in `docs/metrics.md` and the naming
tests cannot disagree. Names follow Prometheus' conventions: base units, `_total` on counters and nowhere else, nothing
in a name that could be a label. No label takes a value that an RM can invent (ids, keys, partition names it made up),
except the names of resource managers, queues and resources, of which a scrape shows a bounded number (`series.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

PREFIX = "schedulerd_"


class Kind(StrEnum):
    """Type of a metric, spelled as in the exposition format."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its full name as scraped, its type, the names of its labels in order, and its help text."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    documentation: str
    bounds_seconds: tuple[float, ...] = ()
    """Upper bounds of the buckets of a histogram, ascending, without infinity."""


def _counter(name: str, labels: Sequence[str], documentation: str) -> Family:
    return Family(f"{PREFIX}{name}_total", Kind.COUNTER, tuple(labels), documentation)


def _gauge(name: str, labels: Sequence[str], documentation: str) -> Family:
    return Family(PREFIX + name, Kind.GAUGE, tuple(labels), documentation)


def _histogram(name: str, labels: Sequence[str], bounds_seconds: tuple[float, ...], documentation: str) -> Family:
    return Family(f"{PREFIX}{name}_seconds", Kind.HISTOGRAM, tuple(labels), documentation, bounds_seconds)


_WORK_BOUNDS_SECONDS = (
    *(0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005),
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0),
)
"""For what the loop does in one go: a step takes microseconds, and 10 ms is as long as the loop should be held."""

_WAIT_BOUNDS_SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0),
)
"""For what an ask waits: milliseconds in an empty cluster, hours in a full one."""

_GANG_BOUNDS_SECONDS = (
    *(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
    *(120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0),
)
"""For what a gang waits: up to its timeout, 15 minutes if it does not say, and before that at the gate of its queue."""

_ENDING_BOUNDS_SECONDS = (
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
    *(90.0, 120.0, 300.0, 600.0, 1800.0),
)
"""For what it takes to end a pod: 30 seconds of grace are usual, and some ask for much more."""

_PARTITION = ("rm", "partition")
_QUEUE = (*_PARTITION, "queue")

PLACEMENTS = _counter("placements", _PARTITION, "Allocations made for asks.")
RECOVERED = _counter(
    "allocations_recovered", _PARTITION, "Existing allocations that resource managers reported with their nodes."
)
ASKS_ADDED = _counter("asks_added", _PARTITION, "Allocations asked for (an ask with maxAllocations n counts n).")
ASKS_WITHDRAWN = _counter(
    "asks_withdrawn",
    (*_PARTITION, "cause"),
    "Allocations asked for that were withdrawn before they were placed, by the cause.",
)
REJECTIONS = _counter(
    "rejections", ("rm", "object", "code"), "Nodes, applications and asks that were rejected, by the kind of mistake."
)
RELEASES = _counter(
    "releases", (*_PARTITION, "termination"), "Allocations that were released or removed, by the termination type."
)
RELEASE_REQUESTS = _counter(
    "release_requests",
    (*_PARTITION, "termination"),
    "Releases that the scheduler requested and the resource manager has to confirm.",
)
ALLOCATION_CHANGES = _counter(
    "allocation_changes",
    (*_PARTITION, "cause"),
    "Allocations whose amounts (`resized`), or whose node or UUID (`moved`), the resource manager changed.",
)
RELEASES_IGNORED = _counter("releases_ignored", ("rm",), "Releases and confirmations for unknown allocations and asks.")
ITEMS_IGNORED = _counter(
    "items_ignored", ("rm", "code"), "Other invalid items, for which the interface has no rejection."
)
CHECKS_FAILED = _counter(
    "checks_failed", ("rm", "item"), "Items rejected because their check raised an exception: bugs of schedulerd."
)
TAGS_IGNORED = _counter(
    "tags_ignored", ("rm",), "Tags that could not be read; their applications were accepted without them."
)
RELOADS = _counter(
    "reloads", ("rm", "result"), "Queue files that were reloaded or sent for a resource manager, by the result."
)
APPLICATION_TRANSITIONS = _counter(
    "application_transitions", (*_PARTITION, "state"), "Times that an application entered a state."
)
PLACEHOLDERS = _counter("placeholders", (*_PARTITION, "event"), "Events of placeholders, one by one.")
GANGS = _counter("gangs", (*_PARTITION, "event"), "Events of gangs as a whole.")
GANG_STATES = _gauge("gang_states", (*_PARTITION, "state"), "Gangs that declare their task groups, by state.")
PREEMPTION_ATTEMPTS = _counter(
    "preemption_attempts", (*_PARTITION, "outcome"), "Preemption attempts for an ask, by the outcome."
)
PREEMPTIONS = _counter(
    "preemptions", _QUEUE, "Allocations for which others were preempted, by the queue that gets the room."
)
PREEMPTION_VICTIMS = _counter(
    "preemption_victims",
    _QUEUE,
    "Allocations preempted for others, or because their queue is above its max, by that queue.",
)
QUOTA_PREEMPTIONS = _counter(
    "quota_preemptions",
    (*_QUEUE, "outcome"),
    "Times that a queue was above its max for longer than allowed, by the outcome.",
)
RESERVATIONS_MADE = _counter("reservations_made", (*_PARTITION, "kind"), "Reservations that were made.")
RESERVATIONS_ENDED = _counter(
    "reservations_ended", (*_PARTITION, "kind", "reason"), "Reservations that ended, by the reason."
)
PREDICATE_CHECKS = _counter(
    "predicate_checks", (*_PARTITION, "outcome"), "Predicate calls about an ask and a node, by the outcome."
)
UNSCHEDULABLE_REQUEST_CLASSES = _counter(
    "unschedulable_request_classes",
    (),
    "Times that a cycle found a class of pending asks blocked by a quota or limit, or no node for it.",
)
CYCLES_CUT = _counter("cycles_cut", (), "Cycles that reached their bound with asks left to try.")

PENDING_ALLOCATIONS = _gauge("pending_allocations", _QUEUE, "Allocations asked for and not placed yet.")
PENDING_ASKS = _gauge(
    "pending_asks",
    (*_PARTITION, "state"),
    "Allocations asked for and not placed yet, or that await a placeholder, by what they wait for.",
)
LEAF_PENDING_ASKS = _gauge(
    "leaf_pending_asks",
    (*_QUEUE, "state"),
    "Allocations as in `schedulerd_pending_asks`, by leaf queue; only states that an ask is in.",
)
ASKS_AWAITING_PLACEHOLDER = _gauge(
    "asks_awaiting_placeholder", _QUEUE, "Allocations asked for that wait for their placeholder to be released."
)
PENDING_PLACEHOLDERS = _gauge("pending_placeholders", _QUEUE, "Placeholders asked for and not placed yet.")
ALLOCATED_PLACEHOLDERS = _gauge("allocated_placeholders", _QUEUE, "Placeholders that are allocated in the queue.")
PENDING_SLOTS = _gauge("pending_slots", _QUEUE, "Slots of gangs that declare their task groups that have no room yet.")
HELD_SLOTS = _gauge("held_slots", _QUEUE, "Slots of gangs that declare their task groups for which room is held.")
PENDING = _gauge("pending_resources", (*_QUEUE, "resource"), "Resources asked for and not placed yet.")
ALLOCATED = _gauge("allocated_resources", (*_QUEUE, "resource"), "Resources of the allocations in the queue.")
GUARANTEED = _gauge("guaranteed_resources", (*_QUEUE, "resource"), "Resources that the queue is guaranteed.")
MAX = _gauge(
    "max_resources", (*_QUEUE, "resource"), "Maximum of the queue; without a sample the resource is unlimited."
)
MAX_APPLICATIONS = _gauge(
    "max_applications", _QUEUE, "Maximum of running applications in the queue; without a sample it is unlimited."
)
APPLICATIONS = _gauge(
    "applications", (*_QUEUE, "state"), "Applications, by state; without a queue if it was never placed into one."
)
RESERVATIONS = _gauge("reservations", (*_PARTITION, "kind"), "Allocations for which room of a node is reserved.")
NODES = _gauge("nodes", (*_PARTITION, "state"), "Nodes, by state.")
CAPACITY = _gauge("capacity_resources", (*_PARTITION, "resource"), "Sum of the nodes' capacities.")
OCCUPIED = _gauge("occupied_resources", (*_PARTITION, "resource"), "Sum of what other workloads occupy on the nodes.")
UNCLAIMED_ALLOCATIONS = _gauge(
    "unclaimed_allocations",
    _PARTITION,
    "Existing allocations whose applications are not known: they use room of their nodes, and no quota.",
)
RECOMMENDATIONS = _counter(
    "node_recommendations",
    _PARTITION,
    "Recommendations to offer more or less of a node, because of what other workloads use.",
)
OUTSTANDING = _gauge(
    "outstanding_requests",
    _PARTITION,
    "Allocations asked for that fit all quotas and limits and lack only room on nodes.",
)
OUTSTANDING_RESOURCES = _gauge("outstanding_resources", (*_PARTITION, "resource"), "Resources of these allocations.")
USED = _gauge("used_resources", (*_PARTITION, "resource"), "Sum of the real use of nodes, as far as it is reported.")
ALLOCATIONS_USED = _gauge(
    "allocations_used_resources",
    (*_PARTITION, "resource"),
    "Sum of the real use of allocations, as far as it is reported.",
)
RESOURCE_MANAGERS = _gauge("resource_managers", ("state",), "Resource managers, by state.")
LAST_RELOAD = _gauge(
    "config_last_reload_timestamp_seconds", ("rm",), "Time at which the queue file was last read, in Unix time."
)
LAST_RELOAD_SUCCESSFUL = _gauge(
    "config_last_reload_successful",
    ("rm",),
    "Whether the queue file read last, or the text sent last, took effect: 1 or 0.",
)
QUEUE_FILE_VALID = _gauge(
    "queue_file_valid",
    ("group",),
    "Whether the present queue file of a policy group can be used: 1 or 0. At 0 its last valid text stays in force, if "
    "there was one.",
)
CONFIG_INFO = _gauge(
    "config_info", ("rm", "checksum"), "Always 1; the label has the checksum of the queue file in effect."
)
INBOX_DEPTH = _gauge("inbox_depth", (), "Commands that wait for the scheduler.")
OUTBOX_DEPTH = _gauge("outbox_depth", (), "Responses that wait to be sent, of all resource managers.")
BUILD_INFO = _gauge(
    "build_info", ("version", "core"), "Always 1; the labels say which build runs: the core is interpreted or compiled."
)

PLACEMENT_LATENCY = _histogram(
    "placement_latency",
    (),
    _WAIT_BOUNDS_SECONDS,
    "Time from the step that accepts an ask to the step that sends its allocation.",
)
GANG_COMPLETE = _histogram(
    "gang_complete",
    (),
    _GANG_BOUNDS_SECONDS,
    "Time from the first ask for a placeholder of a gang until all are placed.",
)
PREEMPTION_ROOM_MADE = _histogram(
    "preemption_room_made",
    (),
    _ENDING_BOUNDS_SECONDS,
    "Time from the preemption of allocations for an ask until the last of them is gone.",
)
PREDICATE_WAIT = _histogram(
    "predicate_wait", (), _WAIT_BOUNDS_SECONDS, "Time from a predicate call until the scheduler uses its result."
)
CYCLE_DURATION = _histogram(
    "cycle_duration", (), _WORK_BOUNDS_SECONDS, "Time that a scheduling cycle held the event loop."
)
STEP_DURATION = _histogram(
    "step_duration", ("command",), _WORK_BOUNDS_SECONDS, "Time that a command held the event loop, by kind of command."
)
EVENTS_RECORDED = _counter("events_recorded", (), "Events that were recorded.")
EVENTS_SUPPRESSED = _counter(
    "events_suppressed", (), "Events not recorded because the object had the same event a moment before."
)
EVENTS_LOST = _counter(
    "events_lost", (), "Events that were dropped before a follower read them, counted for each follower."
)
EVENTS_FAILED = _counter(
    "events_failed", (), "Events left out because of an exception, counted for each reader: bugs of schedulerd."
)
EVENT_FOLLOWERS = _gauge("event_followers", (), "Open streams that follow events.")
CALLS_REFUSED = _counter(
    "calls_refused",
    ("method", "code"),
    "Registrations, streams and unreadable requests that were refused, by the status.",
)
CALLBACK_STREAMS = _gauge("callback_streams", (), "Callback streams that are open.")
CALLBACK_CALLS = _counter("callback_calls", ("call",), "Calls sent to resource managers on their callback streams.")
CALLBACK_DROPPED = _counter(
    "callback_calls_dropped",
    ("call",),
    "Calls that were not sent: no longer needed, or dropped for a reader that is too slow.",
)
CALLBACK_LATE = _counter("callback_late_answers", ("call",), "Answers to calls that are no longer open.")
CALLBACK_ANSWER = _histogram(
    "callback_answer", ("call",), _WAIT_BOUNDS_SECONDS, "Time from sending a call to reading its answer."
)
JOURNAL_RECORDING = _gauge(
    "journal_recording", (), "Whether the journal is being written: 1 or 0. Missing without a journal."
)
JOURNAL_WRITTEN = _counter("journal_written_bytes", (), "Bytes written to the journal.")
JOURNAL_WAITING = _gauge("journal_waiting_bytes", (), "Bytes that wait to be written to the journal.")
SERIES_LEFT_OUT = _gauge(
    "metrics_series_left_out",
    ("family",),
    "Series of a metric that this scrape leaves out and adds up, because there are too many.",
)
LOOP_LAG = _histogram("loop_lag", (), _WORK_BOUNDS_SECONDS, "Delay of a timer of the event loop that was due.")

FACT_COUNTERS = (
    *(PLACEMENTS, RECOVERED, ASKS_ADDED, ASKS_WITHDRAWN, REJECTIONS, RELEASES, RELEASE_REQUESTS, RELEASES_IGNORED),
    ALLOCATION_CHANGES,
    *(
        ITEMS_IGNORED,
        CHECKS_FAILED,
        TAGS_IGNORED,
        RELOADS,
        APPLICATION_TRANSITIONS,
        PLACEHOLDERS,
        GANGS,
        RECOMMENDATIONS,
    ),
    *(
        PREEMPTION_ATTEMPTS,
        RESERVATIONS_MADE,
        RESERVATIONS_ENDED,
        PREDICATE_CHECKS,
        UNSCHEDULABLE_REQUEST_CLASSES,
        CYCLES_CUT,
    ),
)
"""The counters that facts drive, except those by queue. The first label, if there is one, is the resource manager."""

FAMILIES = (
    *FACT_COUNTERS,
    *(PREEMPTIONS, PREEMPTION_VICTIMS, QUOTA_PREEMPTIONS),
    *(ASKS_AWAITING_PLACEHOLDER, PENDING_PLACEHOLDERS, ALLOCATED_PLACEHOLDERS),
    *(GANG_STATES, PENDING_SLOTS, HELD_SLOTS),
    *(
        PENDING_ALLOCATIONS,
        PENDING_ASKS,
        LEAF_PENDING_ASKS,
        PENDING,
        ALLOCATED,
        GUARANTEED,
        MAX,
        MAX_APPLICATIONS,
        APPLICATIONS,
        RESERVATIONS,
        NODES,
        CAPACITY,
        OCCUPIED,
        RESOURCE_MANAGERS,
    ),
    *(UNCLAIMED_ALLOCATIONS, OUTSTANDING, OUTSTANDING_RESOURCES, USED, ALLOCATIONS_USED),
    *(LAST_RELOAD, LAST_RELOAD_SUCCESSFUL, QUEUE_FILE_VALID, CONFIG_INFO),
    *(EVENTS_RECORDED, EVENTS_SUPPRESSED, EVENTS_LOST, EVENTS_FAILED, EVENT_FOLLOWERS),
    *(INBOX_DEPTH, OUTBOX_DEPTH, BUILD_INFO, CALLS_REFUSED, SERIES_LEFT_OUT),
    *(JOURNAL_RECORDING, JOURNAL_WRITTEN, JOURNAL_WAITING),
    *(CALLBACK_STREAMS, CALLBACK_CALLS, CALLBACK_DROPPED, CALLBACK_LATE, CALLBACK_ANSWER),
    *(PLACEMENT_LATENCY, GANG_COMPLETE, PREEMPTION_ROOM_MADE, PREDICATE_WAIT, CYCLE_DURATION, STEP_DURATION, LOOP_LAG),
)
