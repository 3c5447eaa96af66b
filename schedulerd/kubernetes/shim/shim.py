"""The shim as a whole: what it is made of, in which order it starts, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from schedulerd.client import Client
from schedulerd.kubernetes.api import (
    ApiError,
    BackoffSettings,
    EventQueue,
    PoolSettings,
    Recorder,
    Transport,
    WatchSettings,
    WritePool,
    server_version,
)
from schedulerd.kubernetes.api.backoff import Backoff
from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.events import Event, GangSourceServed
from schedulerd.kubernetes.cluster.gangs.model import GangSource
from schedulerd.kubernetes.cluster.settings import ClusterSettings
from schedulerd.kubernetes.shim.binding_times import BindingTimes
from schedulerd.kubernetes.shim.driver import Driver
from schedulerd.kubernetes.shim.watches import (
    Watched,
    cluster_events,
    gang_sources,
    is_synced,
    reflectors,
    watched_by,
)

LOG = logging.getLogger(__name__)

BATCH_EVENTS_MAX = 2_000
"""Watch events of one step, unless one batch has more."""


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
    discover_s: float = 60.0
    """Between two looks for those that it does not have."""
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    watch: WatchSettings = field(default_factory=WatchSettings)
    pool: PoolSettings = field(default_factory=PoolSettings)


class Shim:
    """One run: `run` it until it is cancelled, or fails."""

    def __init__(self, transport: Transport, options: ShimOptions) -> None:
        self.cluster = Cluster(options.cluster)
        self.is_started = asyncio.Event()
        """Set when everything that was there is reported to the daemon."""
        self.binding_times = BindingTimes(options.cluster.scheduler_names)
        self.client: Client | None = None
        """Of the daemon, once everything is listed."""
        self._transport = transport
        self._options = options
        self._queue = EventQueue()
        backlog = self.cluster.model.reasons.backlog
        transport.metrics.reasons_written = lambda: backlog.written
        transport.metrics.reasons_waiting = lambda: len(backlog)

    @property
    def waits_for(self) -> str:
        """What keeps it from scheduling; empty if nothing does."""
        if self.client is None:
            return "the API server has not listed everything"
        if not self.is_started.is_set():
            return f"not everything is reported to the daemon at {self._options.daemon}"
        return "" if self.client.is_settled else f"the connection to the daemon at {self._options.daemon} is lost"

    async def run(self) -> None:
        """Ends with an error of `schedulerd.client`, or with the cancellation of its task."""
        main = asyncio.current_task()
        assert main is not None
        failures: list[Exception] = []

        def fail(error: Exception) -> None:
            failures.append(error)
            main.cancel()

        try:
            await self._run(fail)
        except asyncio.CancelledError:
            if not failures:
                raise
            main.uncancel()
            raise failures[0] from None

    async def _run(self, fail: Callable[[Exception], None]) -> None:
        options = self._options
        pool = WritePool(self._transport, options.pool)
        recorder = Recorder(pool, min(options.cluster.scheduler_names), options.instance)
        driver = Driver(self.cluster, pool, recorder, self.binding_times, fail)
        try:
            always, sources = await self._served()
            watched = [*always, *sources.values()]
            async with self._watching(fail, watched):
                driver.handle([GangSourceServed(source) for source in sources])
                await self._sync(driver, watched)
                LOG.info("all resources are listed: %s", self._counts())
                client = self.client = Client(
                    options.daemon,
                    driver.link,
                    rm_id=options.rm_id,
                    policy_group=options.policy_group,
                    connect_timeout_s=options.connect_timeout_s,
                    build_info={"rm": "schedulerd kubernetes"},
                )
                driver.connect(client)
                async with client:
                    await driver.start()
                    self.is_started.set()
                    LOG.info("started: everything is reported to the daemon at %s", options.daemon)
                    discovery = asyncio.create_task(self._discover(driver, set(sources), fail))
                    try:
                        await self._follow(driver, client)
                    finally:
                        discovery.cancel()
        finally:
            driver.close()
            await pool.close(options.drain_timeout_s)

    @contextlib.asynccontextmanager
    async def _watching(self, fail: Callable[[Exception], None], watched: list[Watched]) -> AsyncIterator[None]:
        def ended(task: asyncio.Task[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if isinstance(error, Exception):
                fail(error)

        tasks = [
            asyncio.create_task(one.run())
            for one in reflectors(self._transport, self._queue, self._options.watch, watched)
        ]
        for task in tasks:
            task.add_done_callback(ended)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

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

    async def _discover(self, driver: Driver, known: set[GangSource], fail: Callable[[Exception], None]) -> None:
        """Looks for kinds of gangs that come later: custom resources may be installed at any time."""
        tasks: list[asyncio.Task[None]] = []
        try:
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
                    driver.handle([GangSourceServed(source)])
                    (one,) = reflectors(self._transport, self._queue, self._options.watch, [watched])
                    tasks.append(asyncio.create_task(one.run()))
            await asyncio.gather(*tasks)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            fail(error)
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _sync(self, driver: Driver, watched: list[Watched]) -> None:
        """Takes what is there until every resource was listed as a whole."""
        missing = {str(one.resource) for one in watched}
        while missing:
            resource, told = await self._queue.get()
            driver.handle(list(cluster_events(told)))
            if is_synced(told):
                missing.discard(str(resource))

    async def _follow(self, driver: Driver, client: Client) -> None:
        while True:
            _, told = await self._queue.get()
            events: list[Event] = list(cluster_events(told))
            while len(events) < BATCH_EVENTS_MAX and len(self._queue):
                events.extend(cluster_events(self._queue.get_nowait()[1]))
            driver.handle(events)
            await client.drain()

    def _counts(self) -> str:
        model = self.cluster.model
        return f"{len(model.nodes.known)} nodes, {len(model.pods)} pods to schedule, {len(model.namespaces)} namespaces"


async def has_disruption_condition(transport: Transport) -> bool:
    """The server knows the condition DisruptionTarget (1.26 and later). Raises `ApiError`."""
    version = await server_version(transport)
    minor = "".join(character for character in version.minor if character.isdecimal())
    return not (version.major == "1" and minor and int(minor) < 26)
