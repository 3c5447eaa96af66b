"""What users and groups have allocated in each queue and below. Limits are checked against it."""

from __future__ import annotations

from collections.abc import Iterable

from schedulerd.core.language.resources import Resources


class UsageLedger:
    """The usage of one user or group in one queue and below."""

    __slots__ = ("applications", "promised", "usage")

    def __init__(self) -> None:
        self.usage = Resources()
        self.promised = Resources()
        """What gangs of the user or group that have started still lack (SEMANTICS G2)."""
        self.applications: dict[str, None] = {}
        """Ids of applications that run here: from their first allocation until they have neither asks nor
        allocations."""


UNUSED = UsageLedger()
"""The ledger of a user or group that uses nothing; for reading only."""


class Ledgers:
    """The ledgers of all users, or of all groups. A ledger without usage and running applications is forgotten."""

    __slots__ = ("_by_name",)

    def __init__(self) -> None:
        self._by_name: dict[str, dict[str, UsageLedger]] = {}

    def __len__(self) -> int:
        """How many users or groups have ledgers."""
        return len(self._by_name)

    def open(self, name: str, queue_paths: Iterable[str]) -> list[UsageLedger]:
        """The ledgers of `name` for these queues; missing ones are created."""
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
        """Forgets those of these ledgers that have neither usage nor running applications."""
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
    """The ledgers of users and groups of a partition. A group is counted only for applications for which limits
    determine a group."""

    __slots__ = ("groups", "users")

    def __init__(self) -> None:
        self.users = Ledgers()
        self.groups = Ledgers()
