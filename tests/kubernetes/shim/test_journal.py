"""What a shim was told is recorded, and played again elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.kubernetes.fake.faults import Fault
from tests.kubernetes.shim.test_command import Command, metrics, way_to
from tests.kubernetes.shim.test_gangs import gang, placeholders
from tests.kubernetes.shim.test_preemption import queue
from tests.kubernetes.shim.test_rights_used import daemon_flags
from tests.kubernetes.shim.world import World

__all__ = ["daemon_flags"]


def replayed(journal: Path, hash_seed: str) -> tuple[int, str]:
    """Exit code and output of the command."""
    command = [sys.executable, "-W", "error", "-m", "schedulerd", "kubernetes-replay", str(journal)]
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": hash_seed})
    return ran.returncode, ran.stdout + ran.stderr


def check_replays(folder: Path) -> tuple[int, str]:
    (directory,) = {file.parent for file in folder.glob("*/*.journal")}
    modes = [path.stat().st_mode & 0o777 for path in (directory, *directory.iterdir())]
    assert set(modes[1:]) == {0o600}
    assert modes[0] == 0o700
    first, second = (replayed(folder, seed) for seed in ("1", "2"))
    assert first == second
    return first


async def test_a_run_is_replayed_elsewhere(world: World, daemon_flags: tuple[str, ...], tmp_path: Path) -> None:
    fake = world.api.fake
    assert fake is not None
    await world.node("n", cpu="4")
    await world.start(journal=tmp_path)
    fake.faults.add(Fault("refuse", code=403), method="POST", subresource="binding")
    for name in ("w0", "w1"):
        await world.pod(name, metadata=gang(2))
    await world.until_bound("w0", "w1")
    await world.until(lambda pods: not placeholders(pods))
    victims = ["greedy0", "greedy1"]
    for name in victims:
        await world.pod(name, metadata=queue("greedy"))
    await world.until_bound(*victims)
    await world.pod("team", metadata=queue("team"))
    await world.until(lambda pods: any("deletionTimestamp" in pods[name]["metadata"] for name in victims))
    await world.stop()
    code, text = check_replays(tmp_path)
    assert code == 0, text
    steps, proved = (int(word) for word in text.split("\n")[0].replace(",", "").split() if word.isdecimal())
    assert steps == proved > 20
    for what in ("BindEnded", "CreatePod", "DeletePod", "Bind,", "the journal ends: the shim has ended"):
        assert what in text


async def test_the_command_records(world: World, tmp_path: Path) -> None:
    await world.node("n")
    journals = tmp_path / "journals"
    journals.mkdir()
    async with Command(world, await way_to(world, tmp_path), "--journal", str(journals)) as command:
        await command.until("everything is reported")
        await world.pod("p")
        await world.until_bound("p")
        assert await command.get("/readyz") == (200, "ok\njournal: recording\n")
        scraped = await metrics(command)
        assert scraped["schedulerd_kubernetes_journal_recording"] == 1
        assert scraped["schedulerd_kubernetes_journal_written_bytes_total"] > 0
        assert await command.end() == 0
    code, text = check_replays(journals)
    assert code == 0, text
    assert "1 Bind" in text
    assert any("journal closed" in line for line in command.lines)


async def test_a_directory_that_is_removed_ends_the_journal_and_not_the_shim(world: World, tmp_path: Path) -> None:
    await world.node("n")
    journals = tmp_path / "journals"
    journals.mkdir()
    async with Command(world, await way_to(world, tmp_path), "--journal", str(journals)) as command:
        await command.until("everything is reported")
        shutil.rmtree(journals)
        await command.until("journal ended")
        await world.pod("p")
        await world.until_bound("p")
        code, text = await command.get("/readyz")
        assert (code, text.partition("[Errno")[0]) == (200, "ok\njournal: not recording: it cannot be written: ")
        assert (await metrics(command))["schedulerd_kubernetes_journal_recording"] == 0
        assert await command.end() == 0
    assert sum("journal ended" in line for line in command.lines) == 1
