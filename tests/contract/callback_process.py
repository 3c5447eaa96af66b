"""The callback side of a resource manager in a process of its own: it says yes to everything, after some thought.

The update streams of the same resource manager are the test's. So the test can kill this process in the middle of a
result, and nothing else of the resource manager.
"""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import grpc

from schedulerd._generated.schedulerd.v1 import callback_pb2, callback_pb2_grpc
from tests.contract.daemon_process import LIMIT_SECONDS

NEVER_MS = -1


class CallbackProcess:
    """As a context it is connected, and killed at the end if it still runs."""

    def __init__(self, target: str, rm_id: str, delay_ms: int) -> None:
        """`delay_ms` is how long a result takes; `NEVER_MS` for one that is never given."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.contract.callback_process", target, rm_id, str(delay_ms)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def __enter__(self) -> CallbackProcess:
        self.wait_for("connected")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def wait_for(self, word: str) -> None:
        """Until it says this; the limit is that of the test, as a dead process says nothing more."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == word:
                return
        raise AssertionError(f"the callback process ended before it was {word!r}")

    def kill(self) -> None:
        """As the system does when memory runs out."""
        self._process.kill()
        self._process.wait(LIMIT_SECONDS)


def main(target: str, rm_id: str, delay_ms: str) -> None:
    delay_seconds = int(delay_ms) / 1000
    answers: queue.SimpleQueue[tuple[float, callback_pb2.CallbackAnswer]] = queue.SimpleQueue()
    hello = callback_pb2.CallbackHello(rmID=rm_id, predicates=True, preemptionPredicates=True)
    answers.put((0.0, callback_pb2.CallbackAnswer(hello=hello)))

    def thoughtful() -> Iterator[callback_pb2.CallbackAnswer]:
        while True:
            due_s, answer = answers.get()
            time.sleep(max(due_s - time.monotonic(), 0.0))
            yield answer

    for call in callback_pb2_grpc.CallbackStub(grpc.insecure_channel(target)).Connect(thoughtful()):
        if call.HasField("connected"):
            _say("connected")
        results = [callback_pb2.PredicatesResult(callID=one.callID, success=True) for one in call.predicates]
        if results:
            _say("asked")
            if int(delay_ms) == NEVER_MS:
                threading.Event().wait()
            answers.put((time.monotonic() + delay_seconds, callback_pb2.CallbackAnswer(predicates=results)))


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
