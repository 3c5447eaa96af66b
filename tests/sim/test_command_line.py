"""The simulator as a command: result and figures, what failed as a file, and runs that go on where they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedulerd.core.scheduler import Scheduler
from tests.loops import each_seed
from tests.sim import __main__ as simulator
from tests.sim import history_file, replay
from tests.sim.faults import KINDS
from tests.sim.observations import Observations
from tests.sim.simulation import SOAKED_WORLDS, Failure, simulate

SEEDS = ["--seed", "1", "--seeds", "2", "--steps", "15"]


def test_a_result_comes_with_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulator.main(SEEDS) == 0
    printed = capsys.readouterr().out
    assert "seeds 1 to 2, 15 moves each: nothing wrong" in printed
    assert all(kind in printed for kind in (*KINDS, "application Running"))


def test_a_run_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert simulator.main([*SEEDS, "--resume", str(tmp_path)]) == 0
    once = capsys.readouterr().out
    monkeypatch.setattr(simulator, "simulate", lambda *_, **__: pytest.fail("these seeds are known to be clean"))
    assert simulator.main([*SEEDS, "--resume", str(tmp_path)]) == 0
    assert capsys.readouterr().out == once


def test_what_failed_is_written_down_and_judged_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "failed.json"
    with monkeypatch.context() as broken:
        broken.setattr(Scheduler, "wants_cycle", lambda _: False)
        _, failure = simulate(1, 400, Observations(), SOAKED_WORLDS, is_faulty=True)
        assert failure is not None
        said = simulator.report(1, failure, path)
        assert f"python -m tests.sim.replay {path} judges it again" in said
        assert replay.main([str(path)]) == 1
        assert "sleeps" in capsys.readouterr().out
    assert replay.main([str(path)]) == 0
    assert "nothing wrong" in capsys.readouterr().out


@each_seed(range(len(SOAKED_WORLDS)), few=len(SOAKED_WORLDS))
def test_every_command_can_be_written_down(seed: int, tmp_path: Path) -> None:
    """What is read is what was written, as its repr says all of it. So `make test` plays every world once."""
    history, failure = simulate(seed, 40, Observations(), SOAKED_WORLDS, is_faulty=True)
    assert failure is None
    path = tmp_path / "history.json"
    history_file.write(path, Failure(0, [], history))
    assert repr(history_file.read(path)[0]) == repr(history)
