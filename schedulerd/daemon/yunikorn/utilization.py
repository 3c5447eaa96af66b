"""How full the nodes are: for each resource, how many nodes are used by how many tenths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from schedulerd.core.state.model.node import Node
from schedulerd.core.state.partition import Partition
from schedulerd.daemon.runtime.json_stream import PAUSE, Listed
from schedulerd.daemon.yunikorn.go_json import Fields, go_object, percentage

BUCKETS = tuple(f"{tenth * 10}-{tenth * 10 + 10}%" for tenth in range(10))


def utilizations(partition: Partition) -> Iterator[Any]:
    """One object for each resource that a node offers, made when it is written."""
    for name in sorted(name for name, amount in partition.total().items() if amount):
        buckets: list[list[str]] = [[] for _ in BUCKETS]
        for number, node in enumerate(list(partition.nodes.values())):
            if number % 256 == 0:
                yield PAUSE
            if node.capacity[name] > 0:
                buckets[_bucket(node, name)].append(node.node_id)
        yield of_resource(name, buckets)


def of_resource(name: str, buckets: list[list[str]]) -> Fields:
    """The object of one resource."""
    return {
        "type": name,
        "utilization": Listed(
            go_object({"bucketName": bucket, "numOfNodes": len(names), "nodeNames": Listed(names) if names else None})
            for bucket, names in zip(BUCKETS, buckets, strict=True)
        ),
    }


def dominant(partition: Partition) -> str:
    """The resource of which the largest share of the partition is used, the first by name if there are several; '' if
    nothing is used."""
    total, used = partition.total(), partition.root.allocated
    shares = sorted((-used[name] / amount, name) for name, amount in total.items() if amount > 0 and used[name] > 0)
    return shares[0][1] if shares else ""


def _bucket(node: Node, name: str) -> int:
    percent = percentage(node.allocated[name], node.capacity[name])
    return min(max(0, -(-percent // 10) - 1), len(BUCKETS) - 1)
