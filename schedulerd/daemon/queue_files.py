"""Which queue file each resource manager lives by, and what to do when the files have changed.

The `config` of a registration wins over the file of its policy group (SEMANTICS C1), and is not read again: only who
sent it can change it. The others get what their file says now when the daemon is told to reload.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.config import PolicyGroupUnknown, QueueFile, QueueFileInvalid, QueueFileText, load_queue_file
from schedulerd.core.commands import UpdateConfiguration
from schedulerd.core.specs import PartitionSpec

ReadPolicyGroup = Callable[[str], QueueFileText]
"""Finds the queue file of a policy group; raises `PolicyGroupUnknown`."""

log = structlog.stdlib.get_logger(__name__)


class QueueFiles:
    """Reads queue files, in threads: a long one takes a second, and the loop has others to serve meanwhile."""

    def __init__(self, read_policy_group: ReadPolicyGroup) -> None:
        self._read_policy_group = read_policy_group
        self._policy_groups: dict[str, str] = {}
        """By rmID, of those that live by a file."""
        self._os_groups: dict[str, frozenset[str]] = {}
        """By rmID, the partitions whose users' groups the operating system knows (`usergroupresolver`)."""

    async def for_registration(self, request: si_pb2.RegisterResourceManagerRequest) -> tuple[PartitionSpec, ...]:
        """The partitions this RM gets. Raises `PolicyGroupUnknown` and `QueueFileInvalid`."""
        if request.config:
            found = QueueFileText(request.config, f"config of the registration of {request.rmID!r}")
            queue_file = await asyncio.to_thread(_load, found, request.rmID)
            self._policy_groups.pop(request.rmID, None)
        else:
            queue_file = await asyncio.to_thread(self._of_group, request.policyGroup, request.rmID)
            self._policy_groups[request.rmID] = request.policyGroup
        self._os_groups[request.rmID] = queue_file.os_group_partitions
        return queue_file.partitions

    def asks_system_for_groups(self, rm_id: str, partition: str) -> bool:
        """Whether the groups of a user in this partition, as a message names it, come from the operating system."""
        name = partition.removeprefix(f"[{rm_id}]") or "default"
        return name in self._os_groups.get(rm_id, frozenset())

    async def changed(self, knows: Callable[[str], bool]) -> list[UpdateConfiguration]:
        """What the files say now, for every RM that lives by one; `knows` tells who is still registered.

        A file that cannot be used is logged, and those who live by it keep what they have.
        """
        commands = []
        for rm_id, policy_group in list(self._policy_groups.items()):
            if not knows(rm_id):
                del self._policy_groups[rm_id]
                continue
            try:
                queue_file = await asyncio.to_thread(self._of_group, policy_group, rm_id)
            except (PolicyGroupUnknown, QueueFileInvalid) as error:
                log.error("queue file not reloaded: nothing changed", rm_id=rm_id, problem=str(error))
            else:
                self._os_groups[rm_id] = queue_file.os_group_partitions
                commands.append(UpdateConfiguration(rm_id, queue_file.partitions))
        return commands

    def _of_group(self, policy_group: str, rm_id: str) -> QueueFile:
        return _load(self._read_policy_group(policy_group), rm_id)


def _load(found: QueueFileText, rm_id: str) -> QueueFile:
    queue_file = load_queue_file(found.text, found.source)
    for warning in queue_file.warnings:
        log.warning("queue file", rm_id=rm_id, source=found.source, problem=str(warning))
    return queue_file
