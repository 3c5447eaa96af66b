"""Puts the daemon together, runs it until it is told to stop, and takes it down in order.

The only module that knows all parts. Going down has three causes: SIGTERM or SIGINT drains and exits with 0, a second
signal exits at once, and a bug (a step of the scheduler that raised, a part that ended by itself) exits with 70: state
that cannot be trusted is better rebuilt from the resource managers' reports than served.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from collections.abc import Sequence

import grpc
import structlog
import uvloop

from schedulerd import __version__
from schedulerd.config import (
    PolicyGroupUnknown,
    QueueFileInvalid,
    Settings,
    load_queue_file,
    read_policy_group,
    split_address,
)
from schedulerd.core import view
from schedulerd.core.invariants import violations
from schedulerd.core.scheduler import Scheduler
from schedulerd.daemon.failures import ExitCode, StartupFailed
from schedulerd.daemon.groups import GroupResolver
from schedulerd.daemon.grpc_server import GrpcServer
from schedulerd.daemon.http import HttpServer, Sources, build_app
from schedulerd.daemon.ids import uuid_source
from schedulerd.daemon.link import Ending
from schedulerd.daemon.links import Links
from schedulerd.daemon.logs import LogLevel, configure
from schedulerd.daemon.owner import Owner, StepFailed
from schedulerd.daemon.probe import LoopProbe
from schedulerd.daemon.queue_files import QueueFiles
from schedulerd.daemon.service import SchedulerService
from schedulerd.observe.log_events import FactLog
from schedulerd.observe.metrics import Metrics
from schedulerd.wire.encode import ResponseEncoder

LAST_CALLS_SECONDS = 0.5
"""How long calls other than the update streams may take to end after those have ended."""

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
    _check_queue_file(settings)
    daemon = Daemon(settings, log_level)
    return await daemon.run()


def _check_queue_file(settings: Settings) -> None:
    """The file most RMs will get is read once before serving, so that a mistake in it is found by whoever made it."""
    try:
        found = read_policy_group(settings, "")
        queue_file = load_queue_file(found.text, found.source)
    except (PolicyGroupUnknown, QueueFileInvalid) as error:
        raise StartupFailed(str(error), ExitCode.CONFIG) from error
    for warning in queue_file.warnings:
        log.warning("queue file", source=found.source, problem=str(warning))


class Daemon:
    """All parts of a running daemon. Construct it on the loop it is to run on; the ports are open afterwards."""

    def __init__(self, settings: Settings, log_level: LogLevel) -> None:
        self._settings = settings
        self._not_ready_because = "starting"
        self._scheduler = Scheduler(settings.timeouts(), uuid_source())
        metrics = Metrics()
        self._probe = LoopProbe(metrics.loop_lag_seconds)
        # Links and owner need each other: responses go one way, what became of a stream the other.
        self._links = Links(
            ResponseEncoder(), lambda command: self._owner.post(command), outbox_bytes_max=settings.outbox_max_bytes
        )
        self._owner = Owner(
            self._scheduler,
            [self._links.deliver, metrics.observe, FactLog().observe],
            metrics,
            inbox_max=settings.inbox_max,
            placements_max=settings.cycle_placements_max,
        )
        metrics.watch_depth("inbox", lambda: self._owner.depth)
        metrics.watch_depth("outbox", lambda: self._links.depth)
        self._queue_files = QueueFiles(lambda group: read_policy_group(settings, group))
        service = SchedulerService(self._owner, self._links, self._queue_files, GroupResolver(time.monotonic_ns))
        self._grpc = GrpcServer(settings, service.handlers())
        self._http = _http_server(
            settings,
            Sources(
                registry=metrics.registry,
                log_level=log_level,
                loop_age_seconds=self._probe.age_seconds,
                not_ready_because=lambda: self._not_ready_because,
                debug_state=self._state,
            ),
        )

    async def run(self) -> int:
        """Serves until a signal or a failure; returns the exit status when everything is closed."""
        told_to_stop = _stop_signal()
        told_to_reload = _reload_signal()
        http = asyncio.create_task(self._http.serve())
        parts = [http, asyncio.create_task(self._owner.run()), asyncio.create_task(self._probe.run())]
        parts.append(asyncio.create_task(self._reload_when(told_to_reload)))
        await self._grpc.start()
        self._not_ready_because = ""
        _settle_collector()
        log.info("serving", version=__version__, grpc_port=self._grpc.port, http_port=self._http.port)
        try:
            await asyncio.wait([told_to_stop, *parts], return_when=asyncio.FIRST_COMPLETED)
            failed = _report_failure(parts)
            await self._close(failed)
            await asyncio.wait({http})
        finally:
            for part in parts:
                part.cancel()
            await asyncio.wait(parts)
        log.info("stopped")
        return ExitCode.SOFTWARE if failed else ExitCode.OK

    async def _reload_when(self, told: asyncio.Event) -> None:
        """Gives every resource manager what its queue file says now, each time it is told to."""
        while True:
            await told.wait()
            told.clear()
            for command in await self._queue_files.changed(self._links.knows):
                await self._owner.submit(command)

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
        await self._grpc.stop(LAST_CALLS_SECONDS)
        self._http.stop()

    def _state(self) -> dict[str, object]:
        return {
            "resource_managers": view.resource_managers(self._scheduler),
            "violations": violations(self._scheduler),
        }


def _http_server(settings: Settings, sources: Sources) -> HttpServer:
    host, port = split_address(settings.http_bind)
    try:
        return HttpServer.bind(build_app(sources), host, port)
    except OSError as error:
        raise StartupFailed(error.strerror or str(error)) from error


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


def _reload_signal() -> asyncio.Event:
    """Set at every SIGHUP."""
    told = asyncio.Event()

    def on_signal() -> None:
        log.info("signal", signal="SIGHUP")
        told.set()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, on_signal)
    return told


def _settle_collector() -> None:
    """Keeps the cyclic garbage collector from walking what is here to stay, and from starting at every few asks.

    Asks and allocations are long-lived and free of cycles; at the default threshold of 700 new objects each batch of
    asks would trigger dozens of collections.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
