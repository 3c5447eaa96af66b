"""A network between a client and a daemon that can stand still for a while, as when a cable is pulled and put back.

Connections survive that, as TCP does: what is under way arrives later. `cut` ends them instead.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

CHUNK_BYTES = 65_536


class Cable:
    """Forwards every connection made to `target` to the daemon at `to`. Use it as a context."""

    def __init__(self, to: str) -> None:
        host, port = to.rsplit(":", 1)
        self._to = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.target = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._requests_flow, self._answers_flow = threading.Event(), threading.Event()
        self.put_back()
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Cable:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.put_back()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()

    def pull(self) -> None:
        """Nothing goes through any more, in either direction."""
        self._requests_flow.clear()
        self.swallow_answers()

    def swallow_answers(self) -> None:
        """Nothing comes from the daemon any more, which still hears its clients."""
        self._answers_flow.clear()

    def put_back(self) -> None:
        self._requests_flow.set()
        self._answers_flow.set()

    def cut(self) -> None:
        """Ends all connections; new ones can be made."""
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                daemon = socket.create_connection(self._to)
                self._ends += [client, daemon]
                self._start(self._forward, client, daemon, self._requests_flow)
                self._start(self._forward, daemon, client, self._answers_flow)

    def _forward(self, source: socket.socket, sink: socket.socket, flows: threading.Event) -> None:
        try:
            while data := source.recv(CHUNK_BYTES):
                flows.wait()
                sink.sendall(data)
        except OSError:
            pass  # one of the two is gone, and then both are
        finally:
            for end in (source, sink):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()
