"""Puts the daemon together, runs it until it is told to stop, and takes it down in order.

The only module that knows all parts. Going down has three causes: SIGTERM or SIGINT drains and exits with 0, a second
signal exits at once, and a bug (a step of the scheduler that raised, a part that ended by itself) exits with 70: state
that cannot be trusted is better rebuilt from the resource managers' reports than served.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence

import grpc
import structlog
import uvloop

from schedulerd.address import split_address
from schedulerd.build import description
from schedulerd.config import (
    DEFAULT_GROUP,
    PolicyGroupUnknown,
    QueueFileInvalid,
    Settings,
    queue_file_paths,
    read_policy_group,
)
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.specs import ConfigurationText
from schedulerd.daemon.admin_service import AdminService
from schedulerd.daemon.callback_service import CallbackService
from schedulerd.daemon.callbacks import Callbacks
from schedulerd.daemon.collector import Collector, spare_the_old
from schedulerd.daemon.debug_state import debug_state
from schedulerd.daemon.descriptors import DescriptorWatch
from schedulerd.daemon.event_courier import EventCourier
from schedulerd.daemon.event_feed import EventFeed
from schedulerd.daemon.event_service import EventService
from schedulerd.daemon.failures import ExitCode, StartupFailed, cannot_listen
from schedulerd.daemon.file_watch import FileWatch
from schedulerd.daemon.groups import GroupResolver
from schedulerd.daemon.grpc_server import GrpcServer, unnoticed_seconds
from schedulerd.daemon.http import HttpServer, Sources, build_app
from schedulerd.daemon.identity import Identities
from schedulerd.daemon.journaling import begin_journal, end_journal
from schedulerd.daemon.link import Ending
from schedulerd.daemon.links import Links
from schedulerd.daemon.logs import LogLevel, configure
from schedulerd.daemon.looks import Looks
from schedulerd.daemon.owner import Owner, StepFailed
from schedulerd.daemon.probe import LoopProbe
from schedulerd.daemon.queue_files import QueueFiles, log_warnings, reasons_of
from schedulerd.daemon.refusals import Refusals
from schedulerd.daemon.reloads import Reloads
from schedulerd.daemon.request_limits import RequestLimits
from schedulerd.daemon.service import SchedulerService
from schedulerd.daemon.state_service import StateService
from schedulerd.daemon.streams import IN_DOUBT_SECONDS
from schedulerd.daemon.tls import ServerTls, tls_files
from schedulerd.ids import random_seed, uuid_source
from schedulerd.observe.event_recorder import EventRecorder
from schedulerd.observe.event_ring import EventRing
from schedulerd.observe.log_events import FactLog
from schedulerd.observe.metrics import Metrics
from schedulerd.wire.encode import ResponseEncoder

LAST_CALLS_SECONDS = 0.5
"""How long calls other than the update streams may take to end after those have ended."""

STDIN = 0

log = structlog.stdlib.get_logger(__name__)


def serve(settings: Settings) -> int:
    """Runs the daemon in this process until a signal or a failure ends it; returns the exit status."""
    log_level = configure(settings.log_level.value, settings.log_format.value)
    try:
        return uvloop.run(_serve(settings, log_level))
    except StartupFailed as failure:
        log.error("cannot start", reason=str(failure))
        return failure.code


async def _serve(settings: Settings, log_level: LogLevel) -> int:
    # The watch comes first: what changes while the file is being read is then seen as a change.
    watch = FileWatch(lambda: queue_file_paths(settings), settings.queue_file_poll_s)
    queue_files = QueueFiles(lambda group: read_policy_group(settings, group))
    daemon = Daemon(settings, log_level, queue_files, await _own_configuration(queue_files), watch)
    return await daemon.run()


async def _own_configuration(queue_files: QueueFiles) -> ConfigurationText:
    """The file most RMs will get is read once before serving, so that a mistake in it is found by whoever made it."""
    try:
        own = await queue_files.of_group(DEFAULT_GROUP)
    except PolicyGroupUnknown as error:
        raise StartupFailed(str(error), ExitCode.CONFIG) from error
    except QueueFileInvalid as error:
        for problem in reasons_of(error):
            log.error("queue file", source=error.source, problem=problem)
        hint = f"run `schedulerd validate {error.source}` after correcting it"
        raise StartupFailed(f"{error.headline}; {hint}", ExitCode.CONFIG) from error
    log_warnings(own)
    return own.configuration


class Daemon:
    """All parts of a running daemon. Construct it on the loop it is to run on; the ports are open afterwards."""

    def __init__(
        self,
        settings: Settings,
        log_level: LogLevel,
        queue_files: QueueFiles,
        own: ConfigurationText,
        watch: FileWatch,
    ) -> None:
        """`own` is the daemon's queue file as it is now, and `watch` knows the files as they were before that."""
        self._settings, self._watch = settings, watch
        self._not_ready_because = "starting"
        metrics, seed = Metrics(), random_seed()
        self._scheduler = Scheduler(settings.timeouts(), uuid_source(seed))
        self._journal = begin_journal(settings, seed, metrics)
        self._probe = LoopProbe(metrics.loop_lag_seconds)
        # Links and owner need each other: responses go one way, what became of a stream the other.
        identities = Identities(settings.rm_identities)
        refusals = Refusals()
        metrics.watch_refusals(lambda: refusals.counts)
        self._links = Links(
            ResponseEncoder(),
            lambda command: self._owner.post(command),
            outbox_bytes_max=settings.outbox_max_bytes,
            in_doubt_seconds=_in_doubt_seconds(settings),
            identities=identities,
            refusals=refusals,
        )
        call_later = asyncio.get_running_loop().call_later
        callbacks = Callbacks(self._links, lambda command: self._owner.post(command), metrics.callbacks, call_later)
        self._owner = Owner(
            self._scheduler,
            [self._links.deliver, callbacks.deliver, metrics.observe, FactLog().observe],
            metrics,
            inbox_max=settings.inbox_max,
            placements_max=settings.cycle_placements_max,
            recorder=self._journal,
        )
        self._events = _event_feed(settings, self._owner, metrics)
        self._courier = EventCourier(self._events, callbacks)
        metrics.watch_depth("inbox", lambda: self._owner.depth)
        metrics.watch_depth("outbox", lambda: self._links.depth)
        resource_managers = self._scheduler.cluster.resource_managers
        self._reloads = Reloads(queue_files, own, resource_managers, self._owner, metrics.reload)
        metrics.watch_checksums(self._reloads.checksums)
        metrics.watch_partitions(self._scheduler.cluster.partitions)
        looks = Looks(debug_state(self._scheduler, settings.recount_items_max))
        handlers = self._handlers(queue_files, callbacks, metrics, looks)
        self._tls_watch = FileWatch(lambda: tls_files(settings), settings.queue_file_poll_s)
        self._tls = ServerTls.of(settings)
        self._grpc = GrpcServer(settings, handlers, identities, refusals, self._tls)
        self._http = _http_server(
            settings,
            Sources(
                registry=metrics.registry,
                log_level=log_level,
                loop_age_seconds=self._probe.age_seconds,
                not_ready_because=lambda: self._not_ready_because,
                looks=looks,
            ),
        )

    def _handlers(
        self,
        queue_files: QueueFiles,
        callbacks: Callbacks,
        metrics: Metrics,
        looks: Looks,
    ) -> list[grpc.GenericRpcHandler]:
        """The methods of all services."""
        settings, links, owner, reloads = self._settings, self._links, self._owner, self._reloads
        resource_managers = self._scheduler.cluster.resource_managers
        groups = GroupResolver(time.monotonic_ns)
        limits = RequestLimits(settings.max_message_items, settings.resource_managers_max)
        classes = settings.priority_classes
        scheduler = SchedulerService(owner, links, queue_files, reloads, resource_managers, groups, classes, limits)
        admin = AdminService(owner, queue_files, resource_managers, reloads.refuse, links.identities)
        services = (
            scheduler,
            admin,
            StateService(resource_managers, admin.check_registered, looks, callbacks.state_dump),
            EventService(self._events),
            CallbackService(callbacks, metrics.callbacks, links, owner, limits),
        )
        return [one for each in services for one in each.handlers()]

    async def run(self) -> int:
        """Serves until a signal or a failure; returns the exit status when everything is closed."""
        told_to_stop = _stop_signal()
        if self._settings.stop_at_input_end:
            _stop_at_input_end(told_to_stop)
        _on_reload_signal(self._reload)
        http = asyncio.create_task(self._http.serve())
        parts = [http, asyncio.create_task(self._owner.run()), asyncio.create_task(self._probe.run())]
        parts.append(asyncio.create_task(self._reloads.run()))
        parts.append(asyncio.create_task(self._courier.run()))
        parts.append(asyncio.create_task(Collector(self._is_idle).run()))
        parts.append(asyncio.create_task(DescriptorWatch().run()))
        if self._settings.queue_file_poll_s:
            parts.append(asyncio.create_task(self._watch.run(self._reloads.request)))
            if self._tls is not None:
                parts.append(asyncio.create_task(self._tls_watch.run(self._tls.reload)))
        await self._grpc.start()
        self._not_ready_because = ""
        spare_the_old()
        log.info("serving", version=description(), grpc_port=self._grpc.port, http_port=self._http.port)
        try:
            await asyncio.wait([told_to_stop, *parts], return_when=asyncio.FIRST_COMPLETED)
            failed = _report_failure(parts)
            await self._close(failed)
            await asyncio.wait({http})
        finally:
            for part in parts:
                part.cancel()
            await asyncio.wait(parts)
        if self._journal is not None:
            await end_journal(self._journal, failed)
        log.info("stopped")
        return ExitCode.SOFTWARE if failed else ExitCode.OK

    def _is_idle(self) -> bool:
        return not self._owner.depth and not self._scheduler.wants_cycle()

    def _reload(self) -> None:
        """Reads everything again that the operator may have changed."""
        self._reloads.request()
        if self._tls is not None:
            self._tls.reload()

    async def _close(self, failed: bool) -> None:
        """Says so everywhere, ends the streams, then the servers. A drain lets readers have what waits for them."""
        drain_seconds = self._settings.drain_timeout_s
        self._not_ready_because = "failed" if failed else "draining"
        log.info("closing", reason=self._not_ready_because)
        await self._grpc.not_serving()
        if failed:
            self._links.close(Ending(grpc.StatusCode.UNAVAILABLE, "an error of schedulerd; it is restarting"))
        else:
            self._links.close(Ending(grpc.StatusCode.UNAVAILABLE, "draining: schedulerd shuts down", drain_seconds))
        await self._links.closed(drain_seconds + LAST_CALLS_SECONDS)
        self._events.close()
        await self._grpc.stop(LAST_CALLS_SECONDS)
        self._http.stop()


