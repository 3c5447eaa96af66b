"""`schedulerd kubernetes` as its users run it: a process, a kubeconfig, and signals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.kubernetes.fake.faults import Fault
from tests.kubernetes.shim.conftest import on_both
from tests.kubernetes.shim.world import LIMIT_SECONDS, World, condition, node_of

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

    def __init__(self, world: World, config: Path, *flags: str, daemon: str = "") -> None:
        given = ("--kubeconfig", str(config), "--daemon", daemon or world.daemon.target, "--rm-id", world.rm_id)
        self._flags = (*given, "--http-bind", "127.0.0.1:0", *flags)
        self._environment = {**os.environ, "SCHEDULERD_KUBERNETES_SCHEDULER_NAME": f"other,{world.scheduler}"}
        self.lines: list[str] = []
        self.url = ""
        """Of its HTTP server, once the log has said so."""

    async def __aenter__(self) -> Self:
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
                entry = json.loads(line)
                if "http_port" in entry:
                    self.url = f"http://127.0.0.1:{entry['http_port']}"
                if text in entry["event"]:
                    return
        raise AssertionError("".join(self.lines))

    async def get(self, path: str) -> tuple[int, str]:
        async with httpx.AsyncClient() as client:
            response = await client.get(self.url + path, timeout=LIMIT_SECONDS)
        return response.status_code, response.text

    async def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def ended(self) -> int:
        async with asyncio.timeout(LIMIT_SECONDS):
            _, rest = await self.process.communicate()
        self.lines += rest.decode().splitlines(keepends=True)
        return self.process.returncode or 0


async def way_to(world: World, folder: Path) -> Path:
    """A kubeconfig for the API server of the test."""
    url = world.api.url if world.api.fake is None else await world.api.fake.listen()
    return kubeconfig(folder, url, world.api.headers["Authorization"].removeprefix("Bearer "))


@pytest.mark.smoke
@on_both
async def test_the_command_binds_pods_and_ends_with_a_signal(world: World, tmp_path: Path) -> None:
    config = await way_to(world, tmp_path)
    node = await world.node("n")
    async with Command(world, config) as command:
        await command.until("started")
        await world.pod("p")
        await world.until_bound("p")
        assert node_of(world.pods["p"]) == node
        async with Command(world, config) as second:
            await second.until("started")
            await command.until("another shim schedules this cluster now")
            assert await command.ended() == 75, "".join(command.lines)
            await world.pod("q")
            await world.until_bound("q")
            assert await second.end() == 0, "".join(second.lines)


async def test_metrics_and_probes(world: World, tmp_path: Path) -> None:
    await world.node("n")
    async with Command(world, await way_to(world, tmp_path)) as command:
        await command.until("started")
        assert (await command.get("/livez"))[0] == 200
        assert await command.get("/readyz") == (200, "ok\n")
        await world.pod("p")
        await world.pod("too-large", cpu="64")
        pods = await world.until_bound("p")
        await world.until(lambda pods: bool(condition(pods.get("too-large", {}), "PodScheduled")))
        assert "No node can ever fit 64 cpu" in condition(pods["too-large"], "PodScheduled")["message"]
        scraped = await metrics(command)
        assert scraped["schedulerd_kubernetes_ready"] == 1
        assert scraped["schedulerd_kubernetes_pods", "bound"] == 1
        assert scraped["schedulerd_kubernetes_pods", "asked"] == 1
        assert scraped["schedulerd_kubernetes_pod_bound_seconds_count"] == 1
        assert scraped["schedulerd_kubernetes_writes_total", "bind", "done"] == 1
        assert scraped["schedulerd_kubernetes_requests_total", "201", "POST", "pods"] == 1
        assert scraped["schedulerd_kubernetes_watch_events_total", "pods", "ADDED"] >= 2
        assert scraped["process_resident_memory_bytes"] > 0


async def metrics(command: Command) -> dict[str | tuple[str, ...], float]:
    """By name, or by name and the values of the labels in the order of their names."""
    code, text = await command.get("/metrics")
    assert code == 200
    found: dict[str | tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            found[(sample.name, *labels) if labels else sample.name] = sample.value
    return found


class TestOnTheFake:
    """Nothing here depends on the API server."""

    @pytest.fixture
    def daemon_flags(self, tmp_path: Path) -> tuple[str, ...]:
        return ("--grpc-bind", f"unix:{tmp_path / 'grpc.sock'}")

    async def test_a_daemon_at_a_socket_file(self, world: World, tmp_path: Path, daemon_flags: tuple[str, ...]) -> None:
        await world.node("n")
        async with Command(world, await way_to(world, tmp_path), daemon=daemon_flags[1]) as command:
            await command.until("started")
            await world.pod("p")
            await world.until_bound("p")
            assert await command.end() == 0, command.lines

    async def test_it_is_not_ready_while_the_server_or_the_daemon_is_away(self, world: World, tmp_path: Path) -> None:
        assert world.api.fake is not None
        config = await way_to(world, tmp_path)
        await world.api.fake.stop()
        flags = ("--connect-timeout-s", "2", "--log-level", "info")
        async with Command(world, config, *flags, daemon=f"unix:{tmp_path / 'nobody'}") as command:
            await command.until("waiting for the API server")
            assert (await command.get("/livez"))[0] == 200
            code, text = await command.get("/readyz")
            assert code == 503
            assert text.startswith("the API server has not answered: GET /version: cannot connect to http://")
            assert text.endswith(": Connection refused\n")
            assert (await metrics(command))["schedulerd_kubernetes_ready"] == 0
            await world.api.fake.start()
            await world.api.fake.listen()
            await command.until("all resources are listed")
            code, text = await command.get("/readyz")
            assert code == 503
            assert text.startswith("not everything is reported to the daemon at unix:")
            await command.until("cannot be used")
            assert await command.process.wait() == 69

    async def test_a_signal_ends_it_though_a_write_hangs(self, world: World, tmp_path: Path) -> None:
        assert world.api.fake is not None
        world.api.fake.faults.add(Fault("hang"), method="POST", subresource="binding")
        await world.node("n")
        async with Command(world, await way_to(world, tmp_path), "--drain-timeout-s", "0.5") as command:
            await command.until("started")
            await world.pod("p")
            async with asyncio.timeout(LIMIT_SECONDS):
                while True:
                    if world.api.fake.faults.happened:
                        break
                    await asyncio.sleep(0.02)
            began_s = time.monotonic()
            assert await command.end() == 0, command.lines
            assert time.monotonic() - began_s < 5, "half a second for the write, and the end of a process"

    async def test_a_port_in_use(self, world: World, tmp_path: Path) -> None:
        port = world.daemon.url.rpartition(":")[2]
        config = await way_to(world, tmp_path)
        async with Command(world, config, "--http-bind", f"127.0.0.1:{port}") as command:
            await command.until("cannot listen on 127.0.0.1")
            assert await command.process.wait() == 69


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--daemon", "nowhere"], 78, "--daemon = 'nowhere': must be HOST:PORT"),
        (["--daemon", "unix:relative"], 78, "--daemon = 'unix:relative': must be unix:/PATH"),
        (["--http-bind", "9081"], 78, "--http-bind = '9081': must be HOST:PORT"),
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
    said = done.stderr
    assert "kubernetes needs the module aiohttp, which the extra kubernetes brings: pip install '" in said
    assert "pip install 'schedulerd[" not in said or "schedulerd[kubernetes] @ file:" in said
