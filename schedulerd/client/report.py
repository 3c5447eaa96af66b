"""The full report to a scheduler that has lost the state, from the entries of the books.

Its parts are made one after the other, each when the scheduler can use it, so that a part says what is the case then.
"""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import messages
from schedulerd.client.book_entries import Entries, as_it_is

FORCE_CREATE_TAG = "application.create.force"
ALLOW_PREEMPTION_TAG = "yunikorn.apache.org/allow-preemption"
"""Of an allocation in a report, with the value `false`: its ask was sent with `allowPreemptSelf: false`, which an
allocation has no field for."""


class Report:
    def __init__(self, entries: Entries) -> None:
        self._entries = entries

    def applications(self) -> Iterator[si_pb2.AddApplicationRequest]:
        """All applications. One that has allocations is marked as running already: the scheduler takes it over although
        a limit was lowered or a namespace annotation broken meanwhile, so that no pod is lost to that."""
        self._forget_lost()
        self._entries.unanswered = dict.fromkeys(self._entries.applications, 1)
        for application in self._entries.applications.values():
            application.accepted = False
            application.removal_due = application.leaving
            added = si_pb2.AddApplicationRequest.FromString(application.added)
            if application.held:
                added.tags[FORCE_CREATE_TAG] = "true"
            self.application_changed(added)
            yield added

    def _forget_lost(self) -> None:
        """Allocations that were released, on nodes that were removed: they cannot be reported, so nobody would confirm
        their end."""
        for application_id, application in list(self._entries.applications.items()):
            released = [(uuid, held.node_id) for uuid, held in application.held.items() if held.release]
            for uuid in [uuid for uuid, node_id in released if node_id not in self._entries.nodes]:
                self._entries.drop(application_id, uuid)

    def application_changed(self, added: si_pb2.AddApplicationRequest) -> None:
        """Notes how the application is reported."""
        self._entries.applications[added.applicationID].reported = added.SerializeToString()

    def nodes(self) -> Iterator[si_pb2.NodeInfo]:
        """All nodes with their allocations."""
        by_node: dict[str, list[si_pb2.Allocation]] = {}
        for application in self._entries.applications.values():
            for held in application.held.values():
                held.wanted_back = False
                reported = as_it_is(application, held)
                if held.opted_out:
                    reported.allocationTags[ALLOW_PREEMPTION_TAG] = "false"
                by_node.setdefault(held.node_id, []).append(reported)
        for one in self._entries.unclaimed:
            by_node.setdefault(one.node_id, []).append(one.allocation())
        for node_id, node in self._entries.nodes.items():
            node.accepted = False
            info = si_pb2.NodeInfo.FromString(node.created)
            info.existingAllocations.extend(by_node.get(node_id, ()))
            yield info

    def changes_of_nodes(self) -> Iterator[si_pb2.NodeInfo]:
        """Changes of nodes other than their registration: drains and removals."""
        for node_id, node in self._entries.nodes.items():
            attributes = si_pb2.NodeInfo.FromString(node.created).attributes  # one of them names the partition
            if node.draining:
                yield messages.node(node_id, None, action=si_pb2.NodeInfo.DRAIN_NODE, attributes=attributes)
            if node.leaving:
                yield messages.node(node_id, None, action=si_pb2.NodeInfo.DECOMISSION, attributes=attributes)

    def asks(self) -> Iterator[si_pb2.AllocationAsk]:
        """Asks for the allocations that are still to come. The scheduler counts only existing allocations as placed."""
        for application in self._entries.applications.values():
            for ask in application.asks.values():
                if ask.is_anew:
                    continue
                ask.placed = ask.held
                if ask.wanted:
                    message = si_pb2.AllocationAsk.FromString(ask.message)
                    message.maxAllocations = ask.wanted + ask.held
                    yield message

    def asks_anew(self) -> Iterator[si_pb2.AllocationAsk]:
        """Asks that have to come after the releases of the allocations that they had before."""
        for application in self._entries.applications.values():
            for ask in application.asks.values():
                if ask.is_anew and ask.wanted:
                    message = si_pb2.AllocationAsk.FromString(ask.message)
                    message.maxAllocations = ask.wanted + ask.placed
                    yield message

    def releases(self) -> Iterator[si_pb2.AllocationRelease]:
        """Releases that were asked for and not confirmed."""
        for application in self._entries.applications.values():
            for uuid, held in application.held.items():
                if held.release:
                    release = si_pb2.AllocationRelease.FromString(held.release)
                    release.UUID = uuid
                    yield release

    def removals(self) -> Iterator[si_pb2.RemoveApplicationRequest]:
        """Removals of applications with allocations that are not confirmed to be gone."""
        for application_id, application in self._entries.applications.items():
            if application.leaving:
                application.removal_due = False
                partition = si_pb2.AddApplicationRequest.FromString(application.added).partitionName
                yield si_pb2.RemoveApplicationRequest(applicationID=application_id, partitionName=partition)
