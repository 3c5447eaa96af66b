"""Reservations: room of a node is held for an ask that found no node for a while, or that has a required node.

The state is in `model.reservation`. `handlers/` chooses asks and nodes, allocates in reserved room, and ends
reservations that no longer help.
"""
