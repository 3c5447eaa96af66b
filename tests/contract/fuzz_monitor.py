"""Somebody who means well beside a fuzzed daemon: a quiet resource manager, and a probe, both with a watch.

A round trip or a probe that takes longer than `SLOW_SECONDS` is a finding, less the time for which the machine itself
stood still (`stalls`), or for which the daemon was ready to run and the machine ran others.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from types import TracebackType

import grpc
import httpx

from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import QUEUES, RawClient, allocated
from tests.contract.stalls import Stalls
from tests.hostile_values import QUIET

SLOW_SECONDS = 1.0
PAUSE_SECONDS = 0.02
LOST = (AssertionError, grpc.RpcError, httpx.HTTPError, queue.Empty)
"""What comes of a daemon that serves nobody."""


class Monitor:
    """Asks again and again while the context lasts. `during` is what is going on, for the findings."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.during = "the beginning"
        self.findings: list[str] = []
        self.round_trips: list[float] = []
        """Seconds from an ask of the quiet RM to its pod."""
        self.slowest = (0.0, "the beginning")
        """The longest of them, and what went on then."""
        self._daemon = daemon
        self._stalls = Stalls()
        self._over = threading.Event()
        self._client = RawClient(daemon.target, QUIET)
        self._threads = [
            threading.Thread(target=self._guard, args=(what, watch), daemon=True)
            for what, watch in (("a pod of another RM", self._round_trips), ("/livez", self._probes))
        ]

    def __enter__(self) -> Monitor:
        self._stalls.__enter__()
        self._client.register(QUEUES)
        self._client.set_up()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(2 * LIMIT_SECONDS)
        self._client.channel.close()
        self._stalls.__exit__(kind, error, at)

    def _guard(self, what: str, watch: Callable[[], None]) -> None:
        """A watch that ends before its time is a finding itself."""
        try:
            watch()
        except LOST as error:
            self.findings.append(f"{what} came no more ({type(error).__name__}: {error}), {self.during}")

    def _round_trips(self) -> None:
        stream, number, is_over = self._client.allocations(), 0, False
        while not is_over:
            is_over = self._over.is_set()  # once more then: the last call may have ended the daemon
            number += 1
            key = f"pod-{number}"

            def place(key: str = key) -> str:
                stream.send(self._client.asks("app-1", [key]))
                (one,) = allocated(stream.until(lambda got: bool(allocated(got))))
                assert one.allocationKey == key, f"{key} was asked for, and {one.allocationKey} came"
                return one.UUID

            began, waited, during = time.monotonic(), self._daemon.waited_for_processor_seconds(), self.during
            uuid = place()
            self.round_trips.append(self._timed("a pod of another RM", began, waited))
            self.slowest = max(self.slowest, (self.round_trips[-1], during))
            stream.send(self._client.release("app-1", uuid))
            stream.until(lambda got: any(response.released for response in got))
            self._over.wait(PAUSE_SECONDS)
        stream.half_close()

    def _probes(self) -> None:
        with httpx.Client(base_url=self._daemon.url, timeout=LIMIT_SECONDS) as http:
            while not self._over.is_set():
                began, waited = time.monotonic(), self._daemon.waited_for_processor_seconds()
                http.get("/livez").raise_for_status()
                self._timed("/livez", began, waited)
                self._over.wait(PAUSE_SECONDS)

    def _timed(self, what: str, began: float, waited_before: float) -> float:
        ended = time.monotonic()
        stalled = self._stalls.seconds_between(began, ended)
        waited = self._daemon.waited_for_processor_seconds() - waited_before
        if ended - began - stalled - waited > SLOW_SECONDS:
            why = f"the machine stood still for {stalled:.2f} s of it, and ran others for {waited:.2f} s"
            self.findings.append(f"{what} took {ended - began:.2f} s ({why}), {self.during}")
        return ended - began
