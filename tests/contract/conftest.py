"""A daemon for the tests that do not change how it runs."""

from __future__ import annotations

import itertools
import resource
from collections.abc import Iterator

import pytest

from tests.contract.daemon_process import DaemonProcess
from tests.contract.raw_client import RawClient

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def daemon() -> Iterator[DaemonProcess]:
    """One daemon for all tests that only need one: each talks to it as a resource manager of its own."""
    with DaemonProcess() as process:
        yield process


@pytest.fixture
def client(daemon: DaemonProcess) -> Iterator[RawClient]:
    """A resource manager that nobody has seen before."""
    with RawClient(daemon.target, f"rm-{next(_numbers)}") as client:
        yield client


@pytest.fixture
def descriptors() -> Iterator[None]:
    """As many file descriptors as thousands of connections take, here and in the daemon, which inherits the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
