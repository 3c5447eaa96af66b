"""What a resource manager says, in a few words."""

from __future__ import annotations

from schedulerd.core.language.commands import (
    AllocationRelease,
    ApplicationRemoval,
    AskRelease,
    ConnectResourceManager,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    RunCycle,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.resources import Resources
from tests.unit.replay.recorded import RM

CYCLE = RunCycle(50)
CONNECT = ConnectResourceManager(RM)
CORE = Resources(vcore=1_000)


def queue_file(max_cores: int = 2, *, guaranteed_cores: int = 0) -> str:
    """A queue `a` with a quota, and a queue `b` without."""
    return f"""
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
            resources: {{max: {{vcore: {max_cores}}}, guaranteed: {{vcore: {guaranteed_cores}}}}}
            properties: {{preemption.delay: 1s}}
          - name: b
"""


def node(cores: int = 8, name: str = "n1") -> UpdateNodes:
    return UpdateNodes(RM, [NodeUpdate(name, NodeAction.CREATE, capacity=Resources(vcore=cores * 1_000))])


def submit(application_id: str = "app", queue: str = "root.a", **options: object) -> UpdateApplications:
    return UpdateApplications(RM, new=[NewApplication(application_id, queue, user="ann", **options)])  # type: ignore[arg-type]


def remove(application_id: str = "app") -> UpdateApplications:
    return UpdateApplications(RM, remove=[ApplicationRemoval(application_id)])


def ask(*keys: str, application_id: str = "app", **options: object) -> UpdateAllocations:
    return UpdateAllocations(RM, asks=[NewAsk(application_id, key, CORE, **options) for key in keys])  # type: ignore[arg-type]


def release(
    key: str = "",
    *,
    uuid: str = "",
    application_id: str = "app",
    termination: TerminationType = TerminationType.STOPPED_BY_RM,
) -> UpdateAllocations:
    one = AllocationRelease(application_id, uuid=uuid, allocation_key=key, termination=termination)
    return UpdateAllocations(RM, releases=[one])


def release_ask(key: str = "", *, partition: str = "", application_id: str = "app") -> UpdateAllocations:
    return UpdateAllocations(RM, ask_releases=[AskRelease(application_id, partition, key)])
