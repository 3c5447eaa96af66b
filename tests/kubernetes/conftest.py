"""Runs tests that are coroutines: on a virtual loop, or with the fixture `real_loop` on one whose time is that of the
machine."""

from __future__ import annotations

import inspect

import pytest
import uvloop

from tests.kubernetes.virtual_loop import run


@pytest.fixture
def real_loop() -> None:
    """Asks for a loop on which time passes: for threads, subprocesses, TLS, and servers that are real.

    It is uvloop's, as that of the shim: its transports are no instances of asyncio's classes.
    """


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    main = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    if "real_loop" in pyfuncitem.funcargs:
        uvloop.run(main)
    else:
        run(main)
    return True
