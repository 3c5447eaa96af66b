"""What the books of a client have noted of unclaimed allocations: they were reported, and their application was not."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from schedulerd._generated.si.v1 import si_pb2


@dataclass(slots=True)
class Unclaimed:
    """An existing allocation of an application that the resource manager has not added, or that was rejected."""

    message: bytes
    key: str
    node_id: str
    found: bool
    """Whether it was reported with an update of its node, which may be rejected."""

    def allocation(self) -> si_pb2.Allocation:
        return si_pb2.Allocation.FromString(self.message)


class UnclaimedEntries:
    """By application id and UUID."""

    def __init__(self) -> None:
        self._by_application: dict[str, dict[str, Unclaimed]] = {}
        """No empty entries."""

    def __iter__(self) -> Iterator[Unclaimed]:
        for of_application in self._by_application.values():
            yield from of_application.values()

    def owner_of(self, uuid: str) -> str:
        """The application of an unclaimed allocation; '' if there is no such allocation."""
        return next((app_id for app_id, there in self._by_application.items() if uuid in there), "")

    def hold(self, allocation: si_pb2.Allocation, node_id: str, *, found: bool = False) -> None:
        """The scheduler keeps the allocation for when its application is added."""
        one = Unclaimed(allocation.SerializeToString(), allocation.allocationKey, node_id, found)
        self._by_application.setdefault(allocation.applicationID, {})[allocation.UUID] = one

    def found_running(self, allocation: si_pb2.Allocation, node_id: str, uuids: Collection[str]) -> None:
        """An update of a node reports it: it replaces the only one of its key that is not reported beside it."""
        there = self._by_application.get(allocation.applicationID, {})
        of_key = [uuid for uuid, one in there.items() if one.key == allocation.allocationKey]
        if len(of_key) == 1 and of_key[0] not in uuids:
            self.drop(allocation.applicationID, of_key[0])
        self.hold(allocation, node_id, found=True)

    def take(self, application_id: str) -> list[Unclaimed]:
        """Those of the application, which are unclaimed no longer."""
        return list(self._by_application.pop(application_id, {}).values())

    def release(self, application_id: str, release: si_pb2.AllocationRelease) -> None:
        """Those that a release names are gone for the resource manager: a new report is without them."""
        for uuid, one in list(self._by_application.get(application_id, {}).items()):
            if uuid == release.UUID or (not release.UUID and release.allocationKey in ("", one.key)):
                self.drop(application_id, uuid)

    def drop(self, application_id: str, uuid: str) -> None:
        there = self._by_application.get(application_id)
        if there is not None:
            there.pop(uuid, None)
            if not there:
                del self._by_application[application_id]

    def drop_on(self, node_id: str, found_key: str | None = None) -> None:
        """All on the node are gone; or with `found_key` those that updates have reported with this key."""
        for application_id, there in list(self._by_application.items()):
            for uuid, one in list(there.items()):
                if one.node_id == node_id and (found_key is None or (one.found and one.key == found_key)):
                    self.drop(application_id, uuid)
