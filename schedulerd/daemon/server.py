"""Builds the daemon, runs it until it is stopped, and shuts it down in order.

`scheduling`, `grpc_services` and `http_services` build its parts. SIGTERM or SIGINT (or the end of standard input, if
so set) drains and exits with 0. A second signal exits at once. A bug exits with 70: a step of the scheduler raised, or
a part of the daemon ended. The state cannot be trusted then, so it is better rebuilt from the reports of the resource
managers. Each step of a shutdown has a bound, and so has the whole shutdown (`shutdown.py`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import grpc
import structlog
import uvloop

from schedulerd.build import description
from schedulerd.config import (
    DEFAULT_GROUP,
    PolicyGroupUnknown,
    QueueFile,
    QueueFileInvalid,
    Settings,
    load_queue_file,
    policy_groups_with_file,
    queue_file_paths,
    queue_file_source,
    read_policy_group,
)
from schedulerd.daemon.access.grpc_access import GrpcAccess
from schedulerd.daemon.access.identity import Identities
from schedulerd.daemon.access.refusals import Refusals
from schedulerd.daemon.access.tls import ServerTls, tls_files
from schedulerd.daemon.admin.api.tokens import Tokens
from schedulerd.daemon.admin.debug_state import debug_state
from schedulerd.daemon.admin.standby import Standby
from schedulerd.daemon.admin.state_queries import StateQueries
from schedulerd.daemon.files.file_watch import FileWatch
from schedulerd.daemon.files.files_in_force import LoadedQueueFile
from schedulerd.daemon.files.queue_files import Load, QueueFiles, TextReader, log_warnings, reasons_of
from schedulerd.daemon.files.reloads import Reloads
from schedulerd.daemon.files.rereading import Reread
from schedulerd.daemon.grpc_services import grpc_handlers
from schedulerd.daemon.http_services import HttpServices
from schedulerd.daemon.runtime.allocator import hold_little
from schedulerd.daemon.runtime.collector import Collector, spare_the_old
from schedulerd.daemon.runtime.descriptors import DescriptorWatch
from schedulerd.daemon.runtime.failures import ExitCode, StartupFailed
from schedulerd.daemon.runtime.journaling import end_journal
from schedulerd.daemon.runtime.logs import LogLevel, configure
from schedulerd.daemon.runtime.owner import StepFailed
from schedulerd.daemon.runtime.shutdown import CLOSING_SECONDS_MAX, exit_within, until_ended
from schedulerd.daemon.runtime.signals import on_reload_signal, stop_at_input_end, stop_signal
from schedulerd.daemon.scheduling import Scheduling
from schedulerd.daemon.sessions.open_calls import CloseReason
from schedulerd.daemon.transport.grpc_server import GrpcServer

LAST_CALLS_SECONDS = 0.5
"""How long other calls may take to end after the update streams have ended."""

VALIDATIONS_WAITING_MAX = 4
"""How many texts may wait while one is being validated."""

VALIDATION_NICENESS = 5
"""Niceness of the process that validates: it yields to other processes where processors are few."""

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
        self._scheduling = scheduling = Scheduling(settings)
        metrics, resource_managers = scheduling.metrics, scheduling.resource_managers
        self._not_ready_because = STARTING if own is not None else "no valid queue file has been read yet"
        queue_files = _queue_files(settings, reader.load)
        if own is not None:
            queue_files.in_force.read(DEFAULT_GROUP, own)
        own_text = None if own is None else own.configuration
        self._reloads = Reloads(queue_files, own_text, resource_managers, scheduling.owner, metrics.reload)
        metrics.watch_checksums(self._reloads.checksums)
        metrics.watch_queue_files(lambda: queue_files.in_force.validity)
        identities = Identities(settings.rm_identities, settings.tls_identity_names)
        if settings.rm_identities:
            log.info("clients are known by their certificates", names_that_count=list(settings.tls_identity_names))
        refusals = Refusals()
        metrics.watch_refusals(lambda: refusals.counts)
        access = GrpcAccess(settings.calls_max, identities, refusals)
        queries = StateQueries(
            debug_state(scheduling.scheduler, settings.recount_items_max),
            processor=time.thread_time,
            worked_at=lambda: scheduling.owner.worked_at,
        )
        standby = Standby(lambda: settings.http_standby and not resource_managers)
        if settings.http_standby:
            scheduling.owner.attach(standby.observe)
        handlers = grpc_handlers(
            settings, scheduling, access, queue_files, self._reloads, validator.load, queries, standby
        )
        tls_watch = FileWatch(lambda: tls_files(settings), settings.queue_file_poll_s)
        tls = ServerTls.of(settings)
        self._grpc = GrpcServer(settings, handlers, access, tls)
        tokens_watch = FileWatch(lambda: filter(None, [settings.http_tokens_file]), settings.queue_file_poll_s)
        tokens = Tokens.of(settings)
        files = ((self._reloads, watch), (tls, tls_watch), (tokens, tokens_watch))
        self._files: list[tuple[Reread, FileWatch]] = [(one, its_watch) for one, its_watch in files if one is not None]
        """Files that the operator may change at run time, with their watches: queue files, TLS files, HTTP tokens."""
        self._http = HttpServices(
            *(settings, scheduling, queue_files, validator, queries, standby, tokens, refusals, log_level),
            not_ready_because=lambda: self._not_ready_because,
        )

    async def run(self) -> int:
        """Serves until a signal or a failure; returns the exit code after everything is closed."""
        told_to_stop = stop_signal()
        if self._settings.stop_at_input_end:
            stop_at_input_end(told_to_stop)
        on_reload_signal(self._reload)
        scheduling = self._scheduling
        http = asyncio.create_task(self._http.server.serve())
        parts = [http, asyncio.create_task(scheduling.owner.run()), asyncio.create_task(scheduling.probe.run())]
        parts.append(asyncio.create_task(scheduling.courier.run()))
        parts.append(asyncio.create_task(Collector(scheduling.is_idle).run()))
        parts.append(asyncio.create_task(DescriptorWatch().run()))
        parts.append(asyncio.create_task(self._http.history.run()))
        parts.append(asyncio.create_task(self._http.ui.sources.history.run()))
        for file, watch in self._files:
            parts.append(asyncio.create_task(file.run()))
            if self._settings.queue_file_poll_s:
                parts.append(asyncio.create_task(watch.run(file.request)))
        if self._not_ready_because != STARTING:
            log.warning("not ready: waiting for a valid queue file", http_port=self._http.server.port)
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
        if scheduling.journal is not None:
            await end_journal(scheduling.journal, failed)
        log.info("stopped")
        return ExitCode.SOFTWARE if failed else ExitCode.OK

    async def _start_grpc(self) -> None:
        """Serves resource managers: the daemon is ready."""
        await self._grpc.start()
        self._not_ready_because = ""
        spare_the_old()
        self._reloads.announce()
        tls = {} if self._grpc.tls_port is None else {"grpc_tls_port": self._grpc.tls_port}
        log.info("serving", version=description(), grpc_port=self._grpc.port, **tls, http_port=self._http.server.port)

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
        sessions = self._scheduling.sessions
        if failed:
            sessions.close(CloseReason(grpc.StatusCode.UNAVAILABLE, "an error of schedulerd; it is restarting"))
        else:
            sessions.close(CloseReason(grpc.StatusCode.UNAVAILABLE, "draining: schedulerd shuts down", drain_seconds))
        await sessions.closed(drain_seconds + LAST_CALLS_SECONDS)
        self._scheduling.events.close()
        self._http.ui.live.close()
        await until_ended("gRPC", {asyncio.create_task(self._grpc.stop(LAST_CALLS_SECONDS))})
        self._http.server.stop()


def _report_failure(parts: Sequence[asyncio.Task[None]]) -> bool:
    """Logs the parts that have ended, and returns whether there are any. A part ends only if it failed."""
    ended = [part for part in parts if part.done()]
    for part in ended:
        error = part.exception()
        if not isinstance(error, StepFailed):  # the owner has logged this already, with the last commands
            log.critical("a part of the daemon ended", part=repr(part.get_coro()), exc_info=error)
    return bool(ended)
