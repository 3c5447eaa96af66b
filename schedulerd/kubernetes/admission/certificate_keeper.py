"""Keeps certificates in use: those made here, in a Secret that all replicas share, or those of a folder.

Of its own certificates, callers are told to trust the authorities (caBundle of the webhook configurations) before a
certificate is taken into use. All replicas do the same; the Secret's version makes one of them the first.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from collections.abc import Callable, Sequence
from datetime import datetime
from enum import Enum
from typing import Any

import msgspec

from schedulerd.kubernetes.admission.certificates import Certificates, renewed
from schedulerd.kubernetes.admission.metrics import AdmissionMetrics
from schedulerd.kubernetes.admission.serving import CertificateFolder, CertificateUnusable, expires, server_context
from schedulerd.kubernetes.api import AnswerUnusable, ApiError, Refused, Resource, Transport
from schedulerd.kubernetes.api.errors import UNDECODABLE
from schedulerd.kubernetes.api.transport import STRATEGIC_MERGE_PATCH, Request

LOG = logging.getLogger(__name__)

SECRETS = Resource("", "v1", "secrets", "Secret")
MUTATING = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False
)
VALIDATING = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)
CHECK_SECONDS = 30.0
"""Between two looks at the Secret and the configurations, or at the folder."""
FAILED_SECONDS = 5.0
"""After a look that failed."""
TRIES_MAX = 5
"""To be the first who writes the Secret."""

JSON = dict[str, Any]


class Told(Enum):
    """Whether a webhook configuration has the authorities."""

    CURRENT = "current"
    NOBODY = "nobody asks"
    FAILED = "failed"


class CertificateInUse:
    """Gives the server a certificate whenever there is another one."""

    def __init__(self, use: Callable[[ssl.SSLContext], None], metrics: AdmissionMetrics) -> None:
        self._use = use
        self._metrics = metrics
        self._current: tuple[bytes, bytes] | None = None
        self.is_there = asyncio.Event()

    def offer(self, certificate: bytes, key: bytes) -> None:
        """Raises CertificateUnusable, and then the one in use stays."""
        if self._current == (certificate, key):
            return
        try:
            end = expires(certificate)
            context = server_context(certificate, key)
        except CertificateUnusable:
            self._metrics.certificate_loads.labels("unusable").inc()
            raise
        self._use(context)
        self._current = certificate, key
        self._metrics.certificate_loads.labels("used").inc()
        self._metrics.certificate_expires.set(end.timestamp())
        LOG.info("a certificate that is valid until %s is used from now on", end.isoformat())
        self.is_there.set()


async def keep_folder(folder: CertificateFolder, in_use: CertificateInUse, check_s: float = CHECK_SECONDS) -> None:
    """Forever; ends with the cancellation of its task."""
    while True:
        wait_s = check_s
        try:
            in_use.offer(*await folder.read())
        except CertificateUnusable as error:
            LOG.warning("the certificate stays as it was: %s", error)
            wait_s = min(FAILED_SECONDS, check_s)
        await asyncio.sleep(wait_s)


class CertificateKeeper:
    """Of certificates that are made here. `run` it as a task."""

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        secret: str,
        hosts: Sequence[str],
        configurations: Sequence[tuple[Resource, str]],
        in_use: CertificateInUse,
        metrics: AdmissionMetrics,
        wall: Callable[[], datetime],
    ) -> None:
        """`configurations` are resources and names of webhook configurations. `wall` gives the time in UTC."""
        self._transport = transport
        self._namespace, self._secret = namespace, secret
        self._hosts = hosts
        self._configurations = configurations
        self._in_use = in_use
        self._metrics = metrics
        self._wall = wall

    async def run(self) -> None:
        """Forever; ends with the cancellation of its task."""
        while True:
            try:
                is_complete = await self.check()
            except (ApiError, CertificateUnusable) as error:
                LOG.warning("certificates are not checked: %s", error)
                is_complete = False
            await asyncio.sleep(CHECK_SECONDS if is_complete else FAILED_SECONDS)

    async def check(self) -> bool:
        """Renews what is due, tells it to the API server and uses it. False if a configuration could not be told.

        Raises `ApiError` and CertificateUnusable.
        """
        kept = await self._renew()
        told = [await self._tell(resource, name, kept) for resource, name in self._configurations]
        # Callers may not trust a new certificate yet. The first one is taken: there is nothing better to show.
        if Told.FAILED not in told or not self._in_use.is_there.is_set():
            self._in_use.offer(kept.certificate, kept.key)
        return all(one is Told.CURRENT for one in told)

    async def _renew(self) -> Certificates:
        """What the Secret has, after it was renewed if that was due."""
        for _ in range(TRIES_MAX):
            found = await self._get(SECRETS, self._secret)
            if found is None:
                raise AnswerUnusable(
                    f"there is no secret {self._namespace}/{self._secret}: helm upgrade, or kubectl apply of "
                    "rbac.yaml, makes it again, empty"
                )
            kept = Certificates.of_data(_decoded(found.get("data")))
            wanted = renewed(kept, self._hosts, self._wall())
            if wanted is kept or await self._write(found, wanted):
                return wanted
        raise AnswerUnusable(f"secret {self._secret}: somebody else was faster {TRIES_MAX} times")

    async def _write(self, found: JSON, wanted: Certificates) -> bool:
        """False if somebody else was faster."""
        data = {name: base64.b64encode(value).decode() for name, value in wanted.as_data().items()}
        # The resourceVersion in its metadata makes it a conflict if it has changed meanwhile.
        secret = {**found, "data": {**(found.get("data") or {}), **data}}
        path = SECRETS.path(self._namespace, self._secret)
        try:
            await self._transport.request(Request("PUT", SECRETS, path, body=msgspec.json.encode(secret)))
        except Refused as error:
            if error.status.code == 409:
                return False
            raise
        LOG.info("certificates in secret %s/%s were renewed: %r", self._namespace, self._secret, wanted)
        return True

    async def _tell(self, resource: Resource, name: str, kept: Certificates) -> Told:
        """Makes the webhooks of a configuration trust the authorities."""
        told = Told.FAILED
        try:
            found = await self._get(resource, name)
            if found is None:
                LOG.warning("there is no %s %s: nobody asks these webhooks", resource.kind, name)
                told = Told.NOBODY
            else:
                await self._patch(resource, name, found, base64.b64encode(kept.ca_certificates).decode())
                told = Told.CURRENT
        except ApiError as error:
            LOG.warning("%s %s does not get the authorities of the certificates: %s", resource.kind, name, error)
        self._metrics.bundle_current.labels(resource.plural).set(told is Told.CURRENT)
        return told

    async def _patch(self, resource: Resource, name: str, found: JSON, bundle: str) -> None:
        stale = [
            {"name": webhook["name"], "clientConfig": {"caBundle": bundle}}
            for webhook in found.get("webhooks") or ()
            if (webhook.get("clientConfig") or {}).get("caBundle") != bundle
        ]
        if not stale:
            return
        body = msgspec.json.encode({"webhooks": stale})
        path = resource.path("", name)
        await self._transport.request(Request("PATCH", resource, path, body=body, content_type=STRATEGIC_MERGE_PATCH))
        LOG.info("%s %s has the authorities of the certificates now", resource.kind, name)

    async def _get(self, resource: Resource, name: str) -> JSON | None:
        namespace = self._namespace if resource.namespaced else ""
        request = Request("GET", resource, resource.path(namespace, name))
        try:
            answer = await self._transport.request(request)
        except Refused as error:
            if error.status.code == 404:
                return None
            raise
        try:
            return msgspec.json.decode(answer.body, type=JSON)
        except UNDECODABLE as error:
            raise AnswerUnusable(f"{request}: not what was asked for: {error}") from error


def _decoded(data: JSON | None) -> dict[str, bytes]:
    """What is no base64 counts as missing, and is replaced."""
    found: dict[str, bytes] = {}
    for name, value in (data or {}).items():
        try:
            found[name] = base64.b64decode(value, validate=True)
        except (ValueError, TypeError):
            continue
    return found
