"""Storms are shown to be seen: two queues of the world are told to end each other's work, or one ends it in vain."""

from __future__ import annotations

from collections import Counter

from schedulerd.core.language.commands import RunCycle
from schedulerd.core.language.facts.configuration import ConfigurationUpdated
from schedulerd.core.language.facts.fact import Allocated, Fact
from schedulerd.core.language.facts.preemption import Preempted
from schedulerd.core.language.facts.reservations import ReservationEnd, ReservationEnded
from schedulerd.core.language.resources import Resources
from schedulerd.core.views import view
from tests.sim.moment import Moment
from tests.sim.room_books import RoomBook, RoomBooks
from tests.sim.simulation import START_NS
from tests.sim.small_world import RM, SmallWorld
from tests.sim.storms import VICTIMS_SPARE, WINDOW_NS, Storms

FIFO, OPEN = ("root.batch.fifo", "app-1", "k1"), ("root.open", "app-2", "big")
"""Two asks that wait in the world: leaf, application and key."""
Asker = tuple[str, str, str]


class Told:
    """What is said of the world, one fact after the other."""

    def __init__(self) -> None:
        self._partition = view.partition(SmallWorld().scheduler.cluster, RM, "default")
        self._books = RoomBooks()
        self.book = RoomBook()
        self.sights: Counter[str] = Counter()
        self._storms = Storms(self.sights)
        self.hear = self._storms.hear

    def say(self, fact: Fact, at_ns: int = START_NS) -> list[str]:
        around = self._partition, self._partition
        moment = Moment(at_ns, RunCycle(1), self._books, self.book, *around, earlier=(), later=(), searched=None)
        return list(self._storms.judged(moment, fact))

    def end_for(self, asker: Asker, *victims: tuple[str, str], at_ns: int = START_NS) -> list[str]:
        leaf, application_id, key = asker
        return self.say(Preempted(RM, "default", leaf, application_id, key, "node-1", victims, "guaranteed"), at_ns)

    def give_up(self, asker: Asker, why: ReservationEnd) -> list[str]:
        leaf, application_id, key = asker
        return self.say(ReservationEnded(RM, "default", leaf, application_id, key, "node-1", True, why, kept_ns=1))

    def place(self, asker: Asker, uuid: str, memory: int = 10) -> Allocated:
        leaf, application_id, key = asker
        size = Resources(memory=memory)
        allocated = Allocated(
            RM, "default", leaf, application_id, key, uuid, "node-1", size, 0, {}, "", False, False, START_NS
        )
        assert self.say(allocated) == []
        self.book.allocations[uuid] = allocated
        return allocated


def paid() -> Told:
    """Something of the fifo queue ended so that one of the open queue could be placed, as uuid-2."""
    told = Told()
    assert told.end_for(OPEN, (FIFO[0], "uuid-1")) == []
    assert told.give_up(OPEN, ReservationEnd.PLACED) == []
    told.place(OPEN, "uuid-2")
    return told


def test_a_victim_does_not_take_its_room_back() -> None:
    found = paid().end_for(FIFO, (OPEN[0], "uuid-2"))
    assert found == ["uuid-2, for which root.batch.fifo lost something 0 ns ago, is to end"]


def test_it_may_when_the_other_has_grown() -> None:
    told = paid()
    told.place(OPEN, "uuid-3")
    assert told.end_for(FIFO, (OPEN[0], "uuid-2")) == []
    assert told.sights["fought back, as the other has grown"] == 1


def test_another_queue_file_is_another_story() -> None:
    told = Told()
    told.end_for(OPEN, (FIFO[0], "uuid-1"))
    told.hear(ConfigurationUpdated(RM))
    told.give_up(OPEN, ReservationEnd.PLACED)
    told.place(OPEN, "uuid-2")
    assert told.end_for(FIFO, (OPEN[0], "uuid-2")) == []


def test_what_happens_much_later_is_another_story() -> None:
    assert paid().end_for(FIFO, (OPEN[0], "uuid-2"), at_ns=START_NS + WINDOW_NS + 1) == []


def test_too_many_preemptions_without_effect() -> None:
    told = Told()
    for _ in range(VICTIMS_SPARE):
        assert told.end_for(OPEN, (FIFO[0], "uuid-1")) == []
        assert told.give_up(OPEN, ReservationEnd.QUOTA) == []
    told.end_for(OPEN, (FIFO[0], "uuid-1"))
    assert told.give_up(OPEN, ReservationEnd.QUOTA) == [f"{VICTIMS_SPARE + 1} ended so that 0 could be placed"]
    assert told.sights["victims in vain: quota"] == VICTIMS_SPARE + 1
