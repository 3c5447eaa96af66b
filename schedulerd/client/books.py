"""The books of a client: what the resource manager has reported, and the results, to report it again.

The scheduler needs a full report after it was restarted, for example. The report contains what the resource manager
knows, so the books change only with messages that it sends or receives.
"""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import messages
from schedulerd.client.book_entries import Application, Ask, Entries, Held, Node
from schedulerd.client.report import Report

_BY_RM = (si_pb2.STOPPED_BY_RM, si_pb2.UNKNOWN_TERMINATION_TYPE)


class Books:
    """By `sent_*` and `heard_*` they learn of every message."""

    def __init__(self) -> None:
        self._entries = Entries()
        self.report = Report(self._entries)

    def allocations(self) -> Iterator[si_pb2.Allocation]:
        """The existing allocations."""
        return self._entries.allocations()

    # What is said.

    def sent_node(self, info: si_pb2.NodeInfo) -> None:
        """Notes a node. A known node is not created again, because the scheduler will reject it."""
        node = self._entries.nodes.get(info.nodeID)
        if info.action == si_pb2.NodeInfo.CREATE:
            if node is None or node.leaving:
                if node is not None:
                    self._drop_all_on(info.nodeID)
                bare = si_pb2.NodeInfo()
                bare.CopyFrom(info)
                bare.ClearField("existingAllocations")
                self._entries.nodes[info.nodeID] = Node(bare.SerializeToString())
                for allocation in info.existingAllocations:
                    application = self._entries.applications.get(allocation.applicationID)
                    if application is not None:
                        self._hold(application, allocation, info.nodeID)
                    else:
                        self._entries.unclaimed.hold(allocation, info.nodeID)
        elif node is None:
            return
        elif info.action == si_pb2.NodeInfo.UPDATE:
            node.created = _updated(node.created, info)
            self._found_running(info)
        elif info.action == si_pb2.NodeInfo.DECOMISSION:
            node.leaving = True
            self._entries.unclaimed.drop_on(info.nodeID)
            self._drop_wanted_back(info.nodeID)
            if info.nodeID in self._entries.nodes:
                self._entries.forget_node_if_left(info.nodeID)
        else:
            node.draining = info.action == si_pb2.NodeInfo.DRAIN_NODE

    def _found_running(self, info: si_pb2.NodeInfo) -> None:
        """Notes what an update of a node says to run there: an allocation of its key on another node, or with another
        UUID, has moved, as for the scheduler."""
        uuids = {each.UUID for each in info.existingAllocations}
        for allocation in info.existingAllocations:
            application = self._entries.applications.get(allocation.applicationID)
            if application is None:
                self._entries.unclaimed.found_running(allocation, info.nodeID, uuids)
                continue
            moved = _moved(application, allocation, uuids)
            if moved is None:
                self._hold(application, allocation, info.nodeID)
            else:
                self._move(application, moved, allocation, info.nodeID)
            application.held[allocation.UUID].found = True

    def sent_application(self, added: si_pb2.AddApplicationRequest) -> None:
        """Notes an application. A known application is not added again, because the scheduler will reject it; but for
        other tags that may change, which hold from then on. To the scheduler nothing else may differ: one that was
        reported is sent as it was reported."""
        self._entries.unanswered[added.applicationID] = self._entries.unanswered.get(added.applicationID, 0) + 1
        known = self._entries.applications.get(added.applicationID)
        if known is None or known.leaving:
            self._entries.applications[added.applicationID] = Application(added.SerializeToString())
            if known is not None:
                self._carry_over(known, self._entries.applications[added.applicationID])
            for one in self._entries.unclaimed.take(added.applicationID):
                self._hold(self._entries.applications[added.applicationID], one.allocation(), one.node_id)
        elif _bare(added) == _bare(si_pb2.AddApplicationRequest.FromString(known.added)):
            known.before, known.added = known.added, added.SerializeToString()
            if known.reported:
                tags = {name: text for name, text in added.tags.items() if _may_change(name)}
                added.CopyFrom(_bare(si_pb2.AddApplicationRequest.FromString(known.reported)))
                added.tags.update(tags)

    def _carry_over(self, old: Application, new: Application) -> None:
        """An application of this id comes after one that has ended: what is not confirmed of that one is released again
        if it has to be reported, and what updates of nodes have found running meanwhile is for the new one."""
        for uuid, held in old.held.items():
            new.held[uuid] = held
            ask = new.asks.setdefault(held.key, Ask(b"", 0))
            ask.placed += 1
            ask.held += 1
            ask.released += bool(held.release)

    def takes_removal_due(self, application_id: str) -> bool:
        """Whether the removal of the application has to be sent before another one of its id: the report that is being
        made has the removed one as well."""
        application = self._entries.applications.get(application_id)
        is_due = application is not None and application.removal_due
        if application is not None:
            application.removal_due = False
        return is_due

    def sent_removal(self, application_id: str) -> None:
        """Notes a removal, which releases all allocations of the application."""
        self._entries.unclaimed.take(application_id)
        application = self._entries.applications.get(application_id)
        if application is None:
            return
        for uuid, held in application.held.items():
            if not held.release:
                release = si_pb2.AllocationRelease(
                    applicationID=application_id,
                    allocationKey=held.key,
                    UUID=uuid,
                    terminationType=si_pb2.STOPPED_BY_RM,
                )
                held.release = release.SerializeToString()
                application.asks[held.key].released += 1
        self._end(application_id)

    def _end(self, application_id: str) -> None:
        application = self._entries.applications[application_id]
        application.leaving = True
        self._withdraw(application_id, "")
        if not application.held:
            del self._entries.applications[application_id]

    def sent_ask(self, ask: si_pb2.AllocationAsk, content: bytes = b"") -> None:
        """`content` is the ask as bytes, if these are there already."""
        application = self._entries.applications.get(ask.applicationID)
        if application is None:
            return
        content = content or ask.SerializeToString()
        count, key = ask.maxAllocations, ask.allocationKey
        known = application.asks.get(key)
        if known is None:
            known = application.asks[key] = Ask(content, count)
        else:
            if known.held:
                known.before = known.message
            if known.held and known.held == known.released and not known.wanted:
                known.is_anew, known.placed = True, 0
            known.message = content
            known.wanted = max(0, count - known.placed)
        known.count = count
        known.sizes = count == 1
        known.opted_out = not ask.preemptionPolicy.allowPreemptSelf and ask.HasField("preemptionPolicy")

    def sent_ask_release(self, release: si_pb2.AllocationAskRelease) -> None:
        self._withdraw(release.applicationID, release.allocationKey)

    def sent_release(self, release: si_pb2.AllocationRelease) -> None:
        """Notes a release. The allocation stays until the scheduler confirms it, unless this is a confirmation."""
        application_id = release.applicationID or self._owner_of(release.UUID)
        self._entries.unclaimed.release(application_id, release)
        application = self._entries.applications.get(application_id)
        if application is None:
            return
        if release.terminationType not in _BY_RM:
            self._entries.drop(application_id, release.UUID)
            return
        if release.UUID:
            named = [application.held[release.UUID]] if release.UUID in application.held else []
        else:
            named = [held for held in application.held.values() if release.allocationKey in ("", held.key)]
        for held in named:
            ask = application.asks.get(held.key)
            if ask is not None and not held.release:
                ask.released += 1
            held.release = release.SerializeToString()

    # What is heard.

    def heard_nodes(self, response: si_pb2.NodeResponse) -> None:
        for accepted in response.accepted:
            if accepted.nodeID in self._entries.nodes:
                self._entries.nodes[accepted.nodeID].accepted = True
        for rejected in response.rejected:
            node = self._entries.nodes.get(rejected.nodeID)
            if node is None:
                continue
            if not node.accepted:
                self._forget_node(rejected.nodeID)
            else:
                self._forget_found(rejected.nodeID, rejected.reason)

    def heard_applications(self, response: si_pb2.ApplicationResponse) -> None:
        """An end before the acceptance is that of an earlier application of the id. The scheduler tells the two in this
        order in different responses, so an end in that of the acceptance comes after it."""
        for accepted in response.accepted:
            application = self._answered(accepted.applicationID)
            if application is not None:
                application.accepted, application.before = True, b""
        for rejected in response.rejected:
            application = self._answered(rejected.applicationID)
            if application is not None and not application.accepted:
                for uuid, held in list(application.held.items()):
                    self._entries.drop(rejected.applicationID, uuid)
                    if not held.release and held.node_id in self._entries.nodes:  # it runs all the same
                        allocation = si_pb2.Allocation.FromString(held.message)
                        self._entries.unclaimed.hold(allocation, held.node_id, found=held.found)
                self._entries.applications.pop(rejected.applicationID, None)
            elif application is not None and application.before:
                application.added, application.before = application.before, b""
        for updated in response.updated:
            ended = self._entries.applications.get(updated.applicationID)
            if ended is not None and ended.accepted and updated.state in messages.OVER:
                self._end(updated.applicationID)

    def _answered(self, application_id: str) -> Application | None:
        """The application, if this answers its last submission."""
        left = self._entries.unanswered.pop(application_id, 1) - 1
        if left:
            self._entries.unanswered[application_id] = left
            return None
        return self._entries.applications.get(application_id)

    def heard_allocations(self, response: si_pb2.AllocationResponse) -> None:
        for allocation in response.new:
            application = self._entries.applications.get(allocation.applicationID)
            if application is not None and not _was_found(application, allocation.allocationKey):
                self._hold(application, allocation, allocation.nodeID)
        for release in response.released:
            if release.terminationType in _BY_RM:
                self._entries.drop(release.applicationID, release.UUID)
            else:
                held = self._held(release)
                if held is not None:
                    held.wanted_back = True
                    if held.node_id not in self._entries.nodes or self._entries.nodes[held.node_id].leaving:
                        self._entries.drop(release.applicationID, release.UUID)
        for withdrawn in response.releasedAsks:
            if withdrawn.terminationType not in _BY_RM:  # else it confirms a release: the key may be asked for anew
                self._withdraw(withdrawn.applicationID, withdrawn.allocationKey)
        for rejected in response.rejected:
            self._restore(rejected.applicationID, rejected.allocationKey)
            self._withdraw(rejected.applicationID, rejected.allocationKey)

    def _restore(self, application_id: str, key: str) -> None:
        """The ask is rejected: what it was before holds for its allocation."""
        application = self._entries.applications.get(application_id)
        ask = None if application is None else application.asks.get(key)
        if ask is not None and ask.held:
            ask.message, ask.before = ask.before, b""
            ask.sizes = bool(ask.message) and si_pb2.AllocationAsk.FromString(ask.message).maxAllocations == 1

    def is_wanted_back(self, release: si_pb2.AllocationRelease) -> bool:
        """Whether the scheduler as it is now waits for the end of this allocation to be confirmed."""
        held = self._held(release)
        return held is None or held.wanted_back

    def _owner_of(self, uuid: str) -> str:
        """The application of an allocation; '' if there is no such allocation."""
        owners = (app_id for app_id, application in self._entries.applications.items() if uuid in application.held)
        return next(owners, "") or self._entries.unclaimed.owner_of(uuid)

    def _held(self, release: si_pb2.AllocationRelease) -> Held | None:
        application = self._entries.applications.get(release.applicationID)
        return None if application is None else application.held.get(release.UUID)

    def _hold(self, application: Application, allocation: si_pb2.Allocation, node_id: str) -> None:
        key, uuid = allocation.allocationKey, allocation.UUID
        if uuid in application.held:
            return
        ask = application.asks.get(key) or application.asks.setdefault(key, Ask(b"", 0))
        application.held[uuid] = Held(allocation.SerializeToString(), key, node_id, opted_out=ask.opted_out)
        ask.wanted = max(0, ask.wanted - 1)
        ask.placed += 1
        ask.held += 1
        node = self._entries.nodes.get(node_id)
        if node is not None:
            node.held += 1

    def _move(self, application: Application, old_uuid: str, allocation: si_pb2.Allocation, node_id: str) -> None:
        """The allocation stays what it is, but for its node, its UUID and its amounts."""
        held = application.held.pop(old_uuid)
        ask = application.asks[held.key]
        ask.sizes = False
        message = si_pb2.Allocation.FromString(held.message)
        message.UUID = allocation.UUID
        message.nodeID = node_id
        if old_uuid != allocation.UUID:
            ask.released -= bool(held.release)
            ask.is_anew = ask.is_anew and ask.released > 0
            held.release = b""  # it is for an allocation that the scheduler does not know under that UUID any longer
        message.resourcePerAlloc.CopyFrom(allocation.resourcePerAlloc)
        old_node, node = self._entries.nodes.get(held.node_id), self._entries.nodes.get(node_id)
        held.message, held.node_id = message.SerializeToString(), node_id
        application.held[allocation.UUID] = held
        if node is not None:
            node.held += 1
        if old_node is not None:
            old_node.held -= 1
            self._entries.forget_node_if_left(si_pb2.NodeInfo.FromString(old_node.created).nodeID)

    def _withdraw(self, application_id: str, key: str) -> None:
        """Notes that an ask, or with '' every ask of the application, gets no more allocations."""
        application = self._entries.applications.get(application_id)
        if application is None:
            return
        for each in [key] if key else list(application.asks):
            ask = application.asks.get(each)
            if ask is not None:
                ask.wanted = 0
                if not ask.held:
                    del application.asks[each]

    def _drop_all_on(self, node_id: str) -> None:
        """The node was removed, and one of its name comes: what was on it is gone, whether that was heard or not."""
        self._entries.unclaimed.drop_on(node_id)
        for application_id, application in list(self._entries.applications.items()):
            for uuid in [uuid for uuid, held in application.held.items() if held.node_id == node_id]:
                self._entries.drop(application_id, uuid)

    def _drop_wanted_back(self, node_id: str) -> None:
        """The node is removed: the scheduler does not tell the end of allocations that it has wanted back itself."""
        for application_id, application in list(self._entries.applications.items()):
            on_node = [(uuid, held) for uuid, held in application.held.items() if held.node_id == node_id]
            for uuid in [uuid for uuid, held in on_node if held.wanted_back]:
                self._entries.drop(application_id, uuid)

    def _forget_found(self, node_id: str, reason: str) -> None:
        """An update of the node was rejected: of the allocations that updates have reported, the one that the reason
        names is not there. All else that the update said is to be sent again."""
        key = messages.blamed_key(reason)
        self._entries.unclaimed.drop_on(node_id, found_key=key)
        for application_id, application in list(self._entries.applications.items()):
            for uuid, held in list(application.held.items()):
                if held.found and held.node_id == node_id and held.key == key:
                    self._entries.drop(application_id, uuid)

    def _forget_node(self, node_id: str) -> None:
        """Forgets a rejected node, with its allocations."""
        del self._entries.nodes[node_id]
        self._drop_all_on(node_id)


