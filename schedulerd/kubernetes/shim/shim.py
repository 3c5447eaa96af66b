"""The shim as a whole: what it is made of, in which order it starts, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from dataclasses import dataclass, field
from typing import Any

from schedulerd.client import Client, SchedulerError
from schedulerd.kubernetes.api import (
    ApiError,
    BackoffSettings,
    EventQueue,
    PoolSettings,
    Recorder,
    Reflector,
    Transport,
    WatchSettings,
    WritePool,
    server_version,
)
from schedulerd.kubernetes.api.backoff import Backoff
from schedulerd.kubernetes.api.transport import ungated
from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.events import Event
from schedulerd.kubernetes.cluster.gangs.model import GangSource
from schedulerd.kubernetes.cluster.settings import ClusterSettings
from schedulerd.kubernetes.election import Leadership
from schedulerd.kubernetes.shim.background import Fail, beside
from schedulerd.kubernetes.shim.binding_times import BindingTimes
from schedulerd.kubernetes.shim.daemon_watch import DaemonWatch
from schedulerd.kubernetes.shim.driver import Driver
from schedulerd.kubernetes.shim.leader_events import tell
from schedulerd.kubernetes.shim.role_label import keep_role_label
from schedulerd.kubernetes.shim.watches import (
    Watched,
    cluster_events,
    gang_sources,
    in_parts,
    is_synced,
    reflectors,
    unlisted,
    watch_notes,
    watch_problems,
    watched_by,
)

LOG = logging.getLogger(__name__)

BATCH_EVENTS_MAX = 2_000
"""Watch events of one step; a pod that says much of nodes counts as several."""
HANDOVER_SECONDS = 1.0
"""For writes that are under way when a leader is told to end: the next one waits for the lease."""
UNREGISTER_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ShimOptions:
    daemon: str
    """HOST:PORT of the daemon."""
    rm_id: str = "kubernetes"
    policy_group: str = ""
    instance: str = "schedulerd"
    """Name of this process, in events."""
    connect_timeout_s: float = 60.0
    drain_timeout_s: float = 5.0
    """For writes to leave at the end."""
    gang_sources: frozenset[GangSource] = frozenset({GangSource.COSCHEDULING})
    """Kinds of objects by which pods become gangs, where the API server has them."""
    pod_name: str | None = None
    """Pod of this process, whose label says whether it leads."""
    discover_s: float = 60.0
    """Between two looks for those that it does not have."""
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    watch: WatchSettings = field(default_factory=WatchSettings)
    pool: PoolSettings = field(default_factory=PoolSettings)


class Shim:
    """One run: `run` it until it is cancelled, or fails."""

    def __init__(
        self,
        transport: Transport,
        options: ShimOptions,
        leadership: Leadership | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        """With a `leadership`, which its owner enters and leaves, it stands by until it is elected, and what it writes
        leaves only while it leads. A `cluster` that is given has to have the settings of the options."""
        self.cluster = Cluster(options.cluster) if cluster is None else cluster
        self.is_started = asyncio.Event()
        """Set when everything that was there is reported to the daemon."""
        self.binding_times = BindingTimes(options.cluster.scheduler_names)
        self.client: Client | None = None
        """Of the daemon, once everything is listed and this process leads."""
        self.leadership = leadership
        self.takeover_s: float | None = None
        """From the election until everything was reported to the daemon."""
        self._daemon_watch: DaemonWatch | None = None
        """While it stands by."""
        self._transport = transport
        self._options = options
        self._queue = EventQueue()
        self._watches: list[Reflector[Any]] = []
        backlog = self.cluster.model.reasons.backlog
        transport.metrics.reasons_written = lambda: backlog.written
        transport.metrics.reasons_waiting = lambda: len(backlog)

    @property
    def waits_for(self) -> str:
        """What keeps it from scheduling, or from standing by; empty if nothing does."""
        if self._daemon_watch is not None:
            is_reachable = self._daemon_watch.is_reachable
            return "" if is_reachable else f"the daemon at {self._options.daemon} cannot be reached"
        if not self._watches:
            return "the API server has not answered"
        if self.client is None and (missing := unlisted(self._watches)):
            return f"the API server has not listed {missing}"
        if self.client is None or not self.is_started.is_set():
            model = self.cluster.model
            return (
                f"not everything is reported to the daemon at {self._options.daemon}, which has to answer "
                f"{len(model.unanswered)} applications and {len(model.nodes.unanswered)} nodes"
            )
        return "" if self.client.is_settled else f"the connection to the daemon at {self._options.daemon} is lost"

    @property
    def watch_problems(self) -> dict[str, str]:
        """By plural name of a resource that is watched: why nothing new of it comes; empty while all is well."""
        return watch_problems(self._watches)

    @property
    def watch_notes(self) -> list[str]:
        """The same for people, each cause once."""
        return watch_notes(self._watches)

    async def run(self) -> None:
        """Ends with an error of `schedulerd.client`, with `LeaseLost`, or with the cancellation of its task."""
        main = asyncio.current_task()
        assert main is not None
        failures: list[Exception] = []

        def fail(error: Exception) -> None:
            failures.append(error)
            if len(failures) == 1:
                main.cancel()

        try:
            await self._run(fail)
        except asyncio.CancelledError:
            if not failures:
                raise
            main.uncancel()
            raise failures[0] from None

    async def _run(self, fail: Fail) -> None:
        options, leadership = self._options, self.leadership
        may_write = ungated if leadership is None else leadership.seconds_left
        pool = WritePool(self._transport, options.pool, may_write=may_write)
        recorder = Recorder(pool, min(options.cluster.scheduler_names), options.instance)
        driver = Driver(self.cluster, pool, recorder, self.binding_times, fail)
        try:
            always, sources = await self._served()
            watched = [*always, *sources.values()]
            self._watches = reflectors(self._transport, self._queue, options.watch, watched)
            async with beside(fail, *(one.run() for one in self._watches)):
                for source, one in sources.items():
                    driver.served(source, one.resource)
                await self._sync(driver, watched)
                LOG.info("all resources are listed: %s", self._counts())
                async with beside(fail, self._discover(driver, set(sources), fail)):
                    if leadership is None:
                        await self._schedule(driver)
                    else:
                        await self._lead(driver, recorder, leadership, fail)
        finally:
            driver.close()
            await pool.close(self._drain_s())

    async def _lead(self, driver: Driver, recorder: Recorder, leadership: Leadership, fail: Fail) -> None:
        """Stands by until this process is elected, and schedules until it has to end."""
        pod = self._options.pod_name
        labels = [] if pod is None else [keep_role_label(self._transport, leadership, pod)]
        async with beside(fail, *labels):
            await self._stand_by(driver, leadership, fail)
            elected_s = asyncio.get_running_loop().time()
            async with beside(fail, leadership.lost(), self._time_takeover(elected_s)):
                tell(recorder, leadership, "became leader")
                try:
                    await self._schedule(driver)
                finally:
                    if leadership.is_leader:
                        tell(recorder, leadership, "stopped leading")

    async def _stand_by(self, driver: Driver, leadership: Leadership, fail: Fail) -> None:
        """Follows the cluster meanwhile, so that nothing is to be listed when this process is elected."""
        daemon = self._daemon_watch = DaemonWatch(
            self._options.daemon, leadership.may_lead, self._options.rm_id, lambda: leadership.leader_name
        )
        self.binding_times.is_counting = False  # what the leader binds
        async with beside(fail, daemon.run(), self._follow(driver, None)):
            LOG.info("standing by")
            await leadership.elected()
        self._daemon_watch = None
        self.binding_times.is_counting = True

    async def _time_takeover(self, elected_s: float) -> None:
        await self.is_started.wait()
        self.takeover_s = asyncio.get_running_loop().time() - elected_s
        LOG.info("took over within %.3f s", self.takeover_s)

    async def _schedule(self, driver: Driver) -> None:
        """Reports everything to the daemon, and goes on."""
        options = self._options
        client = self.client = Client(
            options.daemon,
            driver.link,
            rm_id=options.rm_id,
            policy_group=options.policy_group,
            connect_timeout_s=options.connect_timeout_s,
            # Another replica has a daemon of its own.
            reconnect_timeout_s=math.inf if self.leadership is None else options.connect_timeout_s,
            build_info={"rm": "schedulerd kubernetes"},
        )
        driver.connect(client)
        async with client:
            try:
                await driver.start()
                self.is_started.set()
                LOG.info("started: everything is reported to the daemon at %s", options.daemon)
                await self._follow(driver, client)
            finally:
                if self.leadership is not None:
                    driver.close()
                    await _unregister(client)

    def _drain_s(self) -> float:
        """How long writes may take that are under way at the end."""
        if self.leadership is None:
            return self._options.drain_timeout_s
        return min(self._options.drain_timeout_s, HANDOVER_SECONDS) if self.leadership.is_leader else 0.0

    async def _served(self) -> tuple[tuple[Watched, ...], dict[GangSource, Watched]]:
        """What is always watched, and the kinds of gangs that the server has objects for. A server that cannot be
        reached is waited for."""
        backoff = Backoff(BackoffSettings(most_s=10.0), lambda: 0.5)
        while True:
            try:
                always = await watched_by(self._transport)
                return always, await gang_sources(self._transport, self._options.gang_sources)
            except ApiError as error:
                LOG.warning("waiting for the API server: %s", error)
                await asyncio.sleep(backoff.failed(asyncio.get_running_loop().time()))

    async def _discover(self, driver: Driver, known: set[GangSource], fail: Fail) -> None:
        """Looks for kinds of gangs that come later: custom resources may be installed at any time."""
        async with contextlib.AsyncExitStack() as stack:
            while missing := self._options.gang_sources - known:
                await asyncio.sleep(self._options.discover_s)
                try:
                    found = await gang_sources(self._transport, missing)
                except ApiError as error:
                    LOG.warning("looking for PodGroups: %s", error)
                    continue
                for source, watched in found.items():
                    LOG.info("the API server has %s now", watched.resource)
                    known.add(source)
                    driver.served(source, watched.resource)
                    (one,) = reflectors(self._transport, self._queue, self._options.watch, [watched])
                    self._watches.append(one)
                    await stack.enter_async_context(beside(fail, one.run()))
            await asyncio.Event().wait()

    async def _sync(self, driver: Driver, watched: list[Watched]) -> None:
        """Takes what is there until every resource was listed as a whole."""
        missing = {str(one.resource) for one in watched}
        while missing:
            resource, told = await self._queue.get()
            await _take(driver, list(cluster_events(resource, told)))
            if is_synced(told):
                missing.discard(str(resource))

    async def _follow(self, driver: Driver, client: Client | None) -> None:
        """Takes what the watches tell, for ever."""
        while True:
            events: list[Event] = list(cluster_events(*await self._queue.get()))
            while len(events) < BATCH_EVENTS_MAX and len(self._queue):
                events.extend(cluster_events(*self._queue.get_nowait()))
            await _take(driver, events)
            if client is not None:
                await client.drain()

    def _counts(self) -> str:
        model = self.cluster.model
        return f"{len(model.nodes.known)} nodes, {len(model.pods)} pods to schedule, {len(model.namespaces)} namespaces"


async def _take(driver: Driver, events: list[Event]) -> None:
    """Steps the cluster with these events: in one step, unless they say very much."""
    for part in in_parts(events, BATCH_EVENTS_MAX):
        driver.handle(part)
        await asyncio.sleep(0)


async def _unregister(client: Client) -> None:
    """The daemon of a replica that leads no longer has nothing to schedule. One that is gone, or that another shim has
    registered with, is left alone."""
    if not client.is_settled:
        return
    try:
        async with asyncio.timeout(UNREGISTER_SECONDS):
            await client.unregister()
    except (SchedulerError, TimeoutError) as error:
        LOG.warning("the daemon keeps what was reported to it: %s", str(error) or "no answer")


async def has_disruption_condition(transport: Transport) -> bool:
    """The server knows the condition DisruptionTarget (1.26 and later). Raises `ApiError`."""
    version = await server_version(transport)
    minor = "".join(character for character in version.minor if character.isdecimal())
    return not (version.major == "1" and minor and int(minor) < 26)
