"""Away for a while under load, in both dialects: nothing lost, doubled or out of order; away for too long: resync."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.absent import (
    AGAIN,
    PODS,
    SHORT_PODS,
    allocations,
    away_for_too_long,
    away_while_all_ends,
    cable_pulled,
    cut_off,
    cut_off_again_and_again,
    cut_off_in_silence,
    cut_off_without_a_record,
    pods,
    running,
)
from tests.contract.absent_rm import DIALECTS, NEWEST, Absent, speaking
from tests.contract.cable import Cable
from tests.contract.daemon_process import DaemonProcess
from tests.contract.raw_client import Record

pytestmark = pytest.mark.parametrize(
    "dialect", [pytest.param(one, marks=() if one == NEWEST else pytest.mark.nightly) for one in DIALECTS]
)


@pytest.fixture(scope="module")
def patient() -> Iterator[DaemonProcess]:
    """Waits for minutes for who is away. Each story registers anew there, which leaves nothing of the one before."""
    with DaemonProcess() as process:
        yield process


@pytest.fixture
def cable(patient: DaemonProcess) -> Iterator[Cable]:
    with Cable(patient.target) as cable:
        yield cable


@pytest.fixture
def behind_cable(cable: Cable, dialect: str) -> Iterator[Absent[Any]]:
    with speaking(dialect, cable.target) as rm:
        yield rm


def until_nothing_moves(daemon: DaemonProcess) -> None:
    """Until the scheduler has placed what it could while nobody reads."""
    before, now = -1.0, 0.0
    while now != before:
        before, now = now, daemon.metric("schedulerd_placements_total", rm="rm", partition="default")


def until_all_has_ended(daemon: DaemonProcess) -> None:
    while not all(one["releasing"] for one in allocations(daemon)):
        pass


def test_while_the_network_stands_still_nothing_is_lost(
    patient: DaemonProcess, cable: Cable, behind_cable: Absent[Any]
) -> None:
    heard = cable_pulled(cable, behind_cable, lambda: until_nothing_moves(patient))
    assert heard.placed == pods(PODS)
    assert allocations(patient)


def test_what_happens_while_no_stream_is_open_is_heard_in_order_on_the_next_one(
    patient: DaemonProcess, dialect: str
) -> None:
    with speaking(dialect, patient.target) as rm:
        uuids, heard = away_while_all_ends(patient, rm, lambda: until_all_has_ended(patient))
    assert heard.ended == uuids
    assert len(set(uuids)) == SHORT_PODS
    assert heard.placed == []


def test_what_a_broken_connection_had_under_way_may_be_lost_and_nothing_else_goes_wrong(
    patient: DaemonProcess, cable: Cable, behind_cable: Absent[Any]
) -> None:
    heard = cut_off(cable, behind_cable)
    *before, last = heard.placed
    assert last == "the last"
    once = list(dict.fromkeys(before))
    assert once == sorted(once), "in order"
    twice = [pod for pod, times in Counter(before).items() if times > 1]
    assert len(before) == len(once) + len(twice)
    end = before.index(twice[-1]) + 1 if twice else 0
    assert before[end - len(twice) : end] == before[end : end + len(twice)] == twice, "only what was being written"
    assert allocations(patient)


def test_a_client_that_says_how_far_it_has_come_loses_nothing_when_its_connection_breaks(
    patient: DaemonProcess, cable: Cable, dialect: str
) -> None:
    with speaking(dialect, cable.target, Record()) as rm:
        uuids, heard = cut_off_again_and_again(patient, cable, rm, lambda: until_nothing_moves(patient))
    assert heard.placed == pods(PODS)
    assert heard.ended == uuids
    assert len(set(uuids)) == PODS
    assert allocations(patient)


def test_away_for_too_long_it_resynchronises(dialect: str) -> None:
    with DaemonProcess("--reconnect-timeout-s", "2") as daemon, speaking(dialect, daemon.target) as rm:
        assert away_for_too_long(daemon, rm, lambda: None) == AGAIN
        assert len(allocations(daemon)) == 4, "the three it reported, and the new one"


def stops(daemon: DaemonProcess) -> list[str]:
    """Why resource managers were stopped so far."""
    told = [json.loads(line) for line in daemon.lines if line.startswith("{")]
    return [
        line["cause"] for line in told if line["event"] == "resource manager changed" and line["state"] == "stopped"
    ]


def test_a_client_that_resyncs_after_a_lost_connection_has_all_in_its_books_and_nothing_twice(dialect: str) -> None:
    with (
        DaemonProcess("--resync-after-lost-connection") as daemon,
        Cable(daemon.target) as cable,
        speaking(dialect, cable.target) as rm,
    ):
        runs = cut_off_without_a_record(cable, rm, lambda: until_nothing_moves(daemon))
        assert [one.key for one in runs] == pods(SHORT_PODS)
        assert runs == running(daemon)
        assert stops(daemon) == ["connection_lost"]


def test_what_went_into_silence_counts_as_lost_as_well(dialect: str) -> None:
    with (
        DaemonProcess("--resync-after-lost-connection", "--keepalive-s", "1.5") as daemon,
        Cable(daemon.target) as cable,
        speaking(dialect, cable.target) as rm,
    ):
        runs = cut_off_in_silence(daemon, cable, rm)
        assert [one.key for one in runs] == ["heard", "swallowed"]
        assert runs == running(daemon)
        assert stops(daemon) == ["connection_lost"]
