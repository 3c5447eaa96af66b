"""The lists of items that requests have, in the order in which the scheduler takes them.

A list is told by its place in that order, and found by the numbers of the fields that lead to it.
"""

from __future__ import annotations

from schedulerd._generated.si.v1 import si_pb2

_OF_ALLOCATIONS, _RELEASES = si_pb2.AllocationRequest, si_pb2.AllocationReleasesRequest

NODES = 0
NODE_LISTS = ((si_pb2.NodeRequest.NODES_FIELD_NUMBER,),)

NEW, REMOVE = range(2)
APPLICATION_LISTS = ((si_pb2.ApplicationRequest.NEW_FIELD_NUMBER,), (si_pb2.ApplicationRequest.REMOVE_FIELD_NUMBER,))

ASKS, RELEASES, ASK_RELEASES = range(3)
ALLOCATION_LISTS = (
    (_OF_ALLOCATIONS.ASKS_FIELD_NUMBER,),
    (_OF_ALLOCATIONS.RELEASES_FIELD_NUMBER, _RELEASES.ALLOCATIONSTORELEASE_FIELD_NUMBER),
    (_OF_ALLOCATIONS.RELEASES_FIELD_NUMBER, _RELEASES.ALLOCATIONASKSTORELEASE_FIELD_NUMBER),
)
