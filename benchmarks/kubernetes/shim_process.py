"""The shim as a process whose writes do not leave by HTTP: they are answered at once, and bindings told by a file.

python -m benchmarks.kubernetes.shim_process KUBECONFIG DAEMON SCHEDULER FILE

A pipe would wake its reader with each write, and the kernel counts that as work of the writer: 0.4 ms on a virtual
machine, as much as four pods.
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
    """Bindings go to a file, all of one turn of the loop at once."""

    bindings = -1
    """Descriptor of the file."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._bound: list[bytes] = []

    async def request(self, request: Request, gate: Gate | None = None) -> Answer:
        if request.method == "GET":
            return await super().request(request, gate)
        if request.path.endswith("/binding"):
            assert request.body is not None
            if not self._bound:
                asyncio.get_running_loop().call_soon(self._flush)
            self._bound.append(request.body)
        return Answer(201, b"{}")

    def _flush(self) -> None:
        content = b"\n".join([*self._bound, b""])
        self._bound.clear()
        while content:
            content = content[os.write(self.bindings, content) :]


async def main(config: str, daemon: str, scheduler: str, bindings: str) -> None:
    WithoutWrites.bindings = os.open(bindings, os.O_WRONLY | os.O_APPEND)
    transport = WithoutWrites(load_access(Path(config), None))
    options = ShimOptions(daemon, cluster=ClusterSettings(scheduler_names=frozenset({scheduler})))
    try:
        await Shim(transport, options).run()
    finally:
        await transport.close()


if __name__ == "__main__":
    gc.set_threshold(*cli.GC_THRESHOLDS)
    uvloop.run(main(*sys.argv[1:]))
