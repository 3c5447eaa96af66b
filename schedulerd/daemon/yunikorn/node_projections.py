"""Nodes in the peer's shape."""

from __future__ import annotations

from schedulerd.core.state.constraints.node_class_attributes import attributes_for_people
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.partition import Partition
from schedulerd.daemon.runtime.json_stream import Listed
from schedulerd.daemon.yunikorn.application_projections import ApplicationObjects
from schedulerd.daemon.yunikorn.go_json import Fields, amounts, go_object, percentages

HOSTNAME_ATTRIBUTE = "si/hostname"
RACK_ATTRIBUTE = "si/rackname"
PARTITION_ATTRIBUTE = "si/node-partition"

_ALWAYS = frozenset({"nodeID", "schedulable", "isReserved", "attributes"})
"""The peer's web page fails on a node without attributes."""


def node_object(node: Node, partition: Partition, objects: ApplicationObjects) -> Fields:
    """A node with its allocations. What others than this scheduler use is `occupied`, as one sum."""
    attributes = attributes_for_people(node.attributes)
    if PARTITION_ATTRIBUTE in attributes:
        attributes[PARTITION_ATTRIBUTE] = partition.wire_name
    return go_object(
        {
            "nodeID": node.node_id,
            "hostName": attributes.get(HOSTNAME_ATTRIBUTE, ""),
            "rackName": attributes.get(RACK_ATTRIBUTE, ""),
            "attributes": dict(sorted(attributes.items())),
            "capacity": amounts(node.capacity),
            "allocated": amounts(node.allocated),
            "occupied": amounts(node.occupied),
            "available": amounts(node.available),
            "utilized": percentages(node.allocated, node.capacity),
            "allocations": Listed(map(objects.allocation, list(node.allocations.values())))
            if node.allocations
            else None,
            "schedulable": not node.draining and node.ready,
            "isReserved": bool(node.reservations),
            "reservations": [one.ask.key for one in node.reservations],
        },
        _ALWAYS,
    )
