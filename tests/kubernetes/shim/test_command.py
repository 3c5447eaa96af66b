"""`schedulerd kubernetes` as its users run it: a process, a kubeconfig, and signals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kubernetes.shim.world import LIMIT_SECONDS, World, node_of

BLOCKER = """
import sys
sys.modules["aiohttp"] = None
from schedulerd.cli import main
sys.argv = ["schedulerd", *sys.argv[1:]]
main()
"""


def kubeconfig(folder: Path, server: str, token: str) -> Path:
    file = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    }
    file.write_text(json.dumps(content))
    return file


class Command:
    """A context: the process, and its log."""

    def __init__(self, world: World, config: Path) -> None:
        self._flags = ("--kubeconfig", str(config), "--daemon", world.daemon.target, "--rm-id", world.rm_id)
        self._environment = {**os.environ, "SCHEDULERD_KUBERNETES_SCHEDULER_NAME": f"other,{world.scheduler}"}
        self.lines: list[str] = []

    async def __aenter__(self) -> Command:
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-W", "error", "-m", "schedulerd", "kubernetes", *self._flags),
            stderr=subprocess.PIPE,
            env=self._environment,
        )
        return self

    async def __aexit__(self, *failure: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    async def until(self, text: str) -> None:
        """Reads the log until a line has the text."""
        assert self.process.stderr is not None
        async with asyncio.timeout(LIMIT_SECONDS):
            while line := (await self.process.stderr.readline()).decode():
                self.lines.append(line)
                if text in json.loads(line)["event"]:
                    return
        raise AssertionError("".join(self.lines))

    async def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(LIMIT_SECONDS):
            _, rest = await self.process.communicate()
        self.lines += rest.decode().splitlines(keepends=True)
        return self.process.returncode or 0


async def test_the_command_binds_pods_and_ends_with_a_signal(world: World, tmp_path: Path) -> None:
    url = world.api.url if world.api.fake is None else await world.api.fake.listen()
    config = kubeconfig(tmp_path, url, world.api.headers["Authorization"].removeprefix("Bearer "))
    node = await world.node("n")
    async with Command(world, config) as command:
        await command.until("started")
        await world.pod("p")
        await world.until_bound("p")
        assert node_of(world.pods["p"]) == node
        async with Command(world, config) as second:
            await second.until("started")
            await command.until("another shim schedules this cluster now")
            assert await command.process.wait() == 69
            await world.pod("q")
            await world.until_bound("q")
            assert await second.end() == 0, second.lines


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--daemon", "nowhere"], 78, "--daemon = 'nowhere': must be HOST:PORT"),
        (["--scheduler-name", "a,,b"], 78, "a scheduler name has 1 to 253 characters"),
        (["--kubeconfig", "/nowhere"], 78, "--kubeconfig = '/nowhere'"),
    ],
)
def test_settings_that_cannot_be_used(arguments: list[str], code: int, text: str) -> None:
    command = [sys.executable, "-m", "schedulerd", "kubernetes", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert done.returncode == code
    assert text in done.stderr


def test_without_the_extra_it_says_what_to_install() -> None:
    command = [sys.executable, "-c", BLOCKER, "kubernetes", "--daemon", "localhost:1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert done.returncode == 1
    assert "kubernetes needs the module aiohttp: pip install 'schedulerd[kubernetes]'" in done.stderr
