"""What each user has allocated in each queue, counted through the hierarchy."""

from __future__ import annotations

from collections.abc import Iterable

from schedulerd.core.resources import Resources


class UsageLedger:
    """One user's usage in one queue and below."""

    __slots__ = ("applications", "usage")

    def __init__(self) -> None:
        self.usage = Resources()
        self.applications: dict[str, None] = {}
        """Applications of the user that run here: from the first allocation until neither asks nor allocations."""


class UserUsage:
    """The ledgers of a partition; a user without usage and running applications is forgotten."""

    __slots__ = ("_ledgers",)

    def __init__(self) -> None:
        self._ledgers: dict[str, dict[str, UsageLedger]] = {}

    def ledgers(self, user: str, queue_paths: Iterable[str]) -> list[UsageLedger]:
        """The ledgers of `user` for these queues, made where they are missing."""
        by_path = self._ledgers.setdefault(user, {})
        found = []
        for path in queue_paths:
            ledger = by_path.get(path)
            if ledger is None:
                ledger = by_path[path] = UsageLedger()
            found.append(ledger)
        return found

    def drop_idle(self, user: str, queue_paths: Iterable[str]) -> None:
        """Forgets the ledgers among these that hold neither usage nor a running application."""
        by_path = self._ledgers.get(user, {})
        for path in queue_paths:
            ledger = by_path.get(path)
            if ledger is not None and not ledger.applications and ledger.usage.is_zero():
                del by_path[path]
        if not by_path:
            self._ledgers.pop(user, None)

    def items(self) -> Iterable[tuple[str, dict[str, UsageLedger]]]:
        return self._ledgers.items()
