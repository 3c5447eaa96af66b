"""A run that is late is no run whose sums are wrong: the demo goes on with the next one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from schedulerd.simulate import cli
from schedulerd.simulate.demo import DemoFailed
from schedulerd.simulate.resource_manager import SimulatedResourceManager
from schedulerd.simulate.summary import summarise
from schedulerd.simulate.workload import Workload


def test_what_did_not_end_in_time_is_told_beside_the_sums() -> None:
    rm = SimulatedResourceManager(Workload(5, 1.0, seed=1))
    rm.nodes_request()
    rm.nodes["node"] = SimpleNamespace(vcore_milli=1, memory_bytes=1)  # type: ignore[assignment]
    rm.books.asks_sent = rm.pending = 3
    client: Any = SimpleNamespace(requests_sent=0, responses_received=0, times_resumed=0, times_resynced=0)
    summary = summarise(rm, client, elapsed_s=1.0, placing_span_s=1.0, placements_per_s_peak=0.0)
    assert summary.discrepancies == ()
    assert summary.late == (
        "the cluster did not drain in time: 3 asks still pending, 0 allocations not confirmed released"
    )


class NoDaemon:
    target, http_url = "127.0.0.1:1", "http://127.0.0.1:2"

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> NoDaemon:
        return self

    def __exit__(self, *_: object) -> None: ...

    def wait_until_ready(self) -> None: ...

    def failure(self, what: str) -> Exception:
        return DemoFailed(what)


@pytest.mark.parametrize(
    ("flags", "codes", "rounds", "ended"),
    [
        (["--keep"], [0, cli.EXIT_LATE, cli.EXIT_LATE, 0, cli.EXIT_INTERRUPTED], 5, cli.EXIT_INTERRUPTED),
        (["--keep"], [0, 1], 2, 1),
        ([], [cli.EXIT_LATE], 1, 1),
        ([], [0], 1, 0),
    ],
)
def test_rounds_go_on_after_one_that_is_late(
    monkeypatch: pytest.MonkeyPatch, flags: list[str], codes: list[int], rounds: int, ended: int
) -> None:
    seeds: list[str] = []

    def play(arguments: list[str]) -> int:
        seeds.append(arguments[-1])
        return codes[len(seeds) - 1]

    monkeypatch.setattr(cli, "Daemon", NoDaemon)
    monkeypatch.setattr(cli, "run_resource_manager", play)
    monkeypatch.setattr(cli, "interrupt_on_signals", lambda: None)
    result = CliRunner().invoke(cli.demo, flags)
    assert (seeds, result.exit_code) == ([str(1 + number) for number in range(rounds)], ended)
