"""The elector alone: numbers for time, records for the API server."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from schedulerd.kubernetes.api.writes import LeaseRecord
from schedulerd.kubernetes.election import Elector, LeaseTimes, Standing
from schedulerd.kubernetes.objects.meta import micro_time
from tests.loops import each_seed

TIMES = LeaseTimes(15, 10.0, 2.0)
WALL = 1_800_000_000.0
THEIRS = LeaseRecord("b", 15, micro_time(WALL), micro_time(WALL), 3)


def renewed(record: LeaseRecord, number: int) -> LeaseRecord:
    return msgspec.structs.replace(record, renew_time=micro_time(WALL + number))


def standby(record: LeaseRecord | None = THEIRS, now_s: float = 100.0) -> Elector:
    elector = Elector("a", TIMES)
    elector.may_lead(True)
    elector.saw(now_s, record, "" if record is None else "1")
    return elector


def leader(now_s: float = 100.0) -> Elector:
    """That has renewed at this time."""
    elector = standby(None, now_s)
    attempt = elector.attempt(now_s, WALL)
    assert attempt is not None
    elector.performed(now_s, attempt.record, "7")
    assert elector.standing is Standing.LEADER
    return elector


def test_a_lease_that_is_not_there_is_created() -> None:
    elector = standby(None)
    attempt = elector.attempt(100.0, WALL)
    assert attempt is not None
    assert (attempt.version, attempt.record.holder_identity, attempt.record.lease_transitions) == ("", "a", 0)
    assert attempt.record.lease_duration_seconds == 15
    assert attempt.record.acquire_time == attempt.record.renew_time == micro_time(WALL)
    assert elector.seconds_left(100.0) == 0
    elector.performed(100.5, attempt.record, "7")
    assert elector.leader == "a"
    assert elector.seconds_left(101.0) == 9.0, "counted from when the attempt began"


def test_nothing_is_taken_before_it_is_known_and_wanted() -> None:
    elector = Elector("a", TIMES)
    elector.may_lead(True)
    assert elector.due_s is None
    assert elector.attempt(100.0, WALL) is None
    elector.saw(100.0, None, "")
    elector.may_lead(False)
    assert elector.attempt(100.0, WALL) is None
    elector.may_lead(True)
    assert elector.attempt(100.0, WALL) is not None


def test_a_lease_is_free_when_its_duration_has_passed_here_whatever_its_times_say() -> None:
    long_ago = msgspec.structs.replace(THEIRS, renew_time=micro_time(1.0))
    elector = standby(long_ago)
    assert elector.due_s == 115.0
    assert elector.attempt(114.9, WALL) is None
    elector.saw(110.0, renewed(long_ago, 1), "2")
    assert elector.due_s == 125.0
    elector.saw(120.0, renewed(long_ago, 1), "3")  # somebody has touched the object, and the holder has not renewed
    assert elector.due_s == 125.0
    attempt = elector.attempt(125.0, WALL)
    assert attempt is not None
    assert (attempt.version, attempt.record.lease_transitions) == ("3", 4)


def test_the_duration_is_what_the_holder_has_promised() -> None:
    assert standby(msgspec.structs.replace(THEIRS, lease_duration_seconds=60)).due_s == 160.0
    assert standby(msgspec.structs.replace(THEIRS, lease_duration_seconds=None)).due_s == 115.0
    assert standby(msgspec.structs.replace(THEIRS, lease_duration_seconds=2**31 - 1)).due_s == 100.0 + 3600


def test_a_released_lease_is_taken_at_once() -> None:
    elector = standby()
    elector.saw(101.0, msgspec.structs.replace(THEIRS, holder_identity=""), "2")
    attempt = elector.attempt(101.0, WALL)
    assert attempt is not None
    assert attempt.record.lease_transitions == 4


def test_a_deleted_lease_counts_as_held_until_it_would_have_expired() -> None:
    elector = standby()
    elector.saw(105.0, None, "")
    assert elector.leader == ""
    assert elector.due_s == 115.0
    attempt = elector.attempt(115.0, WALL)
    assert attempt is not None
    assert attempt.version == ""


def test_a_lost_race_starts_the_wait_anew() -> None:
    elector = standby()
    assert elector.attempt(115.0, WALL) is not None
    elector.lost_race(115.1, msgspec.structs.replace(THEIRS, holder_identity="c"), "9")
    assert (elector.standing, elector.leader) == (Standing.STANDBY, "c")
    assert elector.due_s == pytest.approx(130.1)


def test_a_standby_that_cannot_write_tries_again_after_a_while() -> None:
    elector = standby()
    assert elector.attempt(115.0, WALL) is not None
    elector.failed(115.4)
    assert elector.due_s == 117.0


def test_a_claim_whose_answer_was_lost_is_made_again_and_counts_from_then() -> None:
    elector = standby()
    first = elector.attempt(115.0, WALL)
    assert first is not None
    elector.failed(120.0)
    elector.saw(120.0, first.record, "2")
    again = elector.attempt(120.0, WALL + 5)
    assert again is not None
    assert (again.version, again.record.acquire_time) == ("2", first.record.acquire_time)
    assert again.record.lease_transitions == first.record.lease_transitions
    elector.performed(120.1, again.record, "3")
    assert elector.seconds_left(120.1) == pytest.approx(9.9)


def test_a_claim_that_took_too_long_is_worth_nothing() -> None:
    elector = standby()
    attempt = elector.attempt(115.0, WALL)
    assert attempt is not None
    elector.performed(125.0, attempt.record, "2")
    assert elector.standing is Standing.STANDBY
    assert elector.seconds_left(125.0) == 0


def test_a_leader_renews_every_few_seconds() -> None:
    elector = leader()
    assert elector.due_s == 102.0
    assert elector.attempt(101.9, WALL) is None
    attempt = elector.attempt(102.0, WALL + 2)
    assert attempt is not None
    assert attempt.version == "7"
    assert attempt.record.renew_time == micro_time(WALL + 2)
    assert attempt.record.acquire_time == micro_time(WALL)
    elector.performed(102.5, attempt.record, "8")
    assert elector.seconds_left(102.5) == 9.5
    assert elector.due_s == 104.0


def test_a_leader_that_cannot_renew_stops_at_its_deadline_and_for_good() -> None:
    elector = leader()
    for now_s in (102.0, 104.0, 106.0, 108.0):
        assert elector.attempt(now_s, WALL) is not None
        elector.failed(now_s + 0.5)
        assert elector.standing is Standing.LEADER
    assert elector.seconds_left(109.9) == pytest.approx(0.1)
    assert elector.due_s == 110.0
    assert elector.seconds_left(110.0) == 0
    assert elector.attempt(110.0, WALL) is None
    assert elector.standing is Standing.OVER
    assert elector.why_over == "no renewal for 10 s"
    elector.saw(200.0, msgspec.structs.replace(THEIRS, holder_identity=""), "9")
    assert elector.due_s is None


def test_a_renewal_that_comes_after_the_deadline_is_too_late() -> None:
    elector = leader()
    attempt = elector.attempt(102.0, WALL)
    assert attempt is not None
    elector.performed(110.0, attempt.record, "8")
    assert elector.standing is Standing.OVER
    assert elector.seconds_left(110.0) == 0


def test_a_leader_that_was_stopped_writes_nothing_when_it_wakes_up() -> None:
    elector = leader()
    assert elector.seconds_left(130.0) < 0
    assert elector.attempt(130.0, WALL + 30) is None
    assert elector.standing is Standing.OVER


def test_a_leader_whose_lease_somebody_else_has_is_over() -> None:
    elector = leader()
    assert elector.attempt(102.0, WALL) is not None
    elector.lost_race(102.1, THEIRS, "9")
    assert (elector.standing, elector.why_over) == (Standing.OVER, "b has taken it")
    assert elector.leader == "b"
    assert elector.seconds_left(102.1) == 0


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_lease_that_people_touch_or_delete_is_written_again_at_once(is_deleted: bool) -> None:
    elector = leader()
    attempt = elector.attempt(102.0, WALL)
    assert attempt is not None
    if is_deleted:
        elector.lost_race(102.1, None, "")
    else:
        elector.lost_race(102.1, attempt.record, "9")
    again = elector.attempt(102.1, WALL)
    assert again is not None
    assert again.version == ("" if is_deleted else "9")
    assert elector.seconds_left(102.1) == pytest.approx(7.9), "nothing was renewed by that"


def test_a_leader_does_not_listen_to_a_watch_which_may_be_behind() -> None:
    elector = leader()
    elector.saw(101.0, THEIRS, "5")
    elector.saw(101.0, None, "")
    assert elector.standing is Standing.LEADER
    attempt = elector.attempt(102.0, WALL)
    assert attempt is not None
    assert attempt.version == "7"


def test_a_leader_that_releases_gives_nobody_a_reason_to_wait() -> None:
    elector = leader()
    given = elector.release(101.0, WALL + 1)
    assert given is not None
    assert (given.version, given.record.holder_identity, given.record.lease_duration_seconds) == ("7", "", 1)
    assert elector.seconds_left(100.5) == 0
    other = Elector("b", TIMES)
    other.may_lead(True)
    other.saw(50.0, given.record, "8")
    assert other.attempt(50.0, WALL) is not None
    assert standby().release(101.0, WALL) is None, "what a standby does not hold it does not give back"
    assert leader().release(110.0, WALL) is None, "it is somebody else's by now"


class World:
    """An API server with one lease, and electors with clocks of their own; every answer may be late or lost."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_s = 0.0
        self.record: LeaseRecord | None = None
        self.version = 0
        self.electors = [Elector(name, LeaseTimes(15, 10.0, 2.0)) for name in "abc"]
        # Up to 10 % faster or slower than the server's, and hours apart.
        self.clocks = [(self.random.uniform(0.9, 1.1), self.random.uniform(0, 1e5)) for _ in self.electors]
        self.frozen_until_s = [0.0] * len(self.electors)
        self.led: set[str] = set()
        for elector in self.electors:
            elector.may_lead(True)
            elector.saw(self.clock(elector), None, "")

    def clock(self, elector: Elector) -> float:
        rate, offset_s = self.clocks[self.electors.index(elector)]
        return self.now_s * rate + offset_s

    def write(self, record: LeaseRecord, version: str) -> bool:
        if version != (str(self.version) if self.record is not None else ""):
            return False
        self.record, self.version = record, self.version + 1
        return True

    def turn(self) -> None:
        self.now_s += self.random.uniform(0.0, 1.0)
        for number, elector in enumerate(self.electors):
            if self.random.random() < 0.01:
                self.frozen_until_s[number] = self.now_s + self.random.uniform(0.0, 40.0)
            if self.now_s >= self.frozen_until_s[number]:
                self.act(elector)
            if elector.standing is Standing.OVER:
                self.replace(number)
        leaders = [one.identity for one in self.electors if one.seconds_left(self.clock(one)) > 0]
        self.led.update(leaders)
        assert len(leaders) <= 1, leaders

    def act(self, elector: Elector) -> None:
        now_s, chance = self.clock(elector), self.random.random
        if chance() < 0.7:  # its watch is not always there
            elector.saw(now_s, self.record, str(self.version) if self.record is not None else "")
        if chance() < 0.01:
            given = elector.release(now_s, 0.0)
            if given is not None and chance() < 0.7:
                self.write(given.record, given.version)
            return
        attempt = elector.attempt(now_s, WALL + self.now_s)
        if attempt is None or chance() < 0.1:
            if attempt is not None:
                elector.failed(now_s)
            return
        if not self.write(attempt.record, attempt.version):
            elector.lost_race(now_s, self.record, str(self.version) if self.record is not None else "")
        elif chance() < 0.15:
            elector.failed(now_s)
        else:
            elector.performed(now_s, attempt.record, str(self.version))

    def replace(self, number: int) -> None:
        elector = self.electors[number] = Elector(f"{'abc'[number]}{self.now_s}", LeaseTimes(15, 10.0, 2.0))
        elector.may_lead(True)
        elector.saw(self.clock(elector), self.record, str(self.version) if self.record is not None else "")


@each_seed(range(20))
def test_there_is_never_more_than_one_who_may_write(seed: int) -> None:
    """Clocks run at different speeds, processes freeze, answers are lost, watches lag."""
    world = World(seed)
    for _ in range(1500):
        world.turn()
    assert len(world.led) > 3, "the leader has changed now and then"
