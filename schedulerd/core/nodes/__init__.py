"""Nodes: registration, changes, draining and removal.

`handlers/` handles what resource managers report of nodes and of real use;
`rules/` recommends what a node should offer.
"""
