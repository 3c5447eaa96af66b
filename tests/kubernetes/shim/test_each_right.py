"""On a real API server: whatever right of the cluster role is taken away, the shim is refused just that, and counts it.
`test_rights_used.py` has the rights that need a lost answer, half an hour, or volumes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from schedulerd.kubernetes.api import Transport
from schedulerd.kubernetes.auth import Access, Material
from tests.kubernetes.contract.api import Api
from tests.kubernetes.contract.conftest import SETUP_SECONDS_MAX
from tests.kubernetes.contract.real_server import RealServer, assets
from tests.kubernetes.rights import Right, granted
from tests.kubernetes.shim.test_gangs import gang
from tests.kubernetes.shim.world import JSON, LIMIT_SECONDS, World, condition

pytestmark = pytest.mark.timeout(SETUP_SECONDS_MAX)
RBAC = "/apis/rbac.authorization.k8s.io/v1"
METHODS = {"list": "GET", "watch": "WATCH", "create": "POST", "patch": "PATCH", "delete": "DELETE"}
ELSEWHERE = {("get", "", "pods"), ("patch", "events.k8s.io", "events")} | {
    (verb, "", resource) for verb in ("get", "patch") for resource in ("persistentvolumes", "persistentvolumeclaims")
}
ABSENT = {"poddisruptionbudgets", "podgroups", "csistoragecapacities"}
"""Which this server does not have in the version that is watched."""
RIGHTS = sorted(
    one for one in granted("ClusterRole") - ELSEWHERE if not (one[0] in ("list", "watch") and one[2] in ABSENT)
)


class LimitedApi(Api):
    """The test is an administrator; the shim is a service account with some rights."""

    def __init__(self, real: RealServer) -> None:
        super().__init__(real)
        self.used: list[Transport] = []
        self.token = ""

    def transport(self) -> Transport:
        async def read() -> Material:
            return Material(token=self.token)

        self.used.append(Transport(Access(self.url, read, insecure=True)))
        return self.used[-1]

    def refused(self) -> set[tuple[str, str]]:
        """Methods and resources of requests that were answered with 403."""
        return {
            (method, resource)
            for one in self.used
            for (method, resource, code), count in one.metrics.requests.items()
            if code == "403" and count
        }

    async def allow(self, rights: set[Right]) -> None:
        """Makes the account, with these rights and no others."""
        name, here = self.namespace, f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        rules = [{"apiGroups": [group], "resources": [resource], "verbs": [verb]} for verb, group, resource in rights]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        subject = {"kind": "ServiceAccount", "name": "shim", "namespace": name}
        for path, body in (
            (here, {"metadata": {"name": "shim"}}),
            (f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules}),
            (f"{RBAC}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}),
        ):
            answer = await self.call("POST", path, body)
            assert answer.status == 201, answer
        answer = await self.call("POST", f"{here}/shim/token", {"spec": {"audiences": []}})
        assert answer.status == 201, answer
        self.token = answer.json["status"]["token"]


@pytest.fixture
def api(servers: dict[str, RealServer]) -> Api:
    if assets() is None:
        pytest.skip("KUBEBUILDER_ASSETS names no folder with a real API server")
    return LimitedApi(servers["real"])


async def work(world: World) -> None:
    """Pods that use every right, before the shim starts; those of a gang have placeholders."""
    await world.node("n", cpu="4")
    await world.pod("p")
    await world.pod("large", cpu="64")
    for name in ("w0", "w1"):
        await world.pod(name, metadata=gang(2))


async def until(is_reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_SECONDS):
        while not is_reached():  # noqa: ASYNC110 - a count tells nobody that it has grown
            await asyncio.sleep(0.05)


def has_reason(pod: JSON) -> bool:
    return condition(pod, "PodScheduled").get("reason") == "Unschedulable"


async def test_with_all_rights_nothing_is_refused(world: World) -> None:
    assert isinstance(world.api, LimitedApi)
    await world.api.allow(set(granted("ClusterRole")))
    await work(world)
    await world.start()
    await world.until_bound("p", "w0", "w1")
    await world.until(lambda pods: has_reason(pods["large"]) and not any(name.startswith("tg-") for name in pods))
    assert world.api.refused() == set()


@pytest.mark.parametrize("right", RIGHTS, ids=" ".join)
async def test_without_one_right_just_that_is_refused(world: World, right: Right) -> None:
    api = world.api
    assert isinstance(api, LimitedApi)
    await api.allow(set(granted("ClusterRole") - {right}))
    await work(world)
    verb, _, resource = right
    starting = asyncio.create_task(world.start())
    try:
        await until(lambda: bool(api.refused()))
        assert api.refused() == {(METHODS[verb], resource.partition("/")[0])}
    finally:
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
