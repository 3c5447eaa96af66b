"""Shim, daemon and API server are killed, alone and together, at random moments under load; nothing is lost.

    python -m tests.kubernetes.kills --rounds 20 --pods 2000 [--real]

Shim and daemon are processes, killed by SIGKILL; the API server is the fake one: all its connections end, nobody
answers for a while, and what it has stored stays. With `--real` it is kube-apiserver from KUBEBUILDER_ASSETS, killed by
SIGKILL as well. After every round all pods are bound, once each, and both sides agree.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Protocol

from tests.contract.daemon_process import DaemonProcess, daemon_at
from tests.kubernetes.contract.api import Api
from tests.kubernetes.contract.real_server import TOKEN, RealServer, assets, write_kubeconfig
from tests.kubernetes.fake import FakeCluster
from tests.kubernetes.load import Load
from tests.kubernetes.real_load import RealLoad

LOG = logging.getLogger(__name__)
SCHEDULER, RM_ID = "schedulerd", "kubernetes"
VICTIMS = ("shim", "daemon", "server")
AWAY_SECONDS_MAX = 1.0
SETTLE_SECONDS = 90.0
NODES, CPU = 8, "8"


class Server(Protocol):
    """The API server as a context."""

    @property
    def url(self) -> str: ...

    async def __aenter__(self) -> Any: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    async def start(self) -> None:
        """Again, after it was stopped."""

    async def stop(self) -> None: ...


class RealCluster:
    """A context: a server of its own, with a client of it."""

    def __init__(self, folder: Path) -> None:
        self._server = RealServer(folder)
        self.api = Api(self._server)

    @property
    def url(self) -> str:
        return self._server.url

    async def __aenter__(self) -> RealCluster:
        await asyncio.to_thread(self._server.__enter__)
        await self.api.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.api.__aexit__(kind, error, at)
        await asyncio.to_thread(self._server.__exit__, kind, error, at)

    async def start(self) -> None:
        await asyncio.to_thread(self._server.start_server)

    async def stop(self) -> None:
        await asyncio.to_thread(self._server.kill_server)


class Victims:
    """A context: the three of them, each of which can be killed and started again."""

    def __init__(self, folder: Path, server: Server) -> None:
        self._folder = folder
        self._log = Path(folder, "shim.log").open("ab")  # noqa: SIM115 - it is closed with the context
        self._shim: subprocess.Popen[bytes] | None = None
        self.server = server
        self.daemon = DaemonProcess()
        self.is_server_there = True
        self.kills: Counter[str] = Counter()

    async def __aenter__(self) -> Victims:
        self.daemon.__enter__()
        await self.server.__aenter__()
        write_kubeconfig(self._config, self.server.url, TOKEN)
        self._start_shim()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._kill_shim()
        self._log.close()
        await self.server.__aexit__(kind, error, at)
        self.daemon.__exit__(kind, error, at)

    @property
    def shim_log(self) -> str:
        return Path(self._log.name).read_text()

    async def kill(self, name: str) -> None:
        self.kills[name] += 1
        match name:
            case "shim":
                self._kill_shim()
            case "daemon":
                self._target = self.daemon.target
                await asyncio.to_thread(self.daemon.__exit__, None, None, None)
            case _:
                self.is_server_there = False
                await self.server.stop()

    async def start(self, name: str) -> None:
        match name:
            case "shim":
                self._start_shim()
            case "daemon":
                self.daemon = await asyncio.to_thread(daemon_at, self._target)
            case _:
                await self.server.start()
                self.is_server_there = True

    def check(self) -> None:
        """The shim lives: it ends by itself for nothing that was done to the others."""
        assert self._shim is not None
        assert self._shim.poll() is None, f"the shim has ended with {self._shim.returncode}:\n{self.shim_log[-4000:]}"

    @property
    def _config(self) -> Path:
        return Path(self._folder, "kubeconfig")

    def _start_shim(self) -> None:
        command = [sys.executable, "-W", "error", "-m", "schedulerd", "kubernetes", "--kubeconfig", str(self._config)]
        command += ["--daemon", self.daemon.target, "--scheduler-name", SCHEDULER, "--rm-id", RM_ID]
        command += ["--http-bind", "127.0.0.1:0"]
        self._shim = subprocess.Popen(command, stderr=self._log, env=dict(os.environ))

    def _kill_shim(self) -> None:
        if self._shim is not None:
            self._shim.kill()
            self._shim.wait()


async def run(seed: int, rounds: int, pods: int) -> int:
    """Raises AssertionError if something does not hold; how many pods were made."""
    random, fake = Random(seed), FakeCluster(tcp=True)
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        async with Victims(Path(folder), fake) as victims:
            load = Load(fake, SCHEDULER, random, nodes=NODES, cpu=CPU)
            for number in range(rounds):
                await _round(victims, load, random, number, max(1, pods // rounds))
            return load.made


async def run_real(assets: Path, seed: int, rounds: int, pods: int) -> int:
    """The same with a real API server."""
    random, real = Random(seed), RealCluster(assets)
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        async with Victims(Path(folder), real) as victims:
            load = RealLoad(real.api, SCHEDULER, random)
            await load.make_nodes(NODES, CPU)
            for number in range(rounds):
                await _round(victims, load, random, number, max(1, pods // rounds))
            LOG.info("%d gangs, and %d placeholder pods seen", load.gangs, len(load.placeholders))
            return load.made


async def _round(victims: Victims, load: Load | RealLoad, random: Random, number: int, pods: int) -> None:
    began_s = time.monotonic()
    # Each alone first, then any of them together.
    chosen = [VICTIMS[number]] if number < len(VICTIMS) else random.sample(VICTIMS, random.randint(1, len(VICTIMS)))
    loading = asyncio.create_task(load.run(pods, is_away=lambda: not victims.is_server_there))
    await asyncio.sleep(random.random())
    for name in chosen:
        await victims.kill(name)
    random.shuffle(chosen)
    for name in chosen:
        await asyncio.sleep(AWAY_SECONDS_MAX * random.random())
        await victims.start(name)
    try:
        await loading
        await load.settle(SETTLE_SECONDS)
        await load.agrees(victims.daemon.state, RM_ID)
    except AssertionError as error:
        raise AssertionError(f"round {number}, {chosen} were killed:\n{error}\n{victims.shim_log[-2000:]}") from error
    finally:
        victims.check()
    took_s = time.monotonic() - began_s
    LOG.info("round %d: %s; %d pods and %s so far, %.1f s", number, chosen, load.made, dict(victims.kills), took_s)


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill shim, daemon and API server under load.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--pods", type=int, default=2_000)
    parser.add_argument("--real", action="store_true", help="a real API server, from KUBEBUILDER_ASSETS")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    folder = assets()
    if given.real and folder is None:
        parser.error("--real needs KUBEBUILDER_ASSETS: a folder with kube-apiserver and etcd")
    if given.real and folder is not None:
        made = asyncio.run(run_real(folder, given.seed, given.rounds, given.pods))
    else:
        made = asyncio.run(run(given.seed, given.rounds, given.pods))
    LOG.info("%d rounds, %d pods: nothing lost, nothing bound twice", given.rounds, made)


if __name__ == "__main__":
    main()
