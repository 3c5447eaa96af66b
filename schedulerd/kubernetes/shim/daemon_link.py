"""What the daemon says and asks, as events of the cluster. Answers to questions leave in the same turn."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import TypeVar

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import (
    AllocationRelease,
    ApplicationNotice,
    Hold,
    PendingReason,
    PredicatesCall,
    PreemptionPredicatesCall,
    ResourceManager,
    Unhold,
)
from schedulerd.client.messages import blamed_key
from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.events import (
    Allocated,
    AllocationReleased,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationUpdated,
    AskRejected,
    AskReleased,
    AskTimedOut,
    Cause,
    Event,
    HoldsVoid,
    NodeAccepted,
    NodeRejected,
    PendingReasonTold,
    QueueNameUnused,
    ReleaseWanted,
    ReportBegun,
    Resynced,
    RoomFreed,
    RoomHeld,
)
from schedulerd.kubernetes.cluster.gangs.declared import pattern_key
from schedulerd.kubernetes.cluster.gangs.model import TASK_GROUPS_TAG
from schedulerd.kubernetes.metadata.application_ids import ApplicationId
from schedulerd.kubernetes.shim.answers_awaited import AnswersAwaited
from schedulerd.kubernetes.shim.application_ids import from_daemon, in_words
from schedulerd.kubernetes.shim.gang_times import left_ms
from schedulerd.kubernetes.shim.pace import Pace
from schedulerd.kubernetes.shim.pending_reasons import waiting_of

_CAUSES: dict[si_pb2.TerminationType.ValueType, Cause] = {
    si_pb2.TIMEOUT: Cause.TIMEOUT,
    si_pb2.PREEMPTED_BY_SCHEDULER: Cause.PREEMPTED,
    si_pb2.PLACEHOLDER_REPLACED: Cause.REPLACED,
}

LOG = logging.getLogger(__name__)

Handle = Callable[[list[Event]], None]
T = TypeVar("T")


class DaemonLink(ResourceManager):
    """`handle` is given all events of a message, in order; `wanted` keeps the releases that are to be confirmed."""

    def __init__(
        self,
        cluster: Cluster,
        handle: Handle,
        wanted: Callable[[AllocationRelease], None],
        clock: Callable[[], float] | None = None,
        pace: Pace | None = None,
    ) -> None:
        """`clock`, in seconds, is the one by which the cluster is stepped: that of the running loop, if it is None.
        Without a `pace` every question is answered at once."""
        self.applications_awaited: AnswersAwaited[ApplicationId] = AnswersAwaited()
        self.nodes_awaited: AnswersAwaited[str] = AnswersAwaited()
        self._cluster = cluster
        self._ids = cluster.model.settings.application_ids
        self._handle = handle
        self._wanted = wanted
        self._clock = clock
        self._pace = pace

    def take_nodes(self, response: si_pb2.NodeResponse) -> None:
        events: list[Event] = [NodeAccepted(one.nodeID) for one in response.accepted]
        for one in response.rejected:
            LOG.warning("the daemon has rejected node %s: %s", one.nodeID, one.reason)
            events.append(NodeRejected(one.nodeID, one.reason, blamed_key(one.reason)))
        self._handle(events)
        self.nodes_awaited.answered([event.name for event in events if isinstance(event, NodeAccepted | NodeRejected)])

    def take_applications(self, response: si_pb2.ApplicationResponse) -> None:
        events: list[Event] = [ApplicationAccepted(self._id(one.applicationID)) for one in response.accepted]
        for refused in response.rejected:
            LOG.warning("the daemon has rejected application %s: %s", refused.applicationID, refused.reason)
            events.append(ApplicationRejected(*self._told(refused.applicationID, refused.reason)))
        for one in response.updated:
            application_id, message = self._told(one.applicationID, one.message)
            events.append(ApplicationUpdated(application_id, one.state, message))
        self._handle(events)
        answered = [one.application_id for one in events if isinstance(one, ApplicationAccepted | ApplicationRejected)]
        self.applications_awaited.answered(answered)

    def take_allocations(self, response: si_pb2.AllocationResponse) -> None:
        events: list[Event] = [
            Allocated(self._id(one.applicationID), one.allocationKey, one.UUID, one.nodeID) for one in response.new
        ]
        # First, so that placeholders whose time is over are not taken for such that give way.
        events += [
            (AskTimedOut if one.terminationType == si_pb2.TIMEOUT else AskReleased)(
                self._id(one.applicationID), one.allocationKey
            )
            for one in response.releasedAsks
        ]
        events += [self._released(release) for release in response.released]
        for refused in response.rejected:
            application_id, reason = self._told(refused.applicationID, refused.reason)
            events.append(AskRejected(application_id, refused.allocationKey, reason))
        self._handle(events)

    def predicates(self, call: PredicatesCall) -> str | Awaitable[str | None] | None:
        args, key = call.args, self._key(call)
        return self._answer(key, lambda: self._cluster.predicates(key, args.nodeID, allocate=args.allocate))

    def preemption_predicates(self, call: PreemptionPredicatesCall) -> int | Awaitable[int | None] | None:
        args, key = call.args, self._key(call)
        holds = self._cluster.model.holds
        victims = [holds.get(one, one) for one in args.preemptAllocationKeys]
        return self._answer(
            key, lambda: self._cluster.preemption_predicates(key, args.nodeID, victims, args.startIndex)
        )

    def _key(self, call: PredicatesCall | PreemptionPredicatesCall) -> str:
        """By which the cluster knows what is asked about: a pod, or room for any member of a task group."""
        if not call.taskGroupName:
            return call.args.allocationKey
        return pattern_key(self._id(call.applicationID), call.taskGroupName)

    def _answer(self, key: str, answer: Callable[[], T]) -> T | Awaitable[T]:
        return answer() if self._pace is None else self._pace.run(self._steps(key, answer))

    def _steps(self, key: str, answer: Callable[[], T]) -> Generator[None, None, T]:
        while self._cluster.prepare(key):
            yield
        return answer()

    def on_holds(self, holds: Sequence[Hold], unholds: Sequence[Unhold]) -> None:
        events: list[Event] = [RoomFreed(one.holdID, one.takenBy) for one in unholds]
        events += [
            RoomHeld(one.holdID, self._id(one.applicationID), one.allocationKey, one.taskGroupName, one.nodeID)
            for one in holds
        ]
        self._handle(events)

    def on_holds_void(self) -> None:
        self._handle([HoldsVoid()])

    def on_pending_reasons(self, reasons: Sequence[PendingReason]) -> None:
        ids = self._ids
        self._handle(
            [PendingReasonTold(self._id(one.applicationID), one.allocationKey, waiting_of(one, ids)) for one in reasons]
        )

    def on_application_notices(self, notices: Sequence[ApplicationNotice]) -> None:
        unused = [one for one in notices if one.kind == ApplicationNotice.QUEUE_NAME_UNUSED]
        told = [(one.queue, *self._told(one.applicationID, one.message)) for one in unused]
        self._handle([QueueNameUnused(application_id, queue, message) for queue, application_id, message in told])

    async def about_pod(self, namespace: str, name: str) -> str:
        work = self._cluster.about_pod(namespace, name)
        while True:
            try:
                next(work)
            except StopIteration as end:
                return str(end.value)
            await asyncio.sleep(0)

    def on_lost(self, reason: str) -> None:
        LOG.warning("%s: pods keep running, and no further ones are placed until it is there again", reason)

    def on_resumed(self) -> None:
        LOG.info("the daemon is there again, and goes on where it was")

    def on_report(self, applications: Sequence[str], nodes: Sequence[str]) -> None:
        LOG.warning(
            "the daemon has lost its state: %d applications and %d nodes are reported again",
            len(applications),
            len(nodes),
        )
        self._handle([ReportBegun(tuple(map(self._id, applications)), tuple(nodes))])

    def report_application(self, added: si_pb2.AddApplicationRequest) -> None:
        """A gang gets what is left of its time, not all of it again; and one that has begun is not held room for as if
        it were new."""
        application_id = self._id(added.applicationID)
        if declared := self._cluster.task_groups(application_id):
            added.tags[TASK_GROUPS_TAG] = declared
        known = self._cluster.gang_time(application_id)
        if known is None:
            return
        if known.began_ns is not None:
            now_s = self._clock() if self._clock is not None else asyncio.get_running_loop().time()
            elapsed_s = now_s - known.began_ns / 1e9
        else:
            elapsed_s = time.time() - known.began_s
        added.executionTimeoutMilliSeconds = left_ms(known.whole_s, elapsed_s)

    def on_resynced(self) -> None:
        self._handle([Resynced()])

    def _released(self, release: AllocationRelease) -> Event:
        cause = _CAUSES.get(release.terminationType)
        application_id, message = self._told(release.applicationID, release.message)
        if cause is None:
            return AllocationReleased(application_id, release.allocationKey, release.UUID)
        self._wanted(release)
        return ReleaseWanted(application_id, release.allocationKey, release.UUID, cause, message)

    def _id(self, text: str) -> ApplicationId:
        return from_daemon(text, self._ids)

    def _told(self, application_id: str, text: str) -> tuple[ApplicationId, str]:
        """An application, and what the daemon says of it in the words of its people."""
        own = self._id(application_id)
        return own, in_words(text, own)
