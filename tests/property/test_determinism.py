"""The same history gives the same facts, byte for byte, whatever order the interpreter's hashes happen to have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim import history_file
from tests.sim.observations import Observations
from tests.sim.replay import facts_of
from tests.sim.simulation import Failure, History, simulate

pytestmark = pytest.mark.slow

SEED = 1
STEPS = 800
PROCESS_TIMEOUT_S = 60
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def history() -> History:
    return simulate(SEED, STEPS, Observations())[0]


@pytest.fixture(scope="module")
def here(history: History) -> str:
    return facts_of(history)


@pytest.mark.parametrize("hash_seed", ["0", "1", "42", "4294967295"])
def test_facts_do_not_depend_on_hashes(hash_seed: str, history: History, here: str, tmp_path: Path) -> None:
    recorded = tmp_path / "history.json"
    history_file.write(recorded, Failure(0, [], history))
    process = subprocess.run(
        [sys.executable, "-m", "tests.sim.replay", str(recorded), "--facts"],
        capture_output=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        text=True,
        timeout=PROCESS_TIMEOUT_S,
    )
    assert process.stdout == here


def test_the_history_says_enough_to_tell_a_difference(here: str) -> None:
    assert here.count("Allocated(") > 100
    assert here.count("ApplicationChanged(") > 100
