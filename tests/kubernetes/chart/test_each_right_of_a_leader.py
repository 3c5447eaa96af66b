"""On a real API server: whatever right of the role in the own namespace is taken away, leading is refused just that."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from itertools import count

import pytest

from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.election import Leadership, LeaseName, LeaseTimes, identity
from schedulerd.kubernetes.shim.role_label import keep_role_label
from tests.kubernetes.contract.api import Api
from tests.kubernetes.contract.conftest import SETUP_SECONDS_MAX
from tests.kubernetes.contract.real_server import RealServer, assets
from tests.kubernetes.rights import Right, granted
from tests.kubernetes.shim.test_each_right import METHODS, RBAC, LimitedApi, until

pytestmark = pytest.mark.timeout(SETUP_SECONDS_MAX)
TIMES = LeaseTimes(15, 10.0, 0.05)
VERBS = {**METHODS, "get": "GET", "update": "PUT"}
POD, LEASE = "me", "schedulerd"


@pytest.fixture
def api(servers: dict[str, RealServer], real_loop: None) -> LimitedApi:
    if assets() is None:
        pytest.skip("KUBEBUILDER_ASSETS names no folder with a real API server")
    return LimitedApi(servers["real"])


@contextlib.asynccontextmanager
async def account(api: LimitedApi, rights: set[Right]) -> AsyncIterator[None]:
    """With the pod whose label says who leads."""
    async with api:
        container = {"name": "main", "image": "pause"}
        answer = await api.post(r.PODS, {"metadata": {"name": POD}, "spec": {"containers": [container]}})
        assert answer.status == 201, answer
        await allow(api, rights)
        yield


async def allow(api: LimitedApi, rights: set[Right]) -> None:
    """The account gets these rights in its namespace, and no others."""
    await api.allow(set())
    name, here = api.namespace, f"{RBAC}/namespaces/{api.namespace}"
    rules = [{"apiGroups": [group], "resources": [resource], "verbs": [verb]} for verb, group, resource in rights]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": "shim", "namespace": name}
    for path, body in (
        (f"{here}/roles", {"metadata": {"name": name}, "rules": rules}),
        (f"{here}/rolebindings", {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}),
    ):
        answer = await api.call("POST", path, body)
        assert answer.status == 201, answer


@contextlib.asynccontextmanager
async def leading(api: LimitedApi) -> AsyncIterator[Leadership]:
    """A replica that leads if it can, with its label, and somebody who writes into the lease: its renewals meet
    conflicts, and are looked up."""
    async with Leadership(api.transport, LeaseName(api.namespace, LEASE), identity(POD), TIMES) as leadership:
        leadership.may_lead(True)
        transport = api.transport()
        tasks = [
            asyncio.create_task(keep_role_label(transport, leadership, POD)),
            asyncio.create_task(annotate(api)),
        ]
        try:
            yield leadership
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await transport.close()


async def annotate(api: Api) -> None:
    for number in count():
        await api.patch(r.LEASES, LEASE, {"metadata": {"annotations": {"number": str(number)}}})


async def test_with_all_rights_nothing_is_refused(api: LimitedApi) -> None:
    async with account(api, set(granted("Role"))), leading(api) as leadership:
        await leadership.elected()

        def used() -> set[tuple[str, str]]:
            return {request[:2] for one in api.used for request in one.metrics.requests}

        await until(lambda: used() >= {(VERBS[verb], resource) for verb, _, resource in granted("Role")})
        await until(lambda: leadership.renewals["done"] > 3)
    assert api.refused() == set()


@pytest.mark.parametrize("right", sorted(granted("Role")), ids=" ".join)
async def test_without_one_right_just_that_is_refused(api: LimitedApi, right: Right) -> None:
    verb, _, resource = right
    async with account(api, set(granted("Role") - {right})), leading(api):
        await until(lambda: bool(api.refused()))
        assert api.refused() == {(VERBS[verb], resource)}
