"""Nodes: registration, changes, draining, removal, and the order in which they are tried for an ask.

Holds the node order of a partition. `handlers/` handles what resource managers report of nodes and of real use;
`rules/` recommends what a node should offer.
"""
