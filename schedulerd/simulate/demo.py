"""The demonstration: a daemon and a simulated resource manager, each a process of its own, started and ended here.

Whatever happens in between, both processes are gone afterwards, except for the daemon when it is to be kept.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

HOST = "127.0.0.1"
READY_TIMEOUT_S = 30.0
PROBE_TIMEOUT_S = 1.0
STOP_TIMEOUT_S = 20.0
"""Longer than the resource manager takes to drain and the daemon to close its streams."""
LOG_TAIL_LINES = 12


class DemoFailed(Exception):
    """The daemon did not do its part; the message says what happened and where its log is."""


def shipped_queue_file() -> Path:
    """The queue file that comes with schedulerd: inside the package once installed, in config/ of a checkout."""
    package = Path(__file__).parents[1]
    packaged = package / "config" / "default_queues.yaml"
    return packaged if packaged.is_file() else package.parent / "config" / "queues.yaml"


def free_port() -> int:
    """A TCP port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
        return port


class Daemon:
    """`schedulerd serve` in a subprocess, logging to a temporary file; a context that stops it at the end."""

    def __init__(self, queue_file: Path, *, grpc_port: int, http_port: int, flags: Sequence[str] = ()) -> None:
        """It ends with this process, even one that is killed."""
        self.target = f"{HOST}:{grpc_port}"
        self.http_url = f"http://{HOST}:{http_port}"
        self.metrics_url = f"{self.http_url}/metrics"
        self._command = [
            *(sys.executable, "-m", "schedulerd", "serve", "--config", str(queue_file)),
            *("--grpc-bind", self.target, "--http-bind", f"{HOST}:{http_port}", "--log-format", "console"),
            "--stop-at-input-end",
            *flags,
        ]

    def __enter__(self) -> Self:
        with tempfile.NamedTemporaryFile(prefix="schedulerd-demo-", suffix=".log", delete=False) as log:
            self.log_file = Path(log.name)
            # A session of its own: Ctrl-C in the terminal is for the demo to handle, and must not take the daemon
            # from under the resource manager that is still saying goodbye.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        code = stop_process(self._process)
        if self._process.stdin is not None:
            self._process.stdin.close()
        if kind is None and code != 0:
            raise self.failure(f"the daemon ended with exit code {code} when it was asked to stop")
        if kind is None or issubclass(kind, KeyboardInterrupt):
            self.log_file.unlink()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Waits for the gRPC health service to say SERVING. Raises `DemoFailed` if it does not within bounds."""
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        with grpc.insecure_channel(self.target, options=[("grpc.max_reconnect_backoff_ms", 200)]) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            while time.monotonic() < deadline_s:
                code = self._process.poll()
                if code is not None:
                    raise self.failure(f"the daemon ended with exit code {code} before it was ready")
                if _is_serving(health):
                    return
        raise self.failure(f"the daemon was not ready within {READY_TIMEOUT_S:g} s")

    def failure(self, what: str) -> DemoFailed:
        """An error that shows the end of the daemon's log."""
        tail = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return DemoFailed("\n".join([f"{what}; its log is {self.log_file}", *(f"  | {line}" for line in tail)]))


def _is_serving(health: Any) -> bool:
    began_s = time.monotonic()
    try:
        answer = health.Check(health_pb2.HealthCheckRequest(), timeout=PROBE_TIMEOUT_S, wait_for_ready=True)
        if answer.status == health_pb2.HealthCheckResponse.SERVING:
            return True
    except grpc.RpcError as error:
        if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            raise
    time.sleep(max(0.0, 0.05 - (time.monotonic() - began_s)))
    return False


def run_resource_manager(arguments: Sequence[str]) -> int:
    """Runs `schedulerd simulate` in a second process that inherits the terminal, and returns its exit code.

    Ctrl-C reaches it by itself when it comes from a terminal; asking it to end once more does no harm, and is what
    ends it if the signal was sent to this process alone.
    """
    process = subprocess.Popen([sys.executable, "-m", "schedulerd", "simulate", *arguments])
    try:
        return process.wait()
    finally:
        stop_process(process)


def stop_process(process: subprocess.Popen[bytes]) -> int:
    """Asks a process to end, waits, and ends it the hard way if it does not. Returns its exit code."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()
    return process.wait()


def interrupt_on_signals() -> None:
    """Lets SIGTERM and SIGHUP end the demo the way Ctrl-C does, so that it takes its processes along.

    SIGINT as well, as the daemon and the simulator do: a shell starts what runs in the background with SIGINT ignored.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
