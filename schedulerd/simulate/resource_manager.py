"""The simulated resource manager itself: what it does at which time, and what it makes of each response.

It has no clock, no socket and no task: time and responses are given to it, requests are taken from it. Whether it
behaves is therefore decided by plain tests, and what passes over the wire is for other modules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.simulate.books import Books
from schedulerd.simulate.model import Application, Node, Pod, PodState, QueueLoad
from schedulerd.simulate.requests import Outgoing, RequestBuilder, ask_template, node_registration
from schedulerd.simulate.workload import PlannedApplication, Workload

_STARTED_BY_CORE = frozenset({si_pb2.TIMEOUT, si_pb2.PREEMPTED_BY_SCHEDULER, si_pb2.PLACEHOLDER_REPLACED})


class SimulatedResourceManager:
    """Plays a workload: `nodes_request` first, then `advance` as time passes, and `take_*` for every response.

    Times are seconds since the start of the run.
    """

    def __init__(self, workload: Workload) -> None:
        self.books = Books()
        self.nodes: dict[str, Node] = {node.node_id: Node(node) for node in workload.nodes()}
        self.nodes_unanswered = len(self.nodes)
        self.nodes_busy = 0
        self.nodes_busy_peak = 0
        self.loads: defaultdict[str, QueueLoad] = defaultdict(QueueLoad)
        """By leaf queue."""
        self.pending = 0
        self.vcore_milli_used = 0
        self.vcore_milli_used_peak = 0
        self._coming: Iterator[PlannedApplication] = workload.applications()
        self._next: PlannedApplication | None = next(self._coming, None)
        self._applications: dict[str, Application] = {}
        self._moved: list[Application] = []
        """Applications whose next wave may have become due."""
        self._allocations: dict[str, Pod] = {}
        """By UUID: what was placed and is not gone."""
        self._withdrawn: dict[tuple[str, str], Pod] = {}
        """By application and key: asks taken back, not yet confirmed: an allocation may be on its way."""
        self._ends: list[tuple[float, int, Pod]] = []
        self._end_numbers = count()
        self._builder = RequestBuilder()
        self._stopping = False

    @property
    def held(self) -> int:
        """Allocations whose end was not confirmed yet."""
        return len(self._allocations)

    @property
    def applications_live(self) -> int:
        return len(self._applications)

    # What it says.

    def nodes_request(self) -> si_pb2.NodeRequest:
        """The registration of all nodes, in one message."""
        return node_registration(node.plan for node in self.nodes.values())

    def advance(self, now_s: float) -> Outgoing:
        """Lets everything happen that is due at `now_s` and returns what there is to send."""
        while self._next is not None and self._next.arrives_s <= now_s:
            self._arrive(self._next)
            self._next = next(self._coming, None)
        while self._ends and self._ends[0][0] <= now_s:
            pod = heappop(self._ends)[2]
            if pod.state is PodState.RUNNING:
                self._release(pod, now_s)
        moved, self._moved = self._moved, []
        for application in moved:
            while application.next_wave_is_due():
                self._ask_wave(application, now_s)
        return self._builder.take()

    def stop(self, now_s: float) -> None:
        """Ends it early: nothing arrives any longer, waiting asks are taken back and running pods end now."""
        self._stopping = True
        self._next = None
        for application in list(self._applications.values()):
            application.ask_no_more()
            for pod in list(application.pods.values()):
                if pod.state is PodState.PENDING:
                    self._withdraw(pod)
                elif pod.state is PodState.RUNNING:
                    self._release(pod, now_s)
            self._remove_if_over(application)

    def is_done(self) -> bool:
        """True if all that was to come has come, run and gone."""
        return self._next is None and not self._applications and not self._allocations

    # What it makes of the answers.

    def take_nodes(self, response: si_pb2.NodeResponse) -> None:
        """An accepted node stays, whatever else about it is rejected."""
        for accepted in response.accepted:
            node = self.nodes.get(accepted.nodeID)
            if node is not None and not node.accepted:
                self.nodes_unanswered -= 1
                node.accepted = True
        for rejected in response.rejected:
            node = self.nodes.get(rejected.nodeID)
            if node is not None and not node.accepted:
                self.nodes_unanswered -= 1
                self.books.nodes_rejected += 1
                self.books.rejection(f"node {rejected.nodeID}: {rejected.reason}")
                del self.nodes[rejected.nodeID]

    def take_applications(self, response: si_pb2.ApplicationResponse) -> None:
        for accepted in response.accepted:
            application = self._applications.get(accepted.applicationID)
            if application is not None and not application.accepted:
                self.books.applications_accepted += 1
                application.accepted = True
                self._moved.append(application)
                self._remove_if_over(application)
        for rejected in response.rejected:
            application = self._applications.get(rejected.applicationID)
            if application is not None and not application.accepted:
                self.books.applications_rejected += 1
                self.books.rejection(f"application {rejected.applicationID}: {rejected.reason}")
                self._forget(application)

    def take_allocations(self, response: si_pb2.AllocationResponse, now_s: float) -> None:
        for allocation in response.new:
            self._take_allocation(allocation, now_s)
        for release in response.released:
            self._take_release(release, now_s)
        for withdrawn in response.releasedAsks:
            self._take_ask_release(withdrawn)
        for rejected in response.rejected:
            self._take_rejection(rejected)

    def _take_allocation(self, allocation: si_pb2.Allocation, now_s: float) -> None:
        self.books.allocations += 1
        pod = self._pod(allocation.applicationID, allocation.allocationKey)
        node = self.nodes.get(allocation.nodeID)
        if node is None or pod is None or pod.state not in (PodState.PENDING, PodState.WITHDRAWN):
            why = f"there is no node {allocation.nodeID!r}" if node is None else "no ask of that key is open"
            self.books.surprise(f"allocation {allocation.UUID} of {allocation.allocationKey!r}: {why}")
            return
        if pod.state is PodState.WITHDRAWN:
            # It was placed while our release of the ask was on its way: it counts as what it became.
            self.books.asks_withdrawn -= 1
            del self._withdrawn[pod.application.application_id, pod.key]
        else:
            self._no_longer_pending(pod)
        self.books.placing.add(now_s - pod.asked_s)
        pod.state, pod.uuid, pod.node = PodState.RUNNING, allocation.UUID, node
        self._allocations[pod.uuid] = pod
        self._occupy(pod, node)
        if self._stopping:
            self._release(pod, now_s)
        else:
            heappush(self._ends, (now_s + pod.run_s, next(self._end_numbers), pod))

    def _take_release(self, release: si_pb2.AllocationRelease, now_s: float) -> None:
        if release.terminationType in _STARTED_BY_CORE:
            # Confirmed even for a pod that is gone: the scheduler frees nothing before it has heard (SEMANTICS F).
            self._builder.release(release.applicationID, release.UUID, release.allocationKey, release.terminationType)
        pod = self._allocations.pop(release.UUID, None)
        if pod is None:
            return
        if pod.state is PodState.RELEASING:
            self.books.releases_confirmed += 1
            self.books.confirming.add(now_s - pod.released_s)
        else:
            self.books.stopped_by_scheduler += 1
            self._vacate(pod)
        self._gone(pod)

    def _take_ask_release(self, withdrawn: si_pb2.AllocationAskRelease) -> None:
        """The scheduler has ended the ask, or confirms that it was taken back: no allocation of it comes after that."""
        pod = self._pod(withdrawn.applicationID, withdrawn.allocationKey)
        if pod is None:
            return
        if pod.state is PodState.PENDING:
            self.books.asks_withdrawn += 1
            self._no_longer_pending(pod)
            self._gone(pod)
        elif pod.state is PodState.WITHDRAWN:
            del self._withdrawn[withdrawn.applicationID, withdrawn.allocationKey]

    def _take_rejection(self, rejected: si_pb2.RejectedAllocationAsk) -> None:
        pod = self._pod(rejected.applicationID, rejected.allocationKey)
        if pod is None or pod.state is not PodState.PENDING:
            self.books.surprise(f"rejection of {rejected.allocationKey!r}, which is not pending: {rejected.reason}")
            return
        self.books.asks_rejected += 1
        self.books.rejection(f"ask {rejected.allocationKey}: {rejected.reason}")
        self._no_longer_pending(pod)
        self._gone(pod)

    # What follows from it.

    def _arrive(self, plan: PlannedApplication) -> None:
        self._applications[plan.application_id] = Application(plan)
        self.loads[plan.queue].applications += 1
        self.books.applications_sent += 1
        self._builder.add_application(plan)

    def _ask_wave(self, application: Application, now_s: float) -> None:
        wave = application.plan.waves[application.waves_asked]
        template = ask_template(application.application_id, wave.size)
        for run_s in wave.run_s:
            application.pods_asked += 1
            key = f"{application.application_id}-{application.pods_asked:04}"
            application.pods[key] = Pod(key, application, wave.size, run_s, now_s)
            self._builder.ask(template, key)
        pods = len(wave.run_s)
        application.waves_asked += 1
        application.unplaced += pods
        self.books.asks_sent += pods
        self.pending += pods
        self.loads[application.plan.queue].wait(wave.size, pods)

    def _pod(self, application_id: str, key: str) -> Pod | None:
        application = self._applications.get(application_id)
        pod = None if application is None else application.pods.get(key)
        return pod or self._withdrawn.get((application_id, key))

    def _withdraw(self, pod: Pod) -> None:
        self.books.asks_withdrawn += 1
        self._no_longer_pending(pod)
        pod.state = PodState.WITHDRAWN
        del pod.application.pods[pod.key]
        self._withdrawn[pod.application.application_id, pod.key] = pod
        self._builder.release_ask(pod.application.application_id, pod.key)

    def _release(self, pod: Pod, now_s: float) -> None:
        self.books.releases_sent += 1
        pod.state, pod.released_s = PodState.RELEASING, now_s
        self._vacate(pod)
        self._builder.release(pod.application.application_id, pod.uuid, pod.key, si_pb2.STOPPED_BY_RM)

    def _no_longer_pending(self, pod: Pod) -> None:
        self.pending -= 1
        self.loads[pod.application.plan.queue].wait(pod.size, -1)
        pod.application.unplaced -= 1
        if pod.application.unplaced == 0:
            self._moved.append(pod.application)

    def _occupy(self, pod: Pod, node: Node) -> None:
        self.loads[pod.application.plan.queue].start(pod.size)
        node.add(pod.size)
        self.vcore_milli_used += pod.size.vcore_milli
        self.vcore_milli_used_peak = max(self.vcore_milli_used_peak, self.vcore_milli_used)
        if node.pods == 1:
            self.nodes_busy += 1
            self.nodes_busy_peak = max(self.nodes_busy_peak, self.nodes_busy)
        if node.is_over_capacity():
            self.books.surprise(
                f"allocation {pod.uuid} of {pod.key!r} puts node {node.plan.node_id!r} over its capacity:"
                f" {node.memory_bytes} of {node.plan.memory_bytes} bytes,"
                f" {node.vcore_milli} of {node.plan.vcore_milli} thousandths of a core"
            )

    def _vacate(self, pod: Pod) -> None:
        assert pod.node is not None, "only a pod that was placed can leave its node"
        self.loads[pod.application.plan.queue].end(pod.size)
        pod.node.remove(pod.size)
        self.vcore_milli_used -= pod.size.vcore_milli
        if pod.node.pods == 0:
            self.nodes_busy -= 1

    def _gone(self, pod: Pod) -> None:
        pod.state = PodState.GONE
        application = pod.application
        application.pods.pop(pod.key, None)
        if not application.pods:
            self._moved.append(application)
            self._remove_if_over(application)

    def _remove_if_over(self, application: Application) -> None:
        if application.is_over() and application.application_id in self._applications:
            self.books.applications_removed += 1
            self._builder.remove_application(application.application_id)
            self._forget(application)

    def _forget(self, application: Application) -> None:
        del self._applications[application.application_id]
        self.loads[application.plan.queue].applications -= 1
