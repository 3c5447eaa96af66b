"""The network of one pod: `Sandbox` for the test, and the process that keeps the namespaces.

In the pod, the API server is at `API_HOST:API_PORT`, and Services at their addresses; from outside, the pod is a socket
file that takes the number of a port as its first line. The process is `python -m tests.kubernetes.node.sandbox FOLDER
ADDRESS:PORT...`, in namespaces of `unshare`.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import TracebackType

from tests.kubernetes.node.relay import Connect, Relay, to_named_port, to_port, to_unix

API_HOST, API_PORT = "10.0.0.1", 443
"""The first address of the services' range, which certificates of API servers have."""
NAMESPACES = ("unshare", "--user", "--map-root-user", "--net", "--uts")
START_SECONDS_MAX = 20.0
_SET_ADDRESS, _GET_FLAGS, _SET_FLAGS, _UP = 0x8916, 0x8913, 0x8914, 0x1


@cache
def is_allowed() -> bool:
    """Whether this machine lets us make namespaces, and mount and change users inside."""
    as_user = "unshare --user --map-user=10001 --map-group=10001 setpriv --no-new-privs true"
    script = f"mount -t tmpfs tmpfs /run && exec {as_user}"
    try:
        command = [*NAMESPACES, "--mount", "--propagation", "private", "sh", "-c", script]
        return subprocess.run(command, capture_output=True, timeout=START_SECONDS_MAX).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


class Sandbox:
    """A context. `pid` is that of the process whose namespaces containers join."""

    def __init__(self, api_port: int) -> None:
        """`api_port`: of the API server, on 127.0.0.1."""
        self._api_port = api_port
        self.services: list[str] = []
        """`ADDRESS:PORT` of Services that the pod reaches, to be set before the start."""
        self.to_service: Connect | None = None
        """Connects to one of them, which it gets as the first line."""
        self.folder = Path(tempfile.mkdtemp(prefix="pod-"))
        self._stack = contextlib.AsyncExitStack()
        self.pid = 0

    async def __aenter__(self) -> Sandbox:
        try:
            await self._start()
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._stack.aclose()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _start(self) -> None:
        await self._relay("api.sock", to_port("127.0.0.1", self._api_port))
        if self.to_service is not None:
            await self._relay("services.sock", self.to_service)
        command = [*NAMESPACES, sys.executable, "-m", __name__, str(self.folder), *self.services]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        self._stack.push_async_callback(_end, process)
        assert process.stdout is not None
        async with asyncio.timeout(START_SECONDS_MAX):
            said = await process.stdout.readline()
        assert said == b"ready\n", "the sandbox of a pod has not started"
        self.pid = process.pid

    async def _relay(self, name: str, connect: Connect) -> None:
        relay = Relay(connect)
        server = await asyncio.start_unix_server(relay, self.folder / name)
        self._stack.push_async_callback(relay.close)
        self._stack.callback(server.close)

    async def get(self, port: int, path: str, timeout_s: float) -> tuple[int, str]:
        """Status and text of an HTTP GET. Raises `OSError`, also if nothing sensible is answered in time."""
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_unix_connection(self.folder / "pod.sock")
                try:
                    writer.write(f"{port}\nGET {path} HTTP/1.0\r\nHost: pod\r\n\r\n".encode())
                    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
                finally:
                    writer.transport.abort()
        except TimeoutError as error:
            raise OSError(f"no answer within {timeout_s:g} s") from error
        words = head.split(None, 2)
        if len(words) < 2 or not words[1].isdigit():
            raise OSError(f"answered {head[:80]!r}")
        return int(words[1]), body.decode()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


def _bring_up() -> None:
    """The loopback interface, with the address of the API server beside its own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        flags = struct.unpack("16sh", fcntl.ioctl(control, _GET_FLAGS, struct.pack("16sh", b"lo", 0)))[1]
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sh", b"lo", flags | _UP))
        address = struct.pack("16sH2s4s8x", b"lo:1", socket.AF_INET, b"\0\0", socket.inet_aton(API_HOST))
        fcntl.ioctl(control, _SET_ADDRESS, address)


async def _serve(folder: Path, services: list[str]) -> None:
    _bring_up()
    for service in services:  # all addresses of 10.0.0.0/8 are local, as that of the API server is
        host, _, port = service.rpartition(":")
        await asyncio.start_server(Relay(to_unix(folder / "services.sock", service)), host, int(port))
    await asyncio.start_server(Relay(to_unix(folder / "api.sock")), API_HOST, API_PORT)
    await asyncio.start_unix_server(Relay(to_named_port), folder / "pod.sock")
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2:]))
