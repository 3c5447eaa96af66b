"""The shim as a process whose writes do not leave by HTTP: they are answered at once, and bindings told by a pipe.

python -m benchmarks.kubernetes.shim_process KUBECONFIG DAEMON SCHEDULER FD
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from pathlib import Path

import uvloop

from schedulerd.kubernetes.api import Transport
from schedulerd.kubernetes.api.transport import Answer, Gate, Request
from schedulerd.kubernetes.auth import load_access
from schedulerd.kubernetes.cluster.settings import ClusterSettings
from schedulerd.kubernetes.shim import cli
from schedulerd.kubernetes.shim.shim import Shim, ShimOptions


class WithoutWrites(Transport):
    """Bindings go to a pipe, all of one turn of the loop at once."""

    pipe = -1

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._bindings: list[bytes] = []

    async def request(self, request: Request, gate: Gate | None = None) -> Answer:
        if request.method == "GET":
            return await super().request(request, gate)
        if request.path.endswith("/binding"):
            assert request.body is not None
            if not self._bindings:
                asyncio.get_running_loop().call_soon(self._flush)
            self._bindings.append(request.body)
        return Answer(201, b"{}")

    def _flush(self) -> None:
        content = b"\n".join([*self._bindings, b""])
        self._bindings.clear()
        while content:
            content = content[os.write(self.pipe, content) :]


async def main(config: str, daemon: str, scheduler: str, pipe: str) -> None:
    WithoutWrites.pipe = int(pipe)
    transport = WithoutWrites(load_access(Path(config), None))
    options = ShimOptions(daemon, cluster=ClusterSettings(scheduler_names=frozenset({scheduler})))
    try:
        await Shim(transport, options).run()
    finally:
        await transport.close()


if __name__ == "__main__":
    gc.set_threshold(*cli.GC_THRESHOLDS)
    uvloop.run(main(*sys.argv[1:]))