def _was_found(application: Application, key: str) -> bool:
    """Whether the resource manager has found the allocation of this key running elsewhere before it heard of it: the
    scheduler knows it under the UUID of that report."""
    ask = application.asks.get(key)
    if ask is None or not ask.held or ask.count > 1:
        return False
    return any(held.found and not held.release and held.key == key for held in application.held.values())


def _bare(added: si_pb2.AddApplicationRequest) -> si_pb2.AddApplicationRequest:
    """The application without the tags that may change."""
    bare = si_pb2.AddApplicationRequest()
    bare.CopyFrom(added)
    for name in added.tags:
        if _may_change(name):
            del bare.tags[name]
    return bare


def _may_change(tag: str) -> bool:
    """Tags of its namespace, and how many members the task groups of its gang need (SEMANTICS I26)."""
    return tag.lower().startswith("namespace.") or tag == messages.TASK_GROUPS_TAG


def _moved(application: Application, allocation: si_pb2.Allocation, uuids: set[str]) -> str | None:
    """The UUID of the allocation that is the same; None if there is none, by the rule of the scheduler."""
    if allocation.UUID in application.held:
        return allocation.UUID
    of_key = [uuid for uuid, held in application.held.items() if held.key == allocation.allocationKey]
    ask = application.asks.get(allocation.allocationKey)
    if len(of_key) != 1 or of_key[0] in uuids or ask is None or ask.count > 1:
        return None
    return of_key[0]


def _updated(created: bytes, change: si_pb2.NodeInfo) -> bytes:
    """The node as if it had been created as it is now; what an update does not carry stays as it is."""
    node = si_pb2.NodeInfo.FromString(created)
    if change.HasField("schedulableResource"):
        node.schedulableResource.CopyFrom(change.schedulableResource)
    if change.HasField("occupiedResource"):
        node.occupiedResource.CopyFrom(change.occupiedResource)
    if change.attributes:
        node.attributes.clear()
        node.attributes.update(change.attributes)
    return node.SerializeToString()
