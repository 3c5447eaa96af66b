"""The ring of events: consecutive ids, bounded, read in pieces from any id on."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from schedulerd.core.language.facts.fact import ItemIgnored, RejectCode
from schedulerd.instant import Instant
from schedulerd.observe import event_ring
from schedulerd.observe.event_record import SI, Record
from schedulerd.observe.event_recorder import EventRecorder
from schedulerd.observe.event_ring import EventRing
from tests.instants import EPOCH_NS, at
from tests.loops import each_row


def records(names: str) -> tuple[Record, ...]:
    return tuple(Record(SI.NODE, name, SI.ADD, SI.DETAILS_NONE) for name in names)


def a_ring(*entries: str, events_max: int = 10) -> EventRing:
    """An event for each character; what stands together is one entry, of the resource manager `rm1`, `rm2`, ..."""
    ring = EventRing(events_max, "instance")
    for number, names in enumerate(entries, start=1):
        ring.add(at(100 * number), f"rm{number}", "default", len(names), records, names)
    return ring


def names(ring: EventRing, start: int = 0, count: int = 100, rm_id: str = "") -> list[tuple[int, str]]:
    return [(event.event_id, event.record.object_id) for event in ring.read(start, count, rm_id).events]


def test_events_have_consecutive_ids_from_zero_whatever_entry_they_are_of() -> None:
    ring = a_ring("a", "bcd", "e")
    assert names(ring) == [(0, "a"), (1, "b"), (2, "c"), (3, "d"), (4, "e")]
    assert [event.at_ns - EPOCH_NS for event in ring.read(0, 9).events] == [100, 200, 200, 200, 300]
    assert (ring.lowest_id, ring.next_id, ring.read(0, 9).next_id) == (0, 5, 5)


def test_an_empty_ring_has_nothing_to_read() -> None:
    ring = a_ring()
    assert ring.read(0, 5) == ([], 0, 0)
    assert ring.read(17, 5) == ([], 0, 0)
    assert ring.back(0, 5) == (0, 0)


@each_row("start", range(6))
@each_row("count", [1, 2, 3, 9])
def test_reading_may_begin_and_end_inside_an_entry(start: int, count: int) -> None:
    ring = a_ring("a", "bcd", "e")
    everything = [(0, "a"), (1, "b"), (2, "c"), (3, "d"), (4, "e")]
    assert names(ring, start, count) == everything[start : start + count]
    assert ring.read(start, count).next_id == min(start + count, 5)


def test_the_oldest_make_room_and_a_late_reader_learns_how_many_they_were() -> None:
    ring = a_ring("abc", "def", "gh", events_max=4)
    assert (ring.lowest_id, ring.next_id) == (4, 8)
    assert names(ring) == [(4, "e"), (5, "f"), (6, "g"), (7, "h")]
    assert ring.read(0, 9).lost == 4
    assert ring.read(3, 9).lost == 1
    assert ring.read(4, 9).lost == 0


def test_events_of_one_resource_manager_are_found_between_those_of_others() -> None:
    ring = a_ring("ab", "c", "d")
    ring.add(at(400), "rm1", "default", 1, records, "e")
    assert names(ring, rm_id="rm1") == [(0, "a"), (1, "b"), (4, "e")]
    assert ring.read(0, 9, "rm2").next_id == 5
    assert names(ring, start=1, count=1, rm_id="rm1") == [(1, "b")]


def test_one_call_looks_at_a_bounded_number_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_ring, "LOOKED_AT_MAX", 3)
    ring = a_ring("abcd", "ef", events_max=6)
    assert ring.read(0, 9, "rm2") == ([], 3, 0)
    assert names(ring, start=3, rm_id="rm2") == [(4, "e"), (5, "f")]
    assert ring.back(6, 9, "rm1") == (3, 1)


def test_going_back_counts_the_events_that_are_wanted() -> None:
    ring = a_ring("ab", "c", "de")
    assert ring.back(5, 2) == (3, 2)
    assert ring.back(5, 1, "rm2") == (2, 1)
    assert ring.back(5, 9, "rm1") == (0, 2)


def test_records_are_made_only_if_they_are_read() -> None:
    made: list[str] = []

    def expand(name: str) -> tuple[Record, ...]:
        made.append(name)
        return records(name)

    ring = EventRing(10, "instance")
    ring.add(at(1), "rm1", "", 1, expand, "a")
    ring.add(at(1), "rm2", "", 1, expand, "b")
    assert made == []
    ring.read(0, 9, "rm2")
    assert made == ["b"]


def test_a_record_that_says_when_is_of_that_time_on_the_wall_clock_of_its_turn() -> None:
    ring = EventRing(10, "instance")
    ring.add(Instant(100, 1_000_000), "rm1", "", 1, lambda name: (records(name)[0]._replace(at_ns=98),), "a")
    ring.add(Instant(200, 5_000), "rm1", "", 1, records, "b")
    assert [event.at_ns for event in ring.read(0, 9).events] == [999_998, 5_000]


def test_an_event_whose_records_cannot_be_made_is_left_out_and_counted() -> None:
    ring = EventRing(10, "instance")

    def fails(_what: object) -> tuple[Record, ...]:
        raise ValueError("a bug")

    ring.add(at(1), "rm", "", 2, fails, "bad")
    ring.add(at(2), "rm", "", 1, lambda what: (Record(SI.APP, "good", SI.NONE, SI.DETAILS_NONE),), "good")
    with capture_logs() as lines:
        for reader in (1, 2):
            found = ring.read(0, 10)
            assert [event.record.object_id for event in found.events] == ["good"]
            assert (found.next_id, ring.failed) == (3, 2 * reader)
    assert [line["event_id"] for line in lines] == [0, 1], "a line for each event, not for each reader"


def test_a_fact_of_which_no_event_can_be_made_is_left_out_and_the_next_is_recorded() -> None:
    ring = EventRing(10, "instance")
    bad = ItemIgnored("rm", "", None, RejectCode.EMPTY_ID, "")  # type: ignore[arg-type]
    good = ItemIgnored("rm", "", "good", RejectCode.EMPTY_ID, "")
    with capture_logs() as lines:
        EventRecorder(ring).observe([bad, good], at(1))
    assert (ring.failed, len(lines)) == (1, 1)
    assert [event.record.object_id for event in ring.read(0, 10).events] == ["good"]
