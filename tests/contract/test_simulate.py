"""`schedulerd simulate` as a user runs it, as a process of its own, against a fake scheduler that may have faults."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.contract.fake_scheduler import FakeScheduler, Faults, fake_scheduler

TIMEOUT_S = 40.0


async def simulate(*arguments: str, interrupt_when: str | None = None) -> tuple[int, str]:
    """Runs the command to its end and returns its exit code and all it printed; interrupts it once it has printed a
    line that holds `interrupt_when`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schedulerd", "simulate", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "120"},
    )
    assert process.stdout is not None
    printed = ""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            async for line in process.stdout:
                printed += line.decode()
                if interrupt_when is not None and interrupt_when in printed:
                    interrupt_when = None
                    process.send_signal(signal.SIGINT)
            return await process.wait(), printed
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def run_against_fake(faults: Faults | None, *arguments: str, **options: Any) -> tuple[int, str, FakeScheduler]:
    async def main() -> tuple[int, str, FakeScheduler]:
        async with fake_scheduler(faults) as fake:
            target = ("--target", fake.target, "--nodes", "5", "--duration", "0.6")
            code, printed = await simulate(*target, *arguments, **options)
            return code, printed, fake

    return asyncio.run(main())


@pytest.mark.smoke
def test_a_run_adds_up_and_leaves_nothing_behind(tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    code, printed, fake = run_against_fake(None, "--json", str(file), "--rm-id", "me", "--seed", "4")
    assert code == 0, printed
    summary = json.loads(file.read_text())
    parts = ("placed", "pending", "released_asks", "rejected")
    assert summary["asks_sent"] == sum(summary[part] for part in parts) > 100
    assert summary["asks_sent"] == fake.asks_seen
    assert summary["placed"] == summary["releases_confirmed"] > 100
    assert summary["nodes_used_peak"] == 5
    assert summary["discrepancies"] == []
    assert f"{summary['asks_sent']:,}" in printed
    assert not fake.placed
    assert not fake.pending
    assert (fake.registered, fake.unregistered) == (["me"], ["me"])
    assert len(fake.removed_applications) == summary["applications_accepted"]


def test_stay_registered_leaves_the_nodes() -> None:
    code, printed, fake = run_against_fake(None, "--stay-registered")
    assert code == 0, printed
    assert fake.unregistered == []


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        (Faults(place_twice=True), "asks sent, but"),
        (Faults(no_capacity_check=True), "over its capacity"),
    ],
)
def test_numbers_that_do_not_add_up_fail_the_run(faults: Faults, said: str) -> None:
    code, printed, _ = run_against_fake(faults)
    assert code == 1
    assert "the numbers do not add up" in printed
    assert said in " ".join(printed.split())


def test_asks_that_were_never_placed_are_released_and_still_add_up() -> None:
    code, printed, fake = run_against_fake(Faults(never_place=True))
    assert code == 0, printed
    assert f"0 + 0 + {fake.asks_seen} + 0" in printed
    assert not fake.pending


def test_rejected_asks_are_counted_with_their_reason() -> None:
    code, printed, fake = run_against_fake(Faults(reject_asks=True))
    assert code == 0, printed
    assert f"0 + 0 + 0 + {fake.asks_seen}" in printed
    assert "no asks wanted" in printed


@pytest.mark.parametrize(
    "loss", [(grpc.StatusCode.UNAVAILABLE, "going away"), (grpc.StatusCode.ABORTED, "RESYNC: state was dropped")]
)
def test_a_run_survives_the_loss_of_its_streams(loss: tuple[grpc.StatusCode, str]) -> None:
    code, printed, fake = run_against_fake(Faults(lose_stream_at_ask=60, loss=loss))
    assert code == 0, printed
    assert "reconnects" in printed
    assert fake.registered == ["simulated-rm"] * 2
    assert not fake.placed


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        (Faults(registration=(grpc.StatusCode.INVALID_ARGUMENT, "no such group")), "rejects the registration"),
        (Faults(reject_nodes=True), "all nodes were rejected, such as node node-00000: no nodes wanted"),
        (
            Faults(lose_stream_at_ask=1, loss=(grpc.StatusCode.ABORTED, "registered again"), loss_lasts=True),
            "another client has registered as",
        ),
    ],
)
def test_a_scheduler_that_does_not_want_it_is_said_in_a_line(faults: Faults, said: str) -> None:
    code, printed, _ = run_against_fake(faults)
    assert code == os.EX_UNAVAILABLE
    assert said in printed
    assert "Traceback" not in printed


def test_an_absent_daemon_is_said_in_a_line() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        target = f"127.0.0.1:{closed.getsockname()[1]}"
        code, printed = asyncio.run(simulate("--target", target, "--connect-timeout", "0.2"))
    assert code == os.EX_UNAVAILABLE
    assert printed == f"Error: no scheduler answers at {target} (waited 0.2 s)\n"


def test_ctrl_c_drains_and_sums_up() -> None:
    code, printed, fake = run_against_fake(None, "--duration", "600", interrupt_when="arriving")
    assert code == 130, printed
    assert "asks sent" in printed
    assert not fake.placed
    assert not fake.pending
    assert fake.unregistered == ["simulated-rm"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--target", "x:1", "--nodes", "0"), "--nodes"),
        (("--target", "x:1", "--queues", "absent.yaml"), "absent.yaml"),
    ],
)
def test_wrong_options_are_named(arguments: tuple[str, ...], said: str) -> None:
    code, printed = asyncio.run(simulate(*arguments))
    assert code == 1
    assert said in printed
    assert "Usage:" in printed
