"""What tells the daemon to stop, or to read its files again: signals, and the end of standard input."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable

import structlog

from schedulerd.daemon.runtime.logs import flush

STDIN = 0

log = structlog.stdlib.get_logger(__name__)


def stop_signal() -> asyncio.Future[None]:
    """A future that is done at the first SIGTERM or SIGINT. The second signal ends the process at once."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[None] = loop.create_future()

    def on_signal(number: signal.Signals) -> None:
        if told.done():
            log.warning("second signal: exiting at once", signal=number.name)
            flush()
            os._exit(128 + number)
        log.info("signal", signal=number.name)
        told.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return told


def stop_at_input_end(told: asyncio.Future[None]) -> None:
    """Sets `told` when standard input ends: no process can write to it any more.

    A thread waits for the end, because an event loop cannot watch every kind of input.
    """
    loop = asyncio.get_running_loop()

    def on_end() -> None:
        if not told.done():
            log.info("standard input has ended")
            told.set_result(None)

    def wait() -> None:
        with contextlib.suppress(OSError):  # an input that was closed from the start has ended too
            while os.read(STDIN, 4096):
                pass
        loop.call_soon_threadsafe(on_end)

    threading.Thread(target=wait, name="input end", daemon=True).start()


def on_reload_signal(reload: Callable[[], None]) -> None:
    """Calls `reload` at every SIGHUP."""

    def on_signal() -> None:
        log.info("signal", signal="SIGHUP")
        reload()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, on_signal)
