"""Two replicas share their certificates through a Secret, over years of a clock that the test turns."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest
from cryptography import x509

from schedulerd.kubernetes.admission.certificate_keeper import (
    MUTATING,
    SECRETS,
    VALIDATING,
    CertificateInUse,
    CertificateKeeper,
)
from schedulerd.kubernetes.admission.metrics import AdmissionMetrics
from schedulerd.kubernetes.api import AnswerUnusable, Refused, Transport, Unreachable
from schedulerd.kubernetes.api.status import Status
from schedulerd.kubernetes.api.transport import Answer, Request
from tests.kubernetes.admission.test_certificates import HOSTS, START, verify

JSON = dict[str, Any]
SECRET, HOOKS = "/api/v1/namespaces/ns/secrets/tls", MUTATING.path("", "schedulerd")


class Server:
    """The few requests that a keeper sends, with versions and conflicts as the API server has them."""

    def __init__(self) -> None:
        self.objects: dict[str, JSON] = {}
        self.writes: Counter[str] = Counter()
        self.is_away = False
        self.forbidden: set[str] = set()
        self._version = 0
        self.put(SECRET, {"metadata": {"name": "tls"}})  # as the chart makes it

    async def request(self, request: Request) -> Answer:
        await asyncio.sleep(0.01)
        if self.is_away:
            raise Unreachable("away", has_left=False)
        if request.method in self.forbidden:
            raise refused(request, 403)
        body: JSON = msgspec.json.decode(request.body) if request.body else {}
        path = request.path
        found = self.objects.get(path)
        if found is None:
            raise refused(request, 404)
        if request.method == "PUT" and body["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            raise refused(request, 409)
        if request.method == "GET":
            return Answer(200, msgspec.json.encode(found))
        if request.method == "PATCH":
            assert found is not None
            by_name = {one["name"]: one for one in body["webhooks"]}
            body = {**found, "webhooks": [merged(one, by_name.get(one["name"], {})) for one in found["webhooks"]]}
        self.writes[request.method] += 1
        self.put(path, body)
        return Answer(200, b"{}")

    def put(self, path: str, document: JSON) -> None:
        self._version += 1
        metadata = {**document.get("metadata", {}), "resourceVersion": str(self._version)}
        self.objects[path] = {**document, "metadata": metadata}

    def configure(self) -> None:
        for resource in (MUTATING, VALIDATING):
            hooks: list[JSON] = [
                {"name": name, "clientConfig": {"service": {"name": "s"}}, "rules": []} for name in ("a", "b")
            ]
            self.put(resource.path("", "schedulerd"), {"webhooks": hooks})

    def bundles(self) -> set[bytes]:
        return {
            base64.b64decode(webhook["clientConfig"].get("caBundle", ""))
            for resource in (MUTATING, VALIDATING)
            for webhook in self.objects[resource.path("", "schedulerd")]["webhooks"]
        }


def merged(webhook: JSON, patch: JSON) -> JSON:
    return {**webhook, **patch, "clientConfig": {**webhook["clientConfig"], **patch.get("clientConfig", {})}}


def refused(request: Request, code: int) -> Refused:
    return Refused(str(request), Status(code=code, message=f"status {code}"), None)


class Clock:
    now = START


class Replica:
    def __init__(self, server: Server, clock: Clock) -> None:
        self.metrics = AdmissionMetrics()
        self.loaded = 0
        self.certificate = b""
        in_use = CertificateInUse(self._use, self.metrics)
        offer = in_use.offer

        def noted(certificate: bytes, key: bytes) -> None:
            offer(certificate, key)
            self.certificate = certificate

        in_use.offer = noted  # type: ignore[method-assign]
        self.keeper = CertificateKeeper(
            cast(Transport, server),
            "ns",
            "tls",
            HOSTS,
            [(MUTATING, "schedulerd"), (VALIDATING, "schedulerd")],
            in_use,
            self.metrics,
            lambda: clock.now,
        )

    def _use(self, context: ssl.SSLContext) -> None:
        self.loaded += 1

    def bundle_current(self) -> float | None:
        labels = {"configuration": MUTATING.plural}
        return self.metrics.registry.get_sample_value("schedulerd_admission_ca_bundle_current", labels)


async def test_two_replicas_over_three_years() -> None:
    server, clock = Server(), Clock()
    server.configure()
    one, other = Replica(server, clock), Replica(server, clock)
    certificates = set()
    for day in range(3 * 365):
        clock.now = START + timedelta(days=day)
        assert all(await asyncio.gather(one.keeper.check(), other.keeper.check()))
        (bundle,) = server.bundles()
        assert one.certificate == other.certificate
        verify(bundle, one.certificate, clock.now)
        certificates.add(one.certificate)
    assert one.loaded == other.loaded == len(certificates)
    assert 3 * 365 / 60 <= len(certificates) <= 3 * 365 / 60 + 4
    # Each renewal, and the two authorities that were added or have ended.
    assert server.writes["PUT"] <= len(certificates) + 4
    webhook = server.objects[HOOKS]["webhooks"][0]
    assert (webhook["rules"], webhook["clientConfig"]["service"]) == ([], {"name": "s"}), "the rest is left alone"


async def test_a_secret_that_is_there_empty_is_filled() -> None:
    server, clock = Server(), Clock()
    server.configure()
    server.put(SECRET, {"metadata": {"name": "tls", "labels": {"a": "b"}}, "data": {"other": "AAAA"}})
    replica = Replica(server, clock)
    assert await replica.keeper.check()
    secret = server.objects[SECRET]
    assert (secret["metadata"]["labels"], secret["data"]["other"]) == ({"a": "b"}, "AAAA")
    assert set(secret["data"]) == {"other", "ca.crt", "ca.key", "tls.crt", "tls.key"}


@pytest.mark.parametrize("content", ["!", "", None, "AAAA"])
async def test_a_secret_that_somebody_broke_is_made_again(content: str | None) -> None:
    server, clock = Server(), Clock()
    server.configure()
    replica = Replica(server, clock)
    await replica.keeper.check()
    secret = server.objects[SECRET]
    server.put(SECRET, {**secret, "data": {**secret["data"], "ca.key": content}})
    assert await replica.keeper.check()
    assert replica.loaded == 2
    (bundle,) = server.bundles()
    verify(bundle, replica.certificate, clock.now)


async def test_a_bundle_that_somebody_overwrote_is_put_back() -> None:
    server, clock = Server(), Clock()
    server.configure()
    replica = Replica(server, clock)
    await replica.keeper.check()
    before = server.bundles()
    server.configure()
    assert server.bundles() == {b""}
    assert await replica.keeper.check()
    assert server.bundles() == before
    writes = server.writes.total()
    assert await replica.keeper.check()
    assert server.writes.total() == writes, "nothing is written that is there"


async def test_a_secret_that_somebody_deleted_is_said_with_what_to_do() -> None:
    server = Server()
    server.configure()
    del server.objects[SECRET]
    with pytest.raises(AnswerUnusable, match="there is no secret ns/tls: helm upgrade"):
        await Replica(server, Clock()).keeper.check()


async def test_a_certificate_waits_until_its_authority_is_told() -> None:
    """A new authority, as somebody has emptied the Secret: callers would refuse what it signs."""
    server, clock = Server(), Clock()
    server.configure()
    replica = Replica(server, clock)
    await replica.keeper.check()
    before = replica.certificate
    server.put(SECRET, {"metadata": {"name": "tls"}})
    server.forbidden = {"PATCH"}
    assert not await replica.keeper.check()
    assert (replica.loaded, replica.certificate) == (1, before)
    server.forbidden = set()
    assert await replica.keeper.check()
    (bundle,) = server.bundles()
    verify(bundle, replica.certificate, clock.now)
    assert (replica.loaded, replica.certificate != before) == (2, True)


async def test_without_configurations_it_serves_and_says_so() -> None:
    server, clock = Server(), Clock()
    replica = Replica(server, clock)
    assert not await replica.keeper.check()
    assert (replica.loaded, replica.bundle_current()) == (1, 0.0)
    server.configure()
    server.forbidden = {"PATCH"}
    assert not await replica.keeper.check()
    server.forbidden = set()
    assert await replica.keeper.check()
    assert replica.bundle_current() == 1.0


async def test_an_api_server_that_is_away_is_waited_for() -> None:
    """By the loop itself; what is in use stays in use."""
    server, clock = Server(), Clock()
    server.is_away = True
    replica = Replica(server, clock)
    task = asyncio.create_task(replica.keeper.run())
    await asyncio.sleep(60)
    assert replica.loaded == 0
    server.is_away = False
    server.configure()
    await asyncio.sleep(6)
    assert replica.loaded == 1
    server.is_away = True
    clock.now += timedelta(days=80)
    await asyncio.sleep(600)
    assert replica.loaded == 1
    server.is_away = False
    await asyncio.sleep(40)
    assert replica.loaded == 2
    task.cancel()
    assert x509.load_pem_x509_certificate(replica.certificate).not_valid_after_utc > datetime(2027, 3, 1, tzinfo=UTC)


def test_paths_of_the_test_are_those_of_the_keeper() -> None:
    assert SECRETS.path("ns", "tls") == SECRET
