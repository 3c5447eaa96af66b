"""Which servers the contract is tried on."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.kubernetes.contract.api import Api
from tests.kubernetes.contract.real_server import RealServer, assets
from tests.kubernetes.virtual_loop import run

TEST_SECONDS_MAX = 50.0
SETUP_SECONDS_MAX = 180.0
"""With the start of the real server."""
REAL_SERVER = pytest.param("real", marks=(pytest.mark.slow, pytest.mark.timeout(SETUP_SECONDS_MAX)))


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, RealServer]]:
    """Started when first asked for: `real`."""
    with ExitStack() as stack:
        folder = assets()

        class Servers(dict[str, RealServer]):
            def __missing__(self, name: str) -> RealServer:
                assert folder is not None
                self[name] = stack.enter_context(RealServer(folder))
                return self[name]

        yield Servers()


def api_of(name: str, servers: dict[str, RealServer]) -> Api:
    """A client of the server `fake` or `real`, to be entered by the runner of the test."""
    if name == "fake":
        return Api(None)
    if assets() is None:
        pytest.skip("KUBEBUILDER_ASSETS names no folder with a real API server")
    return Api(servers["real"])


@pytest.fixture(params=["fake", REAL_SERVER])
def api(request: pytest.FixtureRequest, servers: dict[str, RealServer]) -> Api:
    return api_of(request.param, servers)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    api = pyfuncitem.funcargs.get("api")
    if not isinstance(api, Api) or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}

    async def main() -> None:
        async with asyncio.timeout(TEST_SECONDS_MAX), api:
            await pyfuncitem.obj(**arguments)

    if api.is_real:
        asyncio.run(main())
    else:
        run(main())
    return True
