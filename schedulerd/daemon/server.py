"""Builds the daemon, runs it until it is stopped, and shuts it down in order.

This is the only module that knows all parts. SIGTERM or SIGINT (or the end of standard input, if so set) drains and
exits with 0. A second signal exits at once. A bug exits with 70: a step of the scheduler raised, or a part of the
daemon ended. The state cannot be trusted then, so it is better rebuilt from the reports of the resource managers. Each
step of a shutdown has a bound, and so has the whole shutdown (`shutdown.py`).
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
    QueueFile,
    QueueFileInvalid,
    Settings,
    load_queue_file,
    matches,
    policy_groups_with_file,
    queue_file_paths,
    queue_file_source,
    read_policy_group,
)
from schedulerd.core.scheduler import Scheduler
from schedulerd.daemon.access.admission import Admission
from schedulerd.daemon.access.identity import Identities
from schedulerd.daemon.access.refusals import Refusals
from schedulerd.daemon.access.tls import ServerTls, tls_files
from schedulerd.daemon.admin.admin_service import ADMIN_SERVICE, AdminService
from schedulerd.daemon.admin.api.access import Access
from schedulerd.daemon.admin.api.app import build_api
from schedulerd.daemon.admin.api.sources import ApiSources
from schedulerd.daemon.admin.api.tokens import Tokens
from schedulerd.daemon.admin.debug_state import debug_state
from schedulerd.daemon.admin.event_service import EventService
from schedulerd.daemon.admin.http import HttpServer, Sources, build_app, metrics_endpoint
from schedulerd.daemon.admin.http_access import Gate
from schedulerd.daemon.admin.scrapes import Scrapes
from schedulerd.daemon.admin.standby import Standby
from schedulerd.daemon.admin.state_queries import StateQueries
from schedulerd.daemon.admin.state_service import StateService
from schedulerd.daemon.admin.ui.assembly import make_ui
from schedulerd.daemon.files.file_watch import FileWatch
from schedulerd.daemon.files.files_in_force import LoadedQueueFile
from schedulerd.daemon.files.queue_files import Load, QueueFiles, TextReader, log_warnings, reasons_of
from schedulerd.daemon.files.reloads import Reloads
from schedulerd.daemon.files.rereading import Reread
from schedulerd.daemon.rest.assembly import rest_sources
from schedulerd.daemon.runtime.allocator import hold_little
from schedulerd.daemon.runtime.collector import Collector, spare_the_old
from schedulerd.daemon.runtime.descriptors import DescriptorWatch
from schedulerd.daemon.runtime.event_feed import EventFeed
from schedulerd.daemon.runtime.failures import ExitCode, StartupFailed, cannot_listen
from schedulerd.daemon.runtime.groups import GroupResolver, Groups
from schedulerd.daemon.runtime.journaling import begin_journal, end_journal, journal_state
from schedulerd.daemon.runtime.logs import LogLevel, configure, flush
from schedulerd.daemon.runtime.owner import Owner, StepFailed
from schedulerd.daemon.runtime.probe import LoopProbe
from schedulerd.daemon.runtime.shutdown import CLOSING_SECONDS_MAX, exit_within, until_ended
from schedulerd.daemon.sessions.open_calls import CloseReason
from schedulerd.daemon.sessions.rm_sessions import RmSessions
from schedulerd.daemon.transport.callback_service import CALLBACK_SERVICE, CallbackService
from schedulerd.daemon.transport.callbacks import Callbacks
from schedulerd.daemon.transport.event_courier import EventCourier
from schedulerd.daemon.transport.grpc_server import GrpcServer, unnoticed_seconds
from schedulerd.daemon.transport.request_limits import RequestLimits
from schedulerd.daemon.transport.scheduler_service import SCHEDULER_SERVICE, SchedulerService
from schedulerd.daemon.transport.update_stream import IN_DOUBT_SECONDS
from schedulerd.ids import random_seed, uuid_source
from schedulerd.observe.ended import Ended
from schedulerd.observe.event_recorder import EventRecorder
from schedulerd.observe.event_ring import EventRing
from schedulerd.observe.log_events import FactLog
from schedulerd.observe.metrics import Metrics
from schedulerd.wire.encode import ResponseEncoder

LAST_CALLS_SECONDS = 0.5
"""How long other calls may take to end after the update streams have ended."""

VALIDATIONS_WAITING_MAX = 4
"""How many texts may wait while one is being validated."""

VALIDATION_NICENESS = 5
"""Niceness of the process that validates: it yields to other processes where processors are few."""

STDIN = 0
STARTING = "starting"
"""Why the daemon is not ready while it starts."""

log = structlog.stdlib.get_logger(__name__)


def serve(settings: Settings) -> int:
    """Runs the daemon in this process until a signal or a failure ends it; returns the exit code."""
    hold_little()
    log_level = configure(settings.log_level.value, settings.log_format.value, by_thread=True)
    try:
        return uvloop.run(_serve(settings, log_level))
    except StartupFailed as failure:
        log.error("cannot start", reason=str(failure))
        return failure.code


async def _serve(settings: Settings, log_level: LogLevel) -> int:
    # The watch is created first, so that a change during the read below counts as a change.
    watch = await FileWatch.begin(lambda: queue_file_paths(settings), settings.queue_file_poll_s)
    own = await _own_queue_file(settings)
    reader = TextReader("registrations", waiting_max=settings.resource_managers_max)
    validator = TextReader("validations", waiting_max=VALIDATIONS_WAITING_MAX, niceness=VALIDATION_NICENESS)
    try:
        reader.start()
        return await Daemon(settings, log_level, reader, validator, own, watch).run()
    finally:
        reader.close()
        validator.close()


async def _own_queue_file(settings: Settings) -> LoadedQueueFile | None:
    """Reads the queue file of most RMs once before serving, so that the operator sees an error in it at the start.

    None if it cannot be used and is to be waited for.
    """

    async def load(text: str, source: str) -> QueueFile:
        return load_queue_file(text, source)  # blocks the loop, but no client is served yet

    try:
        own = await _queue_files(settings, load).of_group(DEFAULT_GROUP)
    except (PolicyGroupUnknown, QueueFileInvalid) as error:
        if settings.wait_for_queue_file:
            return None
        if not isinstance(error, QueueFileInvalid):
            raise StartupFailed(str(error), ExitCode.CONFIG) from error
        for problem in reasons_of(error):
            log.error("queue file", source=error.source, problem=problem)
        hint = f"run `schedulerd validate {error.source}` after correcting it"
        raise StartupFailed(f"{error.headline}; {hint}", ExitCode.CONFIG) from error
    log_warnings(own)
    return own


def _queue_files(settings: Settings, load: Load) -> QueueFiles:
    return QueueFiles(
        lambda group: read_policy_group(settings, group),
        load,
        settings.resource_managers_max,
        lambda: policy_groups_with_file(settings),
        lambda group: queue_file_source(settings, group),
    )


class Daemon:
    """All parts of a running daemon. Construct it on its loop; the ports are open after that."""

    def __init__(
        self,
        settings: Settings,
        log_level: LogLevel,
        reader: TextReader,
        validator: TextReader,
        own: LoadedQueueFile | None,
        watch: FileWatch,
    ) -> None:
        """`reader` reads queue files for resource managers, `validator` reads texts that are only validated.

        `own` is the daemon's current queue file, or None if a valid one is to be waited for; `watch` knows the files as
        they were before `own` was read.
        """
        self._settings = settings
        queue_files = _queue_files(settings, reader.load)
        if own is not None:
            queue_files.in_force.read(DEFAULT_GROUP, own)
        self._not_ready_because = STARTING if own is not None else "no valid queue file has been read yet"
        metrics, seed = Metrics(settings.metrics_series_max, yunikorn=settings.yunikorn_metrics), random_seed()
        self._metrics = metrics
        self._scheduler = Scheduler(settings.timeouts(), uuid_source(seed), matches)
        self._journal = begin_journal(settings, seed, metrics)
        self._probe = LoopProbe(self._note_loop_lag)
        identities = Identities(settings.rm_identities, settings.tls_identity_names)
        if settings.rm_identities:
            log.info("clients are known by their certificates", names_that_count=list(settings.tls_identity_names))
        refusals = Refusals()
        metrics.watch_refusals(lambda: refusals.counts)
        admission = Admission(settings.calls_max, identities, refusals)
        # RM sessions and owner need each other: facts go to the sessions, commands about streams to the owner.
        self._sessions = RmSessions(
            ResponseEncoder(),
            lambda command: self._owner.post(command),
            outbox_bytes_max=settings.outbox_max_bytes,
            in_doubt_seconds=_in_doubt_seconds(settings),
        )
        call_later = asyncio.get_running_loop().call_later
        callbacks = Callbacks(self._sessions, lambda command: self._owner.post(command), metrics.callbacks, call_later)
        self._owner = Owner(
            self._scheduler,
            [self._sessions.deliver, callbacks.deliver, metrics.observe, FactLog().observe],
            metrics,
            inbox_max=settings.inbox_max,
            placements_max=settings.cycle_allocations_max,
            recorder=self._journal,
        )
        self._events = _event_feed(settings, self._owner, metrics)
        self._courier = EventCourier(self._events, callbacks)
        metrics.watch_depth("inbox", lambda: self._owner.depth)
        metrics.watch_depth("outbox", lambda: self._sessions.depth)
        resource_managers = self._scheduler.cluster.resource_managers
        own_text = None if own is None else own.configuration
        self._reloads = Reloads(queue_files, own_text, resource_managers, self._owner, metrics.reload)
        metrics.watch_checksums(self._reloads.checksums)
        metrics.watch_queue_files(lambda: queue_files.in_force.validity)
        metrics.watch_state(resource_managers.values)
        looks = StateQueries(
            debug_state(self._scheduler, settings.recount_items_max), worked_at=lambda: self._owner.worked_at
        )
        self._standby = Standby(lambda: settings.http_standby and not resource_managers)
        if settings.http_standby:
            self._owner.attach(self._standby.observe)
        handlers = self._handlers(admission, queue_files, validator.load, callbacks, metrics, looks)
        tls_watch = FileWatch(lambda: tls_files(settings), settings.queue_file_poll_s)
        tls = ServerTls.of(settings)
        self._grpc = GrpcServer(settings, handlers, admission, tls)
        tokens_watch = FileWatch(lambda: filter(None, [settings.http_tokens_file]), settings.queue_file_poll_s)
        tokens = Tokens.of(settings)
        files = ((self._reloads, watch), (tls, tls_watch), (tokens, tokens_watch))
        self._files: list[tuple[Reread, FileWatch]] = [(one, its_watch) for one, its_watch in files if one is not None]
        """Files that the operator may change at run time, with their watches: queue files, TLS files, HTTP tokens."""
        access = Access(settings, tokens)
        gate = Gate(settings, access)
        scrapes = Scrapes(metrics.parts, lambda: metrics.left_out)
        state, metrics_route = self._scheduler.cluster, metrics_endpoint(scrapes)
        rest = rest_sources(settings, state, self._events, validator, metrics_route, log_level.get, gate.check)
        self._history = rest.history
        ended = Ended()
        self._owner.attach(ended.observe)
        self._owner.attach(rest.observe)
        self._ui = make_ui(
            *(self._scheduler, looks, self._events, access, metrics.placements),
            has_tokens=tokens is not None,
            leader=lambda: self._standby.leader,
            broken_files=lambda: queue_files.in_force.broken,
        )
        self._owner.attach(self._ui.sources.queue_files.observe)
        self._http = _http_server(
            settings,
            Sources(
                gate=gate,
                scrapes=scrapes,
                log_level=log_level,
                loop_age_seconds=self._probe.age_seconds,
                not_ready_because=lambda: self._not_ready_because,
                journal_state=lambda: journal_state(settings, self._journal),
                broken_files=lambda: queue_files.in_force.broken,
                looks=looks,
                api=build_api(
                    ApiSources(
                        *(self._scheduler, looks, self._events, access, self._owner.submit, validator.load),
                        ended=ended,
                        pod_said=callbacks.pod_said,
                        broken_files=lambda: queue_files.in_force.broken,
                    )
                ),
                rest=rest,
                standby=self._standby,
                web_root=settings.web_root,
                ui=self._ui.app(),
            ),
            refusals,
        )

    def _handlers(
        self,
        admission: Admission,
        queue_files: QueueFiles,
        validate: Load,
        callbacks: Callbacks,
        metrics: Metrics,
        looks: StateQueries,
    ) -> dict[str, list[grpc.GenericRpcHandler]]:
        """The handlers of all gRPC methods, by the name of the service."""
        settings, sessions, owner, reloads = self._settings, self._sessions, self._owner, self._reloads
        identities = admission.identities
        resource_managers = self._scheduler.cluster.resource_managers
        groups = Groups(GroupResolver(time.monotonic_ns), waiting_max=settings.calls_max)
        limits = RequestLimits(settings.max_message_items, settings.resource_managers_max)
        classes, style = settings.priority_classes, settings.gang_style_2021.value
        scheduler = SchedulerService(
            owner, admission, sessions, queue_files, reloads, resource_managers, groups, classes, limits, style
        )
        admin = AdminService(owner, queue_files, resource_managers, reloads.refuse, validate, identities)
        state = StateService(resource_managers, admin.check_registered, looks, callbacks.state_dump, identities)
        events = EventService(self._events, identities)
        return {
            SCHEDULER_SERVICE: scheduler.handlers(),
            ADMIN_SERVICE: [
                *admin.handlers(),
                *state.handlers(),
                *events.handlers(),
                *self._standby.handlers(),
            ],
            CALLBACK_SERVICE: CallbackService(
                callbacks, metrics.callbacks, admission, sessions, owner, limits
            ).handlers(),
        }

    async def run(self) -> int:
        """Serves until a signal or a failure; returns the exit code after everything is closed."""
        told_to_stop = _stop_signal()
        if self._settings.stop_at_input_end:
            _stop_at_input_end(told_to_stop)
        _on_reload_signal(self._reload)
        http = asyncio.create_task(self._http.serve())
        parts = [http, asyncio.create_task(self._owner.run()), asyncio.create_task(self._probe.run())]
        parts.append(asyncio.create_task(self._courier.run()))
        parts.append(asyncio.create_task(Collector(self._is_idle).run()))
        parts.append(asyncio.create_task(DescriptorWatch().run()))
        parts.append(asyncio.create_task(self._history.run()))
        parts.append(asyncio.create_task(self._ui.sources.history.run()))
        for file, watch in self._files:
            parts.append(asyncio.create_task(file.run()))
            if self._settings.queue_file_poll_s:
                parts.append(asyncio.create_task(watch.run(file.request)))
        if self._not_ready_because != STARTING:
            log.warning("not ready: waiting for a valid queue file", http_port=self._http.port)
        try:
            await self._reloads.until_valid([told_to_stop, *parts])
            if self._reloads.has_own.is_set():
                await self._start_grpc()
            await asyncio.wait([told_to_stop, *parts], return_when=asyncio.FIRST_COMPLETED)
            failed = _report_failure(parts)
            exit_within(
                self._settings.drain_timeout_s + CLOSING_SECONDS_MAX,
                ExitCode.SOFTWARE if failed else ExitCode.STUCK,
            )
            await self._close(failed)
            await until_ended("HTTP", {http})
        finally:
            for part in parts:
                part.cancel()
            await until_ended("parts", parts)
        if self._journal is not None:
            await end_journal(self._journal, failed)
        log.info("stopped")
        return ExitCode.SOFTWARE if failed else ExitCode.OK

    async def _start_grpc(self) -> None:
        """Serves resource managers: the daemon is ready."""
        await self._grpc.start()
        self._not_ready_because = ""
        spare_the_old()
        self._reloads.announce()
        tls = {} if self._grpc.tls_port is None else {"grpc_tls_port": self._grpc.tls_port}
        log.info("serving", version=description(), grpc_port=self._grpc.port, **tls, http_port=self._http.port)

    def _note_loop_lag(self, seconds: float) -> None:
        self._metrics.loop_lag_seconds(seconds)
        self._owner.was_held(seconds)

    def _is_idle(self) -> bool:
        return not self._owner.depth and not self._scheduler.wants_cycle()

    def _reload(self) -> None:
        """Requests that all files are read again that the operator may have changed."""
        for file, _ in self._files:
            file.request()

    async def _close(self, failed: bool) -> None:
        """Reports that the daemon is not ready, ends the streams, then stops the servers.

        Unless the daemon failed, clients get up to `drain_timeout_s` to read the responses that wait for them.
        """
        drain_seconds = self._settings.drain_timeout_s
        self._not_ready_because = "failed" if failed else "draining"
        log.info("closing", reason=self._not_ready_because)
        self._grpc.not_serving()
        if failed:
            self._sessions.close(CloseReason(grpc.StatusCode.UNAVAILABLE, "an error of schedulerd; it is restarting"))
        else:
            self._sessions.close(
                CloseReason(grpc.StatusCode.UNAVAILABLE, "draining: schedulerd shuts down", drain_seconds)
            )
        await self._sessions.closed(drain_seconds + LAST_CALLS_SECONDS)
        self._events.close()
        self._ui.live.close()
        await until_ended("gRPC", {asyncio.create_task(self._grpc.stop(LAST_CALLS_SECONDS))})
        self._http.stop()


def _in_doubt_seconds(settings: Settings) -> float | None:
    """Responses sent within this time before a lost connection was noticed are in doubt; None: losses are ignored."""
    return unnoticed_seconds(settings) + IN_DOUBT_SECONDS if settings.resync_after_lost_connection else None


def _event_feed(settings: Settings, owner: Owner, metrics: Metrics) -> EventFeed:
    ring = EventRing(settings.event_ring_max, instance_id=uuid_source(random_seed())())
    feed = EventFeed(EventRecorder(ring), owner, tracked=settings.event_tracking)
    metrics.watch_events(lambda: feed.counts)
    return feed


def _http_server(settings: Settings, sources: Sources, refusals: Refusals) -> HttpServer:
    host, port = split_address(settings.http_bind)
    try:
        return HttpServer.bind(build_app(sources), host, port, refusals.tell_of_http)
    except OSError as error:
        raise cannot_listen("HTTP", settings.http_bind, "http_bind", error) from error


def _report_failure(parts: Sequence[asyncio.Task[None]]) -> bool:
    """Logs the parts that have ended, and returns whether there are any. A part ends only if it failed."""
    ended = [part for part in parts if part.done()]
    for part in ended:
        error = part.exception()
        if not isinstance(error, StepFailed):  # the owner has logged this already, with the last commands
            log.critical("a part of the daemon ended", part=repr(part.get_coro()), exc_info=error)
    return bool(ended)


def _stop_signal() -> asyncio.Future[None]:
    """A future that is done at the first SIGTERM or SIGINT. The second signal ends the process at once."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[None] = loop.create_future()

    def on_signal(number: signal.Signals) -> None:
        if told.done():
            log.warning("second signal: exiting at once", signal=number.name)
            flush()
            os._exit(128 + number)
        log.info("signal", signal=number.name)
        told.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return told


def _stop_at_input_end(told: asyncio.Future[None]) -> None:
    """Sets `told` when standard input ends: no process can write to it any more.

    A thread waits for the end, because an event loop cannot watch every kind of input.
    """
    loop = asyncio.get_running_loop()

    def on_end() -> None:
        if not told.done():
            log.info("standard input has ended")
            told.set_result(None)

    def wait() -> None:
        with contextlib.suppress(OSError):  # an input that was closed from the start has ended too
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
