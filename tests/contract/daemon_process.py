"""The daemon as its users run it: a process of its own, with its log read and its end bounded."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

LIMIT_SECONDS = 60.0
"""For anything that should happen at once; a test that reaches it has failed."""
START_SECONDS = 60.0
"""For the start of the process, which is slow where many others run."""
IN_USE_LOOKS = 3
IN_USE_PAUSE_SECONDS = 0.1
"""Memory is at rest when so many looks, so far apart, find no less than before: dropped state is freed in slices."""


class DaemonProcess:
    """`schedulerd serve` on free ports of 127.0.0.1. As a context it is killed at the end if it still runs."""

    def __init__(self, *flags: str, environment: dict[str, str] | None = None, module: str = "schedulerd") -> None:
        command = [sys.executable, "-W", "error", "-m", module, "serve", "--log-format", "json"]
        command += [
            "--grpc-bind",
            "127.0.0.1:0",
            "--http-bind",
            "127.0.0.1:0",
            "--recount-items-max",
            "1000000",
            *flags,
        ]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, **(environment or {})},
        )
        self.lines: list[str] = []
        """What it has written to its log so far."""
        self.log_is_read = threading.Event()
        """Cleared, nobody reads what it writes to its log."""
        self.log_is_read.set()
        self._unread: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()

    def __enter__(self) -> DaemonProcess:
        try:
            started = self.wait_for_event("serving", seconds=START_SECONDS)
        except BaseException as error:  # a context that was not entered is not left either
            self.__exit__(type(error), error, error.__traceback__)
            raise
        self.target = f"127.0.0.1:{started['grpc_port']}"
        self.url = f"http://127.0.0.1:{started['http_port']}"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(LIMIT_SECONDS)
        self.log_is_read.set()
        self._reader.join(LIMIT_SECONDS)
        assert self._process.stderr is not None
        self._process.stderr.close()
        self.end_input()
        bug = "".join(self.lines[-20:])
        if "Traceback" in bug:
            print(bug, file=sys.stderr)  # beside what failed, which is often a wait for what it did not do

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for_event(
        self,
        event: str,
        matches: Callable[[dict[str, Any]], bool] = lambda line: True,
        seconds: float = LIMIT_SECONDS,
    ) -> dict[str, Any]:
        """The next log line of this event; lines before it are passed over."""
        while True:
            line = self._unread.get(timeout=seconds)
            if line is None:
                raise AssertionError(f"ended without the event {event!r}:\n" + "".join(self.lines[-20:]))
            entry = json.loads(line) if line.startswith("{") else {}
            if entry.get("event") == event and matches(entry):
                return dict(entry)

    def event(self, event: str) -> dict[str, Any]:
        """The first log line of this event that has been written; fails if there is none."""
        entries = (json.loads(line) for line in self.lines if line.startswith("{"))
        return next(entry for entry in entries if entry["event"] == event)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end_input(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> int:
        """Its exit status, when all of its log is read; who waits too long gets `subprocess.TimeoutExpired`."""
        status = self._process.wait(LIMIT_SECONDS)
        self.log_is_read.set()
        self._reader.join(LIMIT_SECONDS)
        return status

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.pid).memory_info().rss)

    def in_use_bytes(self) -> int:
        """Of its resident memory what is in use, when it gives no more back; it has to be a `measured_daemon`."""
        least, looks = sys.maxsize, 0
        while looks < IN_USE_LOOKS:
            time.sleep(IN_USE_PAUSE_SECONDS)
            self.signal(signal.SIGUSR2)
            size = int(self.wait_for_event("memory in use")["bytes"])
            looks = 0 if size < 0.99 * least else looks + 1
            least = min(least, size)
        return least

    def waited_for_processor_seconds(self) -> float:
        """How long its main thread has waited for the machine to run it, so far; 0 where that is not counted."""
        try:
            text = Path(f"/proc/{self.pid}/task/{self.pid}/schedstat").read_text(encoding="ascii")
        except OSError:
            return 0.0
        return int(text.split()[1]) / 1e9

    def state(self, **query: str) -> dict[str, Any]:
        """`/debug/state`: all resource managers, or what the query is for, and the broken invariants."""
        response = httpx.get(f"{self.url}/debug/state", params=query, timeout=LIMIT_SECONDS)
        response.raise_for_status()
        return dict(response.json())

    def metric(self, name: str, **labels: str) -> float:
        """The value of a metric with exactly these labels; 0 if there is none."""
        text = httpx.get(f"{self.url}/metrics", timeout=LIMIT_SECONDS).text
        samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        return next((sample.value for sample in samples if sample.name == name and sample.labels == labels), 0.0)

    def total(self, name: str) -> float:
        """The sum of a metric over all its labels; 0 if there is none."""
        text = httpx.get(f"{self.url}/metrics", timeout=LIMIT_SECONDS).text
        samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        return sum(sample.value for sample in samples if sample.name == name)

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.log_is_read.wait()
            self.lines.append(line)
            self._unread.put(line)
        self._unread.put(None)


def daemon_at(target: str, *flags: str) -> DaemonProcess:
    """An entered context: a daemon at the address of one that has ended. Whoever has got that port meanwhile, for a
    connection of theirs, is waited for."""
    end_s = time.monotonic() + LIMIT_SECONDS
    while True:
        try:
            return DaemonProcess(*flags, "--grpc-bind", target).__enter__()
        except AssertionError as error:
            if "cannot listen" not in str(error) or time.monotonic() > end_s:
                raise
        time.sleep(IN_USE_PAUSE_SECONDS)
