"""The command `schedulerd kubernetes`."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from pathlib import Path

import click

from schedulerd.client import SchedulerError, Superseded
from schedulerd.kubernetes.api import ApiError, BackoffSettings, PoolSettings, Transport
from schedulerd.kubernetes.api.backoff import Backoff
from schedulerd.kubernetes.auth import AccessUnusable, load_access
from schedulerd.kubernetes.election import Leadership, LeaseLost, LeaseName, identity
from schedulerd.kubernetes.running import EXIT_CONFIG, EXIT_UNAVAILABLE, read_settings, run_and_exit, until_signal
from schedulerd.kubernetes.shim.exposition import registry
from schedulerd.kubernetes.shim.http import HttpServer
from schedulerd.kubernetes.shim.journaling import Recording
from schedulerd.kubernetes.shim.log import configure
from schedulerd.kubernetes.shim.settings import ENVIRONMENT_PREFIX, KubernetesSettings
from schedulerd.kubernetes.shim.shim import Shim, ShimOptions, has_disruption_condition
from schedulerd.settings.flags import setting_options

LOG = logging.getLogger(__name__)

GC_THRESHOLDS = 20_000, 20, 100
"""Objects that are kept for long come by the thousand, and nearly everything else is freed by reference counts."""

EXIT_SUPERSEDED = 75
"""Another shim has registered with the same rmID."""
EXIT_LEASE_LOST = 76
"""This process led, and does no longer: the next start stands by."""


async def run(settings: KubernetesSettings) -> int:
    """Runs the shim until a signal comes; the exit code."""
    return await until_signal(lambda: _run(settings), settings.drain_timeout_s, ": pods keep running")


async def _run(settings: KubernetesSettings) -> int:
    try:
        transport = Transport(load_access(settings.kubeconfig, settings.context))
    except AccessUnusable as error:
        LOG.error("no access to an API server: %s", error)
        return EXIT_CONFIG
    process = _Process(transport, settings)
    try:
        await process.serve()
    except Superseded as error:
        LOG.error(
            "another shim schedules this cluster now, with the same rm_id %r: this one ends, and pods keep running. "
            "Every shim of a daemon needs an rm_id of its own, and a cluster needs one shim: %s",
            settings.rm_id,
            error,
        )
        return EXIT_SUPERSEDED
    except LeaseLost as error:
        LOG.error("this process leads no longer, and ends; pods keep running: %s", error)
        return EXIT_LEASE_LOST
    except AccessUnusable as error:
        LOG.error("no access to an API server for the lease: %s", error)
        return EXIT_CONFIG
    except SchedulerError as error:
        LOG.error("the daemon at %s cannot be used: %s", settings.daemon, error)
        return EXIT_UNAVAILABLE
    except _PortUnusable as error:
        LOG.error("cannot listen on %s: %s", settings.http_bind, error)
        return EXIT_UNAVAILABLE
    finally:
        await transport.close()
    return 0


class _PortUnusable(Exception):
    pass


class _Process:
    """The shim with its lease and its HTTP server, which is there before everything else."""

    def __init__(self, transport: Transport, settings: KubernetesSettings) -> None:
        self._transport = transport
        self._settings = settings
        self._shim: Shim | None = None
        self._server_problem = ""
        """Why the API server has not answered yet, as far as it is known."""
        self._recording = Recording(settings.journal, settings.journal_file_max_bytes, settings.journal_max_bytes)
        self._leadership = self._made_leadership() if settings.leader_elect else None
        clock = asyncio.get_running_loop().time
        metrics = registry(
            transport.metrics,
            lambda: self._shim,
            clock,
            self._leadership,
            sorted(settings.scheduler_name),
            self._recording,
        )
        self._http = HttpServer(settings.http_bind, metrics, self._waits_for, self._leader, self._notes)

    def _made_leadership(self) -> Leadership:
        settings, access = self._settings, self._transport.access
        name = LeaseName(settings.lease_namespace or access.namespace, settings.lease_name)
        return Leadership(
            lambda: Transport(load_access(settings.kubeconfig, settings.context)),
            name,
            identity(settings.lease_identity or socket.gethostname()),
            settings.lease_times(),
        )

    def _leader(self) -> tuple[bool, str]:
        """Whether this process leads, and who does."""
        leadership = self._leadership
        return (True, socket.gethostname()) if leadership is None else (leadership.is_leader, leadership.leader)

    def _waits_for(self) -> str:
        if self._shim is not None:
            return self._shim.waits_for
        return f"the API server has not answered{self._server_problem and f': {self._server_problem}'}"

    def _notes(self) -> str:
        notes = [] if self._shim is None else self._shim.watch_notes
        if journal := self._recording.state:
            notes.append(f"journal: {journal}")
        return "\n".join(notes)

    async def serve(self) -> None:
        try:
            port = await self._http.start()
        except OSError as error:
            raise _PortUnusable(error.strerror or str(error)) from error
        try:
            LOG.info("metrics and probes on port %d", port, extra={"fields": {"http_port": port}})
            await self._schedule()
        finally:
            await self._http.stop()

    async def _schedule(self) -> None:
        settings = self._settings
        pool = PoolSettings(
            in_flight_max=settings.writes_in_flight,
            rate_per_s=settings.writes_per_s,
            burst=max(1, int(settings.writes_per_s)),
        )
        options = ShimOptions(
            settings.daemon,
            settings.rm_id,
            settings.policy_group,
            instance=socket.gethostname(),
            connect_timeout_s=settings.connect_timeout_s,
            drain_timeout_s=settings.drain_timeout_s,
            cluster=settings.cluster(has_disruption_condition=await self._wait_for_server()),
            gang_sources=settings.gang_sources(),
            pool=pool,
            pod_name=settings.pod_name,
        )
        LOG.info("scheduling pods of %s", ", ".join(settings.scheduler_name))
        with self._recording.cluster(options.cluster) as cluster:
            self._shim = Shim(self._transport, options, self._leadership, cluster)
            if self._leadership is None:
                await self._shim.run()
                return
            async with self._leadership:
                await self._shim.run()

    async def _wait_for_server(self) -> bool:
        """Whether the API server knows the condition DisruptionTarget. One that cannot be reached is waited for."""
        backoff = Backoff(BackoffSettings(most_s=10.0), lambda: 0.5)
        loop = asyncio.get_running_loop()
        while True:
            try:
                return await has_disruption_condition(self._transport)
            except ApiError as error:
                self._server_problem = str(error)
                LOG.warning("waiting for the API server: %s", error)
                await asyncio.sleep(backoff.failed(loop.time()))


def _kubernetes(settings: Path | None, **flags: object) -> None:
    loaded = read_settings(KubernetesSettings, ENVIRONMENT_PREFIX, flags, settings)
    configure(loaded.log_level, loaded.log_format)
    gc.set_threshold(*GC_THRESHOLDS)
    run_and_exit(run(loaded))


kubernetes = click.Command(
    "kubernetes",
    callback=_kubernetes,
    params=setting_options(KubernetesSettings, "daemon"),
    help="""Schedule the pods of a Kubernetes cluster.

    Connects a daemon (schedulerd serve) with an API server: pods with schedulerName: schedulerd are placed by the
    queues of the daemon, and bound to their nodes. Nothing is stored; it may be ended and started at any time, and
    pods keep running. With --leader-elect several of them may run, each with a daemon of its own: one schedules, the
    others stand by.

    Each setting is a flag, an environment variable (--rm-id is SCHEDULERD_KUBERNETES_RM_ID), or a line of the
    settings file (rm_id). A flag has precedence over the environment, and the environment over the file.

    A daemon or API server that goes away is waited for. Exit codes: 0 ended by a signal, 69 the daemon or the HTTP port
    cannot be used, 70 a bug of schedulerd, 71 the end took too long, 75 another shim with the same rm_id has taken
    over, 76 the Lease is lost, 78 settings, kubeconfig or service account cannot be used, 128 + N ended by a second
    signal N.""",
)
