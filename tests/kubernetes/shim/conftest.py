"""Stories of the shim and a daemon that is a real process, on a loop whose time is that of the machine.

The API server is the fake, unless what a story needs says otherwise:

- Our own logic, and what a real server cannot be told to do (lose an answer, be slow, be of another version), needs the
  fake. That the fake does what a real one does is shown by tests/kubernetes/contract, whose tests run on both.
- `on_real`: a story about kubectl, controllers or rights needs a real one.
- `on_both`: one story for each thing that we do with a server, such as to bind, to evict, or to hold a lease.

Tests share one daemon, as resource managers of their own. A test with a fixture `daemon_flags` has its own daemon.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator

import pytest

from tests.contract.daemon_process import DaemonProcess
from tests.kubernetes.contract.api import Api
from tests.kubernetes.contract.conftest import REAL_SERVER, api_of, servers
from tests.kubernetes.contract.real_server import RealServer
from tests.kubernetes.shim.world import World

__all__ = ["servers"]

on_real = pytest.mark.parametrize("api", [REAL_SERVER], indirect=True)
on_both = pytest.mark.parametrize("api", ["fake", REAL_SERVER], indirect=True)

TEST_SECONDS_MAX = 150.0
"""A test with two daemons and two shims takes a minute where many other processes run."""


class SharedDaemon:
    """Started when it is first used."""

    def __init__(self) -> None:
        self._daemon: DaemonProcess | None = None

    def shared(self) -> DaemonProcess:
        if self._daemon is None:
            self._daemon = DaemonProcess().__enter__()
        return self._daemon

    def end(self) -> None:
        if self._daemon is not None:
            self._daemon.__exit__(None, None, None)


DAEMON = SharedDaemon()


@pytest.fixture(scope="session", autouse=True)
def shared_daemon() -> Iterator[None]:
    yield
    DAEMON.end()


@pytest.fixture
def api(request: pytest.FixtureRequest, servers: dict[str, RealServer]) -> Api:
    return api_of(getattr(request, "param", "fake"), servers)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = [name for name in pyfuncitem._fixtureinfo.argnames if name != "world"]
    arguments = {name: pyfuncitem.funcargs[name] for name in names}

    async def main() -> None:
        server = pyfuncitem.funcargs["api"]
        assert isinstance(server, Api)
        flags = pyfuncitem.funcargs.get("daemon_flags")
        assert flags is None or isinstance(flags, tuple)
        world = World(server, DAEMON.shared() if flags is None else None, flags or ())
        async with asyncio.timeout(TEST_SECONDS_MAX), world:
            await pyfuncitem.obj(world=world, **arguments)

    asyncio.run(main())
    return True


@pytest.fixture
def world(api: object) -> None:
    """A `World` on the server under test; the runner of the test makes it."""
