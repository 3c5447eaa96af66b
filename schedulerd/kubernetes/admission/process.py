"""`schedulerd admission` as a process: what it is made of, in which order it starts, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from datetime import UTC, datetime
from functools import partial

from schedulerd.kubernetes.admission.break_glass import may_break_glass
from schedulerd.kubernetes.admission.certificate_keeper import (
    MUTATING,
    VALIDATING,
    CertificateInUse,
    CertificateKeeper,
    keep_folder,
)
from schedulerd.kubernetes.admission.impact import DaemonAddress, Impact, ImpactUnknown, ask_impact
from schedulerd.kubernetes.admission.metrics import AdmissionMetrics
from schedulerd.kubernetes.admission.namespace_cache import NamespaceCache
from schedulerd.kubernetes.admission.queue_check import QueueCheck, ReadQueueFile
from schedulerd.kubernetes.admission.rules.pods import check_users, mutate
from schedulerd.kubernetes.admission.rules.review import AdmissionRequest, Decision
from schedulerd.kubernetes.admission.server import WebhookServer
from schedulerd.kubernetes.admission.serving import CertificateFolder
from schedulerd.kubernetes.admission.settings import AdmissionSettings
from schedulerd.kubernetes.api import Transport
from schedulerd.kubernetes.shim.http import HttpServer

LOG = logging.getLogger(__name__)

MUTATE, CHECK_USERS, CHECK_QUEUES = "mutate", "check-users", "check-queues"
"""The webhooks, by their paths."""


class PortUnusable(Exception):
    """Something cannot be listened on; the text says what and why."""


class Admission:
    """The webhooks with everything that they need, until `serve` is cancelled."""

    def __init__(self, transport: Transport, settings: AdmissionSettings, read: ReadQueueFile) -> None:
        """`read` validates queue files."""
        self._transport = transport
        self._settings = settings
        self._namespace = settings.namespace or transport.access.namespace
        self.metrics = AdmissionMetrics()
        self._pod_rules = settings.pod_rules(self._namespace)
        self._namespaces = NamespaceCache(transport)
        self._queues = QueueCheck(
            settings.queue_rules(self._namespace),
            read,
            self._ask_impact,
            partial(may_break_glass, transport),
            self.metrics,
        )
        webhooks = {MUTATE: self._mutate, CHECK_USERS: self._check_users, CHECK_QUEUES: self._queues.decide}
        self._server = WebhookServer(settings.bind, webhooks, self.metrics)
        self._in_use = CertificateInUse(self._server.use, self.metrics)
        self._http = HttpServer(settings.http_bind, self.metrics.registry, self._waits_for)

    async def serve(self) -> None:
        """Raises PortUnusable."""
        settings = self._settings
        async with contextlib.AsyncExitStack() as stack:
            http_port = await _listen(self._http.start(), settings.http_bind)
            stack.push_async_callback(self._http.stop)
            port = await _listen(self._server.start(), settings.bind)
            stack.push_async_callback(self._server.stop, settings.drain_timeout_s)
            LOG.info(
                "webhooks on port %d, metrics and probes on port %d",
                port,
                http_port,
                extra={"fields": {"port": port, "http_port": http_port, "namespace": self._namespace}},
            )
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._namespaces.run())
                tasks.create_task(self._keep_certificates())

    def _waits_for(self) -> str:
        if not self._in_use.is_there.is_set():
            return "there is no certificate yet"
        return "" if self._namespaces.is_synced else "the namespaces are not listed yet"

    async def _keep_certificates(self) -> None:
        settings = self._settings
        if settings.tls_dir is not None:
            await keep_folder(CertificateFolder(settings.tls_dir), self._in_use)
            return
        wanted = ((MUTATING, settings.mutating_configuration), (VALIDATING, settings.validating_configuration))
        keeper = CertificateKeeper(
            self._transport,
            self._namespace,
            settings.tls_secret,
            [f"{settings.service}.{self._namespace}.svc", *settings.certificate_names],
            [(resource, name) for resource, name in wanted if name],
            self._in_use,
            self.metrics,
            lambda: datetime.now(UTC),
        )
        await keeper.run()

    async def _mutate(self, request: AdmissionRequest) -> Decision:
        rules = self._pod_rules
        namespace = await self._namespaces.metadata(request.namespace) if rules.concerns(request) else None
        return mutate(rules, request, namespace)

    async def _check_users(self, request: AdmissionRequest) -> Decision:
        return check_users(self._pod_rules, request)

    async def _ask_impact(self, text: str) -> Impact:
        settings = self._settings
        if settings.daemon is None:
            raise ImpactUnknown("no daemon is set to ask (--daemon)")
        address = DaemonAddress(
            settings.daemon,
            settings.rm_id,
            settings.daemon_ca_file,
            settings.daemon_cert_file,
            settings.daemon_key_file,
        )
        return await ask_impact(address, text)


async def _listen(start: Coroutine[None, None, int], address: str) -> int:
    try:
        return await start
    except OSError as error:
        raise PortUnusable(f"cannot listen on {address}: {error.strerror or error}") from error
