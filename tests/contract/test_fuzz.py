"""Bytes of any kind and hostile contents over a socket; `python -m tests.contract.fuzz` is the same for long."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.contract.daemon_process import DaemonProcess
from tests.contract.fuzz import LAST_ROUND, SETTLED_ROUND, Run, fuzz, growth, play
from tests.hostile_contents import kinds
from tests.methods import METHODS

CALLS = 60
CONTENTS_SEEDS = range(1, LAST_ROUND + 2)
CONTENTS_CALLS = 2


def test_no_bytes_harm_the_daemon_or_other_clients() -> None:
    with DaemonProcess() as daemon:
        report = fuzz(daemon, seed=1, calls=CALLS)
    assert report.problems == []
    assert report.statuses.total() == CALLS * len(METHODS)
    assert report.statuses["OK"] > CALLS
    assert report.statuses["INVALID_ARGUMENT"] > CALLS
    print(report)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "seeds", [pytest.param([1], id="few"), pytest.param(CONTENTS_SEEDS, marks=pytest.mark.nightly, id="nightly")]
)
def test_no_contents_harm_the_daemon_or_other_clients(seeds: Sequence[int]) -> None:
    run = play(seeds, calls=CONTENTS_CALLS, without=["bytes"])
    assert run.findings == []
    assert run.calls.total() == len(seeds) * CONTENTS_CALLS * len(kinds())


def test_contents_that_break_a_daemon_are_found_out() -> None:
    others = [kind for kind in kinds() if kind != "amounts"]
    run = play([1], calls=30, without=["bytes", *others], module="tests.contract.failing_daemon")
    assert any("put here by a test" in one for one in run.findings), run.findings
    assert any("a pod of another RM came no more" in one for one in run.findings), run.findings


@pytest.mark.parametrize(
    ("in_use", "resident", "findings"), [(105, 105, 0), (106, 105, 1), (105, 106, 1), (106, 106, 2)]
)
def test_memory_may_grow_by_so_much_between_two_rounds(in_use: int, resident: int, findings: int) -> None:
    settled = [50, 100, 130, *[100] * (LAST_ROUND - SETTLED_ROUND - 1)]
    run = Run(in_use=[*settled, in_use, in_use], resident=[*settled, resident, resident])
    assert len(run.in_use) == LAST_ROUND + 1
    assert len(list(growth(run))) == findings
    assert not list(growth(Run(in_use=[*settled, 200, 100], resident=[*settled, 200, 100])))


def test_a_daemon_that_breaks_is_found_out() -> None:
    with DaemonProcess(module="tests.contract.failing_daemon") as daemon:
        assert fuzz(daemon, seed=1, calls=100).problems
