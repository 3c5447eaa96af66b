"""The workloads `dn` and `t`: gangs that declare their task groups, and bring no placeholders."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from benchmarks.workload import Ask, Size, Workload

if TYPE_CHECKING:
    from benchmarks.measurement import Placed

POD = Size(memory=10, vcore=1)
NODE_OF_FOUR = Size(memory=40, vcore=4)
TASK_GROUP = "tg"
BLOCKS, RACKS_PER_BLOCK = 8, 16
MEMBERS_IN_TURN = (16, 32, 64, 128)
BLOCK, RACK = "block", "rack"

QUEUE_FILE = """\
partitions:
  - name: default
    topology:
      - {name: block, attribute: block}
      - {name: rack, attribute: rack}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: gang
            properties: {application.sort.policy: fifo}
"""


def dn(nodes: int = 1_000, asks: int = 10_000, members: int = 50) -> Workload:
    """The gangs of `d` without placeholders, one after the other."""
    slots = asks // nodes + 1
    size = Size(memory=POD.memory * slots, vcore=POD.vcore * slots)
    return _workload("dn" if members == 50 else f"dn{members}", nodes, size, [members] * (asks // members), [{}])


def t(nodes: int = 10_000, gangs: int = 500) -> Workload:
    """Gangs of several sizes in turn: every second one requires a rack, the others prefer a block."""
    topologies = [{"topology": {"required": RACK}}, {"topology": {"preferred": BLOCK}}]
    return _workload("t", nodes, NODE_OF_FOUR, list(islice(cycle(MEMBERS_IN_TURN), gangs)), topologies)


def labels(index: int) -> dict[str, str]:
    """The block and the rack of a node by its number."""
    block, rack = index % BLOCKS, index // BLOCKS % RACKS_PER_BLOCK
    return {BLOCK: f"b{block}", RACK: f"b{block}-r{rack:02d}"}


def _workload(
    name: str, nodes: int, node_size: Size, members: Sequence[int], extras: Sequence[dict[str, Any]]
) -> Workload:
    """Gangs of so many members each, that declare in turn the extras of their task group."""
    task_groups = {
        f"gang-{at:03d}": json.dumps([{"name": TASK_GROUP, "min": count, **extra}])
        for at, (count, extra) in enumerate(zip(members, cycle(extras), strict=False))
    }
    owners = [gang for gang, count in zip(task_groups, members, strict=True) for _ in range(count)]
    asks = tuple(Ask(gang, f"real-{at:06d}", POD, task_group=TASK_GROUP) for at, gang in enumerate(owners))
    return Workload(
        name,
        QUEUE_FILE,
        nodes,
        node_size,
        dict.fromkeys(task_groups, "root.gang"),
        asks,
        task_groups=task_groups,
        labels=labels,
        result_check=spread,
    )


def spread(workload: Workload, placed: Iterable[Placed]) -> Iterable[str]:
    """Gangs that are in more than one rack though they require one."""
    racks: defaultdict[str, set[str]] = defaultdict(set)
    numbers = {node_id: at for at, node_id in enumerate(workload.node_ids)}
    for one in placed:
        racks[one.application_id].add(labels(numbers[one.node_id])[RACK])
    for gang, text in workload.task_groups.items():
        if "required" in text and len(racks[gang]) != 1:
            yield f"{gang} requires a rack, and is in {len(racks[gang])}"
