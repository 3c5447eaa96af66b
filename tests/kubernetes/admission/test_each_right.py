"""On a real API server: the webhooks do with their rights what they need to, and each that is taken away is missed."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Any

import pytest

from schedulerd.kubernetes.admission.break_glass import may_break_glass
from schedulerd.kubernetes.admission.certificate_keeper import (
    MUTATING,
    SECRETS,
    VALIDATING,
    CertificateInUse,
    CertificateKeeper,
)
from schedulerd.kubernetes.admission.metrics import AdmissionMetrics
from schedulerd.kubernetes.admission.namespace_cache import NamespaceCache
from schedulerd.kubernetes.api import ApiError, Resource, Transport
from tests.kubernetes.admission.reviews import pod, request
from tests.kubernetes.contract.conftest import SETUP_SECONDS_MAX
from tests.kubernetes.contract.real_server import RealServer, assets
from tests.kubernetes.rights import Right, manifests, rights_of
from tests.kubernetes.shim.test_each_right import LimitedApi

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SETUP_SECONDS_MAX)]
LIMIT_SECONDS = 20.0
RIGHTS = rights_of(one for one in manifests("admission/rbac.yaml") if "break-glass" not in one["metadata"]["name"])
METHODS = {"get": "GET", "list": "GET", "watch": "WATCH", "create": "POST", "update": "PUT", "patch": "PATCH"}
FORBIDDEN = "403"


@pytest.fixture
def api(servers: dict[str, RealServer]) -> LimitedApi:
    if assets() is None:
        pytest.skip("KUBEBUILDER_ASSETS names no folder with a real API server")
    return LimitedApi(servers["real"])


async def use_everything(api: LimitedApi, transport: Transport) -> dict[tuple[str, str], set[str]]:
    """Codes by method and resource, after everything has been tried that the webhooks ask the API server for."""
    await api.post(SECRETS, {"metadata": {"name": "tls"}})
    for resource in (MUTATING, VALIDATING):
        await api.post(resource, configuration(resource, api.namespace))
    metrics = AdmissionMetrics()
    configurations = [(resource, api.namespace) for resource in (MUTATING, VALIDATING)]
    in_use = CertificateInUse(lambda context: None, metrics)
    keeper = CertificateKeeper(
        transport, api.namespace, "tls", ["a.svc"], configurations, in_use, metrics, lambda: datetime.now(UTC)
    )
    with contextlib.suppress(ApiError):
        await keeper.check()
    with contextlib.suppress(ApiError):
        await may_break_glass(transport, request(pod()).user_info, api.namespace, "queues")
    cache = NamespaceCache(transport)
    watching = asyncio.create_task(cache.run())
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            while not is_decided(codes(transport)):  # noqa: ASYNC110 - the reflector tells only when all went well
                await asyncio.sleep(0.05)
        await cache.metadata("nowhere")
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return codes(transport)


def is_decided(found: dict[tuple[str, str], set[str]]) -> bool:
    """Whether namespaces are watched, or may not be."""
    return ("WATCH", "namespaces") in found or FORBIDDEN in found.get(("GET", "namespaces"), ())


def codes(transport: Transport) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for (method, resource, code), count in transport.metrics.requests.items():
        if count:
            found.setdefault((method, resource), set()).add(code)
    return found


def configuration(resource: Resource, name: str) -> dict[str, Any]:
    """That is asked about nothing."""
    webhook = {
        "name": "pods.schedulerd.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://localhost/"},
        "rules": [],
    }
    return {"metadata": {"name": name}, "webhooks": [webhook]}


async def used_with(api: LimitedApi, rights: set[Right]) -> dict[tuple[str, str], set[str]]:
    async with api:
        await api.allow(rights)
        transport = api.transport()
        try:
            return await use_everything(api, transport)
        finally:
            await transport.close()
            for resource in (MUTATING, VALIDATING):
                await api.delete(resource, api.namespace)


async def test_with_all_of_them_nothing_is_refused_and_each_is_used(real_loop: None, api: LimitedApi) -> None:
    found = await used_with(api, set(RIGHTS))
    assert not [one for one in found if FORBIDDEN in found[one]]
    assert found.keys() == {(METHODS[verb], resource) for verb, _, resource in RIGHTS}


@pytest.mark.parametrize("right", sorted(RIGHTS), ids=" ".join)
async def test_one_is_taken_away(real_loop: None, api: LimitedApi, right: Right) -> None:
    found = await used_with(api, set(RIGHTS) - {right})
    verb, _, resource = right
    assert {one for one in found if FORBIDDEN in found[one]} == {(METHODS[verb], resource)}
