"""What holds for every test.

Property tests draw the same examples in every run and on every machine and have no per-example deadline: a failure is
then always a change in the code, never luck or a slow host. `make test` draws few of them, `make nightly` many: their
profiles are `short` and `long`.

Garbage is collected after each test that opened a socket or started a process. What the test left open is then blamed
on that test, and not on a later one during which Python happens to collect. (`python -X tracemalloc=12` tells where it
was made.)
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

for profile, examples in (("short", 10), ("usual", 30), ("long", 100)):
    settings.register_profile(
        profile,
        derandomize=True,
        database=None,
        deadline=None,
        print_blob=True,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow],  # it goes by the clock
    )
settings.load_profile("usual")

WITH_PROCESSES = tuple(
    f"tests/{name}"
    for name in (
        *("contract/", "ui/", "packaging/", "kubernetes/chart/", "kubernetes/demo/", "kubernetes/shim/"),
        "unit/daemon/files/test_reading_process.py",
    )
)
"""Where tests start processes: they are slow, but for those that are marked `smoke`."""


TENTH = "TENTH"
"""Environment variable: which tenth of the nightly tests `make check` runs, 0 to 9; by default the commit decides."""


def pytest_configure() -> None:
    """Once, for all workers."""
    os.environ.setdefault(TENTH, str(_number_of_commit() % 10))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """At the end, so that a failure can be repeated."""
    terminalreporter.write_line(f"Tenth of the nightly tests: {TENTH}={os.environ[TENTH]}")


def _number_of_commit() -> int:
    """0 where there is no repository, such as in a compiled copy."""
    command = ("git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD")
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    return int(answer.stdout, 16)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before pytest leaves out what `-m` leaves out."""
    for item in items:
        if item.get_closest_marker("nightly") is not None:
            item.add_marker(pytest.mark.slow)
            if zlib.crc32(item.nodeid.encode()) % 10 == int(os.environ[TENTH]):
                item.add_marker(pytest.mark.tenth)
        if item.nodeid.startswith(WITH_PROCESSES) and item.get_closest_marker("smoke") is None:
            item.add_marker(pytest.mark.slow)


OPENING = frozenset({"socket.__new__", "subprocess.Popen"})
"""Audit events of what has to be closed. Every event loop has sockets too."""


class Opened:
    """Whether something was opened since the last collection."""

    is_true = False

    def hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in OPENING:
            self.is_true = True


OPENED = Opened()
sys.addaudithook(OPENED.hear)


# Both are set up before all other fixtures of their scope, and so torn down after them.


@pytest.fixture(autouse=True)
def collect_after_test() -> Iterator[None]:
    yield
    if OPENED.is_true:
        OPENED.is_true = False
        gc.collect()


@pytest.fixture(autouse=True, scope="module")
def collect_after_module() -> Iterator[None]:
    """What fixtures of the module left open. What is still there stays, such as imported modules: hidden from the
    collector, it costs later collections nothing."""
    yield
    gc.collect()
    gc.freeze()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """For the collection at the end, which pytest makes."""
    gc.unfreeze()