def _in_doubt_seconds(settings: Settings) -> float | None:
    """What was written so long before a lost connection was noticed may not have come; None if that is let be."""
    return unnoticed_seconds(settings) + IN_DOUBT_SECONDS if settings.resync_after_lost_connection else None


def _event_feed(settings: Settings, owner: Owner, metrics: Metrics) -> EventFeed:
    ring = EventRing(settings.event_ring_max, instance_id=uuid_source(random_seed())())
    feed = EventFeed(EventRecorder(ring), owner, tracked=settings.event_tracking)
    metrics.watch_events(lambda: feed.counts)
    return feed


def _http_server(settings: Settings, sources: Sources) -> HttpServer:
    host, port = split_address(settings.http_bind)
    try:
        return HttpServer.bind(build_app(sources), host, port)
    except OSError as error:
        raise cannot_listen("HTTP", settings.http_bind, "http_bind", error) from error


def _report_failure(parts: Sequence[asyncio.Task[None]]) -> bool:
    """Whether one of the parts, none of which ends by itself, has ended."""
    ended = [part for part in parts if part.done()]
    for part in ended:
        error = part.exception()
        if not isinstance(error, StepFailed):  # the owner has logged that already, with the commands
            log.critical("a part of the daemon ended", part=repr(part.get_coro()), exc_info=error)
    return bool(ended)


def _stop_signal() -> asyncio.Future[None]:
    """Done at the first SIGTERM or SIGINT; the second one ends the process on the spot."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[None] = loop.create_future()

    def on_signal(number: signal.Signals) -> None:
        if told.done():
            log.warning("second signal: exiting at once", signal=number.name)
            os._exit(128 + number)
        log.info("signal", signal=number.name)
        told.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return told


def _stop_at_input_end(told: asyncio.Future[None]) -> None:
    """Sets `told` when nobody can write to standard input any more, however its other end went away.

    A thread waits for it, because an event loop cannot watch every kind of input.
    """
    loop = asyncio.get_running_loop()

    def on_end() -> None:
        if not told.done():
            log.info("standard input has ended")
            told.set_result(None)

    def wait() -> None:
        with contextlib.suppress(OSError):  # closed from the beginning: at its end as well
            while os.read(STDIN, 4096):
                pass
        loop.call_soon_threadsafe(on_end)

    threading.Thread(target=wait, name="input end", daemon=True).start()


def _on_reload_signal(reload: Callable[[], None]) -> None:
    """Calls `reload` at every SIGHUP."""

    def on_signal() -> None:
        log.info("signal", signal="SIGHUP")
        reload()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, on_signal)
