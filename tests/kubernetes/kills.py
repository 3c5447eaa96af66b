"""Shim, daemon and API server are killed, alone and together, at random moments under load; nothing is lost.

    python -m tests.kubernetes.kills --rounds 20 --pods 2000

Shim and daemon are processes, killed by SIGKILL; the API server is the fake one: all its connections end, nobody
answers for a while, and what it has stored stays. After every round all pods are bound, once each, and both sides
agree.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from types import TracebackType

from tests.contract.daemon_process import DaemonProcess, daemon_at
from tests.kubernetes.fake import FakeCluster
from tests.kubernetes.load import Load

LOG = logging.getLogger(__name__)
SCHEDULER, RM_ID = "schedulerd", "kubernetes"
VICTIMS = ("shim", "daemon", "server")
AWAY_SECONDS_MAX = 1.0
SETTLE_SECONDS = 90.0


class Victims:
    """A context: the three of them, each of which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = Path(folder, "shim.log").open("ab")  # noqa: SIM115 - it is closed with the context
        self._shim: subprocess.Popen[bytes] | None = None
        self.fake = FakeCluster(tcp=True)
        self.daemon = DaemonProcess()
        self.is_server_there = True

    async def __aenter__(self) -> Victims:
        self.daemon.__enter__()
        await self.fake.__aenter__()
        cluster = {"name": "k", "cluster": {"server": self.fake.url}}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [cluster],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        }
        self._config.write_text(json.dumps(content))
        self._start_shim()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._kill_shim()
        self._log.close()
        await self.fake.__aexit__(kind, error, at)
        self.daemon.__exit__(kind, error, at)

    @property
    def shim_log(self) -> str:
        return Path(self._log.name).read_text()

    async def kill(self, name: str) -> None:
        match name:
            case "shim":
                self._kill_shim()
            case "daemon":
                self._target = self.daemon.target
                await asyncio.to_thread(self.daemon.__exit__, None, None, None)
            case _:
                self.is_server_there = False
                await self.fake.stop()

    async def start(self, name: str) -> None:
        match name:
            case "shim":
                self._start_shim()
            case "daemon":
                self.daemon = await asyncio.to_thread(daemon_at, self._target)
            case _:
                await self.fake.start()
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
    random = Random(seed)
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        async with Victims(Path(folder)) as victims:
            load = Load(victims.fake, SCHEDULER, random, nodes=8, cpu="8")
            for number in range(rounds):
                await _round(victims, load, random, number, max(1, pods // rounds))
            return load.made


async def _round(victims: Victims, load: Load, random: Random, number: int, pods: int) -> None:
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
    LOG.info("round %d: killed %s; %d pods so far, %.1f s", number, chosen, load.made, time.monotonic() - began_s)


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill shim, daemon and API server under load.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--pods", type=int, default=2_000)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    made = asyncio.run(run(given.seed, given.rounds, given.pods))
    LOG.info("%d rounds, %d pods: nothing lost, nothing bound twice", given.rounds, made)


if __name__ == "__main__":
    main()
