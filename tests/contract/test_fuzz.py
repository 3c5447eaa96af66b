"""Bytes of any kind over a socket; `python -m tests.contract.fuzz` is the same for long."""

from __future__ import annotations

from tests.contract.daemon_process import DaemonProcess
from tests.contract.fuzz import fuzz
from tests.methods import METHODS

CALLS = 60


def test_no_bytes_harm_the_daemon_or_who_means_well() -> None:
    with DaemonProcess() as daemon:
        report = fuzz(daemon, seed=1, calls=CALLS)
    assert report.problems == []
    assert report.statuses.total() == CALLS * len(METHODS)
    assert report.statuses["OK"] > CALLS
    assert report.statuses["INVALID_ARGUMENT"] > CALLS
    print(report)


def test_a_daemon_that_breaks_is_found_out() -> None:
    with DaemonProcess(module="tests.contract.failing_daemon") as daemon:
        assert fuzz(daemon, seed=1, calls=100).problems
