"""Every test runs on both API servers, on a loop whose time is that of the machine: the daemon is a real process."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from tests.kubernetes.contract.api import Api
from tests.kubernetes.contract.conftest import api, servers
from tests.kubernetes.shim.world import World

__all__ = ["api", "servers"]

TEST_SECONDS_MAX = 50.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = [name for name in pyfuncitem._fixtureinfo.argnames if name != "world"]
    arguments = {name: pyfuncitem.funcargs[name] for name in names}

    async def main() -> None:
        server = pyfuncitem.funcargs["api"]
        assert isinstance(server, Api)
        flags = pyfuncitem.funcargs.get("daemon_flags", ())
        assert isinstance(flags, tuple)
        world = World(server, flags)
        async with asyncio.timeout(TEST_SECONDS_MAX), world:
            await pyfuncitem.obj(world=world, **arguments)

    asyncio.run(main())
    return True


@pytest.fixture
def world(api: object) -> None:
    """A `World` on the server under test; the runner of the test makes it."""
