"""Applications, asks and allocations in the peer's shape.

The state Starting, which the peer's API no longer knows, is shown as Running. Times of asks and allocations are those
when the ask was made, as in the peer: there both are one object.
"""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.language.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.state.constraints.node_class_attributes import tags_for_people
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.rejected_application import RejectedApplication
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.rules.states import PendingState, group_state
from schedulerd.core.state.pending.sort_keys import INT32_MIN
from schedulerd.core.state.quotas import rules
from schedulerd.core.views.explanation import Explanation
from schedulerd.core.views.state_query import StateQuery
from schedulerd.daemon.runtime.json_stream import Listed
from schedulerd.daemon.yunikorn.go_json import Fields, amounts, go_object
from schedulerd.daemon.yunikorn.resource_histories import ResourceHistories

CREATION_TIME_TAG = "creationTime"
"""Of a pod, in seconds since the epoch: it stands for the time of its ask and of its allocation."""

NEVER_STARTED_MS = -62_135_596_800_000
"""Go's zero time in milliseconds."""

_APPLICATION_ALWAYS = frozenset({"applicationID", "partition", "queueName", "resourceHistory"})
_ALLOCATION_ALWAYS = frozenset({"allocationKey"})
_ATTEMPTED = frozenset(
    {PendingState.QUOTA_BLOCKED, PendingState.UNSCHEDULABLE, PendingState.PREDICATE_FAILED, PendingState.RESERVED}
)
"""States of asks that the peer calls attempted: the limits of the user let them in."""


