"""What users and groups have allocated in each queue, counted through the hierarchy, and what limits leave them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from schedulerd.core.resources import Resources

if TYPE_CHECKING:
    pass


class UsageLedger:
    """The usage of one user or group in one queue and below."""

    __slots__ = ("applications", "usage")

    def __init__(self) -> None:
        self.usage = Resources()
        self.applications: dict[str, None] = {}
        """Applications that run here: from the first allocation until neither asks nor allocations are left."""


class Ledgers:
    """The ledgers of all users, or of all groups; who has neither usage nor running applications is forgotten."""

    __slots__ = ("_by_name",)

    def __init__(self) -> None:
        self._by_name: dict[str, dict[str, UsageLedger]] = {}

    def __len__(self) -> int:
        """How many have ledgers."""
        return len(self._by_name)

    def open(self, name: str, queue_paths: Iterable[str]) -> list[UsageLedger]:
        """The ledgers of `name` for these queues, made where they are missing."""
        by_path = self._by_name.setdefault(name, {})
        found = []
        for path in queue_paths:
            ledger = by_path.get(path)
            if ledger is None:
                ledger = by_path[path] = UsageLedger()
            found.append(ledger)
        return found

    def find(self, name: str, queue_path: str) -> UsageLedger | None:
        return self._by_name.get(name, {}).get(queue_path)

    def drop_idle(self, name: str, queue_paths: Iterable[str]) -> None:
        """Forgets the ledgers among these that hold neither usage nor a running application."""
        by_path = self._by_name.get(name, {})
        for path in queue_paths:
            ledger = by_path.get(path)
            if ledger is not None and not ledger.applications and ledger.usage.is_zero():
                del by_path[path]
        if not by_path:
            self._by_name.pop(name, None)

    def items(self) -> Iterable[tuple[str, dict[str, UsageLedger]]]:
        return self._by_name.items()


class Usages:
    """Both books of a partition. Groups are counted only where limits give an application a group that counts."""

    __slots__ = ("groups", "users")

    def __init__(self) -> None:
        self.users = Ledgers()
        self.groups = Ledgers()
