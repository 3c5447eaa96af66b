"""What there is to know when a fact is judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedulerd.core.language.commands import Command
from schedulerd.core.language.facts.fact import Allocated, Fact
from schedulerd.core.views.values import ApplicationView, AskView, PartitionView
from tests.sim.room_books import PartitionName, RoomBook, RoomBooks


@dataclass(frozen=True, slots=True)
class Moment:
    now_ns: int
    command: Command
    books: RoomBooks
    book: RoomBook
    """As it was before the fact."""
    before: PartitionView
    """At the start of the step."""
    after: PartitionView
    """At its end."""
    earlier: Sequence[Fact]
    """Of this step."""
    later: Sequence[Fact]
    searched: tuple[str, str] | None
    """The application and ask for whom it was being looked, since before the step, whether others end."""

    @property
    def name(self) -> PartitionName:
        return self.after.rm_id, self.after.name

    def application(self, application_id: str) -> ApplicationView | None:
        """As it was at the start of the step."""
        return next((one for one in self.before.applications if one.application_id == application_id), None)

    def ask(self, application_id: str, key: str) -> AskView | None:
        """As it was at the start of the step; None if nothing of it was pending."""
        application = self.application(application_id)
        asks = application.asks if application is not None else ()
        return next((one for one in asks if one.allocation_key == key), None)

    def pending(self, application_id: str, key: str) -> int:
        """How many allocations of the ask are pending now, in a cycle."""
        ask = self.ask(application_id, key)
        placed = sum(
            isinstance(one, Allocated)
            and (one.rm_id, one.partition, one.application_id, one.allocation_key) == (*self.name, application_id, key)
            and not one.replaces
            for one in self.earlier
        )
        return ask.pending - placed if ask is not None else 0