class ApplicationObjects:
    """Makes the objects of one partition, for one answer."""

    def __init__(
        self,
        partition: Partition,
        rm_state: ResourceManagerState,
        histories: ResourceHistories,
        epoch_ns: int,
        now_ns: int,
    ) -> None:
        """`now_ns` is wall time; reasons of asks hold at that time."""
        self._histories = histories
        self._partition = partition
        self._rm_state = rm_state
        self._epoch_ns = epoch_ns
        self._now_ns = now_ns
        # With limit 0 no node is asked for its reason: an answer may have asks of any number of classes.
        self._explanation = Explanation(partition, rm_state, StateQuery(limit=0))

    def application(self, app: Application) -> Fields:
        """An application that was not rejected; also one that has terminated."""
        log = shown_states(app)
        started = next((at_ns for at_ns, state in log if state is ApplicationState.RUNNING), None)
        task_groups = app.gang.task_groups.values() if app.gang is not None else ()
        asks = [ask for group in list(app.groups.values()) for ask in group]
        return go_object(
            {
                "applicationID": app.application_id,
                "usedResource": amounts(app.allocated),
                "maxUsedResource": amounts(app.most_used()),
                "pendingResource": amounts(app.pending),
                "partition": app.partition_name,
                "queueName": app.queue.path,
                "submissionTime": self._epoch_ns + app.submitted_at_ns,
                "finishedTime": self._epoch_ns + log[-1][0] if app.is_terminal and log else 0,
                "requests": Listed(self._asks(app, asks)) if asks else None,
                "allocations": Listed(map(self.allocation, list(app.allocations.values())))
                if app.allocations
                else None,
                "applicationState": shown_state(app.state).value,
                "user": app.spec.user,
                "groups": list(app.spec.groups),
                "stateLog": [{"time": self._epoch_ns + at_ns, "applicationState": state.value} for at_ns, state in log],
                "placeholderData": [
                    go_object(
                        {
                            "taskGroupName": one.name,
                            "count": one.wanted,
                            "minResource": amounts(one.placeholder_resources),
                            "replaced": one.replaced,
                            "timedout": one.timed_out + one.unused,
                        },
                        frozenset({"taskGroupName", "count"}),
                    )
                    for one in task_groups
                ],
                "hasReserved": bool(app.reservations),
                "reservations": sorted({one.ask.key for one in app.reservations}),
                "maxRequestPriority": highest_priority(app),
                "startTime": NEVER_STARTED_MS if started is None else (self._epoch_ns + started) // 1_000_000,
                "resourceHistory": self._histories.of(app),
            },
            _APPLICATION_ALWAYS,
        )

    def rejected(self, app: RejectedApplication) -> Fields:
        """An application that was rejected at submission."""
        at_ns = self._epoch_ns + app.submitted_at_ns
        return go_object(
            {
                "applicationID": app.application_id,
                "partition": app.partition_name,
                "queueName": app.queue,
                "submissionTime": at_ns,
                "finishedTime": at_ns,
                "applicationState": app.state.value,
                "user": app.spec.user,
                "groups": list(app.spec.groups),
                "rejectedMessage": app.reason,
                "stateLog": [{"time": at_ns, "applicationState": app.state.value}],
                "maxRequestPriority": INT32_MIN,
                "startTime": NEVER_STARTED_MS,
                "resourceHistory": {},
            },
            _APPLICATION_ALWAYS,
        )

    def allocation(self, one: Allocation) -> Fields:
        """An allocation. `uuid` is there if its ask is for several, which share their key."""
        asked_at_ns = self._asked_at(one.ask)
        since_ns = asked_at_ns if one.placeholder_asked_at_ns is None else self._epoch_ns + one.placeholder_asked_at_ns
        spec = one.spec
        return go_object(
            {
                "allocationKey": spec.allocation_key,
                "allocationTags": dict(sorted(tags_for_people(spec.tags).items())),
                "requestTime": since_ns,
                "allocationTime": asked_at_ns,
                "allocationDelay": asked_at_ns - since_ns,
                "uuid": one.uuid if spec.max_allocations > 1 else "",
                "resource": amounts(one.request_class.resources),
                "priority": str(spec.priority),
                "nodeId": one.node.node_id,
                "applicationId": spec.application_id,
                "placeholder": one.placeholder,
                "placeholderUsed": one.placeholder_asked_at_ns is not None,
                "taskGroupName": spec.task_group,
                "preempted": one.releasing is not None and one.releasing.name == "PREEMPTED_BY_SCHEDULER",
                "originator": spec.originator,
            },
            _ALLOCATION_ALWAYS,
        )

    def _asks(self, app: Application, asks: list[Ask]) -> Iterator[Fields]:
        for ask in asks:
            if ask.group is not None:  # what was allocated while this was written is left out
                yield self._ask(app, ask)

    def _ask(self, app: Application, ask: Ask) -> Fields:
        assert ask.group is not None
        state, _ = group_state(self._partition, self._rm_state, app, ask.group)
        if ask.reservations:
            state = PendingState.RESERVED
        reason = self._explanation.waiting(app, ask)
        spec = ask.spec
        return go_object(
            {
                "allocationKey": ask.key,
                "allocationTags": dict(sorted(tags_for_people(spec.tags).items())),
                "requestTime": self._asked_at(ask),
                "resource": amounts(ask.request_class.resources),
                "pendingCount": ask.pending if spec.max_allocations > 1 else 0,
                "priority": str(spec.priority),
                "requiredNodeId": ask.request_class.required_node,
                "applicationId": spec.application_id,
                "placeholder": ask.placeholder,
                "taskGroupName": spec.task_group,
                "allocationLog": [{"message": reason, "lastOccurrence": self._now_ns, "count": 1}] if reason else [],
                "triggeredPreemption": any(one.victims for one in ask.reservations),
                "originator": spec.originator,
                "schedulingAttempted": state in _ATTEMPTED and not _is_limited(app, ask.group),
                "triggeredScaleUp": state is PendingState.UNSCHEDULABLE and not ask.request_class.required_node,
            },
            _ALLOCATION_ALWAYS,
        )

    def _asked_at(self, ask: Ask) -> int:
        """When the ask was made; what the tag of the pod says goes first."""
        text = ask.spec.tags.get(CREATION_TIME_TAG, "") if ask.spec.tags else ""
        if text.isascii() and text.isdigit() and len(text) <= 10:
            return int(text) * 1_000_000_000
        return self._epoch_ns + ask.asked_at_ns


def _is_limited(app: Application, group: AskGroup) -> bool:
    """Whether a limit of the user or group blocks the asks of a group; the peer looks there before the quotas."""
    key, items = group.pending_class.quota_key, group.pending_class.items
    return key.limit_subject is not None and any(
        rules.blocked_by_user_limits(queue, items, key) is not None for queue in app.queue.path_to_root
    )


def shown_state(state: ApplicationState) -> ApplicationState:
    """The state as the peer's API knows it."""
    return ApplicationState.RUNNING if state is ApplicationState.STARTING else state


def shown_states(app: Application) -> list[tuple[int, ApplicationState]]:
    """The states that it entered, oldest first, in the scheduler's time."""
    log: list[tuple[int, ApplicationState]] = []
    for at_ns, state, _ in app.state_log:
        shown = shown_state(state)
        if not log or log[-1][1] is not shown:
            log.append((at_ns, shown))
    return log


def highest_priority(app: Application) -> int:
    """The highest priority of its pending asks; the lowest number that there is without any."""
    priorities = (group.highest_priority() for group in app.groups.values())
    return max((one for one in priorities if one is not None), default=INT32_MIN)
